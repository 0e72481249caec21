/* conv_winograd_int8.c - int8 3x3 Conv with requantization by F(4x4, 3x3) (winograd_int8.h).
 *
 * Some tiles at a time are transformed, multiplied with one panel of weights after the other and
 * transformed back, all in the L2 cache.
 */
#include "winograd_int8.h"

#include <math.h>

#include "../fuse/int8_conv_match.h"
#include "../../base/team.h"

#define CACHE (440 << 10) /* bytes of transformed input */
#define MOST_TILES 72

struct winograd_conv {
    struct pare_winograd_int8 k;
    struct pare_int8_conv c;
    int64_t images, tiles, some; /* tiles in total, and at a time */
};

/* Bound of the sums of a channel over inputs [from, to). */
static double reach(const struct pare_int8_conv *c, const int8_t *w, int64_t from, int64_t to)
{
    double up = 0, down = 0;

    for (int64_t i = from * 9; i < to * 9; i++) {
        int a = w[i] * (c->x.hi - c->x.zero), b = w[i] * (c->x.lo - c->x.zero);

        up += a > b ? a : b;
        down += a > b ? b : a;
    }
    return up > -down ? up : -down;
}

/* The number of parts into which the channels must be divided to keep all sums in range; 0: more
 * than four. */
static int parts(const struct pare_match *v, const struct pare_int8_conv *c,
                 struct pare_winograd_int8 *k)
{
    const int8_t *w = pare_int8_centered(&c->w, v->backend->scratch);

    for (k->parts = 1; w && k->parts <= PARE_WINOGRAD_INT8_PARTS; k->parts *= 2) {
        bool fits = true;

        for (int64_t o = 0; o < k->O && fits; o++)
            for (int p = 0; p < k->parts && fits; p++) {
                int64_t to = pare_winograd_int8_cut(k, p + 1) * 2;

                fits = reach(c, w + o * k->C * 9, pare_winograd_int8_cut(k, p) * 2,
                             to < k->C ? to : k->C) < PARE_WINOGRAD_INT8_REACH;
            }
        if (fits)
            return k->parts;
    }
    return 0;
}

/* Compare measured cycles: direct products against 36 int16 products, the transforms and reading
 * the weights.  With AVX2 direct products are int16, too (int8_dot.h). */
static bool conv_winograd_int8_pays(const struct winograd_conv *s, int threads)
{
    const struct pare_winograd_int8 *k = &s->k;
    double tiles = (double)s->tiles, C = (double)k->C, O = (double)k->O;
    double direct = (double)(s->images * k->out[0] * k->out[1]) * 9 * C * O /
                    (k->wide ? 64 * 0.8 : 16);
    double product = tiles * 36 * C * (double)(pare_winograd_int8_panels(k->O) * 32) /
                     (k->wide ? 32 * 0.85 : 20);
    double sides = tiles * (ceil(C / 32) * 220 + ceil(O / 16) * 260) * (k->wide ? 1 : 2);
    double blocks = ceil(tiles / (double)s->some), bytes = 72 * C * O;
    double reading = blocks * bytes / (bytes <= (12 << 20) ? 16 : k->wide ? 4 : 2);

    return k->C >= 16 && (product + sides + reading / threads) * 1.05 < direct;
}

static bool geometry(const struct pare_int8_conv *c, struct winograd_conv *s)
{
    const struct pare_window *w = &c->win;
    struct pare_winograd_int8 *k = &s->k;

    if (w->nd != 2 || w->group != 1 || c->w.v->t.rank != 4)
        return false;
    for (int i = 0; i < 2; i++) {
        if (w->kernel[i] != 3 || w->stride[i] != 1 || w->dilation[i] != 1 || w->pad_begin[i] < 0)
            return false;
        k->in[i] = w->in[i];
        k->out[i] = w->out[i];
        k->pad[i] = w->pad_begin[i];
        k->tiles[i] = (w->out[i] + 3) / 4;
    }
    k->C = c->w.v->t.dim[1];
    k->O = c->w.channels;
    k->zero = c->x.zero;
    k->is_signed = c->x.v->t.dtype == PARE_I8;
    s->images = c->shape.dim[0];
    s->tiles = s->images * k->tiles[0] * k->tiles[1];
    return true;
}

/* As many tiles as fit in the cache, in dozens, with work for all threads. */
static int64_t some_tiles(const struct winograd_conv *s, int threads)
{
    int64_t n = CACHE / (72 * s->k.C) / 12 * 12, each = (s->tiles + threads - 1) / threads, blocks;

    n = n < 12 ? 12 : n > MOST_TILES ? MOST_TILES : n;
    if (s->tiles <= n) /* panels are divided among the threads instead */
        return s->tiles;
    blocks = (each + n - 1) / n;
    return (each + blocks - 1) / blocks;
}

static bool conv_winograd_int8_match(const struct pare_match *v, struct pare_node *n,
                                     struct pare_step *s)
{
    struct winograd_conv *w = pare_alloc(v->backend->scratch, 1, sizeof(*w)), *keep;
    int threads = v->backend->threads;

