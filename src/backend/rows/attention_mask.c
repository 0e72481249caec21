/* attention_mask.c - masks of attention: strides, application to a row of scores. */
#include "attention_mask.h"

#include "../../base/arena.h"
#include "../../tensor/tensor.h"

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
