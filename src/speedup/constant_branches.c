/* constant_branches.c - cut branches that compute only constants; drop empty inputs of Concat.
 *
 * All channels of a value may be constant, for example those of a residual branch whose last Conv
 * has only zeros.  If an elementwise operator combines such a value with an operand of the result's
 * shape, an initializer with one element for each channel replaces the value.  If the operator then
 * has no effect, for example Add of 0, its consumers read the other operand.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "speedup.h"

bool pare_speedup_is_new(const struct pare_speedup *s, const struct pare_value *v)
{
    return pare_map_get(&s->g->names, v->name) != v;
}

/* ---- constant operands ----------------------------------------------------------------------- */

/* An axis of v whose channels are all constant; -1: none. */
static int constant_axis(const struct pare_speedup *s, const struct pare_value *v)
{
    for (int axis = 0; s->constant[v->id] && axis < v->t.rank; axis++) {
        int64_t i = 0, n = pare_axis_is_free(s->g, v, axis) ? 0 : v->t.dim[axis];

        while (i < n && isfinite(pare_constant_channel(s, v, axis, i)))
            i++;
        if (n && i == n)
            return axis;
    }
    return -1;
}

/* A new constant value, with one element for each channel, to replace v. */
static int make_constant(struct pare_speedup *s, const struct pare_value *v, int axis,
                         struct pare_value **to, struct pare_err *err)
{
    struct pare_graph *g = s->g;
    struct pare_value *c = *to = pare_alloc(s->arena, 1, sizeof(*c)), **list;

    list = pare_grow(g->arena, g->value, g->n_values, &g->cap_values, sizeof(*list));
    if (!c || !list)
        return pare_no_memory(err, "for constant operands");
    g->value = list;
    c->name = pare_sprintf(s->arena, "%s.constant", v->name);
    for (int i = 1; c->name && pare_map_get(&g->names, c->name); i++)
        c->name = pare_sprintf(s->arena, "%s.constant.%d", v->name, i);
    if (!c->name)
        return pare_no_memory(err, "for constant operands");
    c->t = (struct pare_tensor){ .dtype = PARE_F32, .rank = v->t.rank };
    for (int i = 0; i < v->t.rank; i++)
        c->t.dim[i] = i == axis ? v->t.dim[i] : 1;
    PARE_TRY(pare_tensor_alloc(s->arena, &c->t, err));
    for (int64_t i = 0; i < v->t.dim[axis]; i++)
        pare_f32_mut(&c->t)[i] = pare_constant_channel(s, v, axis, i);
    c->flags = PARE_V_CONST;
    c->id = g->n_values;
    g->value[g->n_values++] = c;
    return pare_speedup_like(s, c, v, err);
}

/* Is f(x, c) = x for all x, or f(c, x) = x?  Tested with samples. */
static bool has_no_effect(const struct pare_node *n, const struct pare_value *c, int k)
{
    static const float any[] = { -FLT_MAX, -1e30f, -2.5f, -1, -1e-20f, 0,
                                 1e-20f,   0.7f,   1,     3,  1e30f,   FLT_MAX };

    for (int64_t i = 0; i < pare_numel(&c->t); i++)
        for (size_t a = 0; a < sizeof(any) / sizeof(*any); a++) {
            const float *x = &any[a], *b = pare_f32(&c->t) + i;
            float y;

            n->op->map2(n, k ? x : b, 0, k ? b : x, 0, &y, 1);
            if (y != *x)
                return false;
        }
    return true;
}

static int rewire(struct pare_speedup *s, struct pare_node *n, int input, struct pare_value *v,
                  struct pare_err *err)
{
    struct pare_rewire *r = pare_alloc(s->arena, 1, sizeof(*r));
    const struct pare_value *was = n->in[input];

    if (!r)
        return pare_no_memory(err, "for constant operands");
    n->in[input] = v;
    if (n->n_parts) { /* the others are nodes of the graph, too */
        for (int k = 0; k < n->parts[0]->n_in; k++)
            if (n->parts[0]->in[k] == was)
                PARE_TRY(rewire(s, n->parts[0], k, v, err));
        return 0;
    }
    *r = (struct pare_rewire){ n, input, v, s->rewire };
    s->rewire = r;
    return 0;
}

/* Does the value have a consumer that cannot be rewired: the caller, a subgraph, a function? */
static bool has_fixed_consumer(const struct pare_speedup *s, const struct pare_value *v)
{
    if (v->flags & PARE_V_OUTPUT)
        return true;
    for (int i = 0; i < s->g->n_nodes; i++) {
        const struct pare_node *n = s->g->node[i];

        for (int k = 0; k < n->n_cap; k++)
            if (n->cap[k] == v)
                return true;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] == v && !pare_model_has_node(s->from, n))
                return true;
    }
    return false;
}

static int bypass(struct pare_speedup *s, const struct pare_value *y, struct pare_value *x,
                  struct pare_err *err)
{
    for (int i = 0; i < s->g->n_nodes; i++)
        for (int k = 0; k < s->g->node[i]->n_in; k++)
            if (s->g->node[i]->in[k] == y)
                PARE_TRY(rewire(s, s->g->node[i], k, x, err));
    return 0;
}

