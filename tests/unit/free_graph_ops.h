/* free_graph_ops.h - third part of free_graph.h: channel shuffles, gates, Expand, Where, Pad, Tile,
 * recurrent layers, embeddings, norms in single operators. */
#ifndef PARE_TEST_FREE_GRAPH_OPS_H
#define PARE_TEST_FREE_GRAPH_OPS_H

#include "free_graph.h"

/* Elements from..to of an axis. */
static inline const char *fg_part(struct fg *g, const char *x, int64_t axis, int64_t from,
                                  int64_t to)
{
    return build_node(&g->b, "Slice",
                      NAMES(x, build_ints(&g->b, 1, &from), build_ints(&g->b, 1, &to),
                            build_ints(&g->b, 1, &axis)),
                      NOTHING);
}

static inline int64_t fg_axis(const struct fg_value *v)
{
    return v->kind == FG_IMAGE ? 1 : 2;
}

/* A divisor of n, at most `most`. */
static inline int64_t fg_divisor(struct fg *g, int64_t n, int64_t most)
{
    int64_t d = fg_int(g, 1, most);

    while (n % d)
        d--;
    return d;
}

/* The sizes of x as a shape to expand to, with C channels. */
static inline const char *fg_shape_of(struct fg *g, const struct fg_value *v, int64_t C)
{
    if (fg_chance(g, 40) && C == v->C)
        return fg_node(g, "Shape", v->name, NULL, NOTHING);
    if (v->kind == FG_IMAGE)
        return build_node(&g->b, "Concat",
                          NAMES(fg_dim(g, v->name, 0), fg_number(g, C), fg_dim(g, v->name, 2),
                                fg_dim(g, v->name, 3)),
                          at_int("axis", 0));
    return build_node(&g->b, "Concat",
                      NAMES(fg_dim(g, v->name, 0), fg_dim(g, v->name, 1), fg_number(g, C)),
                      at_int("axis", 0));
}

/* ---- channels -------------------------------------------------------------------------------- */

/* The channels in two or three parts, one of them changed, joined in another order. */
static inline void fg_split(struct fg *g)
{
    int x = fg_pick(g, g->kind);
    const char *part[3] = { NULL }, *name;
    int64_t axis, at[4] = { 0 }, size[3];
    int n = (int)fg_int(g, 2, 3);

    if (x < 0 || g->v[x].C < n)
        return;
    axis = fg_axis(&g->v[x]);
    name = fg_use(g, x);
    for (int i = 1; i <= n; i++)
        at[i] = i == n ? g->v[x].C : fg_int(g, at[i - 1] + 1, g->v[x].C - n + i);
    for (int i = 0; i < n; i++) {
        size[i] = at[i + 1] - at[i];
        part[i] = name;
    }
    if (fg_chance(g, 50)) {
        const char *in[2] = { name, build_ints(&g->b, n, size) };

        build_node_outs(&g->b, "Split", 2, in, at_int("axis", axis), n, part);
    } else {
        for (int i = 0; i < n; i++)
            part[i] = fg_part(g, name, axis, at[i], at[i + 1]);
    }
    part[0] = fg_act(g, part[0]);
    if (fg_chance(g, 30)) { /* one part only */
        fg_add(g, part[n - 1], g->v[x], size[n - 1]);
        return;
    }
    if (fg_chance(g, 50)) {
        const char *first = part[0];

        part[0] = part[n - 1];
        part[n - 1] = first;
    }
    fg_add(g, build_node(&g->b, "Concat", n, part, at_int("axis", axis)), g->v[x], g->v[x].C);
}

/* Channels chosen by constant indices: a permutation, or some of them. */
static inline void fg_gather(struct fg *g)
{
    int x = fg_pick(g, g->kind);
    int64_t index[40], C, n;

    if (x < 0 || g->v[x].C > 40)
        return;
    C = g->v[x].C;
    n = fg_chance(g, 60) ? C : fg_int(g, 1, C);
    for (int64_t i = 0; i < C; i++)
        index[i] = i;
    for (int64_t i = C - 1; i > 0; i--) {
        int64_t k = fg_int(g, 0, i), t = index[i];

        index[i] = index[k];
        index[k] = t;
    }
    fg_add(g,
           fg_node(g, "Gather", fg_use(g, x), build_ints(&g->b, (int)n, index),
                   at_int("axis", fg_axis(&g->v[x]))),
           g->v[x], n);
}

