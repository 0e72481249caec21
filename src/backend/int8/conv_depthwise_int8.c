/* conv_depthwise_int8.c - int8 depthwise Conv with requantization (depthwise_int8.h). */
#include "depthwise_int8.h"

#include "../fuse/int8_conv_match.h"
#include "../../base/team.h"

#define MOST 8 /* rows and columns of a filter, at most */

struct depth {
    struct pare_depthwise_int8 k;
    struct pare_int8_conv c;
    int64_t images;
};

static bool geometry(struct depth *d)
{
    const struct pare_window *w = &d->c.win;
    struct pare_depthwise_int8 *k = &d->k;

    if (w->nd != 2 || d->c.w.v->t.rank != 4 || d->c.w.v->t.dim[1] != 1 ||
        w->group != d->c.w.channels || d->c.shape.dim[1] != d->c.w.channels)
        return false;
    for (int i = 0; i < 2; i++) {
        if (w->kernel[i] > MOST || w->pad_begin[i] < 0)
            return false;
        k->in[i] = w->in[i];
        k->out[i] = w->out[i];
        k->pad[i] = w->pad_begin[i];
        k->stride[i] = w->stride[i];
        k->dilation[i] = w->dilation[i];
        k->kernel[i] = w->kernel[i];
    }
    k->C = d->c.w.channels;
    d->images = d->c.shape.dim[0];
    return true;
}

/* Are the vectors mostly full, or are there many products per vector?  With AVX2 the alternative
 * takes each pixel by itself. */
static bool conv_depthwise_int8_pays(const struct pare_depthwise_int8 *k)
{
    return k->C * 4 >= pare_depthwise_int8_blocks(k) * pare_depthwise_int8_channels(k) * 3 ||
           k->kernel[0] * k->kernel[1] > 9 || !k->wide;
}

static void bounds(struct depth *d)
{
    const struct pare_int8 *q = &d->c.end.q;
    struct pare_depthwise_int8 *k = &d->k;
    struct pare_int8_out o = { .out = d->c.out,
                               .q = *q,
                               .lo = d->c.end.lo / q->scale,
                               .hi = d->c.end.hi / q->scale };

    k->flip = d->c.x.v->t.dtype == PARE_I8 ? 128 : 0;
    k->zero = d->c.x.zero + k->flip;
    k->is_signed = d->c.out->t.dtype == PARE_I8;
    k->y_zero = q->zero;
    pare_int8_bounds(&o, &k->lo, &k->hi);
}

static bool conv_depthwise_int8_match(const struct pare_match *v, struct pare_node *n,
                                      struct pare_step *s)
{
    struct depth *d = pare_alloc(v->backend->scratch, 1, sizeof(*d)), *keep;

    if (!d || !pare_depthwise_int8_can())
        return false;
    d->k.wide = pare_depthwise_int8_wide(v->backend);
    if (!pare_int8_conv(v, n, &d->c) || !pare_int8_conv_quantized(&d->c) || !geometry(d) ||
        (!v->ignore_cost && !conv_depthwise_int8_pays(&d->k)))
        return false;
    bounds(d);
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, d->c.end.n))
        return false;
    *keep = *d;
    s->state = keep;
    s->in[0] = d->c.x.v;
    s->out[0] = d->c.out;
    s->in_block[0] = d->c.layout;
    s->out_block[0] = PARE_CHANNELS_LAST;
    s->work_bytes[0] = (size_t)v->backend->threads * pare_depthwise_int8_room(&d->k);
    for (int i = 0; i < d->c.end.n; i++)
        s->fused[i] = d->c.end.node[i];
    return true;
}

