/* deform_conv.c - DeformConv: a convolution whose taps are moved by offsets, an input.
 *
 *     y[n, m, o] = b[m] + sum over c, k of
 *                  w[m, c, k] mask[n, k, o] x[n, c, i(o, k) + offset[n, k, o]]
 *
 * x is interpolated linearly, and 0 outside.  The channels of x are in offset_group groups, each
 * with offsets and masks of its own.
 */
#include <math.h>

#include "conv_family.h"

enum { X, W, OFFSET, B, MASK, CORNERS = 8 };

struct deform {
    struct pare_window_attr conv;
    int64_t offset_group;
};

static const struct pare_opt attrs[] = {
    PARE_WINDOW_AUTO_PAD,
    PARE_WINDOW_DILATIONS,
    PARE_WINDOW_INT(group, "number of groups of channels", 1, 1, INT32_MAX),
    PARE_WINDOW_KERNEL(false),
    PARE_INT("offset_group", offsetof(struct deform, offset_group),
             "number of groups of channels with offsets of their own", 1, 1, INT32_MAX),
    PARE_WINDOW_PADS,
    PARE_WINDOW_STRIDES,
    PARE_OPT_END
};

extern const struct pare_op pare_op_conv;

static struct pare_value *input(const struct pare_node *n, int i)
{
    return i < n->n_in ? n->in[i] : NULL;
}

static int64_t taps_of(const struct pare_window *w)
{
    int64_t taps = 1;

    for (int i = 0; i < w->nd; i++)
        taps *= w->kernel[i];
    return taps;
}

/* OFFSET or MASK: (N, groups of taps, positions of the result). */
static int check(const struct pare_node *n, int i, int64_t channels, const struct pare_window *w,
                 struct pare_err *err)
{
    const struct pare_tensor *t = input(n, i) ? &n->in[i]->t : NULL, *x = &n->in[X]->t;
    char bt[PARE_SHAPE_TEXT];
    bool fits = t && t->rank == x->rank && t->dim[0] == x->dim[0] && t->dim[1] == channels;

    if (!t)
        return 0;
    for (int k = 0; fits && k < w->nd; k++)
        fits = t->dim[k + 2] == w->out[k];
    return fits
               ? 0
               : pare_fail(err, PARE_ESHAPE,
                           "%s is %s, expected a batch of %lld, %lld channels and the spatial axes "
                           "of the result",
                           i == MASK ? "the mask" : "the offset",
                           pare_shape_text(t, bt, sizeof(bt)), (long long)x->dim[0],
                           (long long)channels);
}

static int find_window(const struct pare_node *n, struct pare_window *w, struct pare_err *err)
{
    const struct deform *a = n->attr;

    PARE_TRY(pare_conv_geometry(&a->conv, &n->in[X]->t, &n->in[W]->t, w, err));
    if (a->offset_group > n->in[X]->t.dim[1] || n->in[X]->t.dim[1] % a->offset_group ||
        taps_of(w) > INT32_MAX)
        return pare_fail(err, PARE_ESHAPE,
                         "%lld channels do not divide into %lld groups of offsets",
                         (long long)n->in[X]->t.dim[1], (long long)a->offset_group);
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct deform *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t, *w = &n->in[W]->t;
    struct pare_window win;

    PARE_TRY(find_window(n, &win, err));
    PARE_TRY(check(n, OFFSET, a->offset_group * taps_of(&win) * win.nd, &win, err));
    PARE_TRY(check(n, MASK, a->offset_group * taps_of(&win), &win, err));
    PARE_TRY(pare_conv_bias(input(n, B), w->dim[0], err));
    return pare_window_shape(&win, &n->out[0]->t, x->dtype, x->dim[0], w->dim[0], err);
}

/* The elements of a plane that a tap reads: their weights, and the derivatives of those by the
 * position along each axis. */
struct corners {
    int n;
    int64_t at[CORNERS];
    double weight[CORNERS], slope[CORNERS][PARE_WINDOW_MAX];
};

