/* view_trace.c - trace a value back through Reshape, Transpose, Slice, Split and Gather. */
#include "view_trace.h"

#include "../../op/math/constant_factor.h"
#include "../../op/op.h"

bool pare_view_trace_add(struct pare_view_trace_nodes *nodes, struct pare_node *n)
{
    for (int i = 0; i < nodes->n; i++)
        if (nodes->list[i] == n)
            return true;
    if (nodes->n == PARE_VIEW_TRACE_NODES)
        return false;
    nodes->list[nodes->n++] = n;
    return true;
}

/* Read the output's map; steps are positive, so that strides are. */
static bool read_map(const struct pare_node *n, const struct pare_value *out,
                     struct pare_index_map *m)
{
    int k = 0;

    while (n->out[k] != out)
        k++;
    if (!pare_index_map(n, k, m))
        return false;
    for (int i = 0; i < out->t.rank; i++)
        if (m->step[i] < 1)
            return false;
    return true;
}

/* The axis of t whose stride is `stride`; -1: a step of this size moves along several axes. */
static int axis_at(const struct pare_tensor *t, const int64_t *strides, int64_t stride)
{
    for (int a = 0; a < t->rank; a++)
        if (t->dim[a] > 1 && stride >= strides[a])
            return stride % strides[a] == 0 && stride < strides[a] * t->dim[a] ? a : -1;
    return -1;
}

/* Split part i at the boundary of an axis of t; false when it cannot be split. */
static bool split_part(struct pare_view_trace *p, int i, const struct pare_tensor *t,
                       const int64_t *strides)
{
    int a = axis_at(t, strides, p->dim[i].stride);
    int64_t step, room;

    if (a < 0)
        return false;
    step = p->dim[i].stride / strides[a];
    if ((p->dim[i].size - 1) * step < t->dim[a])
        return true;
    room = t->dim[a] / step;
    if (t->dim[a] % step || room < 2 || p->dim[i].size % room || p->n == PARE_VIEW_TRACE_DIMS)
        return false;
    for (int k = p->n++; k > i; k--)
        p->dim[k] = p->dim[k - 1];
    p->dim[i].size /= room;
    p->dim[i].stride *= room;
    p->dim[i].own *= room;
    p->dim[i + 1].size = room;
    return split_part(p, i, t, strides); /* at most once per axis */
}

/* Map positions in a node's output to positions in its input. */
static bool trace_through(struct pare_view_trace *p, const struct pare_tensor *out,
                          const struct pare_tensor *in, const struct pare_index_map *x)
{
    int64_t so[PARE_MAX_RANK], si[PARE_MAX_RANK], last[PARE_MAX_RANK], offset = x->offset;

    pare_strides(out, so);
    pare_strides(in, si);
    for (int i = 0; i < p->n; i++)
        if (!split_part(p, i, out, so))
            return false;
    for (int a = 0; a < out->rank; a++) {
        int64_t at = p->offset / so[a] % out->dim[a];

        last[a] = at;
        offset += (x->first[a] + at * x->step[a]) * si[x->axis[a]];
    }
    for (int i = 0; i < p->n; i++) {
        int a = axis_at(out, so, p->dim[i].stride);
        int64_t step = p->dim[i].stride / so[a];

        last[a] += (p->dim[i].size - 1) * step;
        if (last[a] >= out->dim[a]) /* its elements would cross into the next axis */
            return false;
        p->dim[i].stride = step * x->step[a] * si[x->axis[a]];
    }
    p->offset = offset;
    return true;
}

static void begin_trace(struct pare_view_trace *t, struct pare_value *value)
{
    int64_t strides[PARE_MAX_RANK];

    pare_strides(&value->t, strides);
    *t = (struct pare_view_trace){ .base = value, .scale = 1 };
    for (int a = 0; a < value->t.rank; a++)
        if (value->t.dim[a] > 1) {
            t->dim[t->n].size = value->t.dim[a];
            t->dim[t->n].stride = t->dim[t->n].own = strides[a];
            t->dim[t->n++].axis = a;
        }
}

bool pare_trace(const struct pare_match *v, struct pare_value *value, const struct pare_value *stop,
                bool scaled, struct pare_view_trace *t, struct pare_view_trace_nodes *nodes)
{
    int64_t strides[PARE_MAX_RANK];

    begin_trace(t, value);
    while (t->base != stop && (stop || !pare_is_computed(v, t->base))) {
        struct pare_node *n = t->base->maker;
        struct pare_value *x = n && scaled ? pare_constant_factor(n, &t->scale) : NULL;
        struct pare_index_map map;

        if (!n || !n->op || n->n_cap || !n->n_in || !pare_view_trace_add(nodes, n))
            return false;
        if (!x) {
            x = n->in[0];
            if (!(n->op->flags & PARE_OP_VIEW) &&
                (!read_map(n, t->base, &map) || !trace_through(t, &t->base->t, &x->t, &map)))
                return false;
        }
        if (!pare_is_f32(x) || !pare_numel(&x->t))
            return false;
        t->base = x;
    }
    pare_strides(&t->base->t, strides);
    for (int i = 0; stop && i < t->n; i++)
        if (!split_part(t, i, &stop->t, strides))
            return false;
    return true;
}

int64_t pare_view_trace_stride(const struct pare_view_trace *t, int axis)
{
    int64_t stride = 0, size = 1;

    for (int i = t->n - 1; i >= 0; i--) {
        if (t->dim[i].axis != axis)
            continue;
        if (size > 1 && t->dim[i].stride != stride * size)
            return -1;
        stride = size > 1 ? stride : t->dim[i].stride;
        size *= t->dim[i].size;
    }
    return stride;
}

void pare_view_trace_offsets(const struct pare_view_trace *t, int axes, int64_t count,
                             int64_t *place)
{
    for (int64_t k = 0; k < count; k++) {
        int64_t rest = k;

        place[k] = t->offset;
        for (int i = t->n - 1; i >= 0; i--) {
            if (t->dim[i].axis >= axes)
                continue;
            place[k] += rest % t->dim[i].size * t->dim[i].stride;
            rest /= t->dim[i].size;
        }
    }
}
