/* free_graph_more.h - second part of free_graph.h: sequences, joins, and whole graphs. */
#ifndef PARE_TEST_FREE_GRAPH_MORE_H
#define PARE_TEST_FREE_GRAPH_MORE_H

#include "free_graph.h"

/* ---- sequences ------------------------------------------------------------------------------- */

/* x W + b from I to O channels.  With `heads`, the columns of the heads in `dead` are 0. */
static inline const char *fg_linear(struct fg *g, const char *x, int64_t I, int64_t O,
                                    int64_t heads, unsigned dead)
{
    struct pare_tensor w = build_tensor(PARE_F32, 2, (int64_t[]){ I, O });
    struct pare_tensor b = build_tensor(PARE_F32, 1, &O);
    const char *y;

    for (int64_t i = 0; i < I * O; i++)
        pare_f32_mut(&w)[i] = 1.5f / sqrtf((float)I) * (float)(2 * pare_rng_uniform(&g->r) - 1);
    for (int64_t i = 0; i < O; i++)
        pare_f32_mut(&b)[i] = (float)(pare_rng_uniform(&g->r) - 0.5);
    for (int64_t k = 0; heads && k < O; k++)
        if (dead >> (k / (O / heads)) & 1) {
            pare_f32_mut(&b)[k] = 0;
            for (int64_t i = 0; i < I; i++)
                pare_f32_mut(&w)[i * O + k] = 0;
        }
    y = fg_node(g, "MatMul", x, build_floats(&g->b, 2, w.dim, pare_f32(&w)), NOTHING);
    if (heads || fg_chance(g, 70))
        y = fg_node(g, "Add", y, build_floats(&g->b, 1, &O, pare_f32(&b)), NOTHING);
    return y;
}

/* A table (FG_TABLE, ...) sliced to the length of x, by Slice or by Gather with a Range. */
static inline const char *fg_slice_table(struct fg *g, const char *table, const char *x, int axis)
{
    int64_t zero = 0, step = 1;
    const char *length = fg_dim(g, x, 1), *range;

    if (fg_chance(g, 70))
        return build_node(&g->b, "Slice",
                          NAMES(table, build_ints(&g->b, INTS(0)), length,
                                build_ints(&g->b, INTS(axis))),
                          NOTHING);
    length = fg_node(g, "Squeeze", length, build_ints(&g->b, INTS(0)), NOTHING);
    range = build_node(&g->b, "Range",
                       NAMES(build_const(&g->b, PARE_I64, 0, NULL, &zero), length,
                             build_const(&g->b, PARE_I64, 0, NULL, &step)),
                       NOTHING);
    return fg_node(g, "Gather", table, range, at_int("axis", axis));
}

/* Rotary position embeddings of (B, heads, T, d): x cos + rotate(x) sin. */
static inline const char *fg_rotary(struct fg *g, const char *x, const char *of, int64_t d)
{
    struct pare_tensor t[2];
    const char *half[2], *table[2], *rotated;
    int64_t from[2] = { 0, d / 2 }, to[2] = { d / 2, d };

    for (int k = 0; k < 2; k++) {
        t[k] = build_tensor(PARE_F32, 2, (int64_t[]){ FG_TABLE, d });
        for (int64_t i = 0; i < FG_TABLE * d; i++) {
            double angle = (double)(i / d) / pow(50, (double)(i % (d / 2)) * 2 / (double)d);

            pare_f32_mut(&t[k])[i] = (float)(k ? sin(angle) : cos(angle));
        }
        table[k] = fg_slice_table(g, build_floats(&g->b, 2, t[k].dim, pare_f32(&t[k])), of, 0);
        half[k] = build_node(&g->b, "Slice",
                             NAMES(x, build_ints(&g->b, 1, &from[k]), build_ints(&g->b, 1, &to[k]),
                                   build_ints(&g->b, INTS(3))),
                             NOTHING);
    }
    rotated = build_node(&g->b, "Concat", NAMES(fg_node(g, "Neg", half[1], NULL, NOTHING), half[0]),
                         at_int("axis", 3));
    return fg_node(g, "Add", fg_node(g, "Mul", x, table[0], NOTHING),
                   fg_node(g, "Mul", rotated, table[1], NOTHING), NOTHING);
}

