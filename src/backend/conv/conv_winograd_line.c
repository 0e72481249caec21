/* conv_winograd_line.c - Conv with constant filters of k x 1 or 1 x k by Winograd's F(4, 4).
 *
 * A line of k taps is cut into pieces of four.  Four results of a piece need seven products of
 * transformed inputs and taps: y = A' [ (G w) . (B' d) ].  The inputs of piece p of tile t are
 * those of piece 0 of tile t + p, so each input is transformed once, and the products of all pieces
 * and channels are one sum: 14 multiplications per four results of seven taps instead of 28.
 */
#include "../fuse/conv_fuse.h"

#include "../gemm/gemm_packed.h"

#include "../../base/simd.h"
#include "../../base/team.h"

#define TILE 4   /* results of a tile, and taps of a piece */
#define POINTS 7 /* 0, 1, -1, 2, 1/2, -1/2 and infinity */
#define MOST_TAPS 16
#define LEAST_CHANNELS 16
#define CACHE_BYTES (640 << 10)

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_post_op post[PARE_MAX_POST];
    int n_post, axis;
    int64_t N, in_channels, out_channels, taps, pieces; /* channels are padded to blocks */
    int64_t lines, in, out, tiles, pad;                 /* of a line: inputs, results, tiles */
    int64_t most;                                       /* lines at a time */
    double g[POINTS][TILE];                             /* G */
    float *u, *bias;
};

/* B' and A'; a polynomial is evaluated at the points, in this order. */
static const float to_points[POINTS][POINTS] = {
    { -0.5f, 0.25f, 2.5f, -1.25f, -2, 1, 0 }, { 0, 0.5f, 0.25f, -2.25f, -1, 1, 0 },
    { 0, -0.5f, 0.75f, 1.75f, -3, 1, 0 },     { 0, 0.25f, 0, -1.25f, 0, 1, 0 },
    { 0, 1, 1.5f, -2, -1.5f, 1, 0 },          { 0, -1, 2.5f, 0, -2.5f, 1, 0 },
    { 0, -0.5f, 0.25f, 2.5f, -1.25f, -2, 1 },
};
static const float from_points[TILE][POINTS] = {
    { 1, 1, 1, 1, 1, 1, 0 },
    { 0, 1, -1, 2, 0.5f, -0.5f, 0 },
    { 0, 1, 1, 4, 0.25f, 0.25f, 0 },
    { 0, 1, -1, 8, 0.125f, -0.125f, 1 },
};
static const double point[POINTS - 1] = { 0, 1, -1, 2, 0.5, -0.5 };

/* Row strides are not powers of two, which would map all rows to the same few cache sets. */
static int64_t row_of(int64_t channels)
{
    return channels + 16;
}

/* Floats from one point's inputs, or results, to the next, for n lines. */
static int64_t inputs_of(const struct conv *c, int64_t n)
{
    return (c->tiles + c->pieces - 1) * n * row_of(c->in_channels) + 16;
}

static int64_t results_of(const struct conv *c, int64_t n)
{
    return c->tiles * n * row_of(c->out_channels) + 16;
}

static int64_t filters_of(const struct conv *c)
{
    return c->pieces * c->in_channels * c->out_channels + 16;
}

/* As in conv_winograd.c: products, or reading the filters; transforms; against direct products. */
static bool pays(const struct conv *c, const struct pare_backend *b)
{
    const int64_t tiles = c->N * c->lines * c->tiles, in = c->in_channels, out = c->out_channels;
    const int64_t products = tiles * POINTS * c->pieces * in * out / b->block;
    const int64_t filters = POINTS * filters_of(c) * b->threads;
    const int64_t transforms = tiles * (in + out) / b->block * 100;
    const int64_t direct = c->N * c->lines * c->out * c->taps * in * out / b->block;

    return in >= LEAST_CHANNELS && out >= LEAST_CHANNELS &&
           (products > filters ? products : filters) + transforms < direct;
}

