/* resample_rows.c - linear and cubic Resize of the last two axes, row-major or blocked.
 *
 * For each row of the result, the rows of the input that it is a sum of are added first; then its
 * elements, or blocks of channels, are sums along that row.
 */
#include "../backend.h"

#include "../../base/simd.h"
#include "../../op/shape/resize_family.h"
#include "../../base/team.h"

#define MOST_TAPS 64

/* Taps along an axis: at[k * n + i] and w[k * n + i]; NULL: unchanged. */
struct axis {
    int64_t in, out, n;
    int32_t *at;
    float *w;
};

struct resample {
    struct axis row, column;
    int64_t planes, lanes; /* lanes: floats per element, a block or 1 */
};

/* ---- match -------------------------------------------------------------------------- */

static bool copy_taps(const struct pare_taps *t, int64_t in, int64_t out, struct pare_arena *a,
                      struct axis *x)
{
    *x = (struct axis){ .in = in, .out = out, .n = t->n };
    if (!t->moves)
        return true;
    if (t->n > MOST_TAPS || in > INT32_MAX)
        return false;
    x->at = pare_alloc_raw(a, (size_t)(out * t->n), sizeof(*x->at));
    x->w = pare_alloc_raw(a, (size_t)(out * t->n), sizeof(*x->w));
    if (!x->at || !x->w)
        return false;
    for (int64_t i = 0; i < out * t->n; i++) {
        x->at[i] = (int32_t)t->at[i];
        x->w[i] = (float)t->w[i];
    }
    return true;
}

static bool resample_rows_match(const struct pare_match *v, struct pare_node *n,
                                struct pare_step *s)
{
    struct pare_arena *a = v->backend->arena;
    const struct pare_tensor *x = n->n_in && n->in[0] ? &n->in[0]->t : NULL, *y;
    struct pare_taps t[PARE_MAX_RANK], one = { .n = 1 };
    struct resample *r;
    int block, first;

    if (v->train || !n->op->taps || !x || !pare_is_f32(n->in[0]) || pare_is_const(n->in[0]) ||
        x->rank < 3)
        return false;
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (!pare_is_const(n->in[i]) || !n->in[i]->t.data))
            return false;
    y = &n->out[0]->t;
    r = pare_alloc(a, 1, sizeof(*r));
    if (!r || !pare_is_f32(n->out[0]) || !pare_numel(y) || !n->op->taps(n, v->backend->scratch, t))
        return false;
    first = x->rank == 3 ? 2 : x->rank - 2;
    for (int i = 0; i < first; i++)
        if (t[i].moves)
            return false;
    block = pare_block_of(v, n->in[0]);
    r->lanes = block;
    r->planes = pare_block_numel(x, block) / block / x->dim[x->rank - 1];
    r->planes /= x->rank == 3 ? 1 : x->dim[x->rank - 2];
    if (!copy_taps(x->rank == 3 ? &one : &t[x->rank - 2], x->rank == 3 ? 1 : x->dim[x->rank - 2],
                   x->rank == 3 ? 1 : y->dim[x->rank - 2], a, &r->row) ||
        !copy_taps(&t[x->rank - 1], x->dim[x->rank - 1], y->dim[x->rank - 1], a, &r->column) ||
        !pare_step_lists(s, v, 1, 1, 0))
        return false;
    s->in[0] = n->in[0];
    s->out[0] = n->out[0];
    s->in_block[0] = s->out_block[0] = block;
    s->work_bytes[0] = (size_t)(v->backend->threads * r->column.in * block) * sizeof(float);
    s->state = r;
    return true;
}

/* ---- run ---------------------------------------------------------------------------- */

/* y = the sum of n rows of x. */
PARE_SIMD static void add_rows(const float *x, int64_t length, const int32_t *at, const float *w,
                               int64_t n, float *y)
{
    const float *a = x + at[0] * length, *b = x + at[n > 1 ? 1 : 0] * length;
    const float wa = w[0], wb = n > 1 ? w[1] : 0;

    for (int64_t i = 0; i < length; i++)
        y[i] = wa * a[i] + wb * b[i];
    for (int64_t k = 2; k < n; k++) {
        const float *c = x + at[k] * length, wc = w[k];

        for (int64_t i = 0; i < length; i++)
            y[i] += wc * c[i];
    }
}

PARE_SIMD static void sum_single(const struct axis *c, const float *x, float *y)
{
    if (c->n == 2) {
        for (int64_t k = 0; k < c->out; k++)
            y[k] = c->w[2 * k] * x[c->at[2 * k]] + c->w[2 * k + 1] * x[c->at[2 * k + 1]];
        return;
    }
    for (int64_t k = 0; k < c->out; k++) {
        float sum = 0;

        for (int64_t i = 0; i < c->n; i++)
            sum += c->w[k * c->n + i] * x[c->at[k * c->n + i]];
        y[k] = sum;
    }
}

PARE_SIMD static void sum_blocks(const struct axis *c, int64_t lanes, const float *x, float *y)
{
    for (int64_t k = 0; k < c->out; k++)
        for (int64_t l = 0; l < lanes; l += 8) {
            const int32_t *at = c->at + k * c->n;
            const float *w = c->w + k * c->n;
            pare_v8 sum = w[0] * PARE_V8(x + at[0] * lanes + l);

            for (int64_t i = 1; i < c->n; i++)
                sum += w[i] * PARE_V8(x + at[i] * lanes + l);
            PARE_PUT8(y + k * lanes + l, sum);
        }
}

static void run_row(const struct resample *r, const float *x, int64_t row, float *room, float *y)
{
    const int64_t length = r->column.in * r->lanes, n = r->row.n;
    const float *from = x + row * length;
    float *to = r->column.at ? room : y;

    if (r->row.at) {
        add_rows(x, length, r->row.at + row * n, r->row.w + row * n, n, to);
        from = to;
    }
    if (!r->column.at) {
        if (from != y)
            memcpy(y, from, (size_t)length * sizeof(*y));
    } else if (r->lanes == 1) {
        sum_single(&r->column, from, y);
    } else {
        sum_blocks(&r->column, r->lanes, from, y);
    }
}

static void run_rows(void *arg, int64_t first, int64_t end, int thread)
{
    struct pare_step *s = arg;
    const struct resample *r = s->state;
    const int64_t length = r->column.out * r->lanes;
    const int64_t plane = r->row.in * r->column.in * r->lanes;
    const float *x = pare_f32(&s->in_buf[0]->t);
    float *y = pare_f32_mut(&s->out_buf[0]->t), *work = pare_f32_mut(&s->work[0]->t);

    for (int64_t i = first; i < end; i++)
        run_row(r, x + i / r->row.out * plane, i % r->row.out,
                work + thread * r->column.in * r->lanes, y + i * length);
}

static int resample_rows_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct resample *r = s->state;
    const int64_t rows = r->planes * r->row.out;

    (void)err;
    pare_parallel(rows * r->column.out * r->lanes > 8192 ? b->threads : 1, rows, run_rows, s);
    return 0;
}

const struct pare_kernel pare_kernel_resample_rows = {
    .name = "resample_rows",
    .doc = "Linear and cubic Resize of the last two axes.",
    .match = resample_rows_match,
    .run = resample_rows_run,
};
