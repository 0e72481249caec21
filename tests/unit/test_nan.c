/* test_nan.c - every fast kernel propagates NaN.
 *
 * Small networks, each with one NaN among its inputs, run once with each kernel of kernels.def
 * alone and with all kernels except oneDNN's, in inference and in training: where the reference
 * kernels give NaN, the fast ones must too.  More elements may be NaN: Winograd kernels compute
 * tiles, and a NaN spreads over its tile.
 *
 * oneDNN's Relu and Clip replace NaN by 0 or the bound.  Only the two kernels that use them may do
 * so, and only after these operators.
 */
#include "make_model.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "onnx/model.h"
#include "plan/plan.h"

enum { KERNELS = 64, REFERENCE = -1, NOT_ONEDNN = -2 };

static struct pare_rng rng;

static struct {
    int runs, lost, used[KERNELS];
} totals;

static const char *random_floats(struct build *b, int rank, const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++) /* none is 0: sparse kernels skip 0 times NaN */
        pare_f32_mut(&t)[i] = (float)(0.1 + pare_rng_uniform(&rng)) * (i % 2 ? 1 : -1);
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* ---- networks: a first operator, and the operators after it ---------------------------------- */

static const char *conv(struct build *b, const char *x, int64_t kernel, int64_t stride,
                        int64_t group)
{
    const char *w = random_floats(b, INTS(16, 16 / group, kernel, kernel));
    int64_t pad = kernel / 2;

    return build_node(b, "Conv", NAMES(x, w, random_floats(b, INTS(16))),
                      CAT(at_ints("pads", INTS(pad, pad, pad, pad)),
                          at_ints("strides", INTS(stride, stride)), at_int("group", group)));
}

static const char *conv_3x3(struct build *b, const char *x)
{
    return conv(b, x, 3, 1, 1);
}

static const char *conv_line(struct build *b, const char *x)
{
    return build_node(b, "Conv", NAMES(x, random_floats(b, INTS(16, 16, 1, 7))),
                      at_ints("pads", INTS(0, 3, 0, 3)));
}

/* Few output channels, over lines that fill vectors. */
static const char *conv_narrow(struct build *b, const char *x)
{
    x = build_node(b, "Reshape", NAMES(x, build_ints(b, INTS(2, 8, 8, 16))), NOTHING);
    return build_node(b, "Conv", NAMES(x, random_floats(b, INTS(5, 8, 3, 3))),
                      at_ints("pads", INTS(1, 1, 1, 1)));
}

static const char *conv_1x1(struct build *b, const char *x)
{
    return conv(b, x, 1, 1, 1);
}

static const char *conv_stride(struct build *b, const char *x)
{
    return conv(b, x, 3, 2, 1);
}

static const char *conv_depthwise(struct build *b, const char *x)
{
    return conv(b, x, 3, 1, 16);
}

static const char *conv_transpose(struct build *b, const char *x)
{
    const char *w = random_floats(b, INTS(16, 16, 3, 3));

    return build_node(b, "ConvTranspose", NAMES(x, w), at_ints("strides", INTS(2, 2)));
}

static const char *resize(struct build *b, const char *x, const char *mode)
{
    const float scales[] = { 1, 1, 2, 2 };

    return build_node(b, "Resize", NAMES(x, "", build_floats(b, INTS(4), scales)),
                      at_text("mode", mode));
}

static const char *resize_nearest(struct build *b, const char *x)
{
    return resize(b, conv(b, x, 3, 1, 1), "nearest");
}

static const char *resize_linear(struct build *b, const char *x)
{
    return resize(b, conv(b, x, 3, 1, 1), "linear");
}

static const char *conv_norm(struct build *b, const char *x)
{
    const float var[16] = { 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2 };

    return build_node(b, "BatchNormalization",
                      NAMES(conv(b, x, 3, 1, 1), random_floats(b, INTS(16)),
                            random_floats(b, INTS(16)), random_floats(b, INTS(16)),
                            build_floats(b, INTS(16), var)),
                      NOTHING);
}

static const char *gemm(struct build *b, const char *x)
{
    const char *flat = build_node(b, "Flatten", NAMES(x), at_int("axis", 2));

    flat = build_node(b, "Reshape", NAMES(flat, build_ints(b, INTS(32, -1))), NOTHING);
    return build_node(b, "Gemm",
                      NAMES(flat, random_floats(b, INTS(64, 24)), random_floats(b, INTS(24))),
                      NOTHING);
}

