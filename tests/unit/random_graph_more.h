/* random_graph_more.h - second part of random_graph.h: pools, data movement, matrices, and whole
 * graphs. */
#ifndef PARE_TEST_RANDOM_GRAPH_MORE_H
#define PARE_TEST_RANDOM_GRAPH_MORE_H

#include "random_graph.h"

/* ---- pools and means --------------------------------------------------------------------- */

static inline void rg_pool(struct rg *g)
{
    int x = rg_pick(g, 3, 5), nd;
    bool max = rg_chance(g, 50), ceil = rg_chance(g, 40);
    int64_t y[5];
    struct rg_window w;
    struct bin attrs;
    struct rg_value v;

    if (x < 0)
        return;
    v = g->v[x];
    nd = v.rank - 2;
    w = rg_make_window(g, &v, false);
    y[0] = v.dim[0];
    y[1] = v.dim[1];
    for (int i = 0; i < nd; i++) {
        int64_t ext, room;

        if (!max || v.dim[i + 2] < 2)
            w.d[i] = 1; /* otherwise a window could contain only padding */
        if (w.pads[i] >= w.k[i])
            w.pads[i] = w.k[i] - 1;
        if (w.pads[nd + i] >= w.k[i])
            w.pads[nd + i] = w.k[i] - 1;
        ext = (w.k[i] - 1) * w.d[i] + 1;
        room = v.dim[i + 2] + w.pads[i] + w.pads[nd + i] - ext;
        if (room < 0) {
            w.k[i] = w.d[i] = 1;
            w.pads[i] = w.pads[nd + i] = 0;
            room = v.dim[i + 2] - 1;
        }
        y[i + 2] = (room + (ceil ? w.s[i] - 1 : 0)) / w.s[i] + 1;
        if ((y[i + 2] - 1) * w.s[i] >= v.dim[i + 2] + w.pads[i])
            y[i + 2]--; /* a window must not start in the end padding */
    }
    attrs = CAT(at_ints("kernel_shape", nd, w.k), at_ints("strides", nd, w.s),
                at_ints("pads", 2 * nd, w.pads), at_int("ceil_mode", ceil));
    attrs = max ? CAT(attrs, at_ints("dilations", nd, w.d))
                : CAT(attrs, at_int("count_include_pad", rg_chance(g, 50)));
    rg_add(g, build_node(&g->b, max ? "MaxPool" : "AveragePool", NAMES(rg_name(g, x)), attrs),
           v.rank, y);
}

/* Pad before and after every spatial axis. */
static inline int rg_pad_to(struct rg *g, int x, int64_t most)
{
    struct rg_value v = g->v[x];
    int64_t pads[2 * PARE_MAX_RANK] = { 0 };

    for (int i = 2; i < v.rank; i++) {
        pads[i] = rg_int(g, 0, most);
        pads[v.rank + i] = rg_int(g, 0, most);
        v.dim[i] += pads[i] + pads[v.rank + i];
    }
    return rg_add(g,
                  build_node(&g->b, "Pad",
                             NAMES(rg_name(g, x), build_ints(&g->b, 2 * v.rank, pads)), NOTHING),
                  v.rank, v.dim);
}

/* Exporters write a padded average as a Pad and an AveragePool. */
static inline void rg_pad_pool(struct rg *g)
{
    int x = rg_pick(g, 3, 5), nd;
    int64_t k[3], s[3];
    struct rg_value v;

    if (x < 0)
        return;
    x = rg_pad_to(g, x, 1);
    v = g->v[x];
    nd = v.rank - 2;
    for (int i = 0; i < nd; i++) {
        k[i] = rg_int(g, 1, v.dim[i + 2] < 3 ? v.dim[i + 2] : 3);
        s[i] = rg_int(g, 1, 2);
        v.dim[i + 2] = (v.dim[i + 2] - k[i]) / s[i] + 1;
    }
    rg_add(g,
           build_node(&g->b, "AveragePool", NAMES(rg_name(g, x)),
                      CAT(at_ints("kernel_shape", nd, k), at_ints("strides", nd, s),
                          at_int("count_include_pad", rg_chance(g, 50)))),
           v.rank, v.dim);
}