/* Do they have the same shape for all sizes of free dimensions? */
static bool same_always(const struct pare_speedup *s, const struct pare_value *a,
                        const struct pare_value *b)
{
    if (!pare_same_shape(&a->t, &b->t) || a->t.dtype != b->t.dtype)
        return false;
    for (int i = 0; i < PARE_OTHER_SIZES; i++) {
        const struct pare_value *x = pare_value_at(s->g, a, i), *y = pare_value_at(s->g, b, i);

        if (s->g->other[i] && (!x || !y || !pare_same_shape(&x->t, &y->t)))
            return false;
    }
    return true;
}

/* Can input k become a constant of another shape?  The other operand must have the result's. */
static bool may_cut(const struct pare_speedup *s, const struct pare_node *n, int k)
{
    const struct pare_value *v = n->in[k], *x = n->in[!k];

    return v && x && v != x && !(v->flags & PARE_V_CONST) && !(x->flags & PARE_V_CONST) &&
           v->t.dtype == PARE_F32 && v->t.rank >= 0 && same_always(s, x, n->out[0]) &&
           pare_model_has_node(s->from, n);
}

/* Not every operator broadcasts in both directions: does the result keep its shape with c at
 * input k? */
static bool keeps_shape(struct pare_node *n, int k, struct pare_value *c)
{
    struct pare_tensor was = n->out[0]->t, now;
    struct pare_value *v = n->in[k];
    struct pare_err err;
    int rc;

    n->in[k] = c;
    rc = pare_node_infer(n, &err);
    now = n->out[0]->t;
    n->in[k] = v;
    n->out[0]->t = was;
    return !rc && pare_same_shape(&was, &now);
}

static int cut(struct pare_speedup *s, struct pare_node *n, bool *changed, struct pare_err *err)
{
    if (!n->op || !n->op->map2 || n->n_in != 2 || n->n_out != 1 || n->version < 7)
        return 0;
    for (int k = 1; k >= 0; k--) {
        int axis = may_cut(s, n, k) ? constant_axis(s, n->in[k]) : -1;
        struct pare_value *c;

        if (axis < 0)
            continue;
        PARE_TRY(make_constant(s, n->in[k], axis, &c, err));
        if (!keeps_shape(n, k, c))
            continue;
        *changed = true;
        PARE_TRY(rewire(s, n, k, c, err));
        if (has_no_effect(n, c, k) && !has_fixed_consumer(s, n->out[0]))
            return bypass(s, n->out[0], n->in[!k], err);
        return 0;
    }
    return 0;
}

int pare_speedup_cut_branches(struct pare_speedup *s, bool *changed, struct pare_err *err)
{
    *changed = false;
    for (int i = 0; i < s->g->n_nodes; i++)
        if (s->live[i])
            PARE_TRY(cut(s, s->g->node[i], changed, err));
    return 0;
}

/* ---- empty inputs of Concat ------------------------------------------------------------------ */

static bool is_empty(const struct pare_speedup *s, const struct pare_value *v)
{
    for (int axis = 0; axis < v->t.rank; axis++)
        if (v->t.dim[axis] && !pare_keep_sets_count(s->kept, v, axis))
            return true;
    return false;
}

/* Is v empty, with consumers that are all removed or can drop it? */
static bool is_unneeded(const struct pare_speedup *s, const struct pare_value *v)
{
    if (v->flags & PARE_V_OUTPUT || !is_empty(s, v))
        return false;
    for (int i = 0; i < s->g->n_nodes; i++) {
        const struct pare_node *n = s->g->node[i];

        for (int k = 0; s->live[i] && k < n->n_in + n->n_cap; k++)
            if ((k < n->n_in ? n->in[k] : n->cap[k - n->n_in]) == v && !s->removed[i] &&
                (!n->op || !(n->op->flags & PARE_OP_JOINS) || is_empty(s, n->out[0]) ||
                 !pare_model_has_node(s->from, n)))
                return false;
    }
    return true;
}

void pare_speedup_find_removed(struct pare_speedup *s)
{
    for (int i = s->g->n_nodes - 1; i >= 0; i--) {
        const struct pare_node *n = s->g->node[i];

        s->removed[i] = s->live[i] && n->n_out > 0;
        for (int k = 0; k < n->n_out && s->removed[i]; k++)
            s->removed[i] = !n->out[k] || is_unneeded(s, n->out[k]);
    }
}

bool pare_speedup_drops_input(const struct pare_speedup *s, const struct pare_node *n, int k)
{
    const struct pare_value *v = n->in[k];

    if (!n->op || !(n->op->flags & PARE_OP_JOINS) || s->removed[n->id] || !v || !is_empty(s, v))
        return false;
    return v->flags & PARE_V_CONST ? s->uses[v->id] == 1 && pare_model_has_node(s->from, n)
                                   : v->maker && s->removed[v->maker->id];
}
