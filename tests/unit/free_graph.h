/* free_graph.h - random networks with free batch, length, height and width, reproducible by seed.
 *
 * Images (B, C, H, W) and sequences (B, T, C).  Shapes are computed in the graph, as exporters
 * write them: Shape, Gather or Slice, arithmetic, Concat, Reshape; tables (positions, rotary
 * angles, causal masks) are sliced to the length.  Only channels are constants: two values have
 * the same other axes if they have the same `grid`.
 */
#ifndef PARE_TEST_FREE_GRAPH_H
#define PARE_TEST_FREE_GRAPH_H

#include "make_model.h"

#include <math.h>

#include "base/rng.h"

enum { FG_VALUES = 120, FG_TABLE = 64, FG_IDS = 11 };
enum fg_kind { FG_IMAGE, FG_SEQUENCE };

struct fg_value {
    const char *name;
    enum fg_kind kind;
    int64_t C;
    int grid, scale; /* scale: the product of strides so far */
    bool fits_table; /* the length is at most FG_TABLE */
    int uses;
};

struct fg {
    struct build b;
    struct pare_rng r;
    struct fg_value v[FG_VALUES];
    int n, grids;
    int64_t fixed[4]; /* sizes of the input; -1: free */
    const char *ids;  /* a second input (B, T) of indices below FG_IDS; NULL: none */
    enum fg_kind kind;
};

static inline int64_t fg_int(struct fg *g, int64_t lo, int64_t hi)
{
    return lo + (int64_t)pare_rng_below(&g->r, (uint64_t)(hi - lo + 1));
}

static inline bool fg_chance(struct fg *g, int percent)
{
    return fg_int(g, 0, 99) < percent;
}

static inline const char *fg_const(struct fg *g, float mid, float scale, int rank,
                                   const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = mid + scale * (float)(2 * pare_rng_uniform(&g->r) - 1);
    return build_floats(&g->b, rank, dim, pare_f32(&t));
}
#define FG_CONST(g, mid, scale, ...) fg_const(g, mid, scale, INTS(__VA_ARGS__))

static inline int fg_add(struct fg *g, const char *name, struct fg_value like, int64_t C)
{
    assert_true(g->n < FG_VALUES);
    like.name = name;
    like.C = C;
    like.uses = 0;
    g->v[g->n] = like;
    return g->n++;
}

static inline const char *fg_use(struct fg *g, int x)
{
    g->v[x].uses++;
    return g->v[x].name;
}

/* A value of that kind, most often a recent one; -1: none found. */
static inline int fg_pick(struct fg *g, enum fg_kind kind)
{
    for (int tries = 0; tries < 10; tries++) {
        int i = g->n - 1 - (int)fg_int(g, 0, fg_chance(g, 75) ? 1 : g->n - 1);

        if (i >= 0 && g->v[i].kind == kind)
            return i;
    }
    return -1;
}

static inline const char *fg_node(struct fg *g, const char *type, const char *a, const char *b,
                                  struct bin attrs)
{
    return b ? build_node(&g->b, type, NAMES(a, b), attrs)
             : build_node(&g->b, type, NAMES(a), attrs);
}

static inline const char *fg_transpose(struct fg *g, const char *x, int n, const int64_t *perm)
{
    return fg_node(g, "Transpose", x, NULL, at_ints("perm", n, perm));
}

/* ---- computed sizes -------------------------------------------------------------------------- */

/* Size i of x as a list of one number, in one of the forms that exporters write. */
static inline const char *fg_dim(struct fg *g, const char *x, int64_t i)
{
    const char *shape = fg_node(g, "Shape", x, NULL, NOTHING), *one;
    int64_t zero = 0;

    switch (fg_int(g, 0, 2)) {
    case 0:
        one = fg_node(g, "Gather", shape, build_const(&g->b, PARE_I64, 0, NULL, &i), NOTHING);
        return fg_node(g, "Unsqueeze", one, build_ints(&g->b, INTS(0)), NOTHING);
    case 1:
        return build_node(&g->b, "Slice",
                          NAMES(shape, build_ints(&g->b, 1, &i), build_ints(&g->b, INTS(i + 1)),
                                build_ints(&g->b, 1, &zero)),
                          NOTHING);
    default: return fg_node(g, "Gather", shape, build_ints(&g->b, 1, &i), NOTHING);
    }
}