/* A reduction over the axes in `reduced`. */
static inline int rg_reduce_over(struct rg *g, const char *type, int x, const bool *reduced,
                                 bool keep)
{
    struct rg_value v = g->v[x];
    int64_t axes[PARE_MAX_RANK], dim[PARE_MAX_RANK];
    bool as_input = g->b.opset >= 18;
    int n = 0, rank = 0;
    struct bin attrs;

    for (int i = 0; i < v.rank; i++) {
        if (reduced[i])
            axes[n++] = rg_chance(g, 20) ? i - v.rank : i;
        if (!reduced[i] || keep)
            dim[rank++] = reduced[i] ? 1 : v.dim[i];
    }
    attrs = CAT(at_int("keepdims", keep), as_input ? NOTHING : at_ints("axes", n, axes));
    return rg_add(g,
                  as_input ? build_node(&g->b, type,
                                        NAMES(rg_name(g, x), build_ints(&g->b, n, axes)), attrs)
                           : build_node(&g->b, type, NAMES(rg_name(g, x)), attrs),
                  rank, dim);
}

static inline void rg_reduce(struct rg *g)
{
    int x = rg_pick(g, 2, 5), any = 0;
    bool reduced[PARE_MAX_RANK], space = rg_chance(g, 60);

    if (x < 0)
        return;
    for (int i = 0; i < g->v[x].rank; i++) {
        reduced[i] = space ? i > 1 : rg_chance(g, 50);
        any += reduced[i];
    }
    if (any)
        rg_reduce_over(g, rg_chance(g, 85) ? "ReduceMean" : "ReduceMax", x, reduced,
                       rg_chance(g, 50));
}

/* ---- movement ------------------------------------------------------------------------------ */

static inline int rg_reshape_to(struct rg *g, int x, int rank, const int64_t *dim)
{
    return rg_add(g,
                  build_node(&g->b, "Reshape", NAMES(rg_name(g, x), build_ints(&g->b, rank, dim)),
                             NOTHING),
                  rank, dim);
}

static inline void rg_view(struct rg *g)
{
    int x = rg_pick(g, 1, 5), at, kind = (int)rg_int(g, 0, 4);
    struct rg_value v;

    if (x < 0)
        return;
    v = g->v[x];
    at = (int)rg_int(g, 0, v.rank - 1);
    if (kind == 0 && v.rank < 5) {
        memmove(v.dim + at + 1, v.dim + at, (size_t)(v.rank - at) * sizeof(*v.dim));
        v.dim[at] = 1;
        rg_add(g,
               build_node(&g->b, "Unsqueeze", NAMES(rg_name(g, x), build_ints(&g->b, INTS(at))),
                          NOTHING),
               v.rank + 1, v.dim);
    } else if (kind == 1 && v.dim[at] == 1) {
        memmove(v.dim + at, v.dim + at + 1, (size_t)(v.rank - at - 1) * sizeof(*v.dim));
        rg_add(g,
               build_node(&g->b, "Squeeze", NAMES(rg_name(g, x), build_ints(&g->b, INTS(at))),
                          NOTHING),
               v.rank - 1, v.dim);
    } else if (kind == 2) {
        int64_t head = 1;

        for (int i = 0; i < at; i++)
            head *= v.dim[i];
        rg_add(g, build_node(&g->b, "Flatten", NAMES(rg_name(g, x)), at_int("axis", at)), 2,
               (int64_t[]){ head, rg_numel(&v) / head });
    } else if (kind == 3) {
        rg_unary(g, rg_chance(g, 50) ? "Identity" : "Dropout", x, NOTHING);
    } else if (v.rank > 2) {
        v.dim[v.rank - 2] *= v.dim[v.rank - 1]; /* join the last two axes */
        rg_reshape_to(g, x, v.rank - 1, v.dim);
    }
}

static inline int rg_transpose_to(struct rg *g, int x, const int64_t *perm)
{
    struct rg_value v = g->v[x];
    int64_t dim[PARE_MAX_RANK];

    for (int i = 0; i < v.rank; i++)
        dim[i] = v.dim[perm[i]];
    return rg_add(g,
                  build_node(&g->b, "Transpose", NAMES(rg_name(g, x)),
                             at_ints("perm", v.rank, perm)),
                  v.rank, dim);
}

