/* conv_int8_exact.c - int8 Conv in plain C, with exact sums on every CPU.
 *
 * For convolutions whose sums oneDNN would saturate (int8_operands.h) or cannot return exactly.
 * The windows of some pixels, x - x_zero with zeros as padding, become rows of int16 (k..., I), and
 * so do the weights; results are products of these (int8_dot.h).  Depthwise convolutions loop over
 * the channels instead, which are contiguous.  The zero point of ConvInteger's input may be known
 * at run time only, as after DynamicQuantizeLinear, and its weights may be any bytes.
 */
#include "../fuse/int8_conv_match.h"
#include "int8_dot.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../base/team.h"

#define PLACES 54   /* pixels at a time */
#define CHANNELS 64 /* output channels at a time */
#define CHUNK 256   /* channels of a depthwise convolution at a time */
#define SHORT 128   /* products in a sum */

struct conv_exact {
    struct pare_int8_conv c;
    struct pare_window w; /* over three axes */
    int64_t N, C, I, O;   /* images; channels of x, of a group, of y */
    int64_t taps, K;      /* of the window; elements of an int16 row */
    bool depthwise;
    bool pixels;             /* windows are single pixels, one after the other */
    struct pare_value *zero; /* x_zero, if it is known at run time only; or NULL */
    int16_t *weights;        /* panels of int8_dot.h by group, or depthwise (taps, O) */
    struct pare_int8_out out;
};

/* ConvInteger with a zero point that is computed, or weights that do not fit in int8. */
static bool read_dynamic(struct pare_node *n, struct conv_exact *d)
{
    enum { X, W, X_ZERO, W_ZERO };
    struct pare_value *zero = n->n_in > X_ZERO ? n->in[X_ZERO] : NULL;
    const struct pare_value *wz = n->n_in > W_ZERO ? n->in[W_ZERO] : NULL, *w;
    struct pare_int8_conv *c = &d->c;
    struct pare_err err;

    if (!pare_node_is(n, &pare_op_conv_integer) || !pare_numel(&n->out[0]->t))
        return false;
    w = n->in[W];
    *c = (struct pare_int8_conv){ .x = { .v = n->in[X], .scale = 1 },
                                  .shape = n->in[X]->t,
                                  .layout = PARE_CHANNELS_LAST,
                                  .w = { .v = w, .zero = wz, .channels = w->t.dim[0] },
                                  .out = n->out[0] };
    if (pare_is_const(n->in[X]) || !pare_is_const(w) || !pare_const_raw(w) ||
        (wz && (!pare_is_const(wz) || !wz->t.data)) || pare_conv_window(n, &c->win, &err) ||
        (wz && pare_numel(&wz->t) != 1 && pare_numel(&wz->t) != c->w.channels))
        return false;
    d->zero = zero && !pare_is_const(zero) ? zero : NULL;
    if (zero && (pare_numel(&zero->t) != 1 || (!d->zero && !zero->t.data)))
        return false;
    c->x.zero = zero && !d->zero ? (int)pare_get_int(&zero->t, 0) : 0;
    /* The products are up to 255 * 255. */
    return pare_numel(&w->t) / c->w.channels <= PARE_DOT_LONGEST / 2;
}

static bool read_node(const struct pare_match *v, struct pare_node *n, struct conv_exact *d)
{
    if (!pare_int8_conv(v, n, &d->c) && !read_dynamic(n, d))
        return false;
    if (d->c.shape.rank < 3 || d->c.shape.rank > 5)
        return false;
    d->w = d->c.win;
    pare_window_3d(&d->w);
    d->N = d->c.shape.dim[0];
    d->C = d->c.shape.dim[1];
    d->I = d->C / d->w.group;
    d->O = d->c.w.channels;
    d->taps = d->w.kernel[0] * d->w.kernel[1] * d->w.kernel[2];
    d->K = pare_dot_length(d->taps * d->I);
    d->depthwise = d->w.group == d->C && d->O == d->C;
    d->pixels = d->taps == 1 && d->w.group == 1 && d->K == d->C;
    for (int i = 0; i < 3; i++)
        d->pixels &= d->w.stride[i] == 1 && !d->w.pad_begin[i] && d->w.in[i] == d->w.out[i];
    return d->taps * d->I <= PARE_DOT_LONGEST;
}

