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

/* Fold c back and forth into [lo, hi]; *slope is the result's by c. */
static double reflect(double c, double lo, double hi, double *slope)
{
    double span = hi - lo, away = fabs(c - lo), rest;

    *slope = 0;
    if (span <= 0)
        return lo;
    rest = fmod(away, 2 * span);
    *slope = (rest > span) == (c < lo) ? 1 : -1;
    return lo + (rest > span ? 2 * span - rest : rest);
}

/* Bring a coordinate inside an axis of `size` elements, as padding_mode says. */
static double inside(const struct grid_sample *a, double c, int64_t size, double *slope)
{
    double last = (double)(size - 1), edge = a->align_corners ? 0 : 0.5;

    *slope = 1;
    if (a->padding_mode[0] == 'z')
        return c;
    if (a->padding_mode[0] == 'r')
        c = reflect(c, -edge, last + edge, slope);
    if (c < 0 || c > last)
        *slope = 0;
    return c < 0 ? 0 : c > last ? last : c;
}

/* The elements along one axis that contribute, how much each, and how that changes with the grid's
 * number. */
struct taps {
    int n;
    int64_t at[4];
    double weight[4], slope[4];
};

static void add_tap(struct taps *t, double at, double weight, double slope, int64_t size)
{
    if (at < 0 || at > (double)(size - 1))
        return;         /* zeros outside */
    t->at[t->n] = (int64_t)at;
    t->weight[t->n] = weight;
    t->slope[t->n++] = slope;
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

/* Its derivative, by a d that may be negative. */
static double cubic_slope(double d)
{
    const double A = -0.75, sign = d < 0 ? -1 : 1;

    d = fabs(d);
    if (d <= 1)
        return sign * (3 * (A + 2) * d - 2 * (A + 3)) * d;
    return d < 2 ? sign * ((3 * A * d - 10 * A) * d + 8 * A) : 0;
}

static void find_taps(const struct grid_sample *a, double g, int64_t size, struct taps *t)
{
    double c = a->align_corners ? (g + 1) / 2 * (double)(size - 1)
                                : ((g + 1) * (double)size - 1) / 2;
    double scale = (double)(a->align_corners ? size - 1 : size) / 2;     /* dc/dg */
    double low, slope;

    t->n = 0;
    if (!(fabs(c) < 1e9))       /* NaN too */
        c = c > 0 ? 1e9 : -1e9;
    if (strstr(a->mode, "cubic")) {
        low = floor(c);
        for (int i = -1; i < 3; i++)
            add_tap(t, inside(a, low + i, size, &slope), cubic(c - low - i),
                    scale * cubic_slope(c - low - i), size);
        return;
    }
    c = inside(a, c, size, &slope);
    low = floor(c);
    if (a->mode[0] == 'n') {
        add_tap(t, nearbyint(c), 1, 0, size);
    } else {
        add_tap(t, low, low + 1 - c, -scale * slope, size);
        add_tap(t, low + 1, c - low, scale * slope, size);
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

/* Of one place in one channel with result gradient g: X's gradient, and the grid's, last axis
 * first, in sum. */
static void sample_back(const float *x, float *gx, const struct taps *t, const int64_t *size,
                        double g, double *sum)
{
    for (int i = 0; i < t[0].n; i++)
        for (int j = 0; j < t[1].n; j++)
            for (int k = 0; k < t[2].n; k++) {
                int64_t at = (t[0].at[i] * size[1] + t[1].at[j]) * size[2] + t[2].at[k];
                double a = t[0].weight[i], b = t[1].weight[j], c = t[2].weight[k];
                double v = g * (double)x[at];

                if (gx)
                    gx[at] += (float)(g * a * b * c);
                sum[0] += v * a * b * t[2].slope[k];
                sum[1] += v * a * t[1].slope[j] * c;
                sum[2] += v * t[0].slope[i] * b * c;
            }
}

/* X seen as (N, C, size[0], size[1], size[2]), and how many places each image is read at. */
struct view {
    int64_t size[MAX_ND], C, plane, places, total;
    int nd;
};

static int see(const struct pare_node *n, struct view *v, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;

    v->nd = x->rank - 2;
    v->C = x->dim[1];
    PARE_TRY(pare_norm_inner(x, 2, &v->plane, err));
    PARE_TRY(pare_norm_inner(&n->out[0]->t, 2, &v->places, err));
    v->total = v->C ? x->dim[0] * v->places : 0;
    for (int i = 0; i < MAX_ND; i++)
        v->size[i] = i < MAX_ND - v->nd ? 1 : x->dim[i - MAX_ND + v->nd + 2];
    return 0;
}

static void find_all_taps(const struct pare_node *n, const struct view *v, const float *grid,
                          struct taps *t)
{
    for (int i = 0; i < MAX_ND; i++)
        t[i] = (struct taps){ .n = 1, .weight = { 1 } };
    for (int i = 0; i < v->nd; i++)
        find_taps(n->attr, (double)grid[i], v->size[MAX_ND - 1 - i], &t[MAX_ND - 1 - i]);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t), *grid = pare_f32(&n->in[1]->t);
    float *y = pare_f32(&n->out[0]->t);
    struct view v;

    (void)c;
    PARE_TRY(see(n, &v, err));
    for (int64_t p = 0; p < v.total; p++, grid += v.nd) {
        int64_t first = p / v.places * v.C;
        struct taps t[MAX_ND];

        find_all_taps(n, &v, grid, t);
        for (int64_t k = first; k < first + v.C; k++)
            y[k * v.places + p % v.places] = (float)sample(x + k * v.plane, t, v.size);
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t), *grid = pare_f32(&n->in[1]->t);
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32(&n->in[0]->grad), *ggrid = pare_f32(&n->in[1]->grad);
    struct view v;

    (void)c;
    if (!gy || (!gx && !ggrid))
        return 0;
    PARE_TRY(see(n, &v, err));
    for (int64_t p = 0; p < v.total; p++, grid += v.nd) {
        int64_t first = p / v.places * v.C;
        double sum[MAX_ND] = { 0 };
        struct taps t[MAX_ND];

        find_all_taps(n, &v, grid, t);
        for (int64_t k = first; k < first + v.C; k++)
            sample_back(x + k * v.plane, gx ? gx + k * v.plane : NULL, t, v.size,
                        (double)gy[k * v.places + p % v.places], sum);
        for (int i = 0; i < v.nd && ggrid; i++)
            ggrid[p * v.nd + i] += (float)sum[i];
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
    .backward = backward,
    .ties = ties,
};
