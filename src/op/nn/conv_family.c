/* conv_family.c - the three sums of convolutions and their gradients.
 *
 * Planes are processed in pairs, one of x and one of y; for each tap the innermost loop runs along
 * a row of outputs, so that it vectorizes.
 */
#include "conv_family.h"

#include "../../base/simd.h"

/* If each output reads just the input at its own position, a plane is one long row. */
static void flatten(struct pare_window *w)
{
    for (int i = 0; i < 3; i++)
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->pad_begin[i] || w->in[i] != w->out[i])
            return;
    w->in[2] *= w->in[0] * w->in[1];
    w->out[2] = w->in[2];
    w->in[0] = w->in[1] = w->out[0] = w->out[1] = 1;
}

/* A step is set only if there is a second row: then it is inside the plane; otherwise it might not
 * even fit its type. */
static void find_tap(const struct pare_window *w, const int64_t *k, struct pare_tap *t)
{
    int64_t x_row[3] = { w->in[1] * w->in[2], w->in[2], 1 };
    int64_t y_row[3] = { w->out[1] * w->out[2], w->out[2], 1 };

    memset(t, 0, sizeof(*t));
    for (int i = 0; i < 3; i++) {
        int64_t lo, hi;

        pare_window_span(w, i, k[i], &lo, &hi);
        if (lo == hi) {
            memset(t->n, 0, sizeof(t->n));
            return;
        }
        t->n[i] = hi - lo;
        t->x += (lo * w->stride[i] - w->pad_begin[i] + k[i] * w->dilation[i]) * x_row[i];
        t->y += lo * y_row[i];
        if (i < 2 && t->n[i] > 1) {
            t->x_step[i] = w->stride[i] * x_row[i];
            t->y_step[i] = y_row[i];
        }
    }
}

int pare_conv_start(struct pare_conv *c, const struct pare_window *w, const struct pare_tensor *x,
                    const struct pare_tensor *kernel, struct pare_arena *a, struct pare_err *err)
{
    struct pare_window win = *w;
    struct pare_tap *t;

    pare_window_3d(&win);
    flatten(&win);
    memset(c, 0, sizeof(*c));
    c->N = x->dim[0];
    c->group = win.group;
    c->C = kernel->dim[1];
    c->M = kernel->dim[0] / win.group;
    c->x_plane = win.in[0] * win.in[1] * win.in[2];
    c->y_plane = win.out[0] * win.out[1] * win.out[2];
    c->stride = win.stride[2];
    if (!pare_numel(kernel) || !c->x_plane || !c->y_plane)
        c->N = 0; /* nothing to sum; and an empty kernel has no limit on its taps */
    if (!c->N)
        return 0;
    c->taps = win.kernel[0] * win.kernel[1] * win.kernel[2];
    c->tap = t = pare_alloc_raw(a, (size_t)c->taps, sizeof(*t));
    if (!t)
        return pare_no_memory(err, "for %lld taps", (long long)c->taps);
    for (int64_t d = 0; d < win.kernel[0]; d++)
        for (int64_t h = 0; h < win.kernel[1]; h++)
            for (int64_t i = 0; i < win.kernel[2]; i++)
                find_tap(&win, (int64_t[]){ d, h, i }, t++);
    return 0;
}

/* ---- pairs of planes ----------------------------------------------------------- */

PARE_SIMD static void gather(const struct pare_conv *c, const float *x, const float *w, float *y)
{
    int64_t s = c->stride;

    for (int64_t k = 0; k < c->taps; k++) {
        const struct pare_tap *t = &c->tap[k];
        float f = w[k];

        for (int64_t d = 0; d < t->n[0]; d++)
            for (int64_t h = 0; h < t->n[1]; h++) {
                const float *from = x + t->x + d * t->x_step[0] + h * t->x_step[1];
                float *to = y + t->y + d * t->y_step[0] + h * t->y_step[1];

                if (s == 1)
                    for (int64_t i = 0; i < t->n[2]; i++)
                        to[i] += f * from[i];
                else
                    for (int64_t i = 0; i < t->n[2]; i++)
                        to[i] += f * from[i * s];
            }
    }
}

/* ---- several output channels of rows ----------------------------------------------------------
 *
 * If a plane is one row and the stride is 1, the sums of TOGETHER output channels and a tile of the
 * row stay in registers.  Each sum has the order of gather(): channels, then taps.
 */

#define TOGETHER 4
#define TILE 24           /* floats of a row, three vectors */
#define WORTH_THREADS 4e6 /* products */

/* The part of a row where all taps are inside of the input; empty: planes are not such rows. */
struct rows {
    int64_t lo, hi;
};

static struct rows find_rows(const struct pare_conv *c)
{
    struct rows r = { 0, c->y_plane };