/* (B, T, heads d) as (B, heads, T, d). */
static inline const char *fg_heads(struct fg *g, const char *y, const char *x, int64_t heads,
                                   int64_t d)
{
    switch (fg_int(g, 0, 2)) {
    case 0: y = fg_node(g, "Reshape", y, build_ints(&g->b, INTS(0, 0, heads, d)), NOTHING); break;
    case 1: y = fg_reshape(g, y, x, INTS(FG_SIZE(0), -1, heads, d)); break;
    default: y = fg_reshape(g, y, x, INTS(FG_SIZE(0), FG_SIZE(1), heads, d)); break;
    }
    return fg_transpose(g, y, INTS(0, 2, 1, 3));
}

/* Scores, an optional causal mask from a table, softmax, and the sum of values. */
static inline const char *fg_scores(struct fg *g, const char **part, const char *of, int64_t d,
                                    bool mask)
{
    const char *s = fg_node(g, "MatMul", part[0], fg_transpose(g, part[1], INTS(0, 1, 3, 2)),
                            NOTHING);

    s = fg_node(g, "Mul", s, build_scalar(&g->b, 1 / sqrtf((float)d)), NOTHING);
    if (mask) {
        struct pare_tensor t = build_tensor(PARE_F32, 2, (int64_t[]){ FG_TABLE, FG_TABLE });
        const char *table, *length = fg_dim(g, of, 1);

        for (int64_t i = 0; i < FG_TABLE * FG_TABLE; i++)
            pare_f32_mut(&t)[i] = i % FG_TABLE > i / FG_TABLE ? -1e4f : 0;
        table = build_floats(&g->b, 2, t.dim, pare_f32(&t));
        table = build_node(&g->b, "Slice",
                           NAMES(table, build_ints(&g->b, INTS(0, 0)),
                                 build_node(&g->b, "Concat", NAMES(length, length),
                                            at_int("axis", 0)),
                                 build_ints(&g->b, INTS(0, 1))),
                           NOTHING);
        s = fg_node(g, "Add", s, table, NOTHING);
    }
    return fg_node(g, "MatMul", fg_node(g, "Softmax", s, NULL, at_int("axis", -1)), part[2],
                   NOTHING);
}

static inline int fg_attend(struct fg *g, int x)
{
    struct fg_value v = g->v[x];
    int64_t heads = fg_int(g, 1, 4), d = 2 * fg_int(g, 1, 3), E = heads * d;
    bool rotary = v.fits_table && fg_chance(g, 50), mask = v.fits_table && fg_chance(g, 40);
    const char *name = fg_use(g, x), *part[3], *y;
    unsigned dead = fg_chance(g, 60) ? (unsigned)fg_int(g, 0, (1 << heads) - 2) : 0;

    for (int k = 0; k < 3; k++) {
        part[k] = fg_heads(g, fg_linear(g, name, v.C, E, heads, dead), name, heads, d);
        if (k < 2 && rotary)
            part[k] = fg_rotary(g, part[k], name, d);
    }
    y = fg_transpose(g, fg_scores(g, part, name, d, mask), INTS(0, 2, 1, 3));
    switch (fg_int(g, 0, 2)) {
    case 0: y = fg_node(g, "Reshape", y, build_ints(&g->b, INTS(0, 0, E)), NOTHING); break;
    case 1: y = fg_reshape(g, y, name, INTS(FG_SIZE(0), FG_SIZE(1), E)); break;
    default: y = fg_reshape(g, y, name, INTS(FG_SIZE(0), FG_SIZE(1), -1)); break;
    }
    y = fg_linear(g, y, E, v.C, 0, 0);
    return fg_add(g, fg_node(g, "Add", y, fg_use(g, x), NOTHING), v, v.C);
}

static inline void fg_attention(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);

    if (x >= 0)
        fg_attend(g, x);
}

/* A feed-forward block with a residual connection; some are gated. */
static inline void fg_feed_forward(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    int64_t C, M = 2 * fg_int(g, 1, 8);
    const char *y, *half[2];

    if (x < 0)
        return;
    C = g->v[x].C;
    if (fg_chance(g, 40)) {
        const char *in[2] = { fg_linear(g, fg_use(g, x), C, 2 * M, 0, 0),
                              build_ints(&g->b, INTS(M, M)) };

        build_node_outs(&g->b, "Split", 2, in, at_int("axis", -1), 2, half);
        y = fg_node(g, "Mul", fg_act(g, half[0]), half[1], NOTHING);
    } else {
        y = fg_act(g, fg_linear(g, fg_use(g, x), C, M, 0, 0));
    }
    y = fg_linear(g, y, M, C, 0, 0);
    fg_add(g, fg_node(g, "Add", fg_use(g, x), y, NOTHING), g->v[x], C);
}