/* Channels last and back, or any order. */
static inline void rg_transpose(struct rg *g)
{
    int x = rg_pick(g, 2, 5), r, kind = (int)rg_int(g, 0, 3);
    int64_t perm[PARE_MAX_RANK] = { 0 }, back[PARE_MAX_RANK] = { 0 };

    if (x < 0)
        return;
    r = g->v[x].rank;
    for (int i = 0; i < r; i++) {
        perm[i] = i == 0 ? 0 : i == r - 1 ? 1 : i + 1;
        back[i] = i == 0 ? 0 : i == 1 ? r - 1 : i - 1;
    }
    if (kind == 0) {
        for (int i = 0; i < r; i++)
            perm[i] = i;
        for (int i = r - 1; i > 0; i--) {
            int k = (int)rg_int(g, 0, i);
            int64_t t = perm[i];

            perm[i] = perm[k];
            perm[k] = t;
        }
        rg_transpose_to(g, x, perm);
        return;
    }
    if (kind != 1)
        x = rg_transpose_to(g, x, perm);
    if (kind == 2 && rg_chance(g, 60))
        x = rg_act(g, x);
    if (kind != 3)
        x = rg_transpose_to(g, x, back);
    if (kind != 3 && r > 2 && rg_chance(g, 50))
        rg_conv_to(g, x, rg_channels(g, x), false);
}

/* (N, C, ...) as (N, a, C / a, ...), the two exchanged, and back. */
static inline void rg_shuffle(struct rg *g)
{
    int x = rg_pick(g, 3, 5), y;
    struct rg_value v;
    int64_t dim[6], perm[6] = { 0, 2, 1, 3, 4, 5 }, a;

    if (x < 0)
        return;
    v = g->v[x];
    for (a = rg_int(g, 1, 4); v.dim[1] % a; a--)
        ;
    dim[0] = v.dim[0];
    dim[1] = a;
    dim[2] = v.dim[1] / a;
    for (int i = 2; i < v.rank; i++)
        dim[i + 1] = v.dim[i];
    y = rg_reshape_to(g, x, v.rank + 1, dim);
    y = rg_transpose_to(g, y, perm);
    rg_reshape_to(g, y, v.rank, v.dim);
}

static inline void rg_slice(struct rg *g)
{
    int x = rg_pick(g, 1, 5), axis;
    struct rg_value v;
    int64_t from, to, step;

    if (x < 0)
        return;
    v = g->v[x];
    axis = (int)rg_int(g, 0, v.rank - 1);
    from = rg_int(g, 0, v.dim[axis] - 1);
    to = rg_int(g, from + 1, v.dim[axis]);
    step = rg_int(g, 1, 2);
    v.dim[axis] = (to - from + step - 1) / step;
    rg_add(g,
           build_node(&g->b, "Slice",
                      NAMES(rg_name(g, x), build_ints(&g->b, INTS(from)),
                            build_ints(&g->b, INTS(to)), build_ints(&g->b, INTS(axis)),
                            build_ints(&g->b, INTS(step))),
                      NOTHING),
           v.rank, v.dim);
}

static inline void rg_split(struct rg *g)
{
    int x = rg_pick(g, 1, 5), axis;
    const char *out[2], *in[2];
    int64_t first;
    struct rg_value v;

    if (x < 0)
        return;
    v = g->v[x];
    axis = v.rank > 1 && rg_chance(g, 70) ? 1 : (int)rg_int(g, 0, v.rank - 1);
    if (v.dim[axis] < 2)
        return;
    first = rg_chance(g, 50) && v.dim[axis] % 2 == 0 ? v.dim[axis] / 2
                                                     : rg_int(g, 1, v.dim[axis] - 1);
    in[0] = rg_name(g, x);
    in[1] = build_ints(&g->b, INTS(first, v.dim[axis] - first));
    build_node_outs(&g->b, "Split", 2, in, at_int("axis", axis), 2, out);
    for (int i = 0; i < 2; i++) {
        int64_t dim[PARE_MAX_RANK];

        memcpy(dim, v.dim, sizeof(dim));
        dim[axis] = i ? v.dim[axis] - first : first;
        rg_add(g, out[i], v.rank, dim);
    }
}