/* ShuffleNet's shuffle: (B, G, C / G, H, W), transposed, (B, C, H, W). */
static inline void fg_shuffle(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    int64_t C, G;
    const char *name, *y;

    if (x < 0)
        return;
    C = g->v[x].C;
    G = fg_divisor(g, C, 4);
    name = fg_use(g, x);
    y = fg_reshape(g, name, name, INTS(FG_SIZE(0), G, C / G, FG_SIZE(2), FG_SIZE(3)));
    y = fg_transpose(g, y, INTS(0, 2, 1, 3, 4));
    y = fg_chance(g, 30) ? fg_reshape(g, y, name, INTS(FG_SIZE(0), -1, FG_SIZE(2), FG_SIZE(3)))
        : fg_chance(g, 50)
            ? fg_reshape(g, y, name, INTS(FG_SIZE(0), C, FG_SIZE(2), FG_SIZE(3)))
            : fg_node(g, "Reshape", y, fg_node(g, "Shape", name, NULL, NOTHING), NOTHING);
    fg_add(g, y, g->v[x], C);
}

/* ---- images -------------------------------------------------------------------------------- */

/* Twice the size: ConvTranspose, Resize by a factor, DepthToSpace. */
static inline void fg_double(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    struct fg_value v;
    int64_t C = fg_int(g, 2, 12), k = fg_chance(g, 50) ? 2 : 4, group;
    const char *y;

    if (x < 0 || g->v[x].scale < 2)
        return;
    v = g->v[x];
    group = fg_chance(g, 20) && v.C % 2 == 0 ? 2 : 1;
    C *= group;
    if (fg_chance(g, 25) && v.C % 4 == 0) {
        C = v.C / 4;
        y = fg_node(g, "DepthToSpace", fg_use(g, x), NULL,
                    CAT(at_int("blocksize", 2), at_text("mode", fg_chance(g, 50) ? "CRD" : "DCR")));
    } else if (fg_chance(g, 25)) {
        const char *factors = build_floats(&g->b, 1, (int64_t[]){ 4 }, (float[]){ 1, 1, 2, 2 });

        C = v.C;
        y = build_node(&g->b, "Resize", NAMES(fg_use(g, x), "", factors),
                       CAT(at_text("mode", "nearest"),
                           at_text("coordinate_transformation_mode", "asymmetric"),
                           at_text("nearest_mode", "floor")));
    } else {
        y = build_node(&g->b, "ConvTranspose",
                       NAMES(fg_use(g, x),
                             FG_CONST(g, 0, 1.5f / sqrtf((float)v.C), v.C, C / group, k, k),
                             FG_CONST(g, 0, 0.5f, C)),
                       CAT(at_ints("strides", INTS(2, 2)), at_int("group", group),
                           at_ints("pads", INTS(k / 2 - 1, k / 2 - 1, k / 2 - 1, k / 2 - 1))));
    }
    v.grid = g->grids++;
    v.scale /= 2;
    fg_add(g, y, v, C);
}

/* A grouped or dilated convolution, or one after Pad, with uneven padding. */
static inline void fg_odd_conv(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    int64_t C, G, d = fg_int(g, 1, 2);
    struct bin attrs;
    const char *in;

    if (x < 0)
        return;
    G = fg_divisor(g, g->v[x].C, 4);
    C = G * fg_int(g, 1, 5);
    in = fg_use(g, x);
    attrs = CAT(at_ints("dilations", INTS(d, d)), at_int("group", G));
    if (fg_chance(g, 40)) {
        in = build_node(&g->b, "Pad",
                        NAMES(in, build_ints(&g->b, INTS(0, 0, d, 2 * d, 0, 0, d, 0)),
                              build_scalar(&g->b, fg_chance(g, 50) ? 0 : 0.3f)),
                        at_text("mode", fg_chance(g, 60) ? "constant" : "edge"));
    } else {
        attrs = CAT(attrs, at_ints("pads", INTS(0, d, 2 * d, d)));
    }
    in = build_node(&g->b, "Conv",
                    NAMES(in, FG_CONST(g, 0, 0.5f, C, g->v[x].C / G, 3, 3),
                          FG_CONST(g, 0, 0.5f, C)),
                    attrs);
    fg_add(g, fg_act(g, in), g->v[x], C);
}