/* Store channel c's filter and its sum in the order of the lanes. */
static void store_channel(const struct depth *d, const int8_t *from, int64_t c, void *w,
                          int32_t *sum)
{
    const struct pare_depthwise_int8 *k = &d->k;
    const int64_t n = pare_depthwise_int8_channels(k), deep = pare_depthwise_int8_deep(k);
    const int64_t lane = pare_depthwise_int8_lane(k, c), columns = k->kernel[1];
    const int64_t first = c / n * pare_depthwise_int8_groups(k) * columns;
    int64_t all = 0;

    for (int64_t h = 0; h < k->kernel[0]; h++)
        for (int64_t i = 0; i < columns; i++) {
            int8_t one = from[(c * k->kernel[0] + h) * columns + i];
            int64_t at = ((first + h / deep * columns + i) * n + lane % n) * deep + h % deep;

            if (k->wide)
                ((int8_t *)w)[at] = one;
            else
                ((int16_t *)w)[at] = one;
            all += one;
        }
    sum[lane] = (int32_t)(-k->zero * all);
}

static int init_weights(struct depth *d, struct pare_backend *b, struct pare_err *err)
{
    struct pare_depthwise_int8 *k = &d->k;
    size_t lanes = (size_t)(pare_depthwise_int8_blocks(k) * pare_depthwise_int8_channels(k));
    size_t size = (size_t)(pare_depthwise_int8_groups(k) * pare_depthwise_int8_deep(k)) *
                  (size_t)k->kernel[1] * lanes;
    const int8_t *from = pare_int8_centered(&d->c.w, b->scratch);
    void *w = pare_alloc(b->arena, size, k->wide ? 1 : sizeof(int16_t));
    int32_t *sum = pare_alloc(b->arena, lanes, sizeof(*sum));
    float *f = pare_alloc(b->arena, lanes, sizeof(*f));
    float *bias = pare_alloc(b->arena, lanes, sizeof(*bias));

    if (!from || !w || !sum || !f || !bias)
        return pare_no_memory(err, "for the weights");
    for (int64_t c = 0; c < k->C; c++) {
        int64_t at = pare_depthwise_int8_lane(k, c);

        store_channel(d, from, c, w, sum);
        f[at] = pare_int8_conv_factor(&d->c, c);
        bias[at] = (float)pare_int8_conv_bias(&d->c, c);
    }
    k->w = w;
    k->sum = sum;
    k->f = f;
    k->b = bias;
    return 0;
}

static int conv_depthwise_int8_init(struct pare_step *s, struct pare_backend *b,
                                    struct pare_err *err)
{
    struct depth *d = s->state;
    const struct depth *like = s->share_from ? s->share_from->state : NULL;

    if (!like)
        return init_weights(d, b, err);
    d->k.w = like->k.w;
    d->k.sum = like->k.sum;
    d->k.f = like->k.f;
    d->k.b = like->k.b;
    return 0;
}

static void run_rows(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct depth *d = s->state;
    const struct pare_depthwise_int8 *k = &d->k;
    const uint8_t *x = s->in_buf[0]->t.data;
    uint8_t *y = s->out_buf[0]->t.data, *room = s->work[0]->t.data;
    int64_t blocks = pare_depthwise_int8_blocks(k), rows = k->out[0];

    for (int64_t i = from; i < to; i++) {
        int64_t n = i / (blocks * rows);

        (k->wide ? pare_depthwise_int8_row : pare_depthwise_int8_row_pairs)(
            k, x + n * k->in[0] * k->in[1] * k->C, i % rows, i / rows % blocks,
            room + (size_t)thread * pare_depthwise_int8_room(k), y + n * rows * k->out[1] * k->C);
    }
}

static int conv_depthwise_int8_run(struct pare_step *s, struct pare_backend *b,
                                   struct pare_err *err)
{
    const struct depth *d = s->state;
    const int64_t all = d->images * pare_depthwise_int8_blocks(&d->k) * d->k.out[0];

    (void)err;
    pare_parallel(all * d->k.out[1] > 64 ? b->threads : 1, all, run_rows, s);
    return 0;
}

const struct pare_kernel pare_kernel_conv_depthwise_int8 = {
    .name = "conv_depthwise_int8",
    .doc = "Int8 depthwise convolution.",
    .reads_int8 = true,
    .match = conv_depthwise_int8_match,
    .init = conv_depthwise_int8_init,
    .run = conv_depthwise_int8_run,
};