/* Concatenates values that differ at most along the axis; one value may appear twice. */
static inline void rg_concat(struct rg *g)
{
    int x = rg_pick(g, 1, 5), axis, n = 0;
    const char *in[4];
    struct rg_value v;
    int64_t sum = 0;

    if (x < 0)
        return;
    v = g->v[x];
    axis = v.rank > 1 && rg_chance(g, 80) ? 1 : (int)rg_int(g, 0, v.rank - 1);
    for (int tries = 0; tries < 20 && n < 4; tries++) {
        int i = tries ? (int)rg_int(g, 0, g->n - 1) : x;
        bool fits = g->v[i].rank == v.rank;

        for (int k = 0; k < v.rank && fits; k++)
            fits = k == axis || g->v[i].dim[k] == v.dim[k];
        if (fits && (i != x || n == 0 || rg_chance(g, 10))) {
            in[n++] = rg_name(g, i);
            sum += g->v[i].dim[axis];
        }
    }
    if (n < 4 && rg_chance(g, 20)) {
        int64_t dim[PARE_MAX_RANK];

        memcpy(dim, v.dim, sizeof(dim));
        dim[axis] = rg_int(g, 1, 20);
        in[n++] = rg_const(g, v.rank, dim, 0, 1);
        sum += dim[axis];
    }
    v.dim[axis] = sum;
    if (rg_numel(&v) <= 2 * g->limit)
        rg_add(g, build_node(&g->b, "Concat", n, in, at_int("axis", axis)), v.rank, v.dim);
}

/* A Reshape whose shape the graph computes: the plan folds it. */
static inline void rg_shape_chain(struct rg *g)
{
    int x = rg_pick(g, 2, 5);
    const char *shape, *head, *target;
    struct rg_value v;

    if (x < 0)
        return;
    v = g->v[x];
    shape = build_node(&g->b, "Shape", NAMES(rg_name(g, x)), NOTHING);
    head = build_node(&g->b, "Gather", NAMES(shape, build_ints(&g->b, INTS(0))), NOTHING);
    target = build_node(&g->b, "Concat", NAMES(head, build_ints(&g->b, INTS(-1))),
                        at_int("axis", 0));
    rg_add(g, build_node(&g->b, "Reshape", NAMES(rg_name(g, x), target), NOTHING), 2,
           (int64_t[]){ v.dim[0], rg_numel(&v) / v.dim[0] });
}

static inline void rg_resize(struct rg *g)
{
    int x = rg_pick(g, 3, 5);
    struct rg_value v;
    float scales[5] = { 1, 1, 2, 2, 2 };
    const char *s;

    if (x < 0 || rg_numel(&g->v[x]) * 4 > g->limit)
        return;
    v = g->v[x];
    for (int i = 2; i < v.rank; i++)
        v.dim[i] *= 2;
    s = build_floats(&g->b, INTS(v.rank), scales);
    rg_add(g,
           build_node(&g->b, "Resize", NAMES(rg_name(g, x), "", s),
                      CAT(at_text("mode", "nearest"),
                          at_text("coordinate_transformation_mode", "asymmetric"),
                          at_text("nearest_mode", "floor"))),
           v.rank, v.dim);
}

static inline void rg_pad(struct rg *g)
{
    int x = rg_pick(g, 3, 5);

    if (x >= 0 && rg_numel(&g->v[x]) * 2 < g->limit)
        rg_pad_to(g, x, 2);
}

/* ---- matrices, rows, broadcasts ------------------------------------------------------------*/

static inline void rg_linear(struct rg *g)
{
    int x = rg_pick(g, 2, 5), r, y;
    int64_t K, N = rg_int(g, 1, 40);
    struct rg_value v;
    bool gemm, tb = rg_chance(g, 50);
    const char *w, *name;
    float scale;

    if (x < 0)
        return;
    v = g->v[x];
    r = v.rank;
    K = v.dim[r - 1];
    gemm = r == 2 && rg_chance(g, 60);
    tb &= gemm;
    scale = 1.5f / sqrtf((float)K);
    w = rg_const(g, 2, tb ? (int64_t[]){ N, K } : (int64_t[]){ K, N }, 0, scale);
    v.dim[r - 1] = N;
    if (gemm && rg_chance(g, 60))
        name = build_node(&g->b, "Gemm", NAMES(rg_name(g, x), w, rg_const(g, 1, &N, 0, 1)),
                          CAT(at_int("transB", tb),
                              at_float("alpha", rg_chance(g, 80) ? 1 : 0.5f)));
    else
        name = build_node(&g->b, gemm ? "Gemm" : "MatMul", NAMES(rg_name(g, x), w),
                          gemm ? at_int("transB", tb) : NOTHING);
    y = rg_add(g, name, r, v.dim);
    if (rg_chance(g, 50))
        y = rg_with(g, "Add", y, rg_const(g, 1, &N, 0, 1));
    if (rg_chance(g, 50))
        rg_act(g, y);
}

