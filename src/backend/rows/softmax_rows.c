/* softmax_rows.c - Softmax along an axis; along the last one, row by row, with its gradient.
 *
 *     dx = y (dy - sum of y dy)
 *
 * Along another axis the lanes are columns of matrices, some of which are processed together.
 */
#include "../backend.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/matrix/matrix.h"
#include "../../tensor/vmath.h"
#include "../../base/team.h"

#define LANES 16
#define COLUMNS 64

struct softmax {
    int64_t rows, length;
    int64_t inner; /* columns of each matrix; 1: rows */
};

static bool softmax_rows_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const struct pare_tensor *x;
    struct softmax *c;
    bool flatten;
    int axis;

    if (!pare_node_is(n, &pare_op_softmax) || !pare_is_f32(n->in[0]))
        return false;
    x = &n->in[0]->t;
    axis = pare_softmax_axis(n, &flatten);
    if (!pare_numel(x) || (!flatten && axis != x->rank - 1 && v->train))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_step_lists(s, v, 1, 1, 0))
        return false;
    c->length = c->inner = 1;
    for (int i = axis; i < x->rank; i++)
        *(i == axis || flatten ? &c->length : &c->inner) *= x->dim[i];
    c->rows = pare_numel(x) / c->length / c->inner;
    s->state = c;
    s->in[0] = n->in[0];
    s->out[0] = n->out[0];
    s->inplace = s->grad_inplace = 1;
    s->unsaved_in = 1;
    return true;
}

PARE_SIMD static void softmax_row(const float *x, float *y, int64_t n)
{
    float lane[LANES], most = -INFINITY, sum = 0;
    int64_t whole = n / LANES * LANES;

    for (int k = 0; k < LANES; k++)
        lane[k] = -INFINITY;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (int k = 0; k < LANES; k++)
        most = lane[k] > most ? lane[k] : most;
    for (int64_t i = whole; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < n; i++)
        y[i] = pare_expf(x[i] - most);
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += y[i];
    sum = 1 / sum;
    for (int64_t i = 0; i < n; i++)
        y[i] *= sum;
}

/* n columns of a matrix with a row stride of `step`. */
PARE_SIMD static void softmax_columns(const float *x, float *y, int64_t length, int64_t step, int n)
{
    float most[COLUMNS], sum[COLUMNS];

    for (int k = 0; k < n; k++) {
        most[k] = x[k];
        sum[k] = 0;
    }
    for (int64_t i = 1; i < length; i++)
        for (int k = 0; k < n; k++)
            most[k] = x[i * step + k] > most[k] ? x[i * step + k] : most[k];
    for (int64_t i = 0; i < length; i++) {
#pragma omp simd
        for (int k = 0; k < n; k++) {
            float e = pare_expf(x[i * step + k] - most[k]);

            y[i * step + k] = e;
            sum[k] += e;
        }
    }
    for (int k = 0; k < n; k++)
        sum[k] = 1 / sum[k];
    for (int64_t i = 0; i < length; i++)
        for (int k = 0; k < n; k++)
            y[i * step + k] *= sum[k];
}

/* An item is a piece of the columns of a row; with inner 1, a row. */
static void run_pieces(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct softmax *c = s->state;
    const int64_t pieces = (c->inner + COLUMNS - 1) / COLUMNS;
    const float *x = pare_f32(&s->in_buf[0]->t);
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    (void)thread;
    for (int64_t i = from; i < to && c->inner == 1; i++)
        softmax_row(x + i * c->length, y + i * c->length, c->length);
    for (int64_t i = from; i < to && c->inner > 1; i++) {
        int64_t first = i % pieces * COLUMNS, left = c->inner - first;
        int64_t at = i / pieces * c->length * c->inner + first;

        softmax_columns(x + at, y + at, c->length, c->inner, left < COLUMNS ? (int)left : COLUMNS);
    }
}

static int softmax_rows_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct softmax *c = s->state;

    (void)err;
    pare_parallel(c->rows * c->length * c->inner > 4096 ? b->threads : 1,
                  c->rows * ((c->inner + COLUMNS - 1) / COLUMNS), run_pieces, s);
    return 0;
}

PARE_SIMD static void softmax_row_backward(const float *y, const float *gy, float *gx, int64_t n,
                                           bool first)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += y[i] * gy[i];
    if (first)
        for (int64_t i = 0; i < n; i++)
            gx[i] = y[i] * (gy[i] - sum);
    else
        for (int64_t i = 0; i < n; i++)
            gx[i] += y[i] * (gy[i] - sum);
}

static int softmax_rows_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct softmax *c = s->state;
    const float *y = pare_f32(&s->out_buf[0]->t), *gy = pare_f32(&s->out_buf[0]->grad->t);
    float *gx = pare_f32_mut(&s->in_buf[0]->grad->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (c->rows * c->length > 4096)
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t at = i * c->length;

        softmax_row_backward(y + at, gy + at, gx + at, c->length, s->grad_assign[0]);
    }
    return 0;
}

const struct pare_kernel pare_kernel_softmax_rows = {
    .name = "softmax_rows",
    .doc = "Softmax along an axis.",
    .match = softmax_rows_match,
    .run = softmax_rows_run,
    .backward = softmax_rows_backward,
};