    for (int64_t k = 0; k < c->taps && c->N; k++) {
        const struct pare_tap *t = &c->tap[k];

        if (c->stride != 1 || t->n[0] != 1 || t->n[1] != 1)
            return (struct rows){ 0, 0 };
        r.lo = t->y > r.lo ? t->y : r.lo;
        r.hi = t->y + t->n[2] < r.hi ? t->y + t->n[2] : r.hi;
    }
    return r;
}

/* Outputs from .. to - 1 of one channel, at the ends of a row. */
PARE_SIMD static void gather_end(const struct pare_conv *c, const float *x, const float *w,
                                 float *y, int64_t from, int64_t to)
{
    for (int64_t k = 0; k < c->C; k++)
        for (int64_t j = 0; j < c->taps; j++) {
            const struct pare_tap *t = &c->tap[j];
            int64_t lo = t->y > from ? t->y : from;
            int64_t hi = t->y + t->n[2] < to ? t->y + t->n[2] : to;

            for (int64_t i = lo; i < hi; i++)
                y[i] += w[k * c->taps + j] * x[k * c->x_plane + t->x - t->y + i];
        }
}

/* x, w and y of the first input and output channel. */
PARE_SIMD static void gather_tile(const struct pare_conv *c, const float *x, const float *w,
                                  float *y)
{
    int64_t filter = c->C * c->taps;
    pare_v8 sum[TOGETHER][TILE / 8];

#pragma GCC unroll 4
    for (int m = 0; m < TOGETHER; m++)
#pragma GCC unroll 4
        for (int v = 0; v < TILE / 8; v++)
            sum[m][v] = *(const pare_v8 *)(y + m * c->y_plane + 8 * v);
    for (int64_t k = 0; k < c->C; k++, x += c->x_plane)
        for (int64_t j = 0; j < c->taps; j++, w++) {
            const float *from = x + (c->tap[j].x - c->tap[j].y);

#pragma GCC unroll 4
            for (int v = 0; v < TILE / 8; v++) {
                pare_v8 in = *(const pare_v8 *)(from + 8 * v);

#pragma GCC unroll 4
                for (int m = 0; m < TOGETHER; m++)
                    sum[m][v] += w[m * filter] * in;
            }
        }
#pragma GCC unroll 4
    for (int m = 0; m < TOGETHER; m++)
#pragma GCC unroll 4
        for (int v = 0; v < TILE / 8; v++)
            *(pare_v8 *)(y + m * c->y_plane + 8 * v) = sum[m][v];
}

static void gather_rows(const struct pare_conv *c, const struct rows *r, const float *x,
                        const float *w, float *y)
{
    int64_t at = r->lo;

    for (; at + TILE <= r->hi; at += TILE)
        gather_tile(c, x + at, w, y + at);
    for (int m = 0; m < TOGETHER; m++, w += c->C * c->taps, y += c->y_plane) {
        gather_end(c, x, w, y, 0, r->lo);
        gather_end(c, x, w, y, at, c->y_plane);
    }
}

PARE_SIMD static void scatter(const struct pare_conv *c, const float *y, const float *w, float *x)
{
    int64_t s = c->stride;

    for (int64_t k = 0; k < c->taps; k++) {
        const struct pare_tap *t = &c->tap[k];
        float f = w[k];

        for (int64_t d = 0; d < t->n[0]; d++)
            for (int64_t h = 0; h < t->n[1]; h++) {
                const float *from = y + t->y + d * t->y_step[0] + h * t->y_step[1];
                float *to = x + t->x + d * t->x_step[0] + h * t->x_step[1];

                if (s == 1)
                    for (int64_t i = 0; i < t->n[2]; i++)
                        to[i] += f * from[i];
                else
                    for (int64_t i = 0; i < t->n[2]; i++)
                        to[i * s] += f * from[i];
            }
    }
}

/* Rows are summed in float32, in eight or more partial sums; their sums in double. */
PARE_SIMD static void correlate(const struct pare_conv *c, const float *x, const float *y, float *w)
{
    int64_t s = c->stride;

    for (int64_t k = 0; k < c->taps; k++) {
        const struct pare_tap *t = &c->tap[k];
        double sum = 0;

        for (int64_t d = 0; d < t->n[0]; d++)
            for (int64_t h = 0; h < t->n[1]; h++) {
                const float *a = x + t->x + d * t->x_step[0] + h * t->x_step[1];
                const float *b = y + t->y + d * t->y_step[0] + h * t->y_step[1];
                float row = 0;

                if (s == 1) {
#pragma omp simd reduction(+ : row)
                    for (int64_t i = 0; i < t->n[2]; i++)
                        row += a[i] * b[i];
                } else {
#pragma omp simd reduction(+ : row)
                    for (int64_t i = 0; i < t->n[2]; i++)
                        row += a[i * s] * b[i];
                }
                sum += (double)row;
            }
        w[k] += (float)sum;
    }
}

/* ---- tensors ------------------------------------------------------------------------------ */

/* The planes of a pair: sample i, output channel m of all groups, input channel k of its group. */
struct pair {
    int64_t x, y, w;
};

