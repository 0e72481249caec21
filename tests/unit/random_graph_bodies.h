/* random_graph_bodies.h - random networks as in random_graph.h, with more pieces: bodies (If, Loop,
 * Scan), sequences, selection by data, GridSample, DFT, and fused operators of com.microsoft. */
#ifndef PARE_TEST_RANDOM_GRAPH_BODIES_H
#define PARE_TEST_RANDOM_GRAPH_BODIES_H

#include "random_graph.h"

/* A body whose value names have a prefix that no other body has. */
static inline struct build rg_body(struct rg *g)
{
    struct build b = { .opset = g->b.opset,
                       .prefix = pare_sprintf(pool, "%s_", build_name(&g->b)) };

    build_put(&b, text(2, b.prefix)); /* its name, which ONNX Runtime requires */
    return b;
}

static inline const char *rg_number(struct build *b, enum pare_dtype t, int64_t v)
{
    bool truth = v != 0;

    return t == PARE_BOOL ? build_const(b, PARE_BOOL, 0, NULL, &truth)
                          : build_const(b, PARE_I64, 0, NULL, &v);
}

/* 0, as a number of rank 0 that the graph computes from x. */
static inline const char *rg_zero(struct rg *g, int x)
{
    const char *flat = build_node(&g->b, "Reshape",
                                  NAMES(rg_name(g, x), build_ints(&g->b, INTS(-1))), NOTHING);
    const char *first = build_node(&g->b, "Gather", NAMES(flat, rg_number(&g->b, PARE_I64, 0)),
                                   NOTHING);

    return build_node(&g->b, "Mul", NAMES(first, build_scalar(&g->b, 0)), NOTHING);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* If: both bodies read the same outer value; the condition is constant or computed. */
static inline void rg_if(struct rg *g)
{
    int x = rg_pick(g, 1, 5);
    bool truth = rg_chance(g, 50);
    struct build then, other;
    const char *c, *name;

    if (x < 0)
        return;
    then = rg_body(g);
    other = rg_body(g);
    name = rg_name(g, x);
    build_output(&then, build_node(&then, "Tanh", NAMES(name), NOTHING));
    build_output(&other,
                 build_node(&other, "Mul", NAMES(name, build_scalar(&other, -0.5f)), NOTHING));
    c = rg_chance(g, 30)
            ? rg_number(&g->b, PARE_BOOL, truth)
            : build_node(&g->b, "Greater",
                         NAMES(rg_zero(g, x), build_scalar(&g->b, truth ? -1 : 1)), NOTHING);
    rg_like(g,
            build_node(&g->b, "If", NAMES(c),
                       CAT(at_graph("then_branch", &then), at_graph("else_branch", &other))),
            x);
}

/* v = (v + x) / 2, count times; all v are stacked. */
static inline void rg_loop(struct rg *g)
{
    int x = rg_pick(g, 1, 4);
    int64_t count = rg_int(g, 1, 3);
    struct build body;
    struct rg_value v;
    const char *carried, *next, *out[2], *in[3];

    if (x < 0 || rg_numel(&g->v[x]) * 3 > g->limit)
        return;
    v = g->v[x];
    body = rg_body(g);
    build_put(&body, msg(11, build_info("i", PARE_I64, 0, NULL)));
    build_put(&body, msg(11, build_info("more", PARE_BOOL, 0, NULL)));
    carried = build_input(&body, PARE_F32, v.rank, v.dim);
    next = build_node(&body, "Add", NAMES(carried, rg_name(g, x)), NOTHING);
    next = build_node(&body, "Mul", NAMES(next, build_scalar(&body, 0.5f)), NOTHING);
    build_output(&body, build_node(&body, "Identity", NAMES("more"), NOTHING));
    build_output(&body, next);
    build_output(&body, build_node(&body, "Tanh", NAMES(next), NOTHING));
    in[0] = rg_number(&g->b, PARE_I64, count);
    in[1] = rg_chance(g, 50) ? rg_number(&g->b, PARE_BOOL, 1) : "";
    in[2] = build_node(&g->b, "Neg", NAMES(rg_name(g, x)), NOTHING);
    build_node_outs(&g->b, "Loop", 3, in, at_graph("body", &body), 2, out);
    rg_add(g, out[0], v.rank, v.dim);
    memmove(v.dim + 1, v.dim, (size_t)v.rank * sizeof(*v.dim));
    v.dim[0] = count;
    rg_add(g, out[1], v.rank + 1, v.dim);
}

/* state = tanh(state + slice) over the first axis, forward or backward; all states are stacked. */
static inline void rg_scan(struct rg *g)
{
    int x = rg_pick(g, 2, 5);
    struct build body;
    struct rg_value v;
    const char *state, *slice, *next, *out[2], *in[2];
    struct bin attrs;

    if (x < 0)
        return;
    v = g->v[x];
    body = rg_body(g);
    state = build_input(&body, PARE_F32, v.rank - 1, v.dim + 1);
    slice = build_input(&body, PARE_F32, v.rank - 1, v.dim + 1);
    next = build_node(&body, "Tanh", NAMES(build_node(&body, "Add", NAMES(state, slice), NOTHING)),
                      NOTHING);
    build_output(&body, next);
    build_output(&body, build_node(&body, "Identity", NAMES(next), NOTHING));
    in[0] = rg_const(g, v.rank - 1, v.dim + 1, 0, 1);
    in[1] = rg_name(g, x);
    attrs = CAT(at_graph("body", &body), at_int("num_scan_inputs", 1));
    if (rg_chance(g, 40))
        attrs = CAT(attrs, at_ints("scan_input_directions", INTS(1)));
    if (rg_chance(g, 40))
        attrs = CAT(attrs, at_ints("scan_output_directions", INTS(1)));
    build_node_outs(&g->b, "Scan", 2, in, attrs, 2, out);
    rg_add(g, out[0], v.rank - 1, v.dim + 1);
    rg_add(g, out[1], v.rank, v.dim);
}

/* ---- sequences ------------------------------------------------------------------------------- */

/* Splits a value into a sequence, then takes one element or joins all of them. */
static inline void rg_split_sequence(struct rg *g)
{
    int x = rg_pick(g, 1, 4), axis;
    int64_t one = 1, at;
    const char *s;
    struct rg_value v;

    if (x < 0)
        return;
    v = g->v[x];
    axis = (int)rg_int(g, 0, v.rank - 1);
    s = build_node(&g->b, "SplitToSequence",
                   NAMES(rg_name(g, x), build_const(&g->b, PARE_I64, 0, NULL, &one)),
                   at_int("axis", axis));
    if (rg_chance(g, 50)) {
        rg_add(g, build_node(&g->b, "ConcatFromSequence", NAMES(s), at_int("axis", axis)), v.rank,
               v.dim);
        return;
    }
    at = rg_int(g, -v.dim[axis], v.dim[axis] - 1);
    v.dim[axis] = 1;
    rg_add(g, build_node(&g->b, "SequenceAt", NAMES(s, rg_number(&g->b, PARE_I64, at)), NOTHING),
           v.rank, v.dim);
}

/* Makes a sequence, may insert or erase an element, and stacks all elements. */
static inline void rg_make_sequence(struct rg *g)
{
    int x = rg_pick(g, 1, 4);
    const char *s, *name;
    struct rg_value v;
    int64_t n = 2;

    if (x < 0 || 3 * rg_numel(&g->v[x]) > g->limit)
        return;
    v = g->v[x];
    name = rg_name(g, x);
    s = build_node(&g->b, "SequenceConstruct",
                   NAMES(name, build_node(&g->b, "Tanh", NAMES(name), NOTHING)), NOTHING);
    if (rg_chance(g, 60)) {
        s = build_node(&g->b, "SequenceInsert",
                       NAMES(s, build_node(&g->b, "Neg", NAMES(name), NOTHING),
                             rg_number(&g->b, PARE_I64, rg_int(g, -2, 2))),
                       NOTHING);
        n++;
    }
    if (rg_chance(g, 40)) {
        s = build_node(&g->b, "SequenceErase",
                       NAMES(s, rg_number(&g->b, PARE_I64, rg_int(g, -n, n - 1))), NOTHING);
        n--;
    }
    memmove(v.dim + 1, v.dim, (size_t)v.rank * sizeof(*v.dim));
    v.dim[0] = n;
    rg_add(g,
           build_node(&g->b, "ConcatFromSequence", NAMES(s),
                      CAT(at_int("axis", 0), at_int("new_axis", 1))),
           v.rank + 1, v.dim);
}

/* ---- selection ------------------------------------------------------------------------------- */

/* The slices that a constant list of Booleans selects. */
static inline void rg_compress(struct rg *g)
{
    int x = rg_pick(g, 1, 5), axis;
    bool keep[64];
    int64_t n = 0;
    struct rg_value v;
    const char *y;

    if (x < 0)
        return;
    v = g->v[x];
    axis = (int)rg_int(g, 0, v.rank - 1);
    if (v.dim[axis] > 64)
        return;
    for (int64_t i = 0; i < v.dim[axis]; i++)
        n += keep[i] = !i || rg_chance(g, 60);
    y = build_node(&g->b, "Compress",
                   NAMES(rg_name(g, x), build_const(&g->b, PARE_BOOL, 1, &v.dim[axis], keep)),
                   at_int("axis", axis));
    v.dim[axis] = n;
    rg_add(g, y, v.rank, v.dim);
}

/* The different elements of a list that the graph computes. */
static inline void rg_unique(struct rg *g)
{
    int x = rg_pick(g, 1, 5);
    float list[12];
    bool seen[5] = { 0 };
    int64_t n = rg_int(g, 1, 12), count = 0;
    const char *y;

    if (x < 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = rg_int(g, 0, 4);

        list[i] = (float)k / 4;
        count += !seen[k];
        seen[k] = true;
    }
    y = build_node(&g->b, "Add", NAMES(build_floats(&g->b, 1, &n, list), rg_zero(g, x)), NOTHING);
    rg_add(g, build_node(&g->b, "Unique", NAMES(y), at_int("sorted", rg_chance(g, 50))), 1, &count);
}

/* Reverses the first elements along an axis; a list gives their number for each item. */
static inline void rg_reverse_sequence(struct rg *g)
{
    int x = rg_pick(g, 2, 5), batch = (int)rg_int(g, 0, 1);
    int64_t lens[64];
    struct rg_value v;

    if (x < 0 || g->v[x].dim[batch] > 64)
        return;
    v = g->v[x];
    for (int64_t i = 0; i < v.dim[batch]; i++)
        lens[i] = rg_int(g, 1, v.dim[!batch]);
    rg_like(g,
            build_node(&g->b, "ReverseSequence",
                       NAMES(rg_name(g, x), build_ints(&g->b, (int)v.dim[batch], lens)),
                       CAT(at_int("batch_axis", batch), at_int("time_axis", !batch))),
            x);
}

/* ---- signals and positions ------------------------------------------------------------------- */

static inline void rg_grid_sample(struct rg *g)
{
    static const char *const mode[] = { "bilinear", "nearest", "bicubic" };
    static const char *const pad[] = { "zeros", "border", "reflection" };
    int x = rg_pick(g, 4, 4);
    int64_t H = rg_int(g, 1, 6), W = rg_int(g, 1, 6);
    struct rg_value v;

    if (x < 0 || g->b.opset < 16)
        return;
    v = g->v[x];
    rg_add(g,
           build_node(&g->b, "GridSample",
                      NAMES(rg_name(g, x),
                            rg_const(g, 4, (int64_t[]){ v.dim[0], H, W, 2 }, 0, 1.3f)),
                      CAT(at_text("mode", mode[rg_int(g, 0, 2)]),
                          at_text("padding_mode", pad[rg_int(g, 0, 2)]),
                          at_int("align_corners", rg_chance(g, 50)))),
           4, (int64_t[]){ v.dim[0], v.dim[1], H, W });
}

static inline void rg_dft(struct rg *g)
{
    int x = rg_pick(g, 2, 3);
    bool onesided = rg_chance(g, 50);
    struct rg_value v;
    int64_t n;
    const char *y;

    if (x < 0 || g->b.opset < 17 || 2 * rg_numel(&g->v[x]) > g->limit)
        return;
    v = g->v[x];
    n = rg_numel(&v) / v.dim[0];
    y = build_node(&g->b, "Reshape", NAMES(rg_name(g, x), build_ints(&g->b, INTS(v.dim[0], n, 1))),
                   NOTHING);
    y = build_node(&g->b, "DFT", NAMES(y), CAT(at_int("axis", 1), at_int("onesided", onesided)));
    y = build_node(&g->b, "Mul", NAMES(y, build_scalar(&g->b, 1 / (float)n)), NOTHING);
    rg_add(g, y, 3, (int64_t[]){ v.dim[0], onesided ? n / 2 + 1 : n, 2 });
}

/* ---- com.microsoft --------------------------------------------------------------------------- */

static inline const char *rg_ms(struct rg *g, const char *type, int n, const char *const *in,
                                struct bin attrs)
{
    g->b.microsoft = true;
    return build_node(&g->b, type, n, in, CAT(attrs, text(7, "com.microsoft")));
}

static inline void rg_fused_gelu(struct rg *g)
{
    static const char *const type[] = { "BiasGelu", "FastGelu", "QuickGelu", "Gelu" };
    int x = rg_pick(g, 2, 4), kind = (int)rg_int(g, 0, 3);
    const char *in[2];
    int64_t L;

    if (x < 0)
        return;
    L = g->v[x].dim[g->v[x].rank - 1];
    in[0] = rg_name(g, x);
    in[1] = kind < 2 ? rg_const(g, 1, &L, 0, 1) : NULL;
    rg_like(g,
            rg_ms(g, type[kind], kind < 2 ? 2 : 1, in,
                  kind == 2 && rg_chance(g, 50) ? at_float("alpha", 1.2f) : NOTHING),
            x);
}

/* alpha A B, where A and B may be transposed. */
static inline void rg_fused_matmul(struct rg *g)
{
    int x = rg_pick(g, 2, 4), r;
    bool ta = rg_chance(g, 30), tb = rg_chance(g, 50);
    int64_t K, N = rg_int(g, 1, 20);
    struct rg_value v;
    const char *in[2];

    if (x < 0)
        return;
    v = g->v[x];
    r = v.rank;
    K = v.dim[ta ? r - 2 : r - 1];
    in[0] = rg_name(g, x);
    in[1] = rg_const(g, 2, tb ? (int64_t[]){ N, K } : (int64_t[]){ K, N }, 0,
                     1.5f / sqrtf((float)K));
    v.dim[r - 2] = ta ? v.dim[r - 1] : v.dim[r - 2];
    v.dim[r - 1] = N;
    if (rg_numel(&v) <= 2 * g->limit)
        rg_add(g,
               rg_ms(g, "FusedMatMul", 2, in,
                     CAT(at_int("transA", ta), at_int("transB", tb), at_float("alpha", 0.7f))),
               r, v.dim);
}

static inline void rg_skip_norm(struct rg *g)
{
    int x = rg_pick(g, 3, 3);
    int64_t L;
    const char *in[5];

    if (x < 0)
        return;
    L = g->v[x].dim[2];
    in[0] = rg_name(g, x);
    in[1] = rg_const(g, 3, g->v[x].dim, 0, 1);
    in[2] = rg_const(g, 1, &L, 1, 0.4f);
    in[3] = rg_const(g, 1, &L, 0, 0.4f);
    in[4] = rg_const(g, 1, &L, 0, 0.4f);
    rg_like(g,
            rg_ms(g, "SkipLayerNormalization", (int)rg_int(g, 3, 5), in,
                  at_float("epsilon", 1e-2f)),
            x);
}

/* ---- whole graphs --------------------------------------------------------------------------- */

/* As rg_make(), with pieces of both headers. */
static inline void rg_make_with_bodies(struct rg *g, uint64_t seed)
{
    static rg_piece *const more[] = {
        rg_if,
        rg_loop,
        rg_scan,
        rg_split_sequence,
        rg_make_sequence,
        rg_compress,
        rg_unique,
        rg_reverse_sequence,
        rg_grid_sample,
        rg_dft,
        rg_fused_gelu,
        rg_fused_matmul,
        rg_skip_norm,
    };
    int n;
    rg_piece *const *piece = rg_pieces(&n);

    rg_grow(g, seed, piece, n, more, (int)(sizeof(more) / sizeof(*more)));
}

#endif