static bool conv_winograd_line_usable(const struct pare_match *v, const struct pare_node *n,
                                      struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;

    if (v->train || v->backend->compact || v->backend->bf16 || v->backend->block < 8 ||
        n->in[0]->t.rank != 4 || w->group != 1)
        return false;
    c->axis = w->kernel[1] > 1;
    for (int i = 0; i < 2; i++)
        if (w->stride[i] != 1 || w->dilation[i] != 1 || w->pad_begin[i] < 0 ||
            (i != c->axis && (w->kernel[i] != 1 || w->in[i] != w->out[i] || w->pad_begin[i])))
            return false;
    c->n_post = pare_conv_fuse_vector_ops(&c->fuse, n->out[0]->t.dim[1] % v->backend->block != 0,
                                          c->post);
    return c->n_post >= 0 && w->kernel[c->axis] > 2 && w->kernel[c->axis] <= MOST_TAPS;
}

/* Sizes; as many lines at a time as stay in a cache, the same number for each thread. */
static void measure(const struct pare_match *v, const struct pare_node *n, struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t block = v->backend->block, threads = v->backend->threads;
    int64_t bytes, parts;

    c->N = n->in[0]->t.dim[0];
    c->in_channels = (n->in[0]->t.dim[1] + block - 1) / block * block;
    c->out_channels = (n->out[0]->t.dim[1] + block - 1) / block * block;
    c->taps = w->kernel[c->axis];
    c->pieces = (c->taps + TILE - 1) / TILE;
    c->lines = w->in[!c->axis];
    c->in = w->in[c->axis];
    c->out = w->out[c->axis];
    c->tiles = (c->out + TILE - 1) / TILE;
    c->pad = w->pad_begin[c->axis];
    bytes = POINTS * (inputs_of(c, 1) + results_of(c, 1)) * (int64_t)sizeof(float);
    parts = (c->lines * bytes + CACHE_BYTES - 1) / CACHE_BYTES;
    if (c->N * parts % threads)
        parts = (parts + threads - 1) / threads * threads;
    parts = parts < c->lines ? parts : c->lines;
    c->most = (c->lines + parts - 1) / parts;
}

static size_t own_floats(const struct conv *c)
{
    return (size_t)(POINTS * (inputs_of(c, c->most) + results_of(c, c->most)));
}

static bool conv_winograd_line_match(const struct pare_match *v, struct pare_node *n,
                                     struct pare_step *s)
{
    const int block = v->backend->block;
    struct conv *c;

    if (!pare_node_is(n, &pare_op_conv))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_conv_fuse(v, n, &c->fuse) || !conv_winograd_line_usable(v, n, c))
        return false;
    measure(v, n, c);
    if ((!v->ignore_cost && !pays(c, v->backend)) ||
        !pare_conv_fuse_step(v, n, &c->fuse, block, block, s))
        return false;
    s->inplace = 0; /* y is written before the operand of the sum is read */
    s->work_bytes[0] = (size_t)v->backend->threads * own_floats(c) * sizeof(float);
    s->state = c;
    return true;
}

/* G, by point and tap of a piece. */
static void fill_g(double g[POINTS][TILE])
{
    for (int j = 0; j < POINTS; j++) {
        double power = 1;

        for (int i = 0; i < POINTS - 1 && j < POINTS - 1; i++)
            if (i != j)
                power /= point[j] - point[i];
        for (int k = 0; k < TILE; k++) {
            g[j][k] = j < POINTS - 1 ? power : k == TILE - 1;
            power *= j < POINTS - 1 ? point[j] : 0;
        }
    }
}

/* All points and pieces of the filter from channel i to channel o; taps beyond the last are 0. */
static void put_filter(const struct conv *c, int block, const double *tap, int64_t o, int64_t i)
{
    const int64_t K = c->pieces * c->in_channels, blocks = c->out_channels / block;

    for (int64_t p = 0; p < c->pieces; p++) {
        float *to = c->u + pare_packed_gemm_at(K, blocks, block, p * c->in_channels + i, o);

        for (int j = 0; j < POINTS; j++) {
            double sum = 0;

            for (int k = 0; k < TILE; k++)
                sum += c->g[j][k] * tap[p * TILE + k];
            to[j * filters_of(c)] = (float)sum;
        }
    }
}