/* x x^T / K. */
static inline void rg_matmul(struct rg *g)
{
    int x = rg_pick(g, 2, 4), r, t;
    int64_t perm[PARE_MAX_RANK], K;
    struct rg_value v;

    if (x < 0)
        return;
    v = g->v[x];
    r = v.rank;
    K = v.dim[r - 1];
    for (int i = 0; i < r; i++)
        perm[i] = i < r - 2 ? i : i == r - 1 ? r - 2 : r - 1;
    v.dim[r - 1] = v.dim[r - 2];
    if (rg_numel(&v) > g->limit)
        return;
    t = rg_transpose_to(g, x, perm);
    t = rg_add(g, build_node(&g->b, "MatMul", NAMES(rg_name(g, x), rg_name(g, t)), NOTHING), r,
               v.dim);
    rg_with(g, "Mul", t, build_scalar(&g->b, 1 / (float)K));
}

static inline void rg_softmax(struct rg *g)
{
    int x = rg_pick(g, 1, 5);

    if (x >= 0)
        rg_unary(g, rg_chance(g, 80) ? "Softmax" : "LogSoftmax", x,
                 at_int("axis", rg_chance(g, 60) ? -1 : rg_int(g, 0, g->v[x].rank - 1)));
}

/* LayerNormalization over the last axis: one operator, or the operators that exporters write before
 * opset 17. */
static inline void rg_layer_norm(struct rg *g)
{
    int x = rg_pick(g, 2, 5), d, m, y;
    bool reduced[PARE_MAX_RANK] = { 0 };
    int64_t L;
    const char *scale, *bias;

    if (x < 0)
        return;
    L = g->v[x].dim[g->v[x].rank - 1];
    scale = rg_const(g, 1, &L, 1, 0.5f);
    bias = rg_const(g, 1, &L, 0, 0.5f);
    if (g->b.opset >= 17 && rg_chance(g, 50)) {
        rg_like(g,
                build_node(&g->b, "LayerNormalization",
                           NAMES(rg_name(g, x), scale, rg_chance(g, 70) ? bias : ""),
                           CAT(at_int("axis", -1), at_float("epsilon", 1e-2f))),
                x);
        return;
    }
    reduced[g->v[x].rank - 1] = true;
    m = rg_reduce_over(g, "ReduceMean", x, reduced, true);
    d = rg_binary(g, "Sub", x, m, x);
    m = rg_with(g, "Pow", d, build_scalar(&g->b, 2));
    m = rg_reduce_over(g, "ReduceMean", m, reduced, true);
    m = rg_with(g, "Add", m, build_scalar(&g->b, 1e-2f));
    m = rg_unary(g, "Sqrt", m, NOTHING);
    y = rg_binary(g, "Div", d, m, d);
    if (rg_chance(g, 80))
        y = rg_with(g, "Mul", y, scale);
    if (rg_chance(g, 80))
        rg_with(g, "Add", y, bias);
}

/* An elementwise operator with a constant of a broadcast shape. */
static inline void rg_broadcast(struct rg *g)
{
    static const char *const types[] = { "Add", "Mul", "Sub", "Max", "PRelu", "Min" };
    int x = rg_pick(g, 1, 5), kind = (int)rg_int(g, 0, 4), r, skip;
    const char *type = types[rg_int(g, 0, 5)];
    struct rg_value v;

    if (x < 0)
        return;
    v = g->v[x];
    r = v.rank;
    skip = kind == 4 ? (int)rg_int(g, 0, r - 1) : 0;
    for (int i = 0; i < r; i++)
        if ((kind == 0) || (kind == 1 && i != 1) || (kind == 2 && i < 2) ||
            (kind == 4 && rg_chance(g, 50)))
            v.dim[i] = 1;
    rg_with(g, type, x, rg_const(g, r - skip, v.dim + skip, 0.2f, 0.8f));
}

/* An elementwise operator of two computed values, broadcast to the first. */
static inline void rg_combine(struct rg *g)
{
    static const char *const types[] = { "Add", "Mul", "Sub", "Max", "Mean", "Sum" };
    int x = rg_pick(g, 1, 5), y;
    struct rg_value v;

    if (x < 0)
        return;
    v = g->v[x];
    for (int tries = 0; tries < 30; tries++) {
        bool fits;

        y = (int)rg_int(g, 0, g->n - 1);
        fits = g->v[y].rank <= v.rank;
        for (int i = 1; i <= g->v[y].rank && fits; i++)
            fits = g->v[y].dim[g->v[y].rank - i] == v.dim[v.rank - i] ||
                   g->v[y].dim[g->v[y].rank - i] == 1;
        if (fits) {
            y = rg_chance(g, 50) ? rg_unary(g, "Tanh", y, NOTHING) : y;
            rg_binary(g, types[rg_int(g, 0, 5)], rg_chance(g, 50) ? y : x, x, x);
            return;
        }
    }
}