static inline void fg_project(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    int64_t C = 2 * fg_int(g, 1, 8);

    if (x >= 0)
        fg_add(g, fg_act(g, fg_linear(g, fg_use(g, x), g->v[x].C, C, 0, 0)), g->v[x], C);
}

static inline void fg_layer_norm(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);

    if (x >= 0)
        fg_add(g,
               build_node(&g->b, "LayerNormalization",
                          NAMES(fg_use(g, x), FG_CONST(g, 1, 0.4f, g->v[x].C),
                                FG_CONST(g, 0, 0.4f, g->v[x].C)),
                          at_float("epsilon", 1e-2f)),
               g->v[x], g->v[x].C);
}

/* Learned positions: a table sliced to the length, (T, C) or (1, T, C). */
static inline void fg_positions(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE), lead = fg_chance(g, 50);
    const char *t, *name;

    if (x < 0 || !g->v[x].fits_table)
        return;
    name = fg_use(g, x);
    t = lead ? FG_CONST(g, 0, 0.5f, 1, FG_TABLE, g->v[x].C)
             : FG_CONST(g, 0, 0.5f, FG_TABLE, g->v[x].C);
    fg_add(g, fg_node(g, "Add", name, fg_slice_table(g, t, name, lead), NOTHING), g->v[x],
           g->v[x].C);
}

/* A convolution along the sequence, (B, C, T) inside. */
static inline void fg_conv1d(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    int64_t C = 2 * fg_int(g, 1, 8), stride = fg_chance(g, 40) ? 2 : 1;
    struct fg_value v;
    const char *y;

    if (x < 0 || (stride > 1 && g->v[x].scale >= 4))
        return;
    v = g->v[x];
    y = fg_transpose(g, fg_use(g, x), INTS(0, 2, 1));
    y = build_node(&g->b, "Conv",
                   NAMES(y, FG_CONST(g, 0, 1 / sqrtf((float)v.C), C, v.C, 3),
                         FG_CONST(g, 0, 0.5f, C)),
                   CAT(at_ints("pads", INTS(1, 1)), at_ints("strides", INTS(stride))));
    if (stride > 1) {
        v.grid = g->grids++;
        v.scale *= 2;
    }
    fg_add(g, fg_transpose(g, fg_act(g, y), INTS(0, 2, 1)), v, C);
}

/* ---- joins -------------------------------------------------------------------------------- */

/* The sum, product or concatenation of two values with the same axes. */
static inline void fg_join(struct fg *g)
{
    int x = fg_pick(g, g->kind), y = -1;
    bool concat = fg_chance(g, 50);

    for (int i = 0; x >= 0 && i < g->n && y < 0; i++)
        if (i != x && g->v[i].kind == g->v[x].kind && g->v[i].grid == g->v[x].grid &&
            (concat || g->v[i].C == g->v[x].C) && fg_chance(g, 60))
            y = i;
    if (y < 0 || g->v[x].C + g->v[y].C > 40)
        return;
    if (concat)
        fg_add(g,
               build_node(&g->b, "Concat", NAMES(fg_use(g, x), fg_use(g, y)),
                          at_int("axis", g->kind == FG_IMAGE ? 1 : 2)),
               g->v[x], g->v[x].C + g->v[y].C);
    else
        fg_add(g, fg_node(g, fg_chance(g, 70) ? "Add" : "Mul", fg_use(g, x), fg_use(g, y), NOTHING),
               g->v[x], g->v[x].C);
}

/* The mean over all positions, two layers, and the result added to all positions. */
static inline void fg_context(struct fg *g)
{
    int x = fg_pick(g, g->kind);
    bool image = g->kind == FG_IMAGE;
    int64_t C, M = fg_int(g, 2, 9);
    const char *s, *name;

    if (x < 0)
        return;
    C = g->v[x].C;
    name = fg_use(g, x);
    s = fg_node(g, "ReduceMean", name, NULL,
                CAT(image ? at_ints("axes", INTS(2, 3)) : at_ints("axes", INTS(1)),
                    at_int("keepdims", 0)));
    s = fg_linear(g, fg_act(g, fg_linear(g, s, C, M, 0, 0)), M, C, 0, 0);
    if (!image)
        s = fg_node(g, "Unsqueeze", s, build_ints(&g->b, INTS(1)), NOTHING);
    else if (fg_chance(g, 50))
        s = fg_node(g, "Reshape", s, build_ints(&g->b, INTS(-1, C, 1, 1)), NOTHING);
    else
        s = fg_reshape(g, s, name, INTS(FG_SIZE(0), C, 1, 1));
    fg_add(g, fg_node(g, "Add", name, s, NOTHING), g->v[x], C);
}