/* A vector of channels, expanded or tiled to all positions, and joined. */
static inline void fg_spread(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    struct fg_value *v;
    const char *s, *name;
    int64_t M = fg_int(g, 2, 8);

    if (x < 0 || g->v[x].C + M > 40)
        return;
    v = &g->v[x];
    name = fg_use(g, x);
    s = fg_node(g, "GlobalAveragePool", name, NULL, NOTHING);
    s = fg_act(g, build_node(&g->b, "Conv",
                             NAMES(s, FG_CONST(g, 0, 1, M, v->C, 1, 1), FG_CONST(g, 0, 1, M)),
                             NOTHING));
    if (fg_chance(g, 50))
        s = fg_node(g, "Expand", s, fg_shape_of(g, v, M), NOTHING);
    else if (fg_chance(g, 50))
        s = fg_node(g, "Tile", s,
                    build_node(&g->b, "Concat",
                               NAMES(build_ints(&g->b, INTS(1, 1)), fg_dim(g, name, 2),
                                     fg_dim(g, name, 3)),
                               at_int("axis", 0)),
                    NOTHING);
    else /* to 1 channel, which broadcasts over those of s */
        s = fg_node(g, "Expand", s, fg_shape_of(g, v, 1), NOTHING);
    fg_add(g, build_node(&g->b, "Concat", NAMES(name, s), at_int("axis", 1)), *v, v->C + M);
}

/* Resized to 3 x 3, flattened, and two layers; the result is added to all positions. */
static inline void fg_flatten(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    int64_t C, M = fg_int(g, 2, 9);
    const char *name, *s, *sizes;

    if (x < 0)
        return;
    C = g->v[x].C;
    name = fg_use(g, x);
    sizes = build_node(&g->b, "Concat",
                       NAMES(fg_dim(g, name, 0), fg_number(g, C), build_ints(&g->b, INTS(3, 3))),
                       at_int("axis", 0));
    s = build_node(&g->b, "Resize", NAMES(name, "", "", sizes),
                   CAT(at_text("mode", "nearest"),
                       at_text("coordinate_transformation_mode", "asymmetric"),
                       at_text("nearest_mode", "floor")));
    switch (fg_int(g, 0, 2)) {
    case 0: s = fg_node(g, "Flatten", s, NULL, at_int("axis", 1)); break;
    case 1: s = fg_node(g, "Reshape", s, build_ints(&g->b, INTS(-1, 9 * C)), NOTHING); break;
    default: s = fg_reshape(g, s, name, INTS(FG_SIZE(0), -1)); break;
    }
    s = build_node(&g->b, "Gemm", NAMES(s, FG_CONST(g, 0, 0.4f, M, 9 * C), FG_CONST(g, 0, 0.5f, M)),
                   at_int("transB", 1));
    s = fg_linear(g, fg_act(g, s), M, C, 0, 0);
    s = fg_node(g, "Unsqueeze", s, build_ints(&g->b, INTS(2, 3)), NOTHING);
    fg_add(g, fg_node(g, "Add", name, s, NOTHING), g->v[x], C);
}