static inline void rg_cast(struct rg *g)
{
    int x = rg_pick(g, 0, PARE_MAX_RANK), y;

    if (x < 0)
        return;
    y = rg_unary(g, "Cast", x, at_int("to", PARE_F64));
    y = rg_unary(g, "Cast", y, at_int("to", PARE_F32));
    (void)y;
    /* Drop the float64 value, so that no other operator picks it. */
    g->v[g->n - 2] = g->v[g->n - 1];
    g->n--;
}

/* ---- whole graphs --------------------------------------------------------------------------- */

static inline void rg_inputs(struct rg *g)
{
    int nd = rg_chance(g, 70) ? 2 : (int)rg_int(g, 1, 3);
    bool big = rg_chance(g, 10);
    int64_t dim[5] = { rg_int(g, 1, 3) };

    g->limit = big ? 40000 : 4000;
    g->n_in = rg_chance(g, 30) ? 2 : 1;
    for (int i = 0; i < g->n_in; i++) {
        dim[1] = rg_chance(g, 30) ? 16 * rg_int(g, 1, 2) : rg_int(g, 1, 20);
        for (int k = 0; k < nd && i == 0; k++)
            dim[k + 2] = rg_int(g, 1, nd == 3 ? 5 : nd == 1 ? 40 : big ? 30 : 11);
        rg_add(g, build_input(&g->b, PARE_F32, nd + 2, dim), nd + 2, dim);
        g->in[i] = (struct pare_tensor){ .dtype = PARE_F32, .rank = nd + 2 };
        memcpy(g->in[i].dim, dim, sizeof(dim));
    }
}

/* Most values without a consumer are outputs; so are some with one, and sometimes an input
 * or a constant. */
static inline void rg_outputs(struct rg *g)
{
    int n = 0;

    for (int i = g->n - 1; i >= 0; i--) {
        bool end = i >= g->n_in && (g->v[i].uses == 0 ? rg_chance(g, 85) : rg_chance(g, 4));

        if (end || (i == 0 && !n) || (i == 0 && rg_chance(g, 5))) {
            build_output(&g->b, g->v[i].name);
            n++;
        }
    }
    if (rg_chance(g, 5))
        build_output(&g->b, rg_const(g, 2, (int64_t[]){ 2, 3 }, 0, 1));
}

typedef void rg_piece(struct rg *g);

/* A graph that grows by random pieces of the first list, or sometimes of the second. */
static inline void rg_grow(struct rg *g, uint64_t seed, rg_piece *const *piece, int n,
                           rg_piece *const *second, int n_second)
{
    int count;

    memset(g, 0, sizeof(*g));
    pare_rng_init(&g->r, seed);
    g->b.opset = (int)(int64_t[]){ 13, 17, 18 }[rg_int(g, 0, 2)];
    rg_inputs(g);
    count = (int)rg_int(g, 1, 14);
    for (int i = 0; i < count && g->n < RG_VALUES - 24; i++)
        if (n_second && rg_chance(g, 40))
            second[rg_int(g, 0, n_second - 1)](g);
        else
            piece[rg_int(g, 0, n - 1)](g);
    rg_outputs(g);
}

static inline rg_piece *const *rg_pieces(int *n)
{
    static rg_piece *const piece[] = {
        rg_conv,     rg_conv,           rg_conv,        rg_conv,       rg_conv,        rg_residual,
        rg_residual, rg_squeeze_excite, rg_dense_layer, rg_activation, rg_norm,        rg_pool,
        rg_pool,     rg_pad_pool,       rg_reduce,      rg_view,       rg_transpose,   rg_shuffle,
        rg_slice,    rg_split,          rg_concat,      rg_concat,     rg_shape_chain, rg_resize,
        rg_pad,      rg_linear,         rg_matmul,      rg_softmax,    rg_layer_norm,  rg_broadcast,
        rg_combine,  rg_cast,
    };

    *n = (int)(sizeof(piece) / sizeof(*piece));
    return piece;
}

static inline void rg_make(struct rg *g, uint64_t seed)
{
    int n;
    rg_piece *const *piece = rg_pieces(&n);

    rg_grow(g, seed, piece, n, NULL, 0);
}

#endif
