/* norm_rows.c - LayerNormalization over the last axis, as one operator or decomposed.
 *
 * Before opset 17 the operator does not exist, and exporters write
 *     m = ReduceMean(x)   d = x - m   v = ReduceMean(Pow(d, 2))   Div(d, Sqrt(v + eps))
 * usually followed by Mul(weight) and Add(bias).  Fused, it is one pass over each row.
 */
#include "../backend.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/nn/norm.h"

struct norm {
    int64_t rows, length;
    float eps;
    struct pare_value *scale, *shift; /* NULL: 1 and 0 */
    const float *gamma, *beta;
    struct pare_node *list[9]; /* the nodes after the first */
    int n_list;
    struct pare_value *out;
};

/* A constant of the row's length along the last axis. */
static bool is_row(const struct pare_value *v, int64_t n)
{
    return v && pare_is_const(v) && pare_is_f32(v) && v->t.rank >= 1 &&
           v->t.dim[v->t.rank - 1] == n && pare_numel(&v->t) == n;
}

static bool read_scalar(const struct pare_value *v, float *out)
{
    if (!v || !pare_is_const(v) || !pare_is_f32(v) || !v->t.data || pare_numel(&v->t) != 1)
        return false;
    *out = pare_f32(&v->t)[0];
    return true;
}

/* Is n a ReduceMean over the last axis with keepdims? */
static bool row_mean(const struct pare_node *n)
{
    const struct pare_tensor *x, *y;

    if (!pare_node_is(n, &pare_op_reduce_mean) || !pare_is_f32(n->in[0]))
        return false;
    x = &n->in[0]->t;
    y = &n->out[0]->t;
    if (x->rank < 1 || y->rank != x->rank || y->dim[y->rank - 1] != 1 || !pare_numel(x))
        return false;
    for (int i = 0; i < x->rank - 1; i++)
        if (x->dim[i] != y->dim[i])
            return false;
    return true;
}

/* The only consumer of the second value, if its inputs are these two in this order. */
static struct pare_node *consumer_of(const struct pare_match *v, const struct pare_value *first,
                                     const struct pare_value *second, const struct pare_op *op)
{
    struct pare_node *n = pare_only_consumer(v, second);

    return pare_node_is(n, op) && n->n_in == 2 && n->in[0] == first && n->in[1] == second ? n
                                                                                          : NULL;
}

static bool match_decomposed(const struct pare_match *v, struct pare_node *mean, struct norm *c)
{
    struct pare_node *sub, *pow, *mean2, *add, *root, *div, *mul;
    const struct pare_consumers *u;
    float two, eps;

    if (!row_mean(mean))
        return false;
    sub = consumer_of(v, mean->in[0], mean->out[0], &pare_op_sub);
    if (!sub || sub->out[0]->flags & PARE_V_OUTPUT || v->consumers[sub->out[0]->id].n != 2)
        return false;
    u = &v->consumers[sub->out[0]->id];
    pow = pare_node_is(u->node[0], &pare_op_pow) ? u->node[0] : u->node[1];
    if (!pare_node_is(pow, &pare_op_pow) || pow->in[0] != sub->out[0] ||
        !read_scalar(pow->in[1], &two) || two != 2)
        return false;
    mean2 = pare_only_consumer(v, pow->out[0]);
    if (!mean2 || !row_mean(mean2))
        return false;
    add = pare_only_consumer(v, mean2->out[0]);
    if (!pare_node_is(add, &pare_op_add) ||
        !(read_scalar(add->in[1], &eps) || read_scalar(add->in[0], &eps)))
        return false;
    root = pare_only_consumer(v, add->out[0]);
    div = pare_node_is(root, &pare_op_sqrt)
              ? consumer_of(v, sub->out[0], root->out[0], &pare_op_div)
              : NULL;
    if (!div)
        return false;
    c->eps = eps;
    c->out = div->out[0];
    memcpy(c->list, (struct pare_node *[]){ sub, pow, mean2, add, root, div },
           6 * sizeof(*c->list));
    c->n_list = 6;
    mul = pare_only_consumer(v, c->out);
    if (pare_node_is(mul, &pare_op_mul) && is_row(mul->in[mul->in[0] == c->out], c->length)) {
        c->scale = mul->in[mul->in[0] == c->out];
        c->out = mul->out[0];
        c->list[c->n_list++] = mul;
        add = pare_only_consumer(v, c->out);
        if (pare_node_is(add, &pare_op_add) && is_row(add->in[add->in[0] == c->out], c->length)) {
            c->shift = add->in[add->in[0] == c->out];
            c->out = add->out[0];
            c->list[c->n_list++] = add;
        }
    }
    return pare_same_shape(&c->out->t, &mean->in[0]->t);
}

static bool match_operator(struct pare_node *n, struct norm *c)
{
    if (!pare_node_is(n, &pare_op_layer_normalization) || !pare_is_f32(n->in[0]) ||
        pare_layer_norm_axis(n) != n->in[0]->t.rank - 1 || (n->n_out > 1 && n->out[1]) ||
        (n->n_out > 2 && n->out[2]) || !is_row(n->in[1], c->length))
        return false;
    c->scale = n->in[1];
    c->shift = n->n_in > 2 ? n->in[2] : NULL;
    c->eps = (float)pare_layer_norm_epsilon(n);
    c->out = n->out[0];
    return !c->shift || is_row(c->shift, c->length);
}

static bool norm_rows_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const struct pare_tensor *x = n->n_in && n->in[0] ? &n->in[0]->t : NULL;
    struct norm found = { 0 }, *c;

    if (!x || x->rank < 1)
        return false;
    found.length = x->dim[x->rank - 1];
    if ((!match_operator(n, &found) && !match_decomposed(v, n, &found)) || !found.length ||
        !pare_numel(x))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_step_lists(s, v, 1, 1, found.n_list))
        return false;
    *c = found;
    c->rows = pare_numel(x) / c->length;
    for (int i = 0; i < c->n_list; i++)
        s->fused[i] = c->list[i];
    s->state = c;
    s->in[0] = n->in[0];
    s->out[0] = c->out;
    s->inplace = 1;
    return true;
}

static int norm_rows_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct norm *c = s->state;

    if (c->scale && !(c->gamma = pare_const_f32(b, c->scale, err)))
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
    mean = sum / (float)n;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean);
    scale = 1 / sqrtf(square / (float)n + c->eps);
    if (c->gamma && c->beta)
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * scale * c->gamma[i] + c->beta[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * scale * (c->gamma ? c->gamma[i] : 1);
}

static int norm_rows_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct norm *c = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t);
    float *y = pare_f32(&s->out_buf[0]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (c->rows * c->length > 8192)
    for (int64_t i = 0; i < c->rows; i++)
        normalize_row(c, x + i * c->length, y + i * c->length);
    return 0;
}

const struct pare_kernel pare_kernel_norm_rows = {
    .name = "norm_rows",
    .doc = "LayerNormalization over the last axis, also if decomposed.",
    .match = norm_rows_match,
    .init = norm_rows_init,
    .run = norm_rows_run,
};