static void put_filters(const struct conv *c, const struct pare_backend *b,
                        const struct pare_value *w, const float *scale)
{
    const unsigned char *from = pare_const_raw(w);
    const int64_t O = w->t.dim[0], I = w->t.dim[1];

#pragma omp parallel for num_threads(b->threads)
    for (int64_t o = 0; o < O; o++)
        for (int64_t i = 0; i < I; i++) {
            double tap[MOST_TAPS] = { 0 };

            for (int64_t k = 0; k < c->taps; k++) {
                float f;

                memcpy(&f, from + (size_t)((o * I + i) * c->taps + k) * sizeof(f), sizeof(f));
                tap[k] = (double)f * (double)scale[o];
            }
            put_filter(c, b->block, tap, o, i);
        }
}

static int conv_winograd_line_init(struct pare_step *s, struct pare_backend *b,
                                   struct pare_err *err)
{
    struct conv *c = s->state;
    const size_t padded = (size_t)c->out_channels;
    float *scale = pare_alloc(b->scratch, padded, sizeof(*scale));

    if (s->share_from) {
        c->u = ((const struct conv *)s->share_from->state)->u;
        c->bias = ((const struct conv *)s->share_from->state)->bias;
        return 0;
    }
    c->u = pare_alloc(b->arena, (size_t)(POINTS * filters_of(c)), sizeof(float));
    c->bias = pare_alloc(b->arena, padded, sizeof(float));
    if (!scale || !c->u || !c->bias)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    fill_g(c->g);
    put_filters(c, b, s->node->in[1], scale);
    return 0;
}

/* Lines [first, first + n) of an image.  Tile t of line i is row t * n + i of the products. */
struct part {
    const float *x;
    float *y;
    int64_t n, block, step; /* step: the distance of neighbors in a line */
    int64_t in_line, out_line, in_plane, out_plane;
    float *v, *m;
    int64_t v_step, m_step;
};

/* o = B' d for eight channels. */
PARE_SIMD_PART void transform_in(const pare_v8 *d, float *o, int64_t step)
{
#pragma GCC unroll 7
    for (int j = 0; j < POINTS; j++) {
        pare_v8 sum = { 0 };

#pragma GCC unroll 7
        for (int k = 0; k < POINTS; k++)
            if (to_points[j][k] != 0)
                sum += d[k] * to_points[j][k];
        PARE_PUT8(o + j * step, sum);
    }
}

/* Transform input tile t of all lines of a part. */
PARE_SIMD static void tile_in(const struct conv *c, const struct part *r, int64_t t)
{
    const int64_t from = t * TILE - c->pad, row = row_of(c->in_channels);
    const int64_t lo = from < 0 ? -from : 0, hi = c->in - from;

    for (int64_t i = 0; i < r->n; i++)
        for (int64_t k = 0; k < c->in_channels; k += 8) {
            const float *x = r->x + k / r->block * r->in_plane + i * r->in_line + k % r->block +
                             from * r->step;
            pare_v8 d[POINTS];

#pragma GCC unroll 7
            for (int q = 0; q < POINTS; q++) {
                if (q >= lo && q < hi)
                    d[q] = PARE_V8(x + q * r->step);
                else
                    d[q] = (pare_v8){ 0 };
            }
            transform_in(d, r->v + (t * r->n + i) * row + k, r->v_step);
        }
}

/* y = A' m + bias for a block of channels from k on, all tiles of all lines. */
PARE_SIMD static void block_out(const struct conv *c, const struct part *r, int64_t k, float *y)
{
    const int64_t row = row_of(c->out_channels);

    for (int64_t t = 0; t < c->tiles; t++)
        for (int64_t i = 0; i < r->n; i++)
            for (int64_t e = 0; e < r->block; e += 8) {
                const float *m = r->m + (t * r->n + i) * row + k + e;
                const int64_t left = c->out - t * TILE;
                float *to = y + i * r->out_line + t * TILE * r->step + e;
                pare_v8 d[POINTS];

#pragma GCC unroll 7
                for (int j = 0; j < POINTS; j++)
                    d[j] = PARE_V8(m + j * r->m_step);
#pragma GCC unroll 4
                for (int q = 0; q < TILE; q++) {
                    pare_v8 sum = PARE_V8(c->bias + k + e);

#pragma GCC unroll 7
                    for (int j = 0; j < POINTS; j++)
                        if (from_points[q][j] != 0)
                            sum += d[j] * from_points[q][j];
                    if (q < left)
                        PARE_PUT8(to + q * r->step, sum);
                }
            }
}