/* A number of a computed shape: a constant, or a product of constants. */
static inline const char *fg_number(struct fg *g, int64_t v)
{
    if (v > 1 && v % 2 == 0 && fg_chance(g, 10))
        return fg_node(g, "Mul", build_ints(&g->b, INTS(v / 2)), build_ints(&g->b, INTS(2)),
                       NOTHING);
    return build_ints(&g->b, 1, &v);
}

/* Reshape to dim[]: each is a number, or FG_SIZE(i) for size i of `of`. */
static inline const char *fg_reshape(struct fg *g, const char *x, const char *of, int n,
                                     const int64_t *dim)
{
    const char *part[6];

    for (int i = 0; i < n; i++)
        part[i] = dim[i] <= -10 ? fg_dim(g, of, -10 - dim[i]) : fg_number(g, dim[i]);
    return fg_node(g, "Reshape", x,
                   build_node(&g->b, "Concat", n, (const char *const *)part, at_int("axis", 0)),
                   NOTHING);
}
#define FG_SIZE(i) (-10 - (i))

/* An activation, as one operator or as the operators that exporters write. */
static inline const char *fg_act(struct fg *g, const char *x)
{
    static const char *const plain[] = { "Relu",      "Sigmoid",     "Tanh",     "Softplus",
                                         "LeakyRelu", "HardSigmoid", "HardSwish" };
    const char *e;

    switch (fg_int(g, 0, 6)) {
    case 0:
        e = fg_node(g, "Div", x, build_scalar(&g->b, 1.41421356f), NOTHING);
        e = fg_node(g, "Add", fg_node(g, "Erf", e, NULL, NOTHING), build_scalar(&g->b, 1), NOTHING);
        return fg_node(g, "Mul", fg_node(g, "Mul", x, e, NOTHING), build_scalar(&g->b, 0.5f),
                       NOTHING);
    case 1: return fg_node(g, "Mul", x, fg_node(g, "Sigmoid", x, NULL, NOTHING), NOTHING);
    case 2:
        return build_node(&g->b, "Clip", NAMES(x, build_scalar(&g->b, 0), build_scalar(&g->b, 6)),
                          NOTHING);
    default: return fg_node(g, plain[fg_int(g, 0, 6)], x, NULL, NOTHING);
    }
}

/* ---- images ---------------------------------------------------------------------------------- */

static inline int fg_conv_to(struct fg *g, int x, int64_t C, int64_t stride)
{
    struct fg_value v = g->v[x];
    int64_t k = fg_chance(g, 30) ? 1 : 3, group = fg_chance(g, 15) && C == v.C ? C : 1;
    const char *w = FG_CONST(g, 0, 1.5f / sqrtf((float)(k * k * v.C / group)), C, v.C / group, k,
                             k);
    struct bin attrs = CAT(at_ints("pads", INTS(k / 2, k / 2, k / 2, k / 2)),
                           at_ints("strides", INTS(stride, stride)), at_int("group", group));
    const char *y = fg_chance(g, 60)
                        ? build_node(&g->b, "Conv", NAMES(fg_use(g, x), w, FG_CONST(g, 0, 0.5f, C)),
                                     attrs)
                        : build_node(&g->b, "Conv", NAMES(fg_use(g, x), w), attrs);

    if (fg_chance(g, 40))
        y = build_node(&g->b, "BatchNormalization",
                       NAMES(y, FG_CONST(g, 1, 0.4f, C), FG_CONST(g, 0, 0.5f, C),
                             FG_CONST(g, 0, 0.3f, C), FG_CONST(g, 1, 0.4f, C)),
                       NOTHING);
    if (fg_chance(g, 60))
        y = fg_act(g, y);
    if (stride > 1) {
        v.grid = g->grids++;
        v.scale *= (int)stride;
    }
    return fg_add(g, y, v, C);
}

