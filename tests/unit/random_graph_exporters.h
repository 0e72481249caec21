/* random_graph_exporters.h - pieces of random networks as exporters write them: copies, Pad before
 * a convolution, channels last, scales and shifts after layers, the same twice. */
#ifndef PARE_TEST_RANDOM_GRAPH_EXPORTERS_H
#define PARE_TEST_RANDOM_GRAPH_EXPORTERS_H

#include <stdio.h>

#include "random_graph_more.h"

/* Results that are, or nearly are, their input. */
static inline void rg_copies(struct rg *g)
{
    int x = rg_pick(g, 1, 5);

    if (x < 0)
        return;
    for (int i = (int)rg_int(g, 1, 3); i > 0; i--)
        switch (rg_int(g, 0, 6)) {
        case 0: x = rg_unary(g, "Identity", x, NOTHING); break;
        case 1: x = rg_unary(g, "Cast", x, at_int("to", PARE_F32)); break;
        case 2: x = rg_with(g, "Mul", x, build_scalar(&g->b, rg_chance(g, 70) ? 1 : 0.5f)); break;
        case 3: x = rg_with(g, "Add", x, build_scalar(&g->b, rg_chance(g, 70) ? 0 : 0.5f)); break;
        case 4: x = rg_reshape_to(g, x, g->v[x].rank, g->v[x].dim); break;
        case 5: x = rg_unary(g, "Concat", x, at_int("axis", 0)); break;
        default: x = rg_unary(g, "Dropout", x, NOTHING); break;
        }
}

static inline void rg_pad_conv(struct rg *g)
{
    int x = rg_pick(g, 3, 5);

    if (x >= 0 && rg_numel(&g->v[x]) < g->limit)
        x = rg_pad_to(g, x, 2);
    if (x >= 0 && rg_numel(&g->v[x]) < 4 * g->limit)
        rg_conv_to(g, x, rg_channels(g, x), false);
}

/* One number per channel, along axis `axis` of a value; sometimes for all channels. */
static inline const char *rg_by_channel(struct rg *g, int x, int axis, float mid)
{
    const struct rg_value *v = &g->v[x];
    int64_t dim[PARE_MAX_RANK];
    int rank = v->rank - axis;

    for (int i = 0; i < rank; i++)
        dim[i] = i ? 1 : v->dim[axis];
    if (rg_chance(g, 20))
        dim[0] = 1;
    return rg_const(g, rank, dim, mid, 0.4f);
}

/* Scales and shifts by channel, in any order, after a convolution or product. */
static inline int rg_affine(struct rg *g, int x, int axis)
{
    for (int i = (int)rg_int(g, 1, 4); i > 0; i--)
        switch (rg_int(g, 0, 5)) {
        case 0: x = rg_with(g, "Add", x, rg_by_channel(g, x, axis, 0)); break;
        case 1: x = rg_with(g, "Sub", x, rg_by_channel(g, x, axis, 0)); break;
        case 2: x = rg_with(g, "Div", x, rg_by_channel(g, x, axis, 1)); break;
        case 3: x = axis == 1 ? rg_bn(g, x) : x; break;
        case 4:
            x = rg_like(g,
                        build_node(&g->b, rg_chance(g, 50) ? "Sub" : "Mul",
                                   NAMES(rg_by_channel(g, x, axis, 1), rg_name(g, x)), NOTHING),
                        x);
            break;
        default: x = rg_with(g, "Mul", x, rg_by_channel(g, x, axis, 1)); break;
        }
    return x;
}

static inline void rg_scaled_conv(struct rg *g)
{
    int x = rg_pick(g, 3, 5);

    if (x < 0)
        return;
    if (rg_chance(g, 25))
        x = rg_affine(g, x, 1);
    x = rg_affine(g, rg_conv_to(g, x, rg_channels(g, x), rg_chance(g, 30)), 1);
    if (rg_chance(g, 50))
        rg_act(g, x);
}

