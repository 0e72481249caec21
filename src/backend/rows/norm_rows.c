/* norm_rows.c - LayerNormalization and RMSNormalization over the last axis, one pass per row.
 *
 * A QuantizeLinear after it is part of the pass.
 */
#include "../fuse/int8_function.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/nn/norm.h"
#include "../../op/nn/rms_family.h"
#include "../../base/team.h"

struct norm {
    int64_t rows, length;
    float eps;
    bool centered;                    /* the mean is subtracted */
    struct pare_value *scale, *shift; /* shift NULL: 0 */
    const float *gamma, *beta;
    struct pare_int8_end end; /* n 0: the result is float32 */
};

/* A constant of the row's length along the last axis. */
static bool is_row(const struct pare_value *v, int64_t n)
{
    return v && pare_is_const(v) && pare_is_f32(v) && v->t.rank >= 1 &&
           v->t.dim[v->t.rank - 1] == n && pare_numel(&v->t) == n;
}

/* Read the attributes; false: it is another operator, or normalizes other axes. */
static bool read_attributes(const struct pare_node *n, struct norm *c)
{
    const struct pare_rms *a = n->attr;
    int rank = n->in[0]->t.rank;

    c->centered = pare_node_is(n, &pare_op_layer_normalization);
    if (c->centered) {
        c->eps = (float)pare_layer_norm_epsilon(n);
        return pare_layer_norm_axis(n) == rank - 1;
    }
    if (n->op->attrs != pare_rms_attrs)
        return false;
    c->eps = (float)a->epsilon;
    return a->axis == -1 || a->axis == rank - 1;
}

static bool norm_rows_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const struct pare_tensor *x = n->n_in > 1 && n->in[0] ? &n->in[0]->t : NULL;
    struct norm *c;

    if (!x || !pare_is_f32(n->in[0]) || x->rank < 1 || !pare_numel(x) ||
        (n->n_out > 1 && n->out[1]) || (n->n_out > 2 && n->out[2]))
        return false;
    if (!pare_node_is(n, &pare_op_layer_normalization) && n->op->attrs != pare_rms_attrs)
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !read_attributes(n, c))
        return false;
    c->length = x->dim[x->rank - 1];
    c->rows = pare_numel(x) / c->length;
    c->scale = n->in[1];
    c->shift = n->n_in > 2 ? n->in[2] : NULL;
    if (!pare_int8_end(v, n->out[0], &c->end) || pare_int8_result_layout(v, c->end.q.v) != 1)
        c->end.n = 0;
    if (!is_row(c->scale, c->length) || (c->shift && !is_row(c->shift, c->length)) ||
        !pare_step_lists(s, v, 1, 1, c->end.n))
        return false;
    s->state = c;
    s->in[0] = n->in[0];
    s->out[0] = c->end.n ? c->end.q.v : n->out[0];
    for (int i = 0; i < c->end.n; i++)
        s->fused[i] = c->end.node[i];
    if (c->end.n)
        s->work_bytes[0] = (size_t)(v->backend->threads * c->length) * sizeof(float);
    else
        s->inplace = 1;
    return true;
}

static int norm_rows_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct norm *c = s->state;

    if (!(c->gamma = pare_const_f32(b, c->scale, err)))
        return err->code;
    if (c->shift && !(c->beta = pare_const_f32(b, c->shift, err)))
        return err->code;
    return 0;
}

PARE_SIMD static void normalize_row(const struct norm *c, const float *x, float *y)
{
    int64_t n = c->length;
    float sum = 0, square = 0, mean, scale;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    mean = c->centered ? sum / (float)n : 0;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean);
    scale = 1 / sqrtf(square / (float)n + c->eps);
    if (c->beta)
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * scale * c->gamma[i] + c->beta[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * scale * c->gamma[i];
}

static void normalize_rows(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct norm *c = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t);
    void *y = s->out_buf[0]->t.data;
    float *row = c->end.n ? pare_f32_mut(&s->work[0]->t) + thread * c->length : NULL;

    for (int64_t i = from; i < to; i++) {
        normalize_row(c, x + i * c->length, row ? row : (float *)y + i * c->length);
        if (row)
            pare_int8_quantize(&c->end, row, y, i * c->length, c->length);
    }
}

static int norm_rows_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct norm *c = s->state;

    (void)err;
    pare_parallel(c->rows * c->length > 8192 ? b->threads : 1, c->rows, normalize_rows, s);
    return 0;
}

const struct pare_kernel pare_kernel_norm_rows = {
    .name = "norm_rows",
    .doc = "LayerNormalization and RMSNormalization over the last axis.",
    .match = norm_rows_match,
    .init = norm_rows_init,
    .run = norm_rows_run,
};
