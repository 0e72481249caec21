/* keep_sets_sizes.c - uses of the sizes that a Shape node reads.
 *
 * Exporters compute shapes in the graph: Shape, Gather, Div, Concat, Reshape.  As long as a size
 * only becomes part of a new shape or a range, its axis may shrink, because the axes of the result
 * have relations of their own.  A size that is used in a computation, as in x / sqrt(d), must not
 * change.
 */
#include <string.h>

#include "../base/arena.h"
#include "../op/shape/movement.h"
#include "keep_sets_internal.h"

/* Of the axes whose sizes are in `of`, a list in the order of axes from `first` on: those that a
 * Gather with known indices selects. */
static unsigned taken(const struct pare_node *n, unsigned of, int first)
{
    const struct pare_tensor *at = &n->in[1]->t;
    int64_t count = n->in[0]->t.dim[0];
    unsigned some = 0;

    if (!at->data)
        return of;
    for (int64_t i = 0; i < pare_numel(at); i++) {
        int64_t e = pare_get_int(at, i);

        e += e < 0 ? count : 0;
        if (e < 0 || e >= count)
            return of;
        some |= 1u << (e + first);
    }
    return of & some;
}

/* Whether input i only specifies the shape or range of the result. */
static bool is_shape(const struct pare_node *n, int i)
{
    return n->op && i < 32 && n->op->sizes >> i & 1;
}

static bool is_known(const struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && !(n->out[i]->flags & PARE_V_CONST))
            return false;
    return true;
}

struct flow {
    const struct pare_node *shape;
    int first;      /* the axis whose size is its element 0 */
    unsigned *mask; /* by value: the axes whose sizes are in it */
    struct pare_size_use *use;
};

static void mark_used(struct flow *f, unsigned axes, const struct pare_node *who)
{
    for (int i = 0; i < PARE_MAX_RANK; i++)
        if (axes >> i & 1 && !f->use->who[i])
            f->use->who[i] = who;
    f->use->axes |= axes;
}

static void follow(struct flow *f, const struct pare_graph *g, const struct pare_node *n)
{
    unsigned all = 0;

    for (int i = 0; i < n->n_in + n->n_cap; i++) {
        const struct pare_value *v = i < n->n_in ? n->in[i] : n->cap[i - n->n_in];
        unsigned axes;

        if (!v || v->id >= g->n_values || g->value[v->id] != v || !f->mask[v->id])
            continue;
        axes = f->mask[v->id];
        if (v == f->shape->out[0] && i == 0 && pare_node_is(n, &pare_op_gather))
            axes = taken(n, axes, f->first);
        if (!is_shape(n, i))
            all |= axes;
    }
    if (all && !is_known(n))
        mark_used(f, all, n);
    for (int i = 0; i < n->n_out && all; i++)
        if (n->out[i]) {
            f->mask[n->out[i]->id] |= all;
            if (n->out[i]->flags & PARE_V_OUTPUT)
                mark_used(f, all, n);
        }
}

int pare_size_uses(struct pare_arena *a, const struct pare_graph *g, const struct pare_node *shape,
                   struct pare_size_use *use, struct pare_err *err)
{
    struct pare_mark m = pare_mark(a);
    struct flow f = { .shape = shape, .use = use };
    int64_t count = shape->out[0]->t.dim[0];

    *use = (struct pare_size_use){ .axes = 0 };
    f.first = pare_shape_first(shape);
    f.mask = pare_alloc(a, (size_t)g->n_values, sizeof(*f.mask));
    if (!f.mask)
        return pare_no_memory(err, "for the keep sets");
    f.mask[shape->out[0]->id] = ((1u << count) - 1) << f.first;
    if (shape->out[0]->flags & PARE_V_OUTPUT)
        mark_used(&f, f.mask[shape->out[0]->id], shape);
    for (int i = shape->id + 1; i < g->n_nodes; i++)
        follow(&f, g, g->node[i]);
    pare_reset(a, m);
    return 0;
}
