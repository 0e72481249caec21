/* rewrite_affine_into_next.c - fold scales and shifts by channel (BatchNormalization, Mul, Add,
 * Sub, Div) into the weights and bias of the convolution or product after them.
 *
 *     W (s x + t) = (W s) x + W t
 *
 * A convolution that pads adds zeros to s x + t, not t: only scales can be folded into it.
 */
#include <string.h>

#include "../../base/arena.h"
#include "../../op/matrix/matrix.h"
#include "../../op/nn/window.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "affine.h"

/* A layer: the axis of the channels in its input, and of input and output channels in its weights.
 * Each of `groups` equal parts of the output channels reads input channels of its own. */
struct layer {
    struct pare_node *node;
    int axis, in, out;
    int64_t groups, channels;
    bool shifts; /* a shift can be folded */
};

/* ---- the layer ------------------------------------------------------------------------------- */

static bool pads_nothing(const struct pare_node *n)
{
    const struct pare_window_attr *a = n->attr;

    if (strcmp(a->auto_pad, "NOTSET") != 0)
        return !strcmp(a->auto_pad, "VALID");
    for (int i = 0; i < a->pads.n; i++)
        if (a->pads.v[i])
            return false;
    return true;
}

static bool is_product(const struct pare_node *n, struct layer *l)
{
    struct pare_gemm_attrs g;

    if (!pare_product_get(n, &g) || n->in[1]->t.rank != 2 || n->in[0]->t.rank < 2 || g.ta ||
        g.alpha != 1 || g.beta != 1)
        return false;
    l->axis = n->in[0]->t.rank - 1;
    l->in = g.tb;
    l->out = !g.tb;
    l->groups = 1;
    l->shifts = true;
    return true;
}

static bool read_layer(struct pare_node *n, struct layer *l)
{
    *l = (struct layer){ .node = n, .axis = 1 };
    if (n->n_in < 2 || n->n_out != 1 || !n->in[0] || !pare_affine_weight(n->in[1]) ||
        n->in[0]->t.dtype != PARE_F32 || n->in[0]->t.rank < 2)
        return false;
    if (pare_node_is(n, &pare_op_conv)) {
        l->in = 1;
        l->groups = (int64_t)pare_attr(n, "group");
        l->shifts = pads_nothing(n);
    } else if (pare_node_is(n, &pare_op_conv_transpose)) {
        l->out = 1;
        l->groups = 1; /* input channel i is index i of the first axis, whatever its group */
    } else if (!is_product(n, l)) {
        return false;
    }
    l->channels = n->in[1]->t.dim[l->in] * l->groups;
    return l->groups > 0 && n->in[1]->t.dim[l->out] % l->groups == 0 &&
           l->channels == n->in[0]->t.dim[l->axis] && pare_numel(&n->in[1]->t) > 0;
}

/* The last node of a function that is written out, GELU or a normalization, multiplies values; its
 * constants are part of it. */
static bool ends_function(const struct pare_value *x)
{
    const struct pare_node *n = x->maker;

    return n && n->op && n->op->map2 && n->n_in == 2 && n->in[0] && n->in[1] &&
           !(n->in[0]->flags & PARE_V_CONST) && !(n->in[1]->flags & PARE_V_CONST);
}

/* ---- folding --------------------------------------------------------------------------------- */

/* A pair of indices along the first two axes of the weights: the input and the output channel. */
struct pair {
    int64_t in, out;
};

static struct pair pair_at(const struct layer *l, int64_t i, int64_t k)
{
    const int64_t *dim = l->node->in[1]->t.dim;
    const int64_t out = l->out ? k : i, in = l->in ? k : i;

    return (struct pair){ .in = out / (dim[l->out] / l->groups) * dim[l->in] + in, .out = out };
}