static const char *matmul(struct build *b, const char *x)
{
    return build_node(b, "MatMul", NAMES(x, random_floats(b, INTS(8, 16))), NOTHING);
}

static const char *transposed(struct build *b, const char *x)
{
    return build_node(b, "Transpose", NAMES(x), at_ints("perm", INTS(0, 1, 3, 2)));
}

static const char *matmul_two(struct build *b, const char *x)
{
    return build_node(b, "MatMul", NAMES(matmul(b, x), transposed(b, matmul(b, x))), NOTHING);
}

static const char *attention(struct build *b, const char *x)
{
    const char *s = build_node(b, "Div", NAMES(matmul_two(b, x), build_scalar(b, 4)), NOTHING);

    s = build_node(b, "Softmax", NAMES(s), at_int("axis", -1));
    return build_node(b, "MatMul", NAMES(s, matmul(b, x)), NOTHING);
}

/* Weights of 8 bits, with a scale for each column. */
static const char *matmul_8bit(struct build *b, const char *x)
{
    int8_t w[64 * 32];
    const char *q;

    for (int i = 0; i < 64 * 32; i++)
        w[i] = (int8_t)(i % 100 - 120);
    q = build_node(b, "DequantizeLinear",
                   NAMES(build_const(b, PARE_I8, INTS(64, 32), w), random_floats(b, INTS(32))),
                   at_int("axis", 1));
    x = build_node(b, "Reshape", NAMES(x, build_ints(b, INTS(32, 64))), NOTHING);
    return build_node(b, "MatMul", NAMES(x, q), NOTHING);
}

static const char *concat(struct build *b, const char *x)
{
    return build_node(b, "Concat", NAMES(x, conv(b, x, 3, 1, 1)), at_int("axis", 1));
}

static const char *max_pool(struct build *b, const char *x)
{
    return build_node(b, "MaxPool", NAMES(x),
                      CAT(at_ints("kernel_shape", INTS(3, 3)), at_ints("strides", INTS(2, 2)),
                          at_ints("pads", INTS(1, 1, 1, 1))));
}

static const char *mean_pool(struct build *b, const char *x)
{
    return build_node(b, "AveragePool", NAMES(x),
                      CAT(at_ints("kernel_shape", INTS(2, 2)), at_ints("strides", INTS(2, 2))));
}

static const char *mean_all(struct build *b, const char *x)
{
    return build_node(b, "GlobalAveragePool", NAMES(x), NOTHING);
}

static const char *softmax(struct build *b, const char *x)
{
    return build_node(b, "Softmax", NAMES(x), at_int("axis", -1));
}

static const char *einsum(struct build *b, const char *x)
{
    return build_node(b, "Einsum", NAMES(x, x), at_text("equation", "bcij,bckj->bcik"));
}

