/* conv_im2col.c - training of Conv with few or odd channels, Relu and MaxPool, by im2col.
 *
 * All tensors are row-major; each thread processes one image after the other.
 *
 * Forward: the columns of an image, (C KH KW, output pixels), times W by packed GEMM.  The pool
 * reads the sums while they are in the cache and records the index of each maximum.
 *
 * Backward: after a pool only about one pixel in four has a gradient.  So both gradients are sums
 * of rows over those pixels, for all taps of a filter at once (row_sums.h):
 *     dW[o] = sum over pixels p of dY[o, p] X[p's window]
 *     dX[p's window] += sum over channels o of dY[o, p] W[o]
 * Windows are read with channels last, padded to a multiple of 8, so that one row of a window is
 * contiguous; narrow windows are copied together.  Which images are summed together does not depend
 * on the number of threads, so neither does the result.
 */
#include <math.h>
#include <omp.h>

#include "im2col.h"
#include "../gemm/gemm_packed.h"

#include "../../base/simd.h"

#define GROUPS 8          /* groups of images whose weight gradients are summed separately */
#define NARROW 32         /* floats: windows with shorter rows are copied together */
#define MOST_CHANNELS 64  /* from here on oneDNN's kernels are as fast */
#define LEAST_CHANNELS 32 /* likewise if input and output both have that many */

/* ---- match -------------------------------------------------------------------------------- */

/* Express a window over one or two axes as one over three. */
static bool to_three_axes(struct pare_window *w)
{
    if (w->nd > 2)
        return false;
    for (int i = 0; i < w->nd; i++)
        if (w->pad_begin[i] < 0)
            return false;
    pare_window_3d(w);
    return true;
}

static bool conv_im2col_usable(const struct pare_match *v, const struct pare_node *n,
                               struct pare_window *w)
{
    struct pare_err err;

    return v->train && pare_node_is(n, &pare_op_conv) && pare_is_f32(n->in[0]) &&
           pare_is_fixed(n->in[1]) && pare_is_f32(n->in[1]) && pare_numel(&n->out[0]->t) &&
           pare_numel(&n->in[0]->t) &&
           (n->n_in < 3 || !n->in[2] || (pare_is_fixed(n->in[2]) && pare_is_f32(n->in[2]))) &&
           !pare_conv_window(n, w, &err) && w->group == 1 && to_three_axes(w);
}

static bool is_pool(const struct pare_node *n, struct pare_window *w)
{
    struct pare_err err;

    return pare_node_is(n, &pare_op_max_pool) && (n->n_out < 2 || !n->out[1]) &&
           pare_numel(&n->out[0]->t) && !pare_pool_window(n, w, &err) && pare_window_meets(w) &&
           to_three_axes(w);
}

/* Match Relu and MaxPool after the Conv; their order does not change the result. */
static int match_relu_pool(const struct pare_match *v, struct pare_node *n, struct pare_im2col *c,
                           struct pare_node **fused)
{
    struct pare_value *y = n->out[0];
    int count = 0;

    while (count < 2) {
        struct pare_node *next = pare_only_consumer(v, y);

        if (!next || !next->op)
            break;
        if (!c->relu && pare_node_is(next, &pare_op_relu))
            c->relu = true;
        else if (!c->pooled && is_pool(next, &c->pool))
            c->pooled = true;
        else
            break;
        fused[count++] = next;
        y = next->out[0];
    }
    return count;
}

/* Measured: after a pool, and where oneDNN pads blocks or has no Winograd kernel. */
static bool conv_im2col_pays(const struct pare_im2col *c)
{
    return c->pooled && 4 * c->results <= c->pixels && c->C <= MOST_CHANNELS &&
           c->O <= MOST_CHANNELS && (c->C < LEAST_CHANNELS || c->O < LEAST_CHANNELS) &&
           c->K * c->O >= 64;
}

static bool is_pairs(const struct pare_window *w)
{
    for (int i = 1; i < 3; i++)
        if (w->kernel[i] != 2 || w->stride[i] != 2 || w->dilation[i] != 1 || w->pad_begin[i] ||
            2 * w->out[i] > w->in[i])
            return false;
    return true;
}

