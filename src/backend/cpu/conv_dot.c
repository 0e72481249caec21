/* conv_dot.c - convolutions of 8-bit integers in plain C, exact on every machine.
 *
 * For those that oneDNN would get wrong (q8.h) or cannot give as exact sums.  x - x_zero is spread
 * out as int16 with its padding, which is zero, so that a row of the window is one run of memory;
 * weights are (O, k..., I) in int16, and each output is a few dot products in int32.
 */
#include "../q8_conv.h"

#include <math.h>

#include "../../base/simd.h"

#define LONGEST (1 << 16) /* sums of as many products fit in 32 bits */
#define MOST_PADDING 100  /* times the size of x */

struct dot8 {
    struct pare_q8_conv c;
    struct pare_window w; /* over three axes */
    int64_t N, C, I, O;   /* channels of x, of a group, of y */
    int64_t padded[3];    /* sizes of x with its padding */
    int16_t *weights;
    struct pare_q8_out out;
};

/* QLinearConv and ConvInteger, which have no other fast way; between real numbers, Conv in float32
 * is as close as one step and faster. */
static bool match(const struct pare_view *v, struct pare_node *n, struct pare_step *s)
{
    struct dot8 d = { 0 }, *keep;
    double spread = 1;

    if (!strcmp(n->type, "Conv") || !pare_q8_conv(v, n, &d.c) || d.c.x.v->t.rank < 3 ||
        d.c.x.v->t.rank > 5)
        return false;
    d.w = d.c.win;
    pare_window_3d(&d.w);
    d.N = d.c.x.v->t.dim[0];
    d.C = d.c.x.v->t.dim[1];
    d.I = d.C / d.w.group;
    d.O = d.c.w.channels;
    if (d.I * d.w.kernel[0] * d.w.kernel[1] * d.w.kernel[2] > LONGEST)
        return false;
    for (int i = 0; i < 3; i++) {
        int64_t reach = (d.w.out[i] - 1) * d.w.stride[i] + (d.w.kernel[i] - 1) * d.w.dilation[i] +
                        1;
        int64_t with = d.w.in[i] + d.w.pad_begin[i];

        d.padded[i] = reach > with ? reach : with;
        spread *= (double)d.padded[i] / (double)d.w.in[i];
    }
    if (spread > MOST_PADDING)
        return false;
    s->work_bytes[0] = (size_t)(d.N * d.C * d.padded[0] * d.padded[1] * d.padded[2]) * 2;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, 0))
        return false;
    *keep = d;
    s->state = keep;
    s->in[0] = d.c.x.v;
    s->out[0] = d.c.out;
    s->in_block[0] = s->out_block[0] = PARE_LAST;
    return true;
}

static int init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct dot8 *d = s->state;
    struct pare_q8_out *o = &d->out;
    int64_t taps = d->w.kernel[0] * d->w.kernel[1] * d->w.kernel[2];
    const int8_t *w = pare_q8_centred(&d->c.w, b->scratch);

    *o = (struct pare_q8_out){ d->c.out, d->c.end.q, NULL, NULL, -INFINITY, INFINITY };
    o->f = pare_alloc(b->arena, (size_t)d->O, sizeof(*o->f));
    o->b = pare_alloc(b->arena, (size_t)d->O, sizeof(*o->b));
    d->weights = pare_alloc_raw(b->arena, (size_t)(d->O * taps * d->I), sizeof(*d->weights));
    if (!w || !o->f || !o->b || !d->weights)
        return pare_fail(err, PARE_ENOMEM, "no memory for the weights");
    for (int64_t i = 0; i < d->O; i++) {
        o->f[i] = pare_q8_conv_factor(&d->c, i);
        o->b[i] = (float)pare_q8_conv_bias(&d->c, i);
        for (int64_t k = 0; k < d->I; k++)
            for (int64_t t = 0; t < taps; t++)
                d->weights[(i * taps + t) * d->I + k] = w[(i * d->I + k) * taps + t];
    }
    return 0;
}