/* At the positions of the elements, as far as 8 x 8 elements reach. */
static const char *grid_sample(struct build *b, const char *x)
{
    const int64_t dim[4] = { 2, 8, 8, 2 };
    struct pare_tensor t = build_tensor(PARE_F32, 4, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = ((float)(i % 2 ? i / 16 % 8 : i / 2 % 8) + 0.25f) / 4 - 0.875f;
    return build_node(b, "GridSample", NAMES(x, build_floats(b, 4, dim, pare_f32(&t))), NOTHING);
}

static const char *select_wider(struct build *b, const char *x)
{
    const char *more = build_node(b, "Greater", NAMES(x, build_scalar(b, 0)), NOTHING);

    return build_node(b, "Where", NAMES(more, x, build_node(b, "Neg", NAMES(x), NOTHING)), NOTHING);
}

/* A recurrent layer of 16 steps. */
static const char *recurrent(struct build *b, const char *type, int64_t gates, const char *x)
{
    const char *w = random_floats(b, INTS(1, gates * 20, 64));
    const char *r = random_floats(b, INTS(1, gates * 20, 20));

    x = build_node(b, "Reshape", NAMES(x, build_ints(b, INTS(16, 2, 64))), NOTHING);
    return build_node(b, type, NAMES(x, w, r), at_int("hidden_size", 20));
}

static const char *lstm(struct build *b, const char *x)
{
    return recurrent(b, "LSTM", 4, x);
}

static const char *gru(struct build *b, const char *x)
{
    return recurrent(b, "GRU", 3, x);
}

static const char *rnn(struct build *b, const char *x)
{
    return recurrent(b, "RNN", 1, x);
}

static const char *layer_norm(struct build *b, const char *x)
{
    return build_node(b, "LayerNormalization",
                      NAMES(x, random_floats(b, INTS(8)), random_floats(b, INTS(8))),
                      at_int("axis", -1));
}

static const char *negate(struct build *b, const char *x)
{
    return build_node(b, "Neg", NAMES(x), NOTHING);
}

static const char *clip(struct build *b, const char *x, float lo, float hi)
{
    return build_node(b, "Clip", NAMES(x, build_scalar(b, lo), build_scalar(b, hi)), NOTHING);
}

static const char *relu(struct build *b, const char *x)
{
    return build_node(b, "Relu", NAMES(x), NOTHING);
}

static const char *relu6(struct build *b, const char *x)
{
    return clip(b, x, 0, 6);
}

static const char *clip_both(struct build *b, const char *x)
{
    return clip(b, x, -1, 1);
}

static const char *clip_below(struct build *b, const char *x)
{
    return build_node(b, "Clip", NAMES(x, build_scalar(b, 0.5f)), NOTHING);
}

static const char *leaky(struct build *b, const char *x)
{
    return build_node(b, "LeakyRelu", NAMES(x), at_float("alpha", 0.1f));
}

static const char *hard_swish(struct build *b, const char *x)
{
    return build_node(b, "HardSwish", NAMES(x), NOTHING);
}

static const char *silu(struct build *b, const char *x)
{
    return build_node(b, "Mul", NAMES(x, build_node(b, "Sigmoid", NAMES(x), NOTHING)), NOTHING);
}

static const char *gelu(struct build *b, const char *x)
{
    const char *e = build_node(b, "Div", NAMES(x, build_scalar(b, 1.41421356f)), NOTHING);

    e = build_node(b, "Erf", NAMES(e), NOTHING);
    e = build_node(b, "Add", NAMES(e, build_scalar(b, 1)), NOTHING);
    e = build_node(b, "Mul", NAMES(x, e), NOTHING);
    return build_node(b, "Mul", NAMES(e, build_scalar(b, 0.5f)), NOTHING);
}

static const char *elu(struct build *b, const char *x)
{
    return build_node(b, "Elu", NAMES(x), NOTHING);
}

static const char *add_relu(struct build *b, const char *x)
{
    const char *other = build_node(b, "Abs", NAMES(x), NOTHING);

    return relu(b, build_node(b, "Add", NAMES(x, other), NOTHING));
}

static const char *relu_pool(struct build *b, const char *x)
{
    return max_pool(b, relu(b, x));
}

typedef const char *piece(struct build *b, const char *x);

static const struct {
    const char *name;
    piece *add;
    bool images; /* its result is (N, C, H, W) */
} firsts[] = {
    { "3x3", conv_3x3, true },
    { "1x7", conv_line, true },
    { "few channels", conv_narrow, true },
    { "1x1", conv_1x1, true },
    { "stride", conv_stride, true },
    { "depthwise", conv_depthwise, true },
    { "norm", conv_norm, true },
    { "gemm", gemm, false },
    { "matmul", matmul, true },
    { "matmul of two", matmul_two, true },
    { "attention", attention, true },
    { "8 bits", matmul_8bit, false },
    { "transposed", transposed, true },
    { "concat", concat, true },
    { "max pool", max_pool, true },
    { "mean pool", mean_pool, true },
    { "mean of all", mean_all, true },
    { "softmax", softmax, true },
    { "layer norm", layer_norm, true },
    { "negate", negate, true },
    { "LSTM", lstm, false },
    { "GRU", gru, false },
    { "RNN", rnn, false },
    { "conv transpose", conv_transpose, true },
    { "nearest", resize_nearest, true },
    { "linear", resize_linear, true },
    { "einsum", einsum, true },
    { "grid sample", grid_sample, true },
    { "select", select_wider, true },
};

static const struct {
    const char *name;
    piece *add;
    bool bounds; /* it contains a Relu or a Clip */
} lasts[] = {
    { "negate", negate, false },
    { "relu", relu, true },
    { "relu6", relu6, true },
    { "clip", clip_both, true },
    { "clip below", clip_below, true },
    { "leaky", leaky, false },
    { "hard swish", hard_swish, false },
    { "silu", silu, false },
    { "gelu", gelu, false },
    { "elu", elu, false },
    { "sum, relu", add_relu, true },
    { "relu, pool", relu_pool, true },
};

/* ---- running --------------------------------------------------------------------------- */

struct network_case {
    const char *first, *last;
    bool bounds;
    struct pare_model *model;
    struct pare_tensor x, want;
};

/* The kernels in which oneDNN computes Relu and Clip. */
static const char *const onednn[] = { "conv_onednn", "linear_onednn", NULL };

static bool is_onednn(const char *kernel)
{
    int i = 0;

    while (onednn[i] && strcmp(kernel, onednn[i]) != 0)
        i++;
    return onednn[i] != NULL;
}

static void expect_nan(const struct network_case *t, const struct pare_tensor *got,
                       const char *kernel)
{
    int64_t lost = 0, nans = 0;

    for (int64_t i = 0; i < pare_numel(&t->want); i++) {
        nans += isnan(pare_f32(&t->want)[i]);
        lost += isnan(pare_f32(&t->want)[i]) && !isnan(pare_f32(got)[i]);
    }
    assert_true(nans > 0);
    totals.lost += lost > 0;
    if (lost && !(t->bounds && is_onednn(kernel)))
        fail_msg("%s, %s, %s: %lld of %lld NaN are lost", kernel, t->first, t->last,
                 (long long)lost, (long long)nans);
}

static bool has_kernel(const struct pare_plan *p, int kernel)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i]->kernel == pare_kernels[kernel])
            return true;
    return false;
}