static inline void rg_scaled_product(struct rg *g)
{
    int x = rg_pick(g, 2, 4);
    struct rg_value v;
    const char *w;

    if (x < 0)
        return;
    v = g->v[x];
    v.dim[v.rank - 1] = rg_int(g, 1, 9);
    if (rg_numel(&v) > g->limit)
        return;
    w = rg_const(g, 2, (int64_t[]){ g->v[x].dim[v.rank - 1], v.dim[v.rank - 1] }, 0, 0.5f);
    x = rg_add(g, build_node(&g->b, "MatMul", NAMES(rg_name(g, x), w), NOTHING), v.rank, v.dim);
    rg_affine(g, x, v.rank - 1);
}

/* Nodes on a value with channels last, as TensorFlow writes them. */
static inline int rg_last_axis_nodes(struct rg *g, int x)
{
    const int last = g->v[x].rank - 1;
    int y;

    for (int i = (int)rg_int(g, 1, 4); i > 0; i--)
        switch (rg_int(g, 0, 6)) {
        case 0: x = rg_with(g, "Add", x, rg_by_channel(g, x, last, 0)); break;
        case 1: x = rg_with(g, "Mul", x, rg_by_channel(g, x, last, 1)); break;
        case 2: x = rg_unary(g, "Softmax", x, at_int("axis", rg_int(g, -1, 1))); break;
        case 3:
            y = rg_unary(g, "Sigmoid", x, NOTHING);
            x = rg_binary(g, "Mul", x, y, x);
            break;
        case 4:
            y = rg_add(g,
                       build_node(&g->b, "ReduceMax", NAMES(rg_name(g, x)), at_int("keepdims", 1)),
                       g->v[x].rank, (int64_t[]){ 1, 1, 1, 1, 1 });
            x = rg_binary(g, "Add", x, y, x);
            break;
        default: x = rg_act(g, x); break;
        }
    return x;
}

static inline void rg_channels_last(struct rg *g)
{
    int x = rg_pick(g, 3, 5), r;
    int64_t perm[PARE_MAX_RANK] = { 0 }, back[PARE_MAX_RANK] = { 0 };

    if (x < 0)
        return;
    r = g->v[x].rank;
    for (int i = 0; i < r; i++)
        perm[i] = i && i < r - 1 ? i + 1 : i ? 1 : 0;
    for (int i = 0; i < r; i++)
        back[perm[i]] = i;
    if (rg_chance(g, 60))
        x = rg_conv_to(g, x, rg_channels(g, x), rg_chance(g, 50));
    x = rg_last_axis_nodes(g, rg_transpose_to(g, x, perm));
    if (rg_chance(g, 80))
        x = rg_transpose_to(g, x, back);
    if (rg_chance(g, 50) && g->v[x].rank > 2)
        rg_conv_to(g, x, rg_channels(g, x), rg_chance(g, 50));
}

/* The same nodes twice. */
static inline void rg_twice(struct rg *g)
{
    int x = rg_pick(g, 1, 5), a, b;
    float by = rg_chance(g, 80) ? 2 : 3;

    if (x < 0)
        return;
    a = rg_unary(g, "Tanh", rg_with(g, "Mul", x, build_scalar(&g->b, 2)), NOTHING);
    b = rg_unary(g, "Tanh", rg_with(g, "Mul", x, build_scalar(&g->b, by)), NOTHING);
    rg_binary(g, rg_chance(g, 50) ? "Add" : "Mul", a, b, x);
}

/* Parts of a value, put together again, in order or not. */
static inline void rg_parts(struct rg *g)
{
    int x = rg_pick(g, 2, 5), axis;
    int64_t at;
    const char *a, *b;

    if (x < 0)
        return;
    axis = (int)rg_int(g, 0, g->v[x].rank - 1);
    at = rg_int(g, 0, g->v[x].dim[axis]);
    a = build_node(&g->b, "Slice",
                   NAMES(rg_name(g, x), build_ints(&g->b, INTS(0)), build_ints(&g->b, INTS(at)),
                         build_ints(&g->b, INTS(axis))),
                   NOTHING);
    b = build_node(&g->b, "Slice",
                   NAMES(rg_name(g, x), build_ints(&g->b, INTS(at)),
                         build_ints(&g->b, INTS(INT32_MAX)), build_ints(&g->b, INTS(axis))),
                   NOTHING);
    if (rg_chance(g, 80))
        rg_like(g, build_node(&g->b, "Concat", NAMES(a, b), at_int("axis", axis)), x);
    else
        rg_like(g, build_node(&g->b, "Concat", NAMES(b, a), at_int("axis", axis)), x);
}