/* One row of x, between its padding. */
PARE_SIMD static void widen(const struct pare_q8 *q, const void *x, int64_t from, int16_t *y,
                            int64_t n)
{
    const uint8_t *u = (const uint8_t *)x + from;
    const int8_t *i8 = (const int8_t *)x + from;

    if (q->v->t.dtype == PARE_U8)
        for (int64_t i = 0; i < n; i++)
            y[i] = (int16_t)(u[i] - q->zero);
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = (int16_t)(i8[i] - q->zero);
}

static void spread(const struct dot8 *d, const void *x, int16_t *y, size_t bytes)
{
    const struct pare_window *w = &d->w;
    int64_t row = w->in[2] * d->C;

    memset(y, 0, bytes);
    for (int64_t i = 0; i < d->N * w->in[0] * w->in[1]; i++) {
        int64_t h = i % w->in[1] + w->pad_begin[1], z = i / w->in[1] % w->in[0] + w->pad_begin[0];
        int64_t n = i / w->in[1] / w->in[0];

        widen(&d->c.x, x, i * row,
              y + (((n * d->padded[0] + z) * d->padded[1] + h) * d->padded[2] + w->pad_begin[2]) *
                      d->C,
              row);
    }
}

PARE_SIMD static int32_t dot(const int16_t *restrict x, const int16_t *restrict w, int64_t n)
{
    int32_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * w[i];
    return sum;
}

/* The sum of one output channel; x is where the window starts, in the channel's group. */
static int32_t window(const struct dot8 *d, const int16_t *x, const int16_t *w)
{
    const struct pare_window *g = &d->w;
    bool joined = g->dilation[2] == 1 && d->I == d->C; /* taps of a row are neighbours */
    int64_t run = joined ? g->kernel[2] * d->I : d->I, runs = joined ? 1 : g->kernel[2];
    int32_t sum = 0;

    for (int64_t z = 0; z < g->kernel[0]; z++)
        for (int64_t h = 0; h < g->kernel[1]; h++) {
            const int16_t *row = x + (z * g->dilation[0] * d->padded[1] + h * g->dilation[1]) *
                                         d->padded[2] * d->C;

            for (int64_t k = 0; k < runs; k++, w += run)
                sum += dot(row + k * g->dilation[2] * d->C, w, run);
        }
    return sum;
}

#define STRIP 64

static void run_place(const struct dot8 *d, const int16_t *x, int64_t place, char *y)
{
    const struct pare_window *g = &d->w;
    int64_t q = place % g->out[2], h = place / g->out[2] % g->out[1];
    int64_t z = place / g->out[2] / g->out[1] % g->out[0];
    int64_t n = place / g->out[2] / g->out[1] / g->out[0];
    int64_t taps = g->kernel[0] * g->kernel[1] * g->kernel[2] * d->I;
    size_t size = pare_dtype_size(d->c.out->t.dtype);
    int32_t acc[STRIP];

    x += (((n * d->padded[0] + z * g->stride[0]) * d->padded[1] + h * g->stride[1]) * d->padded[2] +
          q * g->stride[2]) *
         d->C;
    for (int64_t o = 0; o < d->O; o += STRIP) {
        int64_t m = d->O - o < STRIP ? d->O - o : STRIP;

        for (int64_t i = 0; i < m; i++)
            acc[i] = window(d, x + (o + i) / (d->O / g->group) * d->I, d->weights + (o + i) * taps);
        pare_q8_finish(&d->out, acc, o, m, y + (size_t)(place * d->O + o) * size);
    }
}

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct dot8 *d = s->state;
    int64_t places = d->N * d->w.out[0] * d->w.out[1] * d->w.out[2];
    int16_t *x = s->work[0]->t.data;

    (void)err;
    spread(d, s->in_buf[0]->t.data, x, s->work_bytes[0]);
#pragma omp parallel for num_threads(b->threads) if (places * d->O > 1024)
    for (int64_t i = 0; i < places; i++)
        run_place(d, x, i, s->out_buf[0]->t.data);
    return 0;
}

const struct pare_kernel pare_kernel_conv_dot = {
    .name = "conv_dot",
    .doc = "Convolution of 8-bit integers in plain C, exact on every machine.",
    .integers = true,
    .match = match,
    .init = init,
    .run = run,
};