static inline void fg_conv(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);

    if (x >= 0)
        fg_conv_to(g, x, fg_int(g, 2, 16), g->v[x].scale < 8 && fg_chance(g, 25) ? 2 : 1);
}

static inline void fg_residual(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE), y;

    if (x < 0)
        return;
    y = fg_conv_to(g, fg_conv_to(g, x, fg_int(g, 2, 16), 1), g->v[x].C, 1);
    fg_add(g, fg_node(g, "Add", fg_use(g, y), fg_use(g, x), NOTHING), g->v[x], g->v[x].C);
}

static inline void fg_pool(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    bool half = fg_chance(g, 60), max = fg_chance(g, 50);
    struct fg_value v;

    if (x < 0 || (half && g->v[x].scale >= 8))
        return;
    v = g->v[x];
    if (half) {
        v.grid = g->grids++;
        v.scale *= 2;
    }
    fg_add(g,
           fg_node(g, max ? "MaxPool" : "AveragePool", fg_use(g, x), NULL,
                   half ? CAT(at_ints("kernel_shape", INTS(2, 2)), at_ints("strides", INTS(2, 2)))
                        : CAT(at_ints("kernel_shape", INTS(3, 3)),
                              at_ints("pads", INTS(1, 1, 1, 1)))),
           v, v.C);
}

/* x gate(mean of x). */
static inline void fg_squeeze(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    int64_t C, M = fg_int(g, 1, 6);
    const char *s;

    if (x < 0)
        return;
    C = g->v[x].C;
    s = fg_node(g, "GlobalAveragePool", fg_use(g, x), NULL, NOTHING);
    s = fg_node(g, "Conv", s, FG_CONST(g, 0, 1, M, C, 1, 1), NOTHING);
    s = fg_node(g, "Conv", fg_node(g, "Relu", s, NULL, NOTHING), FG_CONST(g, 0, 1, C, M, 1, 1),
                NOTHING);
    fg_add(g, fg_node(g, "Mul", fg_use(g, x), fg_node(g, "Sigmoid", s, NULL, NOTHING), NOTHING),
           g->v[x], C);
}

/* Resize to the size of an earlier image and join with it: the skip connection of a UNet. */
static inline void fg_up(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE), to = fg_pick(g, FG_IMAGE);
    const char *sizes, *y, *part[2];
    bool both = fg_chance(g, 50);

    if (x < 0 || to < 0 || (!both && g->v[x].C != g->v[to].C))
        return;
    part[0] = build_node(&g->b, "Concat",
                         NAMES(fg_dim(g, g->v[x].name, 0), fg_number(g, g->v[x].C)),
                         at_int("axis", 0));
    part[0] = fg_chance(g, 50)
                  ? part[0]
                  : build_node(&g->b, "Slice",
                               NAMES(fg_node(g, "Shape", g->v[x].name, NULL, NOTHING),
                                     build_ints(&g->b, INTS(0)), build_ints(&g->b, INTS(2)),
                                     build_ints(&g->b, INTS(0))),
                               NOTHING);
    part[1] = build_node(&g->b, "Slice",
                         NAMES(fg_node(g, "Shape", g->v[to].name, NULL, NOTHING),
                               build_ints(&g->b, INTS(2)), build_ints(&g->b, INTS(4)),
                               build_ints(&g->b, INTS(0))),
                         NOTHING);
    sizes = build_node(&g->b, "Concat", 2, part, at_int("axis", 0));
    y = build_node(&g->b, "Resize", NAMES(fg_use(g, x), "", "", sizes),
                   CAT(at_text("mode", fg_chance(g, 50) ? "nearest" : "linear"),
                       at_text("coordinate_transformation_mode", "asymmetric"),
                       at_text("nearest_mode", "floor")));
    y = both ? build_node(&g->b, "Concat", NAMES(y, fg_use(g, to)), at_int("axis", 1))
             : fg_node(g, "Add", y, fg_use(g, to), NOTHING);
    fg_add(g, y, g->v[to], both ? g->v[x].C + g->v[to].C : g->v[x].C);
}