/* Scales and shifts before a convolution or product, between which nothing else happens. */
static inline void rg_scaled_before(struct rg *g)
{
    int x = rg_pick(g, 2, 5);
    int64_t C;

    if (x < 0)
        return;
    if (g->v[x].rank > 2 && rg_chance(g, 60)) {
        rg_conv_to(g, rg_affine(g, rg_act(g, x), 1), rg_channels(g, x), rg_chance(g, 40));
        return;
    }
    C = g->v[x].dim[g->v[x].rank - 1];
    x = rg_affine(g, x, g->v[x].rank - 1);
    rg_like(g,
            build_node(&g->b, "MatMul",
                       NAMES(rg_name(g, x), rg_const(g, 2, (int64_t[]){ C, C }, 0, 0.5f)), NOTHING),
            x);
}

/* Shuffle the labels of axes. */
static inline void rg_shuffle_text(struct rg *g, char *s, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)rg_int(g, 0, i);
        char c = s[i];

        s[i] = s[k];
        s[k] = c;
    }
}

/* An Einsum of a value and of weights, or of the value transformed, with random labels: each axis
 * of the value is shared, summed or kept, and the other operand has axes of its own. */
static inline void rg_einsum(struct rg *g)
{
    int x = rg_pick(g, 1, 4), na = 0, nb = 0, ny = 0;
    char a[8], b[8], y[8], equation[40];
    int64_t size[16], db[8], dy[8];
    const char *w;

    if (x < 0)
        return;
    for (; na < g->v[x].rank; na++) {
        const char label = (char)('a' + na);

        size[na] = g->v[x].dim[na];
        a[na] = label;
        if (rg_chance(g, 50))
            b[nb++] = label;
        if (rg_chance(g, 60))
            y[ny++] = label;
    }
    for (int i = (int)rg_int(g, 0, 2); i > 0; i--) {
        const char label = (char)('a' + na + i);

        size[na + i] = rg_int(g, 1, 3);
        b[nb++] = label;
        if (rg_chance(g, 70))
            y[ny++] = label;
    }
    rg_shuffle_text(g, b, nb);
    rg_shuffle_text(g, y, ny);
    for (int i = 0; i < nb; i++)
        db[i] = size[b[i] - 'a'];
    for (int i = 0; i < ny; i++)
        dy[i] = size[y[i] - 'a'];
    w = rg_const(g, nb, db, 0, 0.5f);
    if (rg_chance(g, 50)) /* not a constant */
        w = build_node(&g->b, "Add",
                       NAMES(w, build_node(&g->b, "ReduceMax", NAMES(rg_name(g, x)),
                                           at_int("keepdims", 0))),
                       NOTHING);
    if (rg_chance(g, 50)) {
        snprintf(equation, sizeof(equation), "%.*s,%.*s->%.*s", na, a, nb, b, ny, y);
        w = build_node(&g->b, "Einsum", NAMES(rg_name(g, x), w), at_text("equation", equation));
    } else {
        snprintf(equation, sizeof(equation), "%.*s,%.*s->%.*s", nb, b, na, a, ny, y);
        w = build_node(&g->b, "Einsum", NAMES(w, rg_name(g, x)), at_text("equation", equation));
    }
    rg_add(g, w, ny, dy);
}

static inline void rg_make_exported(struct rg *g, uint64_t seed)
{
    static rg_piece *const second[] = {
        rg_copies,        rg_pad_conv, rg_scaled_conv,   rg_scaled_product, rg_channels_last,
        rg_channels_last, rg_twice,    rg_parts,         rg_shape_chain,    rg_view,
        rg_einsum,        rg_einsum,   rg_scaled_before,
    };
    int n;
    rg_piece *const *piece = rg_pieces(&n);

    rg_grow(g, seed, piece, n, second, (int)(sizeof(second) / sizeof(*second)));
}

#endif