static void find_corners(const struct pare_window *w, const double *pos, struct corners *c)
{
    c->n = 0;
    for (int k = 0; k < 1 << w->nd; k++) {
        double weight = 1, side[PARE_WINDOW_MAX], sign[PARE_WINDOW_MAX];
        int64_t at = 0;
        bool inside = true;

        for (int i = 0; i < w->nd && inside; i++) {
            double low = floor(pos[i]), p = low + (k >> i & 1);

            inside = p >= 0 && p < (double)w->in[i];
            sign[i] = k >> i & 1 ? 1 : -1;
            side[i] = k >> i & 1 ? pos[i] - low : low + 1 - pos[i];
            at = inside ? at * w->in[i] + (int64_t)p : 0;
        }
        if (!inside)
            continue;
        for (int i = 0; i < w->nd; i++) {
            weight *= side[i];
            c->slope[c->n][i] = sign[i];
            for (int j = 0; j < w->nd; j++)
                c->slope[c->n][i] *= j == i ? 1 : side[j];
        }
        c->at[c->n] = at;
        c->weight[c->n++] = weight;
    }
}

/* One tap at one position of one image, for one group of offsets. */
struct visit {
    const struct pare_node *n;
    struct pare_window w;
    int64_t taps, places, plane; /* of the kernel, of the result, of the input */
    int64_t sample, group, tap, place;
    int64_t offset, mask; /* offsets of the first coordinate, of the mask */
    struct corners c;
};

static void find_position(struct visit *v)
{
    const float *offset = pare_f32(&v->n->in[OFFSET]->t);
    int64_t groups = ((const struct deform *)v->n->attr)->offset_group, tap = v->tap, p = v->place;
    double pos[PARE_WINDOW_MAX];

    v->mask = ((v->sample * groups + v->group) * v->taps + v->tap) * v->places + v->place;
    v->offset = ((v->sample * groups + v->group) * v->taps + v->tap) * v->w.nd * v->places +
                v->place;
    for (int i = v->w.nd - 1; i >= 0; i--) {
        pos[i] = (double)(p % v->w.out[i] * v->w.stride[i] - v->w.pad_begin[i] +
                          tap % v->w.kernel[i] * v->w.dilation[i]) +
                 (double)offset[v->offset + i * v->places];
        p /= v->w.out[i];
        tap /= v->w.kernel[i];
    }
    find_corners(&v->w, pos, &v->c);
}

/* The sum of products of one channel of x with all output channels of its group. */
static void gather(const struct visit *v, int64_t channel, double mask)
{
    const struct pare_node *n = v->n;
    int64_t C = n->in[X]->t.dim[1], M = n->in[W]->t.dim[0], Cg = n->in[W]->t.dim[1];
    int64_t Mg = M / (C / Cg), first = channel / Cg * Mg;
    const float *x = pare_f32(&n->in[X]->t) + (v->sample * C + channel) * v->plane;
    double sum = 0;

    for (int i = 0; i < v->c.n; i++)
        sum += v->c.weight[i] * (double)x[v->c.at[i]];
    for (int64_t m = first; m < first + Mg; m++) {
        float w = pare_f32(&n->in[W]->t)[(m * Cg + channel % Cg) * v->taps + v->tap];

        pare_f32_mut(
            &n->out[0]->t)[(v->sample * M + m) * v->places + v->place] += w * (float)(mask * sum);
    }
}

static void scatter(const struct visit *v, int64_t channel, double mask)
{
    const struct pare_node *n = v->n;
    int64_t C = n->in[X]->t.dim[1], M = n->in[W]->t.dim[0], Cg = n->in[W]->t.dim[1];
    int64_t Mg = M / (C / Cg), first = channel / Cg * Mg;
    int64_t base = (v->sample * C + channel) * v->plane;
    const float *x = pare_f32(&n->in[X]->t) + base;
    float *gx = pare_f32_mut(&n->in[X]->grad), *gw = pare_f32_mut(&n->in[W]->grad);
    float *go = pare_f32_mut(&n->in[OFFSET]->grad);
    float *gm = input(n, MASK) ? pare_f32_mut(&n->in[MASK]->grad) : NULL;
    double sum = 0, g = 0;

    for (int i = 0; i < v->c.n; i++)
        sum += v->c.weight[i] * (double)x[v->c.at[i]];
    for (int64_t m = first; m < first + Mg; m++) {
        int64_t wi = (m * Cg + channel % Cg) * v->taps + v->tap;
        double gy = (double)pare_f32(&n->out[0]->grad)[(v->sample * M + m) * v->places + v->place];

        g += gy * (double)pare_f32(&n->in[W]->t)[wi];
        if (gw)
            gw[wi] += (float)(gy * mask * sum);
    }
    for (int i = 0; i < v->c.n; i++) {
        if (gx)
            gx[base + v->c.at[i]] += (float)(g * mask * v->c.weight[i]);
        for (int k = 0; go && k < v->w.nd; k++)
            go[v->offset + k * v->places] += (float)(g * mask * v->c.slope[i][k] *
                                                     (double)x[v->c.at[i]]);
    }
    if (gm)
        gm[v->mask] += (float)(g * sum);
}

