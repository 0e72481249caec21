/* attention_mask.c - the mask of attention: match Add and Where, apply them to scores. */
#include "attention_mask.h"

#include "../../base/arena.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"

static bool is_number(const struct pare_value *v, float *x)
{
    if (!v || !pare_is_const(v) || !pare_is_f32(v) || !v->t.data || pare_numel(&v->t) != 1)
        return false;
    *x = pare_f32(&v->t)[0];
    return true;
}

bool pare_attention_mask_match(const struct pare_node *n, const struct pare_value *x,
                               struct pare_value **mask, struct pare_attention_mask *m)
{
    m->kind = PARE_MASK_NONE;
    if (!n || !n->n_out || !n->out[0] || !pare_same_shape(&n->out[0]->t, &x->t))
        return false;
    if (pare_node_is(n, &pare_op_add) && n->in[0] != n->in[1]) {
        *mask = n->in[n->in[0] == x];
        m->kind = pare_is_f32(*mask) ? PARE_MASK_ADD : PARE_MASK_NONE;
    } else if (pare_node_is(n, &pare_op_where) && n->in[0]->t.dtype == PARE_BOOL) {
        *mask = n->in[0];
        if (n->in[1] == x && is_number(n->in[2], &m->fill))
            m->kind = PARE_MASK_KEEP;
        else if (n->in[2] == x && is_number(n->in[1], &m->fill))
            m->kind = PARE_MASK_FILL;
    }
    return m->kind != PARE_MASK_NONE;
}

bool pare_attention_mask_read(const struct pare_view_trace *from, const struct pare_tensor *mask,
                              const struct pare_tensor *scores, struct pare_arena *a,
                              struct pare_attention_mask *m)
{
    int64_t stride[PARE_MAX_RANK], count = 1;
    int rank = scores->rank, lead = rank - mask->rank;

    if (lead < 0)
        return false;
    for (int i = 0; i < rank; i++) {
        bool whole = i >= lead && mask->dim[i - lead] == scores->dim[i];

        if (!whole && i >= lead && mask->dim[i - lead] != 1)
            return false;
        stride[i] = whole ? pare_view_trace_stride(from, i - lead) : 0;
        if (stride[i] < 0)
            return false;
        count *= i < rank - 2 ? scores->dim[i] : 1;
    }
    m->step = stride[rank - 2];
    m->element_stride = stride[rank - 1];
    m->place = pare_alloc(a, (size_t)count, sizeof(*m->place));
    for (int64_t k = 0; m->place && k < count; k++) {
        int64_t rest = k;

        m->place[k] = from->offset;
        for (int i = rank - 3; i >= 0; rest /= scores->dim[i--])
            m->place[k] += rest % scores->dim[i] * stride[i];
    }
    return m->place != NULL;
}

static void add_row(const float *mask, int64_t stride, float *x, int64_t n, float scale)
{
    if (stride == 1)
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] * scale + mask[i];
    else
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] * scale + mask[i * stride];
}

void pare_attention_mask_row(const struct pare_attention_mask *m, const void *data, int64_t i,
                             int64_t t, float *x, int64_t n, float scale)
{
    int64_t at = m->place[i] + t * m->step;
    const uint8_t *flag;
    bool keep = m->kind == PARE_MASK_KEEP;

    if (m->kind == PARE_MASK_ADD) {
        add_row((const float *)data + at, m->element_stride, x, n, scale);
        return;
    }
    flag = (const uint8_t *)data + at;
    for (int64_t k = 0; k < n; k++)
        x[k] = (flag[k * m->element_stride] != 0) == keep ? x[k] * scale : m->fill;
}