static void set_sizes(struct pare_im2col *c, const struct pare_node *n,
                      const struct pare_value *out)
{
    const struct pare_window *w = &c->w;
    bool whole = w->dilation[2] == 1;

    c->N = n->in[0]->t.dim[0];
    c->C = n->in[0]->t.dim[1];
    c->O = n->out[0]->t.dim[1];
    c->K = c->C * w->kernel[1] * w->kernel[2];
    c->pixels = w->out[1] * w->out[2];
    c->results = pare_numel(&out->t) / (c->N * c->O);
    c->H = (w->out[1] - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
    c->W = (w->out[2] - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    c->lanes = pare_round_up(c->C, 8);
    c->columns = pare_round_up(c->pixels, 2 * c->block);
    c->pairs = c->pooled && is_pairs(&c->pool);
    c->taps.size = w->kernel[1] * w->kernel[2] * c->lanes;
    c->taps.run = whole ? w->kernel[2] * c->lanes : c->lanes;
    c->taps.runs = c->taps.size / c->taps.run;
    c->narrow = c->C < 8 && w->kernel[2] * c->C < NARROW;
    c->for_w = c->taps;
    if (c->narrow)
        c->for_w = (struct pare_taps){ 1, pare_round_up(c->K, 8), pare_round_up(c->K, 8) };
    c->groups = c->N < GROUPS ? c->N : GROUPS;
}

/* In floats; parts begin at multiples of 16. */
static void set_work_sizes(struct pare_im2col *c)
{
    int64_t plain = pare_round_up(c->C * c->H * c->W + 8, 16),
            last = pare_round_up(c->H * c->W * c->lanes, 16);
    int64_t lists = pare_round_up(c->O * c->results, 16);

    c->work[0] = (size_t)(plain + c->K * c->columns + c->O * c->columns);
    c->work[1] = (size_t)(2 * last + 5 * lists + pare_round_up(c->pixels + c->O + 2, 16));
    if (c->narrow)
        c->work[1] += (size_t)(plain + pare_round_up(c->pixels * c->for_w.size + 8, 16));
    c->shared = (size_t)(pare_round_up(c->O * c->taps.size, 16) +
                         c->groups * pare_round_up(c->O * c->for_w.size, 16));
}

static bool fill_tables(const struct pare_match *v, struct pare_im2col *c)
{
    const struct pare_window *w = &c->w;

    if (c->H * c->W * c->lanes > INT32_MAX || c->O * c->taps.size > INT32_MAX ||
        c->pixels * c->for_w.size > INT32_MAX || c->O * c->results > INT32_MAX)
        return false;
    c->at = pare_alloc(v->backend->arena, (size_t)c->pixels, sizeof(*c->at));
    c->row = pare_alloc(v->backend->arena, (size_t)c->pixels, sizeof(*c->row));
    c->tap = pare_alloc(v->backend->arena, (size_t)c->K, sizeof(*c->tap));
    c->corner = pare_alloc(v->backend->arena, (size_t)c->results, sizeof(*c->corner));
    c->gb = pare_alloc(v->backend->arena, (size_t)(c->groups * c->O), sizeof(*c->gb));
    if (c->pooled)
        c->from = pare_alloc(v->backend->arena, (size_t)(c->N * c->O * c->results),
                             sizeof(*c->from));
    if (!c->at || !c->row || !c->tap || !c->corner || !c->gb || (c->pooled && !c->from))
        return false;
    for (int64_t i = 0; i < c->pixels; i++) {
        int64_t h = i / w->out[2] * w->stride[1], q = i % w->out[2] * w->stride[2];

        c->at[i] = (int32_t)((h * c->W + q) * c->lanes);
        c->row[i] = c->narrow ? (int32_t)(i * c->for_w.size) : c->at[i];
    }
    for (int64_t i = 0; i < c->K; i++) {
        int64_t q = i % w->kernel[2], h = i / w->kernel[2] % w->kernel[1];

        c->tap[i] = (int32_t)((i / (w->kernel[1] * w->kernel[2]) * c->H + h * w->dilation[1]) *
                                  c->W +
                              q * w->dilation[2]);
    }
    for (int64_t i = 0; c->pairs && i < c->results; i++)
        c->corner[i] = (int32_t)(i / c->pool.out[2] * 2 * c->pool.in[2] + i % c->pool.out[2] * 2);
    return true;
}

static bool conv_im2col_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct pare_node *fused[2];
    struct pare_window w;
    struct pare_value *out;
    struct pare_im2col *c;
    int count, n_in;

    if (!conv_im2col_usable(v, n, &w))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c)
        return false;
    c->w = w;
    c->block = v->backend->block < 8 ? 8 : v->backend->block;
    count = match_relu_pool(v, n, c, fused);
    out = count ? fused[count - 1]->out[0] : n->out[0];
    n_in = n->n_in > 2 && n->in[2] ? 3 : 2;
    set_sizes(c, n, out);
    if ((!v->ignore_cost && !conv_im2col_pays(c)) || !fill_tables(v, c) ||
        !pare_step_lists(s, v, n_in, 1, count))
        return false;
    for (int i = 0; i < n_in; i++)
        s->in[i] = n->in[i];
    for (int i = 0; i < count; i++)
        s->fused[i] = fused[i];
    s->out[0] = out;
    if (!pare_step_layouts_match(s))
        return false;
    s->state = c;
    s->fast_passes = PARE_ALL_PASSES;
    s->pass_independent = !c->pooled; /* a pooled step passes the indices of the maxima to
                                         backward() */
    c->want_x = v->requires_grad[n->in[0]->id] && s->passes & PARE_PASS_BACKWARD_DATA;
    c->want_w = v->requires_grad[n->in[1]->id] && s->passes & PARE_PASS_BACKWARD_WEIGHTS;
    c->want_b = n_in > 2 && v->requires_grad[n->in[2]->id] &&
                s->passes & PARE_PASS_BACKWARD_WEIGHTS;
    set_work_sizes(c);
    s->unsaved_in = c->want_w ? 0 : 1;
    s->unsaved_out = c->relu && !c->pooled ? 0 : ~0u;
    if (s->passes & PARE_PASS_FORWARD)
        s->work_bytes[0] = (size_t)v->backend->threads * c->work[0] * sizeof(float);
    if (s->passes & (PARE_PASS_BACKWARD_DATA | PARE_PASS_BACKWARD_WEIGHTS))
        s->work_bytes[1] = ((size_t)v->backend->threads * c->work[1] + c->shared) * sizeof(float);
    return true;
}