static int each(const struct pare_node *n, void (*f)(const struct visit *, int64_t, double),
                struct pare_err *err)
{
    const struct deform *a = n->attr;
    int64_t each_group = n->in[X]->t.dim[1] / a->offset_group;
    struct visit v = { .n = n, .places = 1, .plane = 1 };

    PARE_TRY(find_window(n, &v.w, err));
    v.taps = taps_of(&v.w);
    for (int i = 0; i < v.w.nd; i++) {
        v.places *= v.w.out[i];
        v.plane *= v.w.in[i];
    }
    if (!pare_numel(&n->in[X]->t) || !pare_numel(&n->in[W]->t))
        return 0;
    for (v.sample = 0; v.sample < n->in[X]->t.dim[0]; v.sample++)
        for (v.group = 0; v.group < a->offset_group; v.group++)
            for (v.tap = 0; v.tap < v.taps; v.tap++)
                for (v.place = 0; v.place < v.places; v.place++) {
                    double mask;

                    find_position(&v);
                    mask = input(n, MASK) ? (double)pare_f32(&n->in[MASK]->t)[v.mask] : 1;
                    for (int64_t c = 0; c < each_group; c++)
                        f(&v, v.group * each_group + c, mask);
                }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    pare_conv_fill(&n->out[0]->t, input(n, B));
    return each(n, gather, err);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    if (!n->out[0]->grad.data)
        return 0;
    pare_conv_fill_back(n->out[0], input(n, B));
    return each(n, scatter, err);
}

/* With several groups of offsets the channels of x are frozen. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct deform *a = n->attr;
    struct pare_node plain = *n;
    struct pare_value *in[3] = { n->in[X], n->in[W], input(n, B) };

    plain.in = in;
    plain.n_in = 3;
    if (a->offset_group == 1)
        pare_conv_ties(&plain, W, t);
    else
        pare_tie(t, n->in[X], 0, n->out[0], 0);
    if (a->offset_group > 1 && a->conv.group == 1)
        pare_tie(t, n->in[W], 0, n->out[0], 1);
    if (a->offset_group > 1 && a->conv.group == 1 && input(n, B) && n->in[W]->t.dim[0] > 1)
        pare_tie(t, n->in[B], 0, n->out[0], 1);
    pare_tie(t, n->in[OFFSET], 0, n->out[0], 0);
    pare_tie(t, input(n, MASK), 0, n->out[0], 0);
}

static double macs(const struct pare_node *n)
{
    return pare_op_conv.macs(n);
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    pare_op_conv.axes(n, out, in);
}

/* All channels are read at the same positions, but some of those are outside. */
static bool linear(const struct pare_node *n, struct pare_linear *l)
{
    const struct deform *a = n->attr;

    *l = (struct pare_linear){ .x = X,
                               .w = W,
                               .bias = B,
                               .x_axis = 1,
                               .w_in = 1,
                               .w_out = 0,
                               .y_axis = 1,
                               .groups = a->conv.group ? a->conv.group : 1,
                               .scale = 1,
                               .outer = 1,
                               .borders = true };
    return a->offset_group == 1;
}

static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    pare_op_conv.shrink(n, s);
}

const struct pare_op pare_op_deform_conv = {
    .type = "DeformConv",
    .doc = "Convolution whose taps are moved by offsets.",
    .since = 19,
    .in = "TTTT?T?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct deform),
    .torch = "DeformConv#d",
    .layer = { .params = PARE_IN(W) | PARE_IN(B), .weight = W, .bias = B, .by_default = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .macs = macs,
    .axes = axes,
    .linear = linear,
    .shrink = shrink,
};