static void multiply(const struct conv *c, const struct part *r, int j)
{
    const struct pare_packed_gemm p = {
        .x = r->v + j * r->v_step,
        .w = c->u + j * filters_of(c),
        .y = r->m + j * r->m_step,
        .rows = c->tiles * r->n,
        .blocks = c->out_channels / r->block,
        .runs = c->pieces,
        .run = c->in_channels,
        .x_row = row_of(c->in_channels),
        .x_run = r->n * row_of(c->in_channels),
        .y_row = row_of(c->out_channels),
        .y_block = r->block,
        .block = (int)r->block,
    };

    pare_packed_gemm_run(&p);
}

static void run_part(const struct conv *c, const struct part *r, const float *sum)
{
    for (int64_t t = 0; t < c->tiles + c->pieces - 1; t++)
        tile_in(c, r, t);
    for (int j = 0; j < POINTS; j++)
        multiply(c, r, j);
    for (int64_t k = 0; k < c->out_channels; k += r->block) {
        const int64_t at = k / r->block * r->out_plane;
        const struct pare_post_area a = {
            .y = r->y + at,
            .sum = sum ? sum + at : NULL,
            .rows = c->axis ? 1 : c->out,
            .step = r->step,
            .n = r->n * (c->axis ? c->out * r->block : r->block),
        };

        block_out(c, r, k, r->y + at);
        pare_post_ops_run(c->post, c->n_post, &a);
    }
}

struct job {
    struct pare_step *s;
    int64_t block;
};

static void run_parts(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct job *j = arg;
    struct pare_step *s = j->s;
    const struct conv *c = s->state;
    const int64_t block = j->block, parts = (c->lines + c->most - 1) / c->most;
    const int64_t in_plane = c->lines * c->in * block, out_plane = c->lines * c->out * block;
    const float *sum = s->n_in > 1 ? pare_f32(&s->in_buf[1]->t) : NULL;

    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / parts, first = c->lines * (i % parts) / parts;
        const int64_t in_line = c->axis ? c->in * block : block;
        const int64_t out_line = c->axis ? c->out * block : block;
        const int64_t in = image * c->in_channels / block * in_plane + first * in_line;
        const int64_t out = image * c->out_channels / block * out_plane + first * out_line;
        struct part r = {
            .x = pare_f32(&s->in_buf[0]->t) + in,
            .y = pare_f32_mut(&s->out_buf[0]->t) + out,
            .n = c->lines * (i % parts + 1) / parts - first,
            .block = block,
            .step = c->axis ? block : c->lines * block,
            .in_line = in_line,
            .out_line = out_line,
            .in_plane = in_plane,
            .out_plane = out_plane,
            .v = pare_f32_mut(&s->work[0]->t) + (size_t)thread * own_floats(c),
        };

        r.v_step = inputs_of(c, r.n);
        r.m = r.v + POINTS * r.v_step;
        r.m_step = results_of(c, r.n);
        run_part(c, &r, sum ? sum + out : NULL);
    }
}

static int conv_winograd_line_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *c = s->state;
    struct job j = { s, b->block };

    (void)err;
    pare_parallel(b->threads, c->N * ((c->lines + c->most - 1) / c->most), run_parts, &j);
    return 0;
}

const struct pare_kernel pare_kernel_conv_winograd_line = {
    .name = "conv_winograd_line",
    .doc = "Convolution with constant filters of k x 1 or 1 x k by Winograd's F(4, 4).",
    .candidate = true,
    .match = conv_winograd_line_match,
    .init = conv_winograd_line_init,
    .run = conv_winograd_line_run,
};