/* Is it faster in float32?  Between float values, short sums are, and float32 holds them
 * exactly; between int8 values the conversions take longer than the sums with AVX2. */
static bool is_slow(const struct pare_node *n, const struct conv_exact *d)
{
    if (pare_dot_fast() && pare_int8_conv_quantized(&d->c))
        return false;
    return pare_node_is(n, &pare_op_conv) && d->taps * d->I < SHORT &&
           pare_int8_conv_below(&d->c, 1 << 24);
}

static bool conv_int8_exact_match(const struct pare_match *v, struct pare_node *n,
                                  struct pare_step *s)
{
    struct conv_exact d = { 0 }, *keep;

    if (!read_node(v, n, &d) || is_slow(n, &d))
        return false;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, d.zero ? 2 : 1, 1, d.c.end.n))
        return false;
    *keep = d;
    s->state = keep;
    s->in[0] = d.c.x.v;
    if (d.zero)
        s->in[1] = d.zero;
    s->out[0] = d.c.out;
    s->in_block[0] = d.c.layout;
    s->out_block[0] = PARE_CHANNELS_LAST;
    for (int i = 0; i < d.c.end.n; i++)
        s->fused[i] = d.c.end.node[i];
    if (!d.depthwise)
        s->work_bytes[0] = (size_t)(v->backend->threads * PLACES * d.K) * sizeof(int16_t);
    return true;
}

/* Elements of the weights of a group. */
static int64_t group_size(const struct conv_exact *d)
{
    return (int64_t)pare_dot_packed(d->K, d->O / d->w.group);
}

/* The weights to channel o: element i, tap after tap, is at i / 2 * pair + i % 2 * next. */
static int16_t *column_of(const struct conv_exact *d, int64_t o, int64_t *pair, int64_t *next)
{
    int64_t per = d->O / d->w.group;

    *pair = 2 * (d->depthwise ? d->O : PARE_DOT_COLUMNS);
    *next = d->depthwise ? d->O : 1;
    if (d->depthwise)
        return d->weights + o;
    return d->weights + o / per * group_size(d) + pare_dot_at(d->K, 0, o % per);
}

static int init_weights(struct conv_exact *d, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_value *wz = d->c.w.zero;
    const uint8_t *w = pare_const_raw(d->c.w.v);
    bool is_signed = d->c.w.v->t.dtype == PARE_I8, each = wz && pare_numel(&wz->t) > 1;

    d->weights = pare_alloc(b->arena,
                            (size_t)(d->depthwise ? d->O * d->taps : d->w.group * group_size(d)),
                            sizeof(*d->weights));
    if (!d->weights)
        return pare_no_memory(err, "for the weights");
    for (int64_t o = 0; o < d->O; o++) {
        int zero = wz ? (int)pare_get_int(&wz->t, each ? o : 0) : 0;
        int64_t pair, next;
        int16_t *to = column_of(d, o, &pair, &next);

        for (int64_t k = 0; k < d->I; k++)
            for (int64_t t = 0; t < d->taps; t++) {
                uint8_t u = w[(o * d->I + k) * d->taps + t];
                int64_t i = t * d->I + k;

                to[i / 2 * pair + i % 2 * next] = (int16_t)((is_signed ? (int8_t)u : u) - zero);
            }
    }
    return 0;
}

static int conv_int8_exact_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv_exact *d = s->state;
    struct pare_int8_out *o = &d->out;
    bool held = pare_int8_conv_quantized(&d->c);

    if (s->share_from) {
        const struct conv_exact *like = s->share_from->state;

        d->weights = like->weights;
        *o = like->out;
        o->out = d->c.out;
        return 0;
    }
    PARE_TRY(init_weights(d, b, err));
    *o = (struct pare_int8_out){ d->c.out, d->c.end.q, NULL, NULL, -INFINITY, INFINITY };
    if (held) {
        o->lo = d->c.end.lo / o->q.scale;
        o->hi = d->c.end.hi / o->q.scale;
    }
    o->f = pare_alloc(b->arena, (size_t)d->O, sizeof(*o->f));
    o->b = pare_alloc(b->arena, (size_t)d->O, sizeof(*o->b));
    if (!o->f || !o->b)
        return pare_no_memory(err, "for the scales");
    for (int64_t i = 0; i < d->O; i++) {
        o->f[i] = pare_int8_conv_factor(&d->c, i);
        o->b[i] = (float)pare_int8_conv_bias(&d->c, i);
    }
    return 0;
}

