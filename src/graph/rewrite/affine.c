/* affine.c - scales and shifts by channel: BatchNormalization, Mul, Add, Sub and Div by constants.
 */
#include "affine.h"

#include <math.h>

#include "../../base/arena.h"
#include "../../op/nn/norm.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"

#define MOST 64 /* values that are looked at after a scale or shift */

bool pare_affine_weight(const struct pare_value *v)
{
    return pare_rewrite_const(v) && v->t.dtype == PARE_F32 &&
           !(v->maker && v->maker->op && v->maker->op->flags & PARE_OP_LAZY);
}

bool pare_affine_bias(const struct pare_value *v, int64_t n)
{
    return !v || (pare_affine_weight(v) && v->t.rank == 1 && v->t.dim[0] == n);
}

static int new_affine(struct pare_rewriter *r, int64_t n, struct pare_affine *a,
                      struct pare_err *err)
{
    a->n = n;
    a->scale = pare_alloc(r->scratch, (size_t)n + 1, sizeof(*a->scale));
    a->shift = pare_alloc(r->scratch, (size_t)n + 1, sizeof(*a->shift));
    if (!a->scale || !a->shift)
        return pare_no_memory(err, "to rewrite the graph");
    for (int64_t i = 0; i < n; i++)
        a->scale[i] = 1;
    return 0;
}

static int read_norm(struct pare_rewriter *r, const struct pare_node *n, struct pare_affine *a,
                     bool *found, struct pare_err *err)
{
    *found = false;
    if (pare_bn_trains(n) || !pare_bn_per_channel(n))
        return 0;
    for (int k = 1; k < 5; k++)
        if (!pare_affine_bias(n->in[k], a->n) || !n->in[k])
            return 0;
    for (int k = 1; k < 5; k++)
        PARE_TRY(pare_rewrite_load(r, n->in[k], err));
    for (int64_t c = 0; c < a->n; c++) {
        double s = (double)pare_f32(&n->in[1]->t)[c] /
                   sqrt((double)pare_f32(&n->in[4]->t)[c] + pare_bn_epsilon(n));

        a->scale[c] = s;
        a->shift[c] = (double)pare_f32(&n->in[2]->t)[c] - (double)pare_f32(&n->in[3]->t)[c] * s;
    }
    *found = true;
    return 0;
}

/* Is the constant one number, or one per index of this axis of y, and not of another shape? */
static bool is_by_channel(const struct pare_value *c, const struct pare_value *y, int axis)
{
    const int more = y->t.rank - c->t.rank;

    if (!pare_affine_weight(c) || more < 0 || !pare_numel(&c->t))
        return false;
    for (int a = 0; a < c->t.rank; a++)
        if (c->t.dim[a] != 1 && (a + more != axis || c->t.dim[a] != y->t.dim[axis]))
            return false;
    return true;
}

/* x + c, x - c, c - x, x c, x / c */
static bool read_operand(const struct pare_node *n, int k, double by, double *scale, double *shift)
{
    *scale = 1;
    *shift = 0;
    if (pare_node_is(n, &pare_op_add))
        *shift = by;
    else if (pare_node_is(n, &pare_op_mul))
        *scale = by;
    else if (pare_node_is(n, &pare_op_div))
        *scale = 1 / by;
    else
        *shift = k ? -by : by;
    if (pare_node_is(n, &pare_op_sub) && !k)
        *scale = -1;
    return isfinite(*scale) && isfinite(*shift);
}

static bool is_affine(const struct pare_node *n, int k)
{
    const struct pare_op *const linear[] = { &pare_op_add, &pare_op_sub, &pare_op_mul };

    for (size_t i = 0; i < sizeof(linear) / sizeof(*linear); i++)
        if (n->op == linear[i])
            return true;
    return pare_node_is(n, &pare_op_div) && k == 1;
}

static int read_operands(struct pare_rewriter *r, const struct pare_node *n, int k,
                         struct pare_affine *a, bool *found, struct pare_err *err)
{
    struct pare_value *c = n->in[k];
    const int64_t step = pare_numel(&c->t) > 1;

    *found = true;
    PARE_TRY(pare_rewrite_load(r, c, err));
    for (int64_t i = 0; i < a->n && *found; i++)
        *found = read_operand(n, k, (double)pare_f32(&c->t)[i * step], &a->scale[i], &a->shift[i]);
    return 0;
}

