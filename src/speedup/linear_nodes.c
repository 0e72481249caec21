/* linear_nodes.c - nodes that sum over channels: their weights, and where their bias is. */
#include <string.h>

#include "../op/op.h"
#include "speedup.h"

/* Elements from one index of the axis to the next. */
static int64_t step_of(const struct pare_tensor *t, int axis)
{
    int64_t step = 1;

    for (int i = axis + 1; i < t->rank; i++)
        step *= t->dim[i];
    return step;
}

static bool has_axis(const struct pare_value *v, int axis)
{
    return axis >= 0 && axis < v->t.rank;
}

bool pare_linear_node_open(const struct pare_node *n, struct pare_linear_node *m)
{
    struct pare_linear *l = &m->l;

    memset(m, 0, sizeof(*m));
    if (!n->op || !n->op->linear || !n->op->linear(n, l))
        return false;
    m->n = n;
    m->x = n->in[l->x];
    m->w = n->in[l->w];
    m->y = n->out[0];
    if (!(m->w->flags & PARE_V_CONST) || m->w->t.dtype != PARE_F32 || !m->w->t.data ||
        m->x->t.dtype != PARE_F32 || m->x->flags & PARE_V_CONST || l->groups < 1)
        return false;
    if (!has_axis(m->x, l->x_axis) || !has_axis(m->y, l->y_axis) || !has_axis(m->w, l->w_in) ||
        !has_axis(m->w, l->w_out)) /* the shape of y may be unknown */
        return false;
    m->C = m->x->t.dim[l->x_axis];
    m->O = m->y->t.dim[l->y_axis];
    m->Ig = m->C / l->groups;
    m->Og = m->O / l->groups;
    m->in_all = m->w->t.dim[l->w_in] == m->C;
    m->out_all = m->w->t.dim[l->w_out] == m->O;
    m->in_step = step_of(&m->w->t, l->w_in);
    m->out_step = step_of(&m->w->t, l->w_out);
    m->taps = m->in_step < m->out_step ? m->in_step : m->out_step;
    m->data = pare_f32(&m->w->t);
    return m->Ig > 0 && m->Og > 0 && pare_numel(&m->w->t);
}

bool pare_linear_node_is_zero(const struct pare_linear_node *m, int64_t o, int64_t i)
{
    const float *w = m->data + pare_linear_node_at(m, o, i);

    for (int64_t k = 0; k < m->taps; k++)
        if (w[k] != 0)
            return false;
    return true;
}

double pare_linear_node_sum(const struct pare_linear_node *m, int64_t o, int64_t i)
{
    const float *w = m->data + pare_linear_node_at(m, o, i);
    double sum = 0;

    for (int64_t k = 0; k < m->taps; k++)
        sum += (double)w[k];
    return sum;
}

/* The only consumer of y among live nodes; NULL: none or several. */
static const struct pare_node *only_live_consumer(const struct pare_speedup *s,
                                                  const struct pare_value *y)
{
    if (s->uses[y->id] != 1)
        return NULL;
    for (int i = 0; i < s->g->n_nodes; i++)
        for (int k = 0; s->live[i] && k < s->g->node[i]->n_in; k++)
            if (s->g->node[i]->in[k] == y)
                return s->g->node[i];
    return NULL;
}

static bool is_list(const struct pare_speedup *s, const struct pare_value *b, int64_t n)
{
    return b->flags & PARE_V_CONST && b->t.dtype == PARE_F32 && b->t.data && b->t.rank >= 1 &&
           pare_numel(&b->t) == n && b->t.dim[b->t.rank - 1] == n && s->uses[b->id] == 1;
}

enum pare_bias_kind pare_linear_node_bias(const struct pare_speedup *s,
                                          const struct pare_linear_node *m,
                                          const struct pare_value **b)
{
    const struct pare_node *add;

    *b = NULL;
    if (m->l.bias >= 0) {
        *b = m->l.bias < m->n->n_in ? m->n->in[m->l.bias] : NULL;
        if (!*b)
            return PARE_BIAS_INPUT;
        return (*b)->flags & PARE_V_CONST && (*b)->t.dtype == PARE_F32 && (*b)->t.data &&
                       (pare_numel(&(*b)->t) == 1 ||
                        (pare_numel(&(*b)->t) == m->O && (*b)->t.dim[(*b)->t.rank - 1] == m->O))
                   ? PARE_BIAS_INPUT
                   : PARE_BIAS_NONE;
    }
    if (m->l.y_axis != m->y->t.rank - 1)
        return PARE_BIAS_AFTER;
    add = only_live_consumer(s, m->y);
    for (int k = 0; add && k < 2; k++)
        if (pare_node_is(add, &pare_op_add) && add->n_in == 2 && add->in[!k] == m->y &&
            is_list(s, add->in[k], m->O)) {
            *b = add->in[k];
            return PARE_BIAS_ADD;
        }
    return PARE_BIAS_AFTER;
}
