/* rewrite_widen_half.c - compute in float32 what a model computes in float16 or bfloat16.
 *
 * Kernels are for float32.  Inputs, outputs and what bodies read keep their types, with a Cast.
 * Only in plans, and only if a layer computes in half precision: single casts round on purpose.
 */
#include <string.h>

#include "../../base/arena.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "rewrite.h"

extern const struct pare_op pare_op_cast;

static const struct pare_setting to_float32 = { .name = "to",
                                                .type = PARE_OPT_INT,
                                                .whole = PARE_F32 };

static bool is_half(const struct pare_value *v)
{
    return v && pare_is_tensor(&v->t) && (v->t.dtype == PARE_F16 || v->t.dtype == PARE_BF16);
}

static bool reads_half(const struct pare_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (is_half(n->in[k]))
            return true;
    return false;
}

static bool touches_half(const struct pare_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (is_half(n->out[k]))
            return true;
    return reads_half(n);
}

/* Does an attribute set the type of the result? */
static bool sets_type(const struct pare_op *op)
{
    static const char *const names[] = { "to", "dtype", "output_dtype", "value" };

    for (const struct pare_opt *o = op->attrs; o && o->name; o++)
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
            if (!strcmp(o->name, names[i]))
                return true;
    return false;
}

/* Can the node compute in float32 instead? */
static bool can_widen(const struct pare_node *n)
{
    if (!n->op || n->replaced || n->n_cap || pare_node_body(n, 0, NULL))
        return false;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && !pare_is_tensor(&n->in[k]->t))
            return false;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && (!pare_is_tensor(&n->out[k]->t) || n->out[k]->t.dtype == PARE_NONE))
            return false;
    return pare_node_is(n, &pare_op_cast) || !sets_type(n->op);
}

/* y, of half precision, in float32. */
static struct pare_value *new_wide(struct pare_rewriter *r, const struct pare_value *y,
                                   struct pare_err *err)
{
    struct pare_value *w = pare_rewrite_value(r, y, NULL, err);

    if (w)
        w->t.dtype = PARE_F32;
    return w;
}

static struct pare_value *wide_constant(struct pare_rewriter *r, struct pare_value *v,
                                        struct pare_err *err)
{
    struct pare_tensor t = v->t;
    struct pare_value *w;

    if (pare_rewrite_load(r, v, err))
        return NULL;
    t.dtype = PARE_F32;
    w = pare_rewrite_constant(r, v->name, &t, err);
    return w && !pare_convert(PARE_F32, w->t.data, v->t.dtype, v->t.data, pare_numel(&v->t), err)
               ? w
               : NULL;
}

static int add_cast(struct pare_rewriter *r, const struct pare_node *near, struct pare_value *x,
                    struct pare_value *y, struct pare_err *err)
{
    struct pare_setting to = { .name = "to", .type = PARE_OPT_INT, .whole = y->t.dtype };
    struct pare_node *n = pare_rewrite_add(r, &pare_op_cast, near, 1, y, &to, err);

    if (!n)
        return err->code;
    pare_rewrite_input(r, n, 0, x);
    r->changes++;
    return 0;
}

/* Let the node read v in float32; wide[id] is that value, once it exists. */
static int widen_input(struct pare_rewriter *r, struct pare_node *n, int k,
                       struct pare_value **wide, struct pare_err *err)
{
    struct pare_value *v = n->in[k], *w = wide[v->id];

    if (!w) {
        w = pare_rewrite_const(v) ? wide_constant(r, v, err) : new_wide(r, v, err);
        if (!w)
            return err->code;
        if (!(w->flags & PARE_V_CONST))
            PARE_TRY(add_cast(r, n, v, w, err));
        wide[v->id] = w;
    }
    pare_rewrite_input(r, n, k, w);
    return 0;
}

static int widen_node(struct pare_rewriter *r, struct pare_node *n, struct pare_value **wide,
                      struct pare_err *err)
{
    bool to_half = pare_node_is(n, &pare_op_cast) && is_half(n->out[0]);

    for (int k = 0; k < n->n_in; k++)
        if (is_half(n->in[k]))
            PARE_TRY(widen_input(r, n, k, wide, err));
    for (int k = 0; k < n->n_out; k++) {
        struct pare_value *y = n->out[k], *w;

        if (!is_half(y))
            continue;
        w = new_wide(r, y, err);
        if (!w)
            return err->code;
        wide[y->id] = w;
        n->out[k] = w;
        w->maker = n;
        y->maker = NULL;
    }
    if (to_half)
        PARE_TRY(pare_rewrite_become(r, n, &pare_op_cast, &to_float32, err));
    r->changes++;
    return 0;
}

/* Results that are still read in half precision. */
static int narrow_results(struct pare_rewriter *r, struct pare_value **wide, int n_values,
                          struct pare_err *err)
{
    for (int i = 0; i < n_values; i++) {
        struct pare_value *v = r->g->value[i];

        if (!wide[i] || pare_rewrite_const(v) || v->maker || v->flags & PARE_V_INPUT ||
            (!r->uses[i] && !r->pinned[i]))
            continue;
        PARE_TRY(add_cast(r, wide[i]->maker, wide[i], v, err));
    }
    return 0;
}

static bool computes_in_half(const struct pare_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        if (n->op && n->op->macs && reads_half(n) && can_widen(n))
            return true;
    }
    return false;
}

static int widen_half(struct pare_rewriter *r, struct pare_err *err)
{
    const int n_nodes = r->g->n_nodes, n_values = r->g->n_values;
    struct pare_value **wide;

    if (!computes_in_half(r->g))
        return 0;
    wide = pare_alloc(r->scratch, (size_t)n_values + 1, sizeof(struct pare_value *));
    if (!wide)
        return pare_no_memory(err, "to rewrite the graph");
    for (int i = 0; i < n_nodes; i++)
        if (touches_half(r->g->node[i]) && can_widen(r->g->node[i]))
            PARE_TRY(widen_node(r, r->g->node[i], wide, err));
    return narrow_results(r, wide, n_values, err);
}

const struct pare_rewrite pare_rewrite_widen_half = {
    .name = "widen_half",
    .doc = "computes in float32 what the model computes in float16 or bfloat16",
    .graph = widen_half,
};