    if (!w || !pare_winograd_int8_can(v->backend) || !pare_int8_conv(v, n, &w->c) ||
        !pare_int8_conv_quantized(&w->c) || !geometry(&w->c, w))
        return false;
    w->k.wide = pare_winograd_int8_wide(v->backend);
    w->some = some_tiles(w, threads);
    if ((!v->ignore_cost && !conv_winograd_int8_pays(w, threads)) || !parts(v, &w->c, &w->k))
        return false;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, w->c.end.n))
        return false;
    *keep = *w;
    s->state = keep;
    s->in[0] = w->c.x.v;
    s->out[0] = w->c.out;
    s->in_block[0] = w->c.layout;
    s->out_block[0] = PARE_CHANNELS_LAST;
    s->work_bytes[0] = (size_t)threads *
                       (pare_winograd_int8_v(w->k.C, w->some) * sizeof(int16_t) +
                        pare_winograd_int8_m(w->some, w->k.parts) * sizeof(int32_t));
    for (int i = 0; i < w->c.end.n; i++)
        s->fused[i] = w->c.end.node[i];
    return true;
}

static int init_weights(struct winograd_conv *w, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_int8_conv *c = &w->c;
    struct pare_int8_out *o = &w->k.finish;
    size_t columns = (size_t)pare_winograd_int8_panels(w->k.O) * PARE_WINOGRAD_INT8_PANEL;
    const int8_t *weights = pare_int8_centered(&c->w, b->scratch);
    int16_t *u = pare_alloc_raw(b->arena, pare_winograd_int8_u(w->k.C, w->k.O), sizeof(*u));

    *o = (struct pare_int8_out){ .out = c->out,
                                 .q = c->end.q,
                                 .f = pare_alloc(b->arena, columns, sizeof(float)),
                                 .b = pare_alloc(b->arena, columns, sizeof(float)),
                                 .lo = c->end.lo / c->end.q.scale,
                                 .hi = c->end.hi / c->end.q.scale };
    if (!weights || !u || !o->f || !o->b)
        return pare_no_memory(err, "for the weights");
    pare_winograd_int8_weights(weights, w->k.C, w->k.O, u);
    w->k.u = u;
    for (int64_t i = 0; i < w->k.O; i++) {
        o->f[i] = pare_int8_conv_factor(c, i);
        o->b[i] = (float)pare_int8_conv_bias(c, i);
    }
    return 0;
}

static int conv_winograd_int8_init(struct pare_step *s, struct pare_backend *b,
                                   struct pare_err *err)
{
    struct winograd_conv *w = s->state;
    const struct winograd_conv *like = s->share_from ? s->share_from->state : NULL;

    if (!like)
        return init_weights(w, b, err);
    w->k.u = like->k.u;
    w->k.finish = like->k.finish;
    w->k.finish.out = w->c.out;
    return 0;
}

struct job {
    const struct winograd_conv *w;
    const uint8_t *x;
    uint8_t *y;
    char *work;
    size_t bytes; /* of the scratch memory of each thread */
    size_t v;     /* of those, for transformed inputs */
};

/* Blocks of tiles. */
static void run_blocks(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct winograd_conv *w = j->w;
    const int64_t blocks = (w->tiles + w->some - 1) / w->some;
    char *mine = j->work + (size_t)thread * j->bytes;

    for (int64_t i = from; i < to; i++) {
        int64_t first = w->tiles * i / blocks, n = w->tiles * (i + 1) / blocks - first;
        struct pare_winograd_int8_part p = { .first = first,
                                             .n = n,
                                             .to = n,
                                             .v = (int16_t *)(void *)mine,
                                             .m = (int32_t *)(void *)(mine + j->v) };

        pare_winograd_int8_input(&w->k, &p, j->x);
        for (int64_t k = 0; k < pare_winograd_int8_panels(w->k.O); k++)
            pare_winograd_int8_output(&w->k, &p, k, j->y);
    }
}

/* All tiles at once: first their inputs, then panels of their results. */
static void tiles_in(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    struct pare_winograd_int8_part p = { .n = j->w->tiles,
                                         .from = from,
                                         .to = to,
                                         .v = (int16_t *)(void *)j->work };

    (void)thread;
    pare_winograd_int8_input(&j->w->k, &p, j->x);
}

static void panels_out(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    struct pare_winograd_int8_part p = {
        .n = j->w->tiles,
        .v = (int16_t *)(void *)j->work,
        .m = (int32_t *)(void *)(j->work + (size_t)thread * j->bytes + j->v),
    };

    for (int64_t k = from; k < to; k++)
        pare_winograd_int8_output(&j->w->k, &p, k, j->y);
}

static int conv_winograd_int8_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct winograd_conv *w = s->state;
    struct job j = {
        .w = w,
        .x = s->in_buf[0]->t.data,
        .y = s->out_buf[0]->t.data,
        .work = s->work[0]->t.data,
        .bytes = s->work_bytes[0] / (size_t)b->threads,
        .v = pare_winograd_int8_v(w->k.C, w->some) * sizeof(int16_t),
    };

    (void)err;
    if (w->tiles <= w->some) {
        pare_parallel(b->threads, w->tiles, tiles_in, &j);
        pare_parallel(b->threads, pare_winograd_int8_panels(w->k.O), panels_out, &j);
    } else {
        pare_parallel(b->threads, (w->tiles + w->some - 1) / w->some, run_blocks, &j);
    }
    return 0;
}

const struct pare_kernel pare_kernel_conv_winograd_int8 = {
    .name = "conv_winograd_int8",
    .doc = "Int8 3x3 convolution by Winograd's F(4x4, 3x3), exact.",
    .reads_int8 = true,
    .match = conv_winograd_int8_match,
    .init = conv_winograd_int8_init,
    .run = conv_winograd_int8_run,
};