/* The image and the first input index of a pixel's window. */
struct spot {
    int64_t image, at[3];
};

static struct spot window_of(const struct conv_exact *d, int64_t place)
{
    struct spot p;

    for (int i = 2; i >= 0; i--) {
        p.at[i] = place % d->w.out[i] * d->w.stride[i] - d->w.pad_begin[i];
        place /= d->w.out[i];
    }
    p.image = place;
    return p;
}

/* Offset in x of a row of the window (tap 0 of the last axis may be outside); -1: padding. */
static int64_t row_offset(const struct conv_exact *d, const struct spot *p, int64_t z, int64_t h)
{
    const struct pare_window *w = &d->w;
    int64_t iz = p->at[0] + z * w->dilation[0], ih = p->at[1] + h * w->dilation[1];

    if (iz < 0 || iz >= w->in[0] || ih < 0 || ih >= w->in[1])
        return -1;
    return ((p->image * w->in[0] + iz) * w->in[1] + ih) * w->in[2] * d->C;
}

/* Taps [*lo, *hi) of the last axis that are not padding. */
static void valid_taps(const struct pare_window *w, const struct spot *p, int64_t *lo, int64_t *hi)
{
    *lo = 0;
    *hi = w->kernel[2];
    while (*lo < *hi && p->at[2] + *lo * w->dilation[2] < 0)
        ++*lo;
    while (*lo < *hi && p->at[2] + (*hi - 1) * w->dilation[2] >= w->in[2])
        --*hi;
}

/* The window of a pixel in a group, as an int16 row. */
static void copy_window(const struct conv_exact *d, const void *x, int64_t place, int64_t group,
                        int16_t *row)
{
    const struct pare_window *w = &d->w;
    struct spot p = window_of(d, place);
    bool joined = w->dilation[2] == 1 && d->I == d->C; /* the taps of a line are contiguous */
    int64_t lo, hi;

    valid_taps(w, &p, &lo, &hi);
    memset(row, 0, (size_t)d->K * sizeof(*row));
    for (int64_t z = 0; z < w->kernel[0]; z++)
        for (int64_t h = 0; h < w->kernel[1]; h++, row += w->kernel[2] * d->I) {
            int64_t at = row_offset(d, &p, z, h) + group * d->I, step = w->dilation[2] * d->C;

            if (at < group * d->I)
                continue;
            at += p.at[2] * d->C;
            if (joined)
                pare_dot_widen(&d->c.x, x, at + lo * d->C, row + lo * d->I, (hi - lo) * d->I);
            for (int64_t k = lo; k < hi && !joined; k++)
                pare_dot_widen(&d->c.x, x, at + k * step, row + k * d->I, d->I);
        }
}

static void run_pixels(const struct conv_exact *d, const void *x, int64_t first, int64_t n,
                       int16_t *rows, char *y)
{
    int64_t per = d->O / d->w.group;
    size_t size = pare_dtype_size(d->c.out->t.dtype);
    int32_t acc[PLACES * CHANNELS];

    for (int64_t g = 0; g < d->w.group; g++) {
        if (d->pixels)
            pare_dot_widen(&d->c.x, x, first * d->K, rows, n * d->K);
        for (int64_t i = 0; i < n && !d->pixels; i++)
            copy_window(d, x, first + i, g, rows + i * d->K);
        if (pare_int8_conv_quantized(&d->c)) {
            pare_dot_block(&(struct pare_dot){ .x = rows,
                                               .w = d->weights + g * group_size(d),
                                               .rows = n,
                                               .columns = per,
                                               .K = d->K,
                                               .out = &d->out,
                                               .channel = g * per,
                                               .stride = d->O,
                                               .bytes = (uint8_t *)y + first * d->O + g * per },
                           NULL);
            continue;
        }
        for (int64_t c = 0; c < per; c += CHANNELS) {
            int64_t m = per - c < CHANNELS ? per - c : CHANNELS, o = g * per + c;
            const int16_t *w = d->weights + g * group_size(d) + c * d->K;

            pare_dot_block(
                &(struct pare_dot){ .x = rows, .w = w, .rows = n, .columns = m, .K = d->K }, acc);
            for (int64_t i = 0; i < n; i++)
                pare_int8_finish(&d->out, acc + i * m, o, m,
                                 y + (size_t)((first + i) * d->O + o) * size);
        }
    }
}

