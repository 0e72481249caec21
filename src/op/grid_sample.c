/* grid_sample.c - GridSample: reads X at the places that a grid names, interpolating.
 *
 * A grid entry has one number for each spatial axis, last axis first; -1 and 1 are the two ends of
 * the axis: the centres of its first and last element with align_corners, else their outer edges.
 */
#include <math.h>

#include "norm.h"

#define MAX_ND 3

struct grid_sample {
    int64_t align_corners;
    const char *mode, *padding_mode;
};

#define AT(field) offsetof(struct grid_sample, field)
static const struct pare_opt attrs[] = {
    { "align_corners", "-1 and 1 are centres of elements", PARE_OPT_INT, AT(align_corners), 0, 0,
      1, NULL, NULL, false },
    { "mode", "interpolation", PARE_OPT_STR, AT(mode), 0, PARE_ANY, "linear",
      "linear|nearest|cubic|bilinear|bicubic", false },
    { "padding_mode", "what lies outside", PARE_OPT_STR, AT(padding_mode), 0, PARE_ANY, "zeros",
      "zeros|border|reflection", false },
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *g = &n->in[1]->t;
    char bx[PARE_SHAPE_TEXT], bg[PARE_SHAPE_TEXT];
    int64_t dim[PARE_MAX_RANK] = { 0 }, plane;
    int nd = x->rank - 2;

    PARE_TRY(pare_norm_float(n, 1, "the grid", err));
    PARE_TRY(pare_norm_inner(x, 2, &plane, err));
    if (nd < 1 || nd > MAX_ND || g->rank != x->rank || g->dim[nd + 1] != nd ||
        g->dim[0] != x->dim[0])
        return pare_fail(err, PARE_ESHAPE, "X is %s but the grid is %s, expected (N, ..., %d)",
                         pare_shape_text(x, bx, sizeof(bx)), pare_shape_text(g, bg, sizeof(bg)),
                         nd);
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    for (int i = 0; i < nd; i++) {
        dim[i + 2] = g->dim[i + 1];
        if (!x->dim[i + 2])
            return pare_fail(err, PARE_ESHAPE, "X is %s, which has nothing to sample",
                             pare_shape_text(x, bx, sizeof(bx)));
    }
    return pare_shape_set(&n->out[0]->t, x->dtype, x->rank, dim, err);
}

/* Fold c back and forth into [lo, hi]. */
static double reflect(double c, double lo, double hi)
{
    double span = hi - lo, away = fabs(c - lo), rest;

    if (span <= 0)
        return lo;
    rest = fmod(away, 2 * span);
    return lo + (rest > span ? 2 * span - rest : rest);
}

/* Bring a coordinate inside an axis of `size` elements, as padding_mode says. */
static double inside(const struct grid_sample *a, double c, int64_t size)
{
    double last = (double)(size - 1), edge = a->align_corners ? 0 : 0.5;

    if (a->padding_mode[0] == 'z')
        return c;
    if (a->padding_mode[0] == 'r')
        c = reflect(c, -edge, last + edge);
    return c < 0 ? 0 : c > last ? last : c;
}

/* The elements along one axis that contribute, and how much each. */
struct taps {
    int n;
    int64_t at[4];
    double weight[4];
};

static void add_tap(struct taps *t, double at, double weight, int64_t size)
{
    if (at < 0 || at > (double)(size - 1))
        return;         /* zeros outside */
    t->at[t->n] = (int64_t)at;
    t->weight[t->n++] = weight;
}

/* Keys' cubic kernel with A = -0.75, at distance d. */
static double cubic(double d)
{
    const double A = -0.75;

    d = fabs(d);
    if (d <= 1)
        return ((A + 2) * d - (A + 3)) * d * d + 1;
    return d < 2 ? ((A * d - 5 * A) * d + 8 * A) * d - 4 * A : 0;
}

static void find_taps(const struct grid_sample *a, double g, int64_t size, struct taps *t)
{
    double c = a->align_corners ? (g + 1) / 2 * (double)(size - 1)
                                : ((g + 1) * (double)size - 1) / 2;
    double low;

    t->n = 0;
    if (!(fabs(c) < 1e9))       /* NaN too */
        c = c > 0 ? 1e9 : -1e9;
    if (strstr(a->mode, "cubic")) {
        low = floor(c);
        for (int i = -1; i < 3; i++)
            add_tap(t, inside(a, low + i, size), cubic(c - low - i), size);
        return;
    }
    c = inside(a, c, size);
    low = floor(c);
    if (a->mode[0] == 'n') {
        add_tap(t, nearbyint(c), 1, size);
    } else {
        add_tap(t, low, low + 1 - c, size);
        add_tap(t, low + 1, c - low, size);
    }
}

static double sample(const float *x, const struct taps *t, const int64_t *size)
{
    double sum = 0;

    for (int i = 0; i < t[0].n; i++)
        for (int j = 0; j < t[1].n; j++)
            for (int k = 0; k < t[2].n; k++)
                sum += t[0].weight[i] * t[1].weight[j] * t[2].weight[k] *
                       (double)x[(t[0].at[i] * size[1] + t[1].at[j]) * size[2] + t[2].at[k]];
    return sum;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t size[MAX_ND] = { 1, 1, 1 }, C = x->dim[1], plane, places;
    const float *grid = pare_f32(&n->in[1]->t);
    int nd = x->rank - 2;

    (void)c;
    PARE_TRY(pare_norm_inner(x, 2, &plane, err));
    PARE_TRY(pare_norm_inner(y, 2, &places, err));
    for (int i = 0; i < nd; i++)
        size[MAX_ND - nd + i] = x->dim[i + 2];
    for (int64_t p = 0; p < (C ? x->dim[0] * places : 0); p++, grid += nd) {
        int64_t first = p / places * C;
        struct taps t[MAX_ND];

        for (int i = 0; i < MAX_ND; i++)
            t[i] = (struct taps){ .n = 1, .weight = { 1 } };
        for (int i = 0; i < nd; i++)
            find_taps(n->attr, (double)grid[i], size[MAX_ND - 1 - i], &t[MAX_ND - 1 - i]);
        for (int64_t k = 0; k < C; k++)
            pare_f32(y)[(first + k) * places + p % places] =
                (float)sample(pare_f32(x) + (first + k) * plane, t, size);
    }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_tie(t, n->in[0], 0, n->out[0], 0);
    pare_tie(t, n->in[1], 0, n->out[0], 0);
    pare_tie(t, n->in[0], 1, n->out[0], 1);
}

const struct pare_op pare_op_grid_sample = {
    .abi = PARE_ABI,
    .type = "GridSample",
    .doc = "Reads the input at the places that a grid names.",
    .since = 16,
    .in = "TU",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct grid_sample),
    .infer = infer,
    .forward = forward,
    .ties = ties,
};