/* ---- forward ----------------------------------------------------------------------------- */

static bool needs_padding(const struct pare_im2col *c)
{
    return c->H != c->w.in[1] || c->W != c->w.in[2];
}

/* The columns, packed in panels of two blocks: up to 8 neighboring pixels of an output row, tap
 * after tap. */
PARE_SIMD static void make_columns(const struct pare_im2col *c, const float *x, float *to)
{
    const struct pare_window *w = &c->w;
    const int64_t wide = 2 * c->block, step = w->stride[2];
    int64_t lane = 0;

    for (int64_t h = 0; h < w->out[1]; h++, x += w->stride[1] * c->W)
        for (int64_t q = 0, n; q < w->out[2]; q += n) {
            const float *from = x + q * step;
            int64_t left = w->out[2] - q;

            n = wide - lane < 8 ? wide - lane : 8;
            n = n < left ? n : left;
            if (n == 8 && step == 1)
                for (int64_t k = 0; k < c->K; k++)
                    PARE_PUT8(to + k * wide + lane, PARE_V8(from + c->tap[k]));
            else
                for (int64_t k = 0; k < c->K; k++)
                    for (int64_t i = 0; i < n; i++)
                        to[k * wide + lane + i] = from[c->tap[k] + i * step];
            lane += n;
            to += lane == wide ? c->K * wide : 0;
            lane = lane == wide ? 0 : lane;
        }
    for (int64_t k = 0; k < c->K && lane; k++)
        memset(to + k * wide + lane, 0, (size_t)(wide - lane) * sizeof(*to));
}

/* The maximum of each window of a plane, the first of equals, and its index.  NaN is larger than
 * anything. */
static void max_windows(const struct pare_im2col *c, const float *x, float *y, int32_t *from)
{
    struct pare_pool p;

    pare_pool_start(&p, &c->pool);
    for (int64_t i = 0; i < c->results; i++, pare_pool_next(&p)) {
        int64_t best = pare_pool_at(&p, p.lo[0], p.lo[1], p.lo[2]);

        for (int64_t h = p.lo[1]; h < p.hi[1]; h++)
            for (int64_t q = p.lo[2]; q < p.hi[2]; q++) {
                int64_t at = pare_pool_at(&p, p.lo[0], h, q);

                best = x[at] > x[best] || (isnan(x[at]) && !isnan(x[best])) ? at : best;
            }
        from[i] = (int32_t)best;
        y[i] = x[best];
    }
}

/* The maximum of each pair of rows; `below` records whether it is from the lower row. */
PARE_SIMD static void larger_rows(const float *x, int32_t width, int32_t rows, float *most,
                                  int32_t *below)
{
    for (int32_t h = 0; h < rows; h++, most += width, below += width) {
        const float *a = x + 2 * h * width, *b = a + width;
        int32_t q = 0;

        for (; q + 8 <= width; q += 8) {
            pare_v8 up = PARE_V8(a + q), down = PARE_V8(b + q);
            pare_m8 more = (down > up) | (PARE_NAN8(down) & ~PARE_NAN8(up));

            PARE_PUT8(most + q, (pare_v8)((more & (pare_m8)down) | (~more & (pare_m8)up)));
            *(pare_m8 *)(below + q) = more & width;
        }
        for (; q < width; q++) {
            bool more = (b[q] > a[q]) | ((isnan(b[q]) != 0) & (isnan(a[q]) == 0));

            most[q] = more ? b[q] : a[q];
            below[q] = more ? width : 0;
        }
    }
}