/* ConvNeXt's block: depthwise, channels last, LayerNorm, two layers, a scale, a residual. */
static inline void fg_convnext(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    int64_t C, M = fg_int(g, 2, 16);
    const char *name, *y;

    if (x < 0)
        return;
    C = g->v[x].C;
    name = fg_use(g, x);
    y = fg_node(g, "Conv", name, FG_CONST(g, 0, 0.6f, C, 1, 3, 3),
                CAT(at_int("group", C), at_ints("pads", INTS(1, 1, 1, 1))));
    y = fg_transpose(g, y, INTS(0, 2, 3, 1));
    y = build_node(&g->b, "LayerNormalization",
                   NAMES(y, FG_CONST(g, 1, 0.4f, C), FG_CONST(g, 0, 0.4f, C)),
                   at_float("epsilon", 1e-2f));
    y = fg_linear(g, fg_act(g, fg_linear(g, y, C, M, 0, 0)), M, C, 0, 0);
    y = fg_node(g, "Mul", y, FG_CONST(g, 0, 1, C), NOTHING);
    fg_add(g, fg_node(g, "Add", name, fg_transpose(g, y, INTS(0, 3, 1, 2)), NOTHING), g->v[x], C);
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* Where the first channel of the input is positive: x; elsewhere a constant or another value. */
static inline void fg_where(struct fg *g)
{
    int x = fg_pick(g, g->kind);
    const char *c, *other;
    int64_t axis, C;

    if (x < 0 || g->v[x].grid != g->v[0].grid)
        return;
    axis = fg_axis(&g->v[x]);
    C = g->v[x].C;
    c = fg_node(g, "Greater", fg_part(g, fg_use(g, 0), axis, 0, 1), build_scalar(&g->b, 0),
                NOTHING);
    if (fg_chance(g, 40))
        c = fg_node(g, "Expand", c, fg_shape_of(g, &g->v[x], C), NOTHING);
    other = fg_chance(g, 40)      ? build_scalar(&g->b, fg_chance(g, 50) ? 0 : -0.5f)
            : g->kind == FG_IMAGE ? FG_CONST(g, 0, 1, C, 1, 1)
            : fg_chance(g, 50)    ? FG_CONST(g, 0, 1, C)
                                  : fg_act(g, g->v[x].name);
    fg_add(g,
           fg_chance(g, 50) ? build_node(&g->b, "Where", NAMES(c, fg_use(g, x), other), NOTHING)
                            : build_node(&g->b, "Where", NAMES(c, other, fg_use(g, x)), NOTHING),
           g->v[x], C);
}

/* ---- sequences ------------------------------------------------------------------------------- */

/* RMSNorm or LayerNorm in single operators: x / sqrt(mean of squares), with or without the mean. */
static inline void fg_written_norm(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    struct bin mean = CAT(at_ints("axes", INTS(-1)), at_int("keepdims", 1));
    bool center = fg_chance(g, 60);
    const char *c, *s;
    int64_t C;

    if (x < 0)
        return;
    C = g->v[x].C;
    c = fg_use(g, x);
    if (center)
        c = fg_node(g, "Sub", c, fg_node(g, "ReduceMean", c, NULL, mean), NOTHING);
    s = fg_node(g, "ReduceMean", fg_node(g, "Pow", c, build_scalar(&g->b, 2), NOTHING), NULL, mean);
    s = fg_node(g, "Sqrt", fg_node(g, "Add", s, build_scalar(&g->b, 1e-2f), NOTHING), NULL,
                NOTHING);
    c = fg_node(g, "Div", c, s, NOTHING);
    c = fg_node(g, "Mul", c, FG_CONST(g, 1, 0.4f, C), NOTHING);
    if (center)
        c = fg_node(g, "Add", c, FG_CONST(g, 0, 0.4f, C), NOTHING);
    fg_add(g, c, g->v[x], C);
}

/* LSTM or GRU over the length, in one direction or two. */
static inline void fg_recurrent(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    bool lstm = fg_chance(g, 50);
    int64_t D = fg_int(g, 1, 2), H = fg_int(g, 1, 5), gates = lstm ? 4 : 3, C;
    const char *in[4], *y;
    struct bin attrs;

    if (x < 0)
        return;
    C = g->v[x].C;
    attrs = CAT(at_int("hidden_size", H), at_text("direction", D == 2             ? "bidirectional"
                                                               : fg_chance(g, 70) ? "forward"
                                                                                  : "reverse"));
    if (!lstm)
        attrs = CAT(attrs, at_int("linear_before_reset", fg_chance(g, 50)));
    in[0] = fg_transpose(g, fg_use(g, x), INTS(1, 0, 2));
    in[1] = FG_CONST(g, 0, 0.5f, D, gates * H, C);
    in[2] = FG_CONST(g, 0, 0.5f, D, gates * H, H);
    in[3] = FG_CONST(g, 0, 0.5f, D, 2 * gates * H);
    y = build_node(&g->b, lstm ? "LSTM" : "GRU", fg_chance(g, 80) ? 4 : 3, in, attrs);
    if (D == 1) {
        y = fg_node(g, "Squeeze", y, build_ints(&g->b, INTS(1)), NOTHING);
    } else {
        y = fg_transpose(g, y, INTS(0, 2, 1, 3));
        y = fg_node(g, "Reshape", y,
                    fg_chance(g, 50) ? build_ints(&g->b, INTS(0, 0, -1))
                                     : build_ints(&g->b, INTS(0, 0, D * H)),
                    NOTHING);
    }
    fg_add(g, fg_transpose(g, y, INTS(1, 0, 2)), g->v[x], D * H);
}

/* Rows of a table, by the indices of the second input. */
static inline void fg_embed(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    int64_t C;
    const char *y;

    if (x < 0 || !g->ids || g->v[x].grid != g->v[0].grid)
        return;
    C = g->v[x].C;
    y = fg_node(g, "Gather", FG_CONST(g, 0, 1, FG_IDS, C), g->ids, NOTHING);
    if (fg_chance(g, 30)) {
        fg_add(g, y, g->v[x], C);
        return;
    }
    fg_add(g, fg_node(g, "Add", fg_use(g, x), y, NOTHING), g->v[x], C);
}

/* A class token: one more position at the start of each item.  PyTorch writes expand(B, -1,
 * -1) with Where. */
static inline void fg_class_token(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    struct fg_value v;
    const char *t, *name, *is, *ones = build_ints(&g->b, INTS(1, 1, 1));

    if (x < 0)
        return;
    v = g->v[x];
    name = fg_use(g, x);
    t = build_node(&g->b, "Concat",
                   NAMES(fg_dim(g, name, 0), fg_chance(g, 50) ? build_ints(&g->b, INTS(-1, -1))
                                                              : build_ints(&g->b, INTS(1, v.C))),
                   at_int("axis", 0));
    is = fg_node(g, "Equal", t, build_ints(&g->b, INTS(-1, -1, -1)), NOTHING);
    t = build_node(&g->b, "Where", NAMES(is, ones, t), NOTHING);
    t = fg_node(g, "Expand", FG_CONST(g, 0, 1, 1, 1, v.C), t, NOTHING);
    v.grid = g->grids++;
    v.fits_table = false;
    fg_add(g, build_node(&g->b, "Concat", NAMES(t, name), at_int("axis", 1)), v, v.C);
}

/* The first or last position, a layer, and the result added to all positions. */
static inline void fg_one_position(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    int64_t C, M = fg_int(g, 2, 9), at = fg_chance(g, 50) ? 0 : -1;
    const char *s, *name;

    if (x < 0)
        return;
    C = g->v[x].C;
    name = fg_use(g, x);
    s = fg_node(g, "Gather", name, build_const(&g->b, PARE_I64, 0, NULL, &at), at_int("axis", 1));
    s = fg_linear(g, fg_act(g, fg_linear(g, s, C, M, 0, 0)), M, C, 0, 0);
    s = fg_chance(g, 50) ? fg_node(g, "Unsqueeze", s, build_ints(&g->b, INTS(1)), NOTHING)
                         : fg_reshape(g, s, name, INTS(FG_SIZE(0), 1, C));
    fg_add(g, fg_node(g, "Add", name, s, NOTHING), g->v[x], C);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* A bias of the scores: a table (1, heads or 1, T, T), or -1e4 where the index of the second input
 * is small. */
static inline const char *fg_bias(struct fg *g, const struct fg_value *v, int64_t heads)
{
    const char *t, *length;

    if (g->ids && v->grid == g->v[0].grid && fg_chance(g, 40)) {
        int64_t limit = 3;

        t = fg_node(g, "Unsqueeze", g->ids, build_ints(&g->b, INTS(1, 2)), NOTHING);
        t = fg_node(g, "Less", t, build_const(&g->b, PARE_I64, 0, NULL, &limit), NOTHING);
        t = fg_node(g, "Cast", t, NULL, at_int("to", PARE_F32));
        return fg_node(g, "Mul", t, build_scalar(&g->b, -1e4f), NOTHING);
    }
    if (!v->fits_table || fg_chance(g, 50))
        return build_scalar(&g->b, 0.25f);
    length = fg_dim(g, v->name, 1);
    t = FG_CONST(g, 0, 1, 1, fg_chance(g, 60) ? heads : 1, FG_TABLE, FG_TABLE);
    return build_node(&g->b, "Slice",
                      NAMES(t, build_ints(&g->b, INTS(0, 0)),
                            build_node(&g->b, "Concat", NAMES(length, length), at_int("axis", 0)),
                            build_ints(&g->b, INTS(2, 3))),
                      NOTHING);
}

static inline void fg_end_attention(struct fg *g, int x, const char **part, int64_t heads,
                                    int64_t d)
{
    struct fg_value v = g->v[x];
    const char *s = fg_node(g, "MatMul", part[0], fg_transpose(g, part[1], INTS(0, 1, 3, 2)),
                            NOTHING);

    s = fg_node(g, "Mul", s, build_scalar(&g->b, 1 / sqrtf((float)d)), NOTHING);
    s = fg_node(g, "Add", s, fg_bias(g, &v, heads), NOTHING);
    s = fg_node(g, "MatMul", fg_node(g, "Softmax", s, NULL, at_int("axis", -1)), part[2], NOTHING);
    s = fg_transpose(g, s, INTS(0, 2, 1, 3));
    s = fg_reshape(g, s, v.name, INTS(FG_SIZE(0), FG_SIZE(1), heads * d));
    s = fg_linear(g, s, heads * d, v.C, 0, 0);
    fg_add(g, fg_node(g, "Add", s, fg_use(g, x), NOTHING), v, v.C);
}

/* Query, key and value from one layer: (B, T, 3, heads, d), transposed, and split. */
static inline void fg_packed_attention(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    int64_t heads = fg_int(g, 1, 4), d = fg_int(g, 1, 5), E = heads * d;
    const char *y, *part[3];
    unsigned dead = fg_chance(g, 60) ? (unsigned)fg_int(g, 0, (1 << heads) - 2) : 0;
    bool last = fg_chance(g, 50);

    if (x < 0)
        return;
    dead |= dead << heads | dead << (2 * heads);
    y = fg_linear(g, fg_use(g, x), g->v[x].C, 3 * E, 3 * heads, dead);
    if (last) { /* split first */
        const char *in[2] = { y, build_ints(&g->b, INTS(E, E, E)) };

        build_node_outs(&g->b, "Split", 2, in, at_int("axis", 2), 3, part);
        for (int k = 0; k < 3; k++)
            part[k] = fg_heads(g, part[k], g->v[x].name, heads, d);
        fg_end_attention(g, x, part, heads, d);
        return;
    }
    y = fg_chance(g, 50)
            ? fg_reshape(g, y, g->v[x].name, INTS(FG_SIZE(0), FG_SIZE(1), 3, heads, d))
            : fg_node(g, "Reshape", y, build_ints(&g->b, INTS(0, 0, 3, heads, d)), NOTHING);
    y = fg_transpose(g, y, INTS(2, 0, 3, 1, 4));
    for (int64_t k = 0; k < 3; k++)
        part[k] = fg_chance(g, 50)
                      ? fg_node(g, "Gather", y, build_const(&g->b, PARE_I64, 0, NULL, &k),
                                at_int("axis", 0))
                      : fg_node(g, "Squeeze", fg_part(g, y, 0, k, k + 1),
                                build_ints(&g->b, INTS(0)), NOTHING);
    fg_end_attention(g, x, part, heads, d);
}

/* Fewer heads of keys and values than of queries: each is repeated with Expand. */
static inline void fg_grouped_attention(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    int64_t kv = fg_int(g, 1, 2), rep = fg_int(g, 2, 3), d = fg_int(g, 1, 4), heads = kv * rep;
    const char *part[3], *name, *shape;

    if (x < 0)
        return;
    name = fg_use(g, x);
    for (int k = 0; k < 3; k++) {
        int64_t h = k ? kv : heads;

        part[k] = fg_heads(g, fg_linear(g, name, g->v[x].C, h * d, 0, 0), name, h, d);
        if (!k)
            continue;
        part[k] = fg_node(g, "Unsqueeze", part[k], build_ints(&g->b, INTS(2)), NOTHING);
        shape = build_node(&g->b, "Concat",
                           NAMES(fg_dim(g, name, 0), build_ints(&g->b, INTS(kv, rep)),
                                 fg_dim(g, name, 1), fg_number(g, d)),
                           at_int("axis", 0));
        part[k] = fg_node(g, "Expand", part[k], shape, NOTHING);
        part[k] = fg_reshape(g, part[k], name, INTS(FG_SIZE(0), heads, FG_SIZE(1), d));
    }
    fg_end_attention(g, x, part, heads, d);
}

/* The keys are an output as well, as those of a cache: queries lose channels, keys do not. */
static inline void fg_cached_attention(struct fg *g)
{
    int x = fg_pick(g, FG_SEQUENCE);
    int64_t heads = fg_chance(g, 70) ? 1 : 2, d = fg_int(g, 2, 6);
    unsigned dead = (unsigned)fg_int(g, 1, (1 << d) - 2); /* channels of the queries of one head */
    const char *part[3], *name;

    if (x < 0)
        return;
    name = fg_use(g, x);
    for (int k = 0; k < 3; k++)
        part[k] = fg_heads(g,
                           fg_linear(g, name, g->v[x].C, heads * d, !k && heads == 1 ? d : 0, dead),
                           name, heads, d);
    build_output(&g->b, part[1]);
    fg_end_attention(g, x, part, heads, d);
}

#endif