static void run_plan(struct network_case *t, struct pare_plan *p, int kernel)
{
    struct pare_tensor out;
    struct pare_err err;

    if (pare_plan_execute(p, &t->x, &out, &err))
        fail_msg("%s, %s: %s", t->first, t->last, err.msg);
    if (kernel == REFERENCE) {
        t->want = build_copy(&out);
    } else if (kernel == NOT_ONEDNN) {
        expect_nan(t, &out, "all but oneDNN");
        for (int k = 0; pare_kernels[k]; k++)
            totals.used[k] += has_kernel(p, k);
        totals.runs++;
    } else if (has_kernel(p, kernel)) {
        expect_nan(t, &out, pare_kernels[kernel]->name);
        totals.used[kernel]++;
        totals.runs++;
    }
    pare_plan_free(p);
}

/* The names of all kernels except the k-th. */
static const char *const *all_kernels_except(int k)
{
    static const char *list[KERNELS + 1];
    int n = 0;

    for (int i = 0; pare_kernels[i]; i++)
        if (i != k)
            list[n++] = pare_kernels[i]->name;
    list[n] = NULL;
    return list;
}

static void run_each_kernel(struct network_case *t)
{
    struct pare_plan_opts reference = { .reference = true }, one = { .threads = 1 };
    struct pare_plan_opts bf16 = { .threads = 1, .precision = PARE_PRECISION_BF16 };
    struct pare_plan *p;
    struct pare_err err;

    assert_int_equal(pare_plan_make(t->model, &reference, &p, &err), 0);
    run_plan(t, p, REFERENCE);
    assert_int_equal(pare_plan_build(t->model,
                                     &(struct pare_plan_build){ .opts = &one, .without = onednn },
                                     &p, &err),
                     0);
    run_plan(t, p, NOT_ONEDNN);
    for (int k = 0; pare_kernels[k]; k++) {
        assert_int_equal(pare_plan_build(t->model,
                                         &(struct pare_plan_build){
                                             .opts = &one,
                                             .without = all_kernels_except(k) },
                                         &p, &err),
                         0);
        run_plan(t, p, k);
        assert_int_equal(pare_plan_build(t->model,
                                         &(struct pare_plan_build){
                                             .opts = &bf16,
                                             .without = all_kernels_except(k) },
                                         &p, &err),
                         0);
        run_plan(t, p, k);
        for (int rows = 1; rows <= 8 && strstr(pare_kernels[k]->name, "_sparse");
             rows += rows == 1 ? 3 : 4) {
            assert_int_equal(pare_plan_build(t->model,
                                             &(struct pare_plan_build){ .opts = &one,
                                                                        .sparse_rows = rows },
                                             &p, &err),
                             0);
            run_plan(t, p, k);
        }
    }
}