/* The maximum of each pair of neighbors among them, n pairs. */
PARE_SIMD static void larger_pairs(const float *most, const int32_t *below, const int32_t *corner,
                                   int32_t n, float *y, int32_t *from)
{
    for (int32_t i = 0; i < n; i++) {
        float a = most[2 * i], b = most[2 * i + 1];
        int32_t left = below[2 * i], right = below[2 * i + 1];
        int32_t more = (b > a) | ((b == a) & (right < left)) |
                       ((isnan(b) != 0) & ((isnan(a) == 0) | (right < left)));

        y[i] = more ? b : a;
        from[i] = corner[i] + (more ? right + 1 : left);
    }
}

/* max_windows() for 2x2 windows; `scratch` has room for one float per pixel. */
static void pair_windows(const struct pare_im2col *c, const float *x, float *scratch, float *y,
                         int32_t *from)
{
    int32_t width = (int32_t)c->pool.in[2], n = (int32_t)c->pool.out[2];
    int32_t rows = (int32_t)c->pool.out[1], *below = (int32_t *)(scratch + rows * width);

    larger_rows(x, width, rows, scratch, below);
    if (width == 2 * n) {
        n *= rows;
        rows = 1;
    }
    for (int32_t h = 0; h < rows; h++)
        larger_pairs(scratch + h * width, below + h * width, c->corner + h * n, n, y + h * n,
                     from + h * n);
}

PARE_SIMD static void pool_plane(const float *x, float bias, bool relu, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        float a = x[i] + bias;

        y[i] = relu && a < 0 ? 0 : a;
    }
}

/* Add the bias and apply Relu in place; index -1 where Relu stops the gradient. */
PARE_SIMD static void add_bias_relu(float bias, bool relu, int64_t n, float *y, int32_t *from)
{
    for (int64_t i = 0; i < n; i++) {
        float a = y[i] + bias;

        from[i] = !relu || a > 0 ? from[i] : -1;
        y[i] = relu && a < 0 ? 0 : a;
    }
}

/* From the sums (O, columns) of image i to its results. */
static void write_results(const struct pare_im2col *c, const float *sums, const float *bias,
                          float *scratch, int64_t i, float *y)
{
    y += i * c->O * c->results;
    for (int64_t o = 0; o < c->O; o++, sums += c->columns, y += c->results) {
        int32_t *from = c->pooled ? c->from + (i * c->O + o) * c->results : NULL;
        float b = bias ? bias[o] : 0;

        if (!from) {
            pool_plane(sums, b, c->relu, c->pixels, y);
            continue;
        }
        if (c->pairs)
            pair_windows(c, sums, scratch, y, from);
        else
            max_windows(c, sums, y, from);
        add_bias_relu(b, c->relu, c->results, y, from);
    }
}

static int conv_im2col_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_im2col *c = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t), *w = pare_f32(&s->in_buf[1]->t);
    const float *bias = s->n_in > 2 ? pare_f32(&s->in_buf[2]->t) : NULL;
    float *y = pare_f32_mut(&s->out_buf[0]->t), *work = pare_f32_mut(&s->work[0]->t);

    (void)err;
#pragma omp parallel num_threads(b->threads)
    {
        float *own = work + (size_t)omp_get_thread_num() * c->work[0];
        float *columns = own + pare_round_up(c->C * c->H * c->W + 8, 16),
              *sums = columns + c->K * c->columns;
        float *room = needs_padding(c) ? own : NULL;
        struct pare_packed_gemm p = pare_packed_gemm_matrix(c->O, c->K, c->columns, c->block);

        p.x = w;
        p.w = columns;
        p.y = sums;
        if (room)
            memset(room, 0, (size_t)(c->C * c->H * c->W) * sizeof(*room));
#pragma omp for schedule(static)
        for (int64_t i = 0; i < c->N; i++) {
            make_columns(c, pare_im2col_pad(c, x + i * c->C * c->w.in[1] * c->w.in[2], room),
                         columns);
            pare_packed_gemm_run(&p);
            write_results(c, sums, bias, columns, i, y);
        }
    }
    return 0;
}

const struct pare_kernel pare_kernel_conv_im2col = {
    .name = "conv_im2col",
    .doc = "Training of convolutions with few channels, Relu and MaxPool, by im2col.",
    .candidate = true,
    .match = conv_im2col_match,
    .run = conv_im2col_run,
    .backward = pare_im2col_grad,
};
