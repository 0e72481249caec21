/* grid_sample.c - GridSample: sample X at the positions of a grid, with interpolation.
 *
 * A grid entry has one coordinate for each spatial axis, last axis first; -1 and 1 are the ends of
 * the axis: the centers of its first and last element with align_corners, else their outer edges.
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
    PARE_INT("align_corners", AT(align_corners), "-1 and 1 are centers of elements", 0, 0, 1),
    PARE_CHOICE("mode", AT(mode), "interpolation", "linear",
                "linear|nearest|cubic|bilinear|bicubic"),
    PARE_CHOICE("padding_mode", AT(padding_mode), "value of positions outside the input", "zeros",
                "zeros|border|reflection"),
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
            return pare_fail(err, PARE_ESHAPE, "X is %s, which has no elements to sample",
                             pare_shape_text(x, bx, sizeof(bx)));
    }
    return pare_shape_set(&n->out[0]->t, x->dtype, x->rank, dim, err);
}

/* Reflect c into [lo, hi]; *turn is the slope of the result, 1 or -1. */
static double reflect(double c, double lo, double hi, double *turn)
{
    double span = hi - lo, away = fabs(c - lo), rest;

    *turn = 0;
    if (span <= 0)
        return lo;
    rest = fmod(away, 2 * span);
    *turn = (c < lo) == (rest > span) ? 1 : -1;
    return lo + (rest > span ? 2 * span - rest : rest);
}

/* Map a coordinate into an axis of `size` elements according to padding_mode; *turn is the slope of
 * the result. */
static double inside(const struct grid_sample *a, double c, int64_t size, double *turn)
{
    double last = (double)(size - 1), edge = a->align_corners ? 0 : 0.5;

    *turn = 1;
    if (a->padding_mode[0] == 'z')
        return c;
    if (a->padding_mode[0] == 'r')
        c = reflect(c, -edge, last + edge, turn);
    if (c <= 0 || c >= last)
        *turn = 0;
    return c < 0 ? 0 : c > last ? last : c;
}

/* The elements along one axis that contribute, their weights, and the derivatives of the weights by
 * the coordinate. */
struct taps {
    int n;
    int64_t at[4];
    double weight[4], slope[4];
};

static void add_tap(struct taps *t, double at, double weight, double slope, int64_t size)
{
    if (at < 0 || at > (double)(size - 1))
        return; /* outside, with padding_mode zeros */
    t->at[t->n] = (int64_t)at;
    t->slope[t->n] = slope;
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
    double low, turn, scale = (double)(a->align_corners ? size - 1 : size) / 2;

    t->n = 0;
    if (!(fabs(c) < 1e9)) /* also for NaN */
        c = c > 0 ? 1e9 : -1e9;
    if (strstr(a->mode, "cubic")) {
        low = floor(c);
        for (int i = -1; i < 3; i++)
            add_tap(t, inside(a, low + i, size, &turn), cubic(c - low - i),
                    scale * cubic_slope(c - low - i), size);
        return;
    }
    c = inside(a, c, size, &turn);
    low = floor(c);
    if (a->mode[0] == 'n') {
        add_tap(t, nearbyint(c), 1, 0, size);
    } else {
        add_tap(t, low, low + 1 - c, -scale * turn, size);
        add_tap(t, low + 1, c - low, scale * turn, size);
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

/* Backward pass: gradients of the elements, if required, and of the coordinates. */
static void sample_back(const float *x, float *gx, double gy, const struct taps *t,
                        const int64_t *size, double *gg)
{
    for (int i = 0; i < t[0].n; i++)
        for (int j = 0; j < t[1].n; j++)
            for (int k = 0; k < t[2].n; k++) {
                int64_t at = (t[0].at[i] * size[1] + t[1].at[j]) * size[2] + t[2].at[k];
                double a = t[0].weight[i], b = t[1].weight[j], c = t[2].weight[k];
                double v = gy * (double)x[at];

                if (gx)
                    gx[at] += (float)(gy * a * b * c);
                gg[0] += v * t[0].slope[i] * b * c;
                gg[1] += v * a * t[1].slope[j] * c;
                gg[2] += v * a * b * t[2].slope[k];
            }
}

/* The elements and weights of one position of the grid. */
static void find_place(const struct pare_node *n, const float *grid, const int64_t *size,
                       struct taps *t)
{
    int nd = n->in[0]->t.rank - 2;

    for (int i = 0; i < MAX_ND; i++)
        t[i] = (struct taps){ .n = 1, .weight = { 1 } };
    for (int i = 0; i < nd; i++)
        find_taps(n->attr, (double)grid[i], size[MAX_ND - 1 - i], &t[MAX_ND - 1 - i]);
}

/* The sizes of X as three axes, of one of its planes and of one of Y's. */
struct sizes {
    int64_t axis[MAX_ND], plane, places;
};

static int find_sizes(const struct pare_node *n, struct sizes *s, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int nd = x->rank - 2;

    PARE_TRY(pare_norm_inner(x, 2, &s->plane, err));
    PARE_TRY(pare_norm_inner(&n->out[0]->t, 2, &s->places, err));
    for (int i = 0; i < MAX_ND; i++)
        s->axis[i] = i < MAX_ND - nd ? 1 : x->dim[i - (MAX_ND - nd) + 2];
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    const float *grid = pare_f32(&n->in[1]->t);
    int64_t C = x->dim[1];
    struct sizes s;

    (void)c;
    PARE_TRY(find_sizes(n, &s, err));
    for (int64_t p = 0; p < (C ? x->dim[0] * s.places : 0); p++, grid += x->rank - 2) {
        int64_t first = p / s.places * C;
        struct taps t[MAX_ND];

        find_place(n, grid, s.axis, t);
        for (int64_t k = 0; k < C; k++)
            pare_f32_mut(y)[(first + k) * s.places + p % s.places] = (float)
                sample(pare_f32(x) + (first + k) * s.plane, t, s.axis);
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    const float *grid, *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad), *gg = pare_f32_mut(&n->in[1]->grad);
    int64_t C = x->dim[1];
    int nd = x->rank - 2;
    struct pare_tensor g = n->in[1]->t;
    struct sizes s;

    PARE_TRY(find_sizes(n, &s, err));
    if (g.dtype != PARE_F32) {
        g.dtype = PARE_F32;
        PARE_TRY(pare_tensor_alloc(c->scratch, &g, err));
        PARE_TRY(pare_convert(PARE_F32, g.data, n->in[1]->t.dtype, n->in[1]->t.data, pare_numel(&g),
                              err));
    }
    grid = pare_f32(&g);
    for (int64_t p = 0; gy && (gx || gg) && p < (C ? x->dim[0] * s.places : 0); p++, grid += nd) {
        int64_t first = p / s.places * C;
        double sum[MAX_ND] = { 0 };
        struct taps t[MAX_ND];

        find_place(n, grid, s.axis, t);
        for (int64_t k = 0; k < C; k++)
            sample_back(pare_f32(x) + (first + k) * s.plane, gx ? gx + (first + k) * s.plane : NULL,
                        (double)gy[(first + k) * s.places + p % s.places], t, s.axis, sum);
        for (int i = 0; gg && i < nd; i++)
            gg[p * nd + i] += (float)sum[MAX_ND - 1 - i];
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
    .type = "GridSample",
    .doc = "Sample the input at the positions of a grid.",
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
    .flags = PARE_OP_FLOAT_ONLY,
};