/* List the taps from `*tap` on that are not padding; true: there may be more. */
static bool list_taps(const struct conv_exact *d, const uint8_t *x, const struct spot *p,
                      int64_t *tap, struct pare_dot_taps *list)
{
    const struct pare_window *w = &d->w;
    int64_t lo, hi;

    valid_taps(w, p, &lo, &hi);
    for (list->n = 0; *tap < d->taps && list->n < PARE_DOT_TAPS; ++*tap) {
        int64_t k = *tap % w->kernel[2], line = *tap / w->kernel[2];
        int64_t at = row_offset(d, p, line / w->kernel[1], line % w->kernel[1]);

        if (at < 0 || k < lo || k >= hi)
            continue;
        list->x[list->n] = x + at + (p->at[2] + k * w->dilation[2]) * d->C;
        list->w[list->n++] = d->weights + *tap * d->O;
    }
    return *tap < d->taps;
}

static void run_depthwise(const struct conv_exact *d, const void *x, int64_t place, char *y)
{
    struct pare_dot_taps list = { .zero = d->c.x.zero, .is_signed = d->c.x.v->t.dtype == PARE_I8 };
    struct spot p = window_of(d, place);
    size_t size = pare_dtype_size(d->c.out->t.dtype);
    int64_t first = 0;
    bool more = list_taps(d, x, &p, &first, &list);

    for (int64_t c = 0; c < d->C; c += CHUNK) {
        int64_t n = d->C - c < CHUNK ? d->C - c : CHUNK;
        int32_t acc[CHUNK] = { 0 };

        pare_dot_add_taps(&list, c, n, acc);
        for (int64_t tap = first; more && tap < d->taps;) {
            struct pare_dot_taps next = { .zero = list.zero, .is_signed = list.is_signed };

            list_taps(d, x, &p, &tap, &next);
            pare_dot_add_taps(&next, c, n, acc);
        }
        pare_int8_finish(&d->out, acc, c, n, y + (size_t)(place * d->O + c) * size);
    }
}

static struct conv_exact at_run_time(const struct pare_step *s)
{
    struct conv_exact now = *(const struct conv_exact *)s->state;

    if (now.zero)
        now.c.x.zero = (int)pare_get_int(&s->in_buf[1]->t, 0);
    return now;
}

struct job {
    struct pare_step *s;
    const struct conv_exact *d;
    int64_t places;
};

static void run_groups(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct conv_exact *d = j->d;
    const void *x = j->s->in_buf[0]->t.data;
    char *y = j->s->out_buf[0]->t.data;
    int16_t *rows = j->s->work[0] ? j->s->work[0]->t.data : NULL;

    to = to * PLACES < j->places ? to * PLACES : j->places;
    for (int64_t i = from * PLACES; i < to; i += d->depthwise ? 1 : PLACES)
        if (d->depthwise)
            run_depthwise(d, x, i, y);
        else
            run_pixels(d, x, i, to - i < PLACES ? to - i : PLACES, rows + thread * PLACES * d->K,
                       y);
}

static int conv_int8_exact_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv_exact now = at_run_time(s);
    struct job j = { s, &now, now.N * now.w.out[0] * now.w.out[1] * now.w.out[2] };

    (void)err;
    pare_parallel(j.places * now.O * now.taps > 16384 ? b->threads : 1,
                  (j.places + PLACES - 1) / PLACES, run_groups, &j);
    return 0;
}

const struct pare_kernel pare_kernel_conv_int8_exact = {
    .name = "conv_int8_exact",
    .doc = "Int8 convolution in plain C, exact on every CPU.",
    .reads_int8 = true,
    .match = conv_int8_exact_match,
    .init = conv_int8_exact_init,
    .run = conv_int8_exact_run,
};