/* GroupNorm as exporters write it: (B, G, -1), InstanceNormalization, the shape of x. */
static inline void fg_group_norm(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    int64_t G, C;
    const char *y, *name;

    if (x < 0)
        return;
    C = g->v[x].C;
    name = fg_use(g, x);
    for (G = fg_int(g, 1, 4); C % G; G--)
        ;
    y = fg_chance(g, 50) ? fg_node(g, "Reshape", name, build_ints(&g->b, INTS(0, G, -1)), NOTHING)
                         : fg_reshape(g, name, name, INTS(FG_SIZE(0), G, -1));
    y = build_node(&g->b, "InstanceNormalization",
                   NAMES(y, FG_CONST(g, 1, 0, G), FG_CONST(g, 0, 0, G)),
                   at_float("epsilon", 1e-2f));
    y = fg_chance(g, 50)
            ? fg_node(g, "Reshape", y, fg_node(g, "Shape", name, NULL, NOTHING), NOTHING)
            : fg_reshape(g, y, name, INTS(FG_SIZE(0), C, FG_SIZE(2), FG_SIZE(3)));
    y = fg_node(g, "Mul", y, FG_CONST(g, 1, 0.4f, C, 1, 1), NOTHING);
    fg_add(g, fg_node(g, "Add", y, FG_CONST(g, 0, 0.4f, C, 1, 1), NOTHING), g->v[x], C);
}

/* A table of positions, sliced to (H, W). */
static inline void fg_position(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE);
    const char *t, *ends, *name;

    if (x < 0)
        return;
    name = fg_use(g, x);
    t = FG_CONST(g, 0, 0.5f, 1, g->v[x].C, FG_TABLE, FG_TABLE);
    ends = build_node(&g->b, "Concat", NAMES(fg_dim(g, name, 2), fg_dim(g, name, 3)),
                      at_int("axis", 0));
    t = build_node(&g->b, "Slice",
                   NAMES(t, build_ints(&g->b, INTS(0, 0)), ends, build_ints(&g->b, INTS(2, 3))),
                   NOTHING);
    fg_add(g, fg_node(g, "Add", name, t, NOTHING), g->v[x], g->v[x].C);
}

static inline int fg_attend(struct fg *g, int x);

/* An image as tokens, attention, and the tokens as an image again. */
static inline void fg_tokens(struct fg *g)
{
    int x = fg_pick(g, FG_IMAGE), y;
    struct fg_value v, s;
    const char *name, *t;

    if (x < 0)
        return;
    v = s = g->v[x];
    name = fg_use(g, x);
    if (fg_chance(g, 30))
        t = fg_node(g, "Reshape", name, build_ints(&g->b, INTS(0, v.C, -1)), NOTHING);
    else if (fg_chance(g, 50))
        t = fg_reshape(g, name, name, INTS(FG_SIZE(0), v.C, -1));
    else
        t = fg_node(g, "Reshape", name,
                    build_node(&g->b, "Concat",
                               NAMES(fg_dim(g, name, 0), fg_number(g, v.C),
                                     fg_node(g, "Mul", fg_dim(g, name, 2), fg_dim(g, name, 3),
                                             NOTHING)),
                               at_int("axis", 0)),
                    NOTHING);
    s.kind = FG_SEQUENCE;
    s.grid = g->grids++;
    s.fits_table = false;
    y = fg_add(g, fg_transpose(g, t, INTS(0, 2, 1)), s, v.C);
    y = fg_attend(g, y);
    t = fg_transpose(g, fg_use(g, y), INTS(0, 2, 1));
    t = fg_reshape(g, t, name, INTS(FG_SIZE(0), v.C, FG_SIZE(2), FG_SIZE(3)));
    fg_add(g, t, v, v.C);
}

#include "free_graph_more.h"

#endif