int pare_affine_input(const struct pare_node *n)
{
    const int k = n->n_in == 2 && pare_rewrite_const(n->in[1]);

    if (n->n_out < 1 || !n->out[0] || n->n_in < 2 || !n->in[0] || !n->in[1])
        return -1;
    if (pare_node_is(n, &pare_op_batch_normalization))
        return 0;
    return n->n_in == 2 && is_affine(n, k) && pare_rewrite_const(n->in[k]) ? !k : -1;
}

int pare_affine_read(struct pare_rewriter *r, const struct pare_node *n, int axis,
                     struct pare_affine *a, struct pare_err *err)
{
    const int x = pare_affine_input(n), k = !x;
    bool found = false;

    *a = (struct pare_affine){ .n = 0 };
    if (x < 0 || n->in[x]->t.rank <= axis || n->in[x]->t.dim[axis] < 1)
        return 0;
    if (pare_node_is(n, &pare_op_batch_normalization)) {
        if (axis != 1)
            return 0;
        PARE_TRY(new_affine(r, n->in[0]->t.dim[1], a, err));
        PARE_TRY(read_norm(r, n, a, &found, err));
    } else if (is_by_channel(n->in[k], n->in[x], axis) &&
               pare_rewrite_same_shape(r, n->in[x], n->out[0])) {
        PARE_TRY(new_affine(r, n->in[x]->t.dim[axis], a, err));
        PARE_TRY(read_operands(r, n, k, a, &found, err));
    }
    a->n = found ? a->n : 0;
    return 0;
}

/* ---- integers -------------------------------------------------------------------------------- */

static bool is_integer(enum pare_dtype d)
{
    switch (d) {
#define CASE(type, c) case type:
        PARE_INT_TYPES(CASE)
#undef CASE
        return true;
    default: return false;
    }
}

/* Floor and Cast to integers, for example, but not QuantizeLinear. */
static bool cuts_off(const struct pare_node *n)
{
    return n->op && n->op->flags & PARE_OP_STEPS &&
           (n->op->map || (n->op->flags & PARE_OP_COPIES && is_integer(n->out[0]->t.dtype)));
}

/* Are the results of n values of its inputs, or made of one element of each? */
static bool is_by_element(const struct pare_node *n)
{
    const struct pare_op *op = n->op;

    return op && !op->domain &&
           (op->map || op->map2 || op->infer == pare_infer_broadcast ||
            op->flags & (PARE_OP_ELEMENTWISE | PARE_OP_VIEW | PARE_OP_MOVES | PARE_OP_JOINS));
}

/* Is v cut off, or what is made of it by element?  Looks at *left values at most. */
static bool is_cut_off(const struct pare_rewriter *r, const struct pare_value *v, int *left)
{
    for (int i = 0; i<r->g->n_nodes && * left> 0; i++) {
        const struct pare_node *n = r->g->node[i];

        for (int k = 0; k < n->n_in && !n->replaced; k++) {
            if (n->in[k] != v || n->n_out < 1 || !n->out[0])
                continue;
            if (cuts_off(n))
                return true;
            --*left;
            if (is_by_element(n) && is_cut_off(r, n->out[0], left))
                return true;
            break;
        }
    }
    return false;
}

bool pare_affine_is_cut_off(const struct pare_rewriter *r, const struct pare_node *n)
{
    int left = MOST;

    return n->out[0] && is_cut_off(r, n->out[0], &left);
}

/* ---- scales and shifts ----------------------------------------------------------------------- */

static bool any_but(const double *v, int64_t n, double other)
{
    for (int64_t i = 0; i < n; i++)
        if (v[i] != other)
            return true;
    return false;
}

bool pare_affine_scales(const struct pare_affine *a)
{
    return any_but(a->scale, a->n, 1);
}

bool pare_affine_shifts(const struct pare_affine *a)
{
    return any_but(a->shift, a->n, 0);
}

/* ---- layers ---------------------------------------------------------------------------------- */

int pare_affine_make_bias(struct pare_rewriter *r, struct pare_node *n, bool *has,
                          struct pare_err *err)
{
    *has = !pare_node_is(n, &pare_op_mat_mul) || (n->in[0]->t.rank == 2 && n->version >= 7);
    if (!*has || n->n_in > 2)
        return 0;
    if (pare_node_is(n, &pare_op_mat_mul))
        PARE_TRY(pare_rewrite_become(r, n, &pare_op_gemm, NULL, err));
    return pare_rewrite_arity(r, n, 3, err);
}