#include "free_graph_ops.h"

/* ---- whole graphs ------------------------------------------------------------------------- */

static inline void fg_input(struct fg *g, int64_t C)
{
    static const char *const names[2][4] = { { "batch", "", "height", "width" },
                                             { "batch", "length", "", "" } };
    bool image = g->kind == FG_IMAGE;
    int rank = image ? 4 : 3;
    struct bin shape = NOTHING;
    const char *name = build_name(&g->b);

    for (int i = 0; i < rank; i++) {
        bool channels = i == (image ? 1 : 2);

        g->fixed[i] = channels ? C : fg_chance(g, 80) ? -1 : i == 0 ? fg_int(g, 1, 2) : 24;
        shape = CAT(shape,
                    msg(1, g->fixed[i] < 0 ? text(2, names[!image][i]) : num(1, g->fixed[i])));
    }
    build_put(&g->b,
              msg(11, CAT(text(1, name), msg(2, msg(1, CAT(num(1, PARE_F32), msg(2, shape)))))));
    fg_add(g, name,
           (struct fg_value){ .kind = g->kind, .grid = g->grids++, .scale = 1, .fits_table = true },
           C);
    if (image || fg_chance(g, 50))
        return;
    g->ids = build_name(&g->b); /* has the batch and length of the first input */
    shape = NOTHING;
    for (int i = 0; i < 2; i++)
        shape = CAT(shape, msg(1, g->fixed[i] < 0 ? text(2, names[1][i]) : num(1, g->fixed[i])));
    build_put(&g->b,
              msg(11, CAT(text(1, g->ids), msg(2, msg(1, CAT(num(1, PARE_I64), msg(2, shape)))))));
}

/* Values without a consumer become outputs, each after one more layer. */
static inline void fg_outputs(struct fg *g)
{
    int n = g->n;

    for (int i = 0; i < n; i++) {
        struct fg_value v = g->v[i];
        const char *y;

        if (v.uses || g->n > FG_VALUES - 2)
            continue;
        if (v.kind == FG_IMAGE)
            y = fg_node(g, "Conv", fg_use(g, i), FG_CONST(g, 0, 1, 3, v.C, 1, 1), NOTHING);
        else
            y = fg_linear(g, fg_use(g, i), v.C, 3, 0, 0);
        build_output(&g->b, y);
    }
}

static inline void fg_make(struct fg *g, uint64_t seed)
{
    static void (*const image[])(struct fg *) = {
        fg_conv,    fg_conv,     fg_conv,     fg_residual, fg_residual,   fg_pool,     fg_squeeze,
        fg_up,      fg_up,       fg_double,   fg_double,   fg_group_norm, fg_spread,   fg_tokens,
        fg_join,    fg_context,  fg_position, fg_odd_conv, fg_split,      fg_gather,   fg_shuffle,
        fg_flatten, fg_convnext, fg_odd_conv, fg_where,    fg_split,      fg_residual,
    };
    static void (*const sequence[])(struct fg *) = {
        fg_attention, fg_attention, fg_feed_forward,     fg_feed_forward,
        fg_project,   fg_project,   fg_layer_norm,       fg_positions,
        fg_conv1d,    fg_join,      fg_packed_attention, fg_grouped_attention,
        fg_context,   fg_split,     fg_gather,           fg_written_norm,
        fg_recurrent, fg_embed,     fg_class_token,      fg_one_position,
        fg_where,     fg_project,   fg_cached_attention,
    };
    int count;

    memset(g, 0, sizeof(*g));
    pare_rng_init(&g->r, seed);
    g->b.opset = 17;
    g->kind = fg_chance(g, 50) ? FG_IMAGE : FG_SEQUENCE;
    fg_input(g, 2 * fg_int(g, 1, 4));
    count = (int)fg_int(g, 2, 8);
    for (int i = 0; i < count && g->n < FG_VALUES - 20 && g->b.n < BUILD_PARTS - 200; i++)
        if (g->kind == FG_IMAGE)
            image[fg_int(g, 0, (int)(sizeof(image) / sizeof(*image)) - 1)](g);
        else
            sequence[fg_int(g, 0, (int)(sizeof(sequence) / sizeof(*sequence)) - 1)](g);
    if (g->n == 1)
        (g->kind == FG_IMAGE ? fg_conv : fg_project)(g);
    fg_outputs(g);
}

#endif