/* The same in training, where weights are not constants. */
static void train_each_kernel(struct network_case *t)
{
    const char *names[16];
    struct pare_plan_opts o = { .threads = 1, .reference = true };
    struct pare_plan_train train = { .names = names };
    struct pare_plan_build build = { .opts = &o, .train = &train };
    struct pare_graph *g = t->model->graph;
    struct pare_plan *p;
    struct pare_err err;

    for (int i = 0; i < g->n_values && train.n_names < 16; i++) {
        struct pare_value *v = g->value[i];

        if (!(v->flags & PARE_V_CONST) || v->t.dtype != PARE_F32 || !v->t.rank)
            continue;
        assert_int_equal(pare_model_own(t->model, v, &err), 0);
        names[train.n_names++] = v->name;
    }
    if (!train.n_names)
        return;
    if (pare_plan_build(t->model, &build, &p, &err)) /* integer operators have no gradient */
        return;
    run_plan(t, p, REFERENCE);
    o.reference = false;
    build.without = onednn;
    assert_int_equal(pare_plan_build(t->model, &build, &p, &err), 0);
    run_plan(t, p, NOT_ONEDNN);
    for (int k = 0; pare_kernels[k]; k++) {
        build.without = all_kernels_except(k);
        assert_int_equal(pare_plan_build(t->model, &build, &p, &err), 0);
        run_plan(t, p, k);
    }
}

/* Kernels for which there is no network here: those of integers, which have no NaN, of attention,
 * and of fake-quant nodes.  Blocked layouts come from oneDNN. */
static bool is_left_out(const char *kernel)
{
    bool blocked = false;

    for (int k = 0; pare_kernels[k]; k++)
        blocked |= strstr(pare_kernels[k]->name, "onednn") != NULL;
    return strstr(kernel, "int8") || strstr(kernel, "attention") || !strcmp(kernel, "any_layout") ||
           !strcmp(kernel, "arg_columns") || /* its results are integers */
           (!blocked && strstr(kernel, "blocked"));
}

static void test_kernels_propagate_nan(void **state)
{
    (void)state;
    pare_rng_init(&rng, 1);
    for (size_t h = 0; h < sizeof(firsts) / sizeof(*firsts); h++)
        for (size_t e = 0; e < sizeof(lasts) / sizeof(*lasts); e++) {
            struct network_case t = { firsts[h].name, lasts[e].name, lasts[e].bounds,
                                      NULL,           { 0 },         { 0 } };
            struct pare_mark m = pare_mark(pool);
            struct build b = { .opset = 17 };
            const char *x = build_input(&b, PARE_F32, INTS(2, 16, 8, 8));

            if (lasts[e].add == relu_pool && !firsts[h].images)
                continue;
            build_output(&b, lasts[e].add(&b, firsts[h].add(&b, x)));
            t.model = build_model(&b);
            t.x = build_tensor(PARE_F32, INTS(2, 16, 8, 8));
            for (int64_t i = 0; i < pare_numel(&t.x); i++)
                pare_f32_mut(&t.x)[i] = (float)(2 * pare_rng_uniform(&rng) - 1);
            pare_f32_mut(&t.x)[(5 * 8 + 3) * 8 + 4] = NAN;
            run_each_kernel(&t);
            train_each_kernel(&t);
            pare_model_free(t.model);
            pare_reset(pool, m);
        }
    print_message("%d runs; %d of them, by oneDNN, lose NaN\n", totals.runs, totals.lost);
    for (int k = 0; pare_kernels[k]; k++) {
        print_message("%6d %s\n", totals.used[k], pare_kernels[k]->name);
        if (!totals.used[k] && !is_left_out(pare_kernels[k]->name))
            fail_msg("no network uses the kernel %s", pare_kernels[k]->name);
    }
    assert_true(totals.runs > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kernels_propagate_nan, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