static struct pair pair(const struct pare_conv *c, int64_t i, int64_t m, int64_t k)
{
    return (struct pair){
        .x = ((i * c->group + m / c->M) * c->C + k) * c->x_plane,
        .y = (i * c->group * c->M + m) * c->y_plane,
        .w = (m * c->C + k) * c->taps,
    };
}

static int threads_for(const struct pare_conv *c)
{
    double work = (double)c->N * (double)(c->group * c->M) * (double)c->C * (double)c->taps *
                  (double)c->y_plane;

    return c->threads > 1 && work >= WORTH_THREADS ? c->threads : 1;
}

void pare_conv_gather(const struct pare_conv *c, const float *x, const float *w, float *y)
{
    struct rows r = find_rows(c);
    int64_t blocks = (c->M + TOGETHER - 1) / TOGETHER;

#pragma omp parallel for num_threads(threads_for(c))
    for (int64_t b = 0; b < c->N * c->group * blocks; b++) {
        int64_t i = b / (c->group * blocks), g = b / blocks % c->group;
        int64_t m = g * c->M + b % blocks * TOGETHER, end = (g + 1) * c->M;
        struct pair p = pair(c, i, m, 0);

        if (m + TOGETHER <= end && r.lo < r.hi) {
            gather_rows(c, &r, x + p.x, w + p.w, y + p.y);
            continue;
        }
        for (end = m + TOGETHER < end ? m + TOGETHER : end; m < end; m++)
            for (int64_t k = 0; k < c->C; k++) {
                p = pair(c, i, m, k);
                gather(c, x + p.x, w + p.w, y + p.y);
            }
    }
}

void pare_conv_scatter(const struct pare_conv *c, const float *y, const float *w, float *x)
{
#pragma omp parallel for num_threads(threads_for(c))
    for (int64_t b = 0; b < c->N * c->group * c->C; b++) {
        int64_t i = b / (c->group * c->C), g = b / c->C % c->group, k = b % c->C;

        for (int64_t m = g * c->M; m < (g + 1) * c->M; m++) {
            struct pair p = pair(c, i, m, k);

            scatter(c, y + p.y, w + p.w, x + p.x);
        }
    }
}

void pare_conv_correlate(const struct pare_conv *c, const float *x, const float *y, float *w)
{
    for (int64_t i = 0; i < c->N; i++)
        for (int64_t m = 0; m < c->group * c->M; m++)
            for (int64_t k = 0; k < c->C; k++) {
                struct pair p = pair(c, i, m, k);

                correlate(c, x + p.x, y + p.y, w + p.w);
            }
}

/* ---- the bias ----------------------------------------------------------------------------- */

void pare_conv_fill(const struct pare_tensor *y, const struct pare_value *b)
{
    int64_t planes = pare_numel(y) ? y->dim[0] * y->dim[1] : 0;
    int64_t plane = planes ? pare_numel(y) / planes : 0;
    float *to = pare_f32_mut(y);

    for (int64_t i = 0; i < planes; i++, to += plane) {
        float v = b ? pare_f32(&b->t)[i % y->dim[1]] : 0;

        for (int64_t k = 0; k < plane; k++)
            to[k] = v;
    }
}

void pare_conv_fill_back(const struct pare_value *y, const struct pare_value *b)
{
    int64_t planes = pare_numel(&y->t) ? y->t.dim[0] * y->t.dim[1] : 0;
    int64_t plane = planes ? pare_numel(&y->t) / planes : 0;
    const float *from = pare_f32(&y->grad);

    if (!b || !b->grad.data)
        return;
    for (int64_t i = 0; i < planes; i++, from += plane) {
        double sum = 0;

        for (int64_t k = 0; k < plane; k++)
            sum += (double)from[k];
        pare_f32_mut(&b->grad)[i % y->t.dim[1]] += (float)sum;
    }
}

void pare_conv_ties(const struct pare_node *n, int w, struct pare_ties *t)
{
    const struct pare_window_attr *a = n->attr;
    const struct pare_value *x = n->in[0], *y = n->out[0];
    int64_t C = x->t.dim[1], M = n->in[w]->t.dim[0];
    const struct pare_digit in[2] = { { NULL, 0, a->group }, { n->in[w], 1, C / a->group } };
    const struct pare_digit out[2] = { { NULL, 0, a->group }, { NULL, 1, M / a->group } };

    pare_tie(t, x, 0, y, 0);
    pare_tie(t, n->in[w], 0, y, 1);
    for (int i = w + 1; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->t.rank == 1 && n->in[i]->t.dim[0] == M && M > 1)
            pare_tie(t, n->in[i], 0, y, 1);
    if (a->group == 1) {
        pare_tie(t, x, 1, n->in[w], 1);
        return;
    }
    pare_tie_groups(t, x, 1, in);
    pare_tie_groups(t, n->in[w], 0, out);
}