/* to[] = weights times scales, unless it is NULL; sum[] += weights times shifts. */
static void multiply(const struct layer *l, const struct pare_affine *a, float *to, double *sum)
{
    const struct pare_tensor *w = &l->node->in[1]->t;
    const int64_t inner = pare_numel(w) / (w->dim[0] * w->dim[1]);
    const float *from = pare_f32(w);

    for (int64_t i = 0; i < w->dim[0]; i++)
        for (int64_t k = 0; k < w->dim[1]; k++, from += inner) {
            const struct pair p = pair_at(l, i, k);

            for (int64_t j = 0; j < inner; j++) {
                if (to)
                    *to++ = (float)((double)from[j] * a->scale[p.in]);
                sum[p.out] += (double)from[j] * a->shift[p.in];
            }
        }
}

/* The new weights, and the new bias if `b` is not NULL. */
static int make_constants(struct pare_rewriter *r, const struct layer *l,
                          const struct pare_affine *a, struct pare_value **w, struct pare_value **b,
                          struct pare_err *err)
{
    struct pare_node *n = l->node;
    struct pare_value *was = n->n_in > 2 ? n->in[2] : NULL;
    const int64_t count = n->in[1]->t.dim[l->out];
    const struct pare_tensor t = { .dtype = PARE_F32, .rank = 1, .dim = { count } };
    double *sum = pare_alloc(r->scratch, (size_t)count + 1, sizeof(*sum));

    if (!sum)
        return pare_no_memory(err, "to rewrite the graph");
    PARE_TRY(pare_rewrite_load(r, n->in[1], err));
    if (w && !(*w = pare_rewrite_constant(r, n->in[1]->name, &n->in[1]->t, err)))
        return err->code;
    multiply(l, a, w ? pare_f32_mut(&(*w)->t) : NULL, sum);
    if (!b)
        return 0;
    if (was)
        PARE_TRY(pare_rewrite_load(r, was, err));
    *b = pare_rewrite_constant(r, was ? was->name : "bias", &t, err);
    for (int64_t c = 0; *b && c < count; c++)
        pare_f32_mut(&(*b)->t)[c] = (float)(sum[c] + (was ? (double)pare_f32(&was->t)[c] : 0));
    return *b ? 0 : err->code;
}

static int fold(struct pare_rewriter *r, const struct layer *l, struct pare_value *x,
                const struct pare_affine *a, struct pare_err *err)
{
    struct pare_node *n = l->node;
    struct pare_value *w = n->in[1], *b = NULL;
    const bool scales = pare_affine_scales(a), shifts = pare_affine_shifts(a);
    bool has = true;

    if (scales && r->uses[w->id] > 1)
        return 0;
    if (shifts && !(l->shifts && pare_affine_bias(n->n_in > 2 ? n->in[2] : NULL, w->t.dim[l->out])))
        return 0;
    if (shifts)
        PARE_TRY(pare_affine_make_bias(r, n, &has, err));
    if (!has)
        return 0;
    PARE_TRY(make_constants(r, l, a, scales ? &w : NULL, shifts ? &b : NULL, err));
    if (scales)
        pare_rewrite_input(r, n, 1, w);
    if (b)
        pare_rewrite_input(r, n, 2, b);
    pare_rewrite_input(r, n, 0, x);
    return 0;
}

static int into_next(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    struct pare_affine a;
    const struct pare_node *m;
    struct layer l;
    int x;

    if (!read_layer(n, &l) || n->in[0]->flags & PARE_V_CONST)
        return 0;
    m = n->in[0]->maker;
    if (!m || !m->op || m->replaced || pare_rewrite_reader(r, n->in[0]) != n)
        return 0;
    x = pare_affine_input(m);
    if (x < 0 || m->in[x]->flags & PARE_V_CONST || ends_function(m->in[x]))
        return 0;
    PARE_TRY(pare_affine_read(r, m, l.axis, &a, err));
    return a.n == l.channels ? fold(r, &l, m->in[x], &a, err) : 0;
}

const struct pare_rewrite pare_rewrite_affine_into_next = {
    .name = "affine_into_next",
    .doc = "fold BatchNormalization, scales and shifts into the layer after them",
    .any_shape = true,
    .late = true,
    .node = into_next,
};
