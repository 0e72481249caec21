/* test_train_kernels.c - training kernels against the reference operators.
 *
 * Unusual sizes, strides, dilations and pads, accumulated gradients, one thread and several.
 */
#include "train_rig.h"

static const char *const threads[] = { "1", "2", "3" };

static void expect_close(struct training_step *fast, struct training_step *reference,
                         const char *what, double tol)
{
    assert_true(fabs(fast->score.loss - reference->score.loss) <
                1e-5 * fabs(reference->score.loss));
    for (int i = 0; i < reference->trainer->n_params; i++) {
        double d = relative_error(&fast->trainer->grad[i], &reference->trainer->grad[i]);

        if (!(d < tol))
            fail_msg("%s: the gradient of '%s' has a relative error of %g", what,
                     reference->trainer->name[i], d);
    }
}

/* Expects bit-identical gradients of another step. */
static void expect_same_gradients(struct training_step *a, struct training_step *b,
                                  const char *what)
{
    for (int i = 0; i < a->trainer->n_params; i++)
        if (memcmp(a->trainer->grad[i].data, b->trainer->grad[i].data,
                   (size_t)pare_numel(&a->trainer->grad[i]) * sizeof(float)))
            fail_msg("%s: the gradient of '%s' differs in a second step", what,
                     a->trainer->name[i]);
}

static void compare_with_reference(build_fn *build, const int64_t chw[3], const char *kernel,
                                   int least)
{
    const char *other = strcmp(kernel, "matmul_train") ? NULL : "attention_train";
    const char *const without[] = { "conv_winograd_train", "conv_winograd", other, NULL };
    struct training_step fast, reference;

    step_run(&reference, make_network(build, kernel, chw), chw, true, "1");
    for (size_t i = 0; i < sizeof(threads) / sizeof(*threads); i++) {
        struct training_step again;

        step_run_without(&fast, make_network(build, kernel, chw), chw, without, threads[i]);
        step_run_without(&again, make_network(build, kernel, chw), chw, without, threads[i]);
        expect_kernel(fast.trainer->plan[0], kernel, least);
        expect_close(&fast, &reference, kernel, 1e-4);
        if (pare_trainer_gradient(again.trainer, &again.x, &again.y, &again.score, &err))
            fail_msg("%s", err.msg);
        expect_same_gradients(&fast, &again, kernel);
        step_free(&fast);
        step_free(&again);
    }
    step_free(&reference);
}

/* ---- convolutions ------------------------------------------------------------------------ */

enum order { NOTHING, RELU, POOL, RELU_POOL, POOL_RELU };

static const struct conv_case {
    int64_t in, out, kernel[2], stride[2], dilation[2], pads[4];
    enum order order;
    int64_t pool, step, border; /* the pool's window, stride and padding */
    bool bias;
} conv_cases[] = {
    { 1, 20, { 5, 5 }, { 1, 1 }, { 1, 1 }, { 0 }, RELU_POOL, 2, 2, 0, true },
    { 20, 50, { 5, 5 }, { 1, 1 }, { 1, 1 }, { 0 }, POOL_RELU, 2, 2, 0, true },
    { 3, 7, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1, 1, 1 }, POOL, 2, 2, 0, false },
    { 3, 7, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1, 1, 1 }, RELU_POOL, 3, 2, 1, true },
    { 9, 5, { 3, 2 }, { 2, 1 }, { 1, 1 }, { 0, 1, 1, 0 }, RELU, 0, 0, 0, true },
    { 9, 33, { 2, 3 }, { 1, 2 }, { 2, 1 }, { 2, 0, 1, 3 }, NOTHING, 0, 0, 0, false },
    { 12, 18, { 3, 3 }, { 1, 1 }, { 1, 2 }, { 1, 2, 1, 2 }, RELU_POOL, 2, 1, 0, true },
    { 2, 1, { 1, 9 }, { 1, 1 }, { 1, 1 }, { 0, 4, 0, 4 }, POOL_RELU, 3, 3, 0, true },
    { 5, 3, { 4, 1 }, { 3, 2 }, { 1, 3 }, { 5, 0, 0, 2 }, RELU, 0, 0, 0, true },
    { 8, 16, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0 }, RELU_POOL, 2, 2, 0, false },
};

static const struct conv_case *conv_case;

static struct pare_flow add_pool(struct pare_net *n, struct pare_flow x)
{
    const struct conv_case *c = conv_case;

    x.value = pare_builder_node(n->make, "MaxPool", "pool", x.value, NULL);
    pare_builder_ints(n->make, "kernel_shape", 2, (int64_t[]){ c->pool, c->pool });
    pare_builder_ints(n->make, "strides", 2, (int64_t[]){ c->step, c->step });
    pare_builder_ints(n->make, "pads", 4,
                      (int64_t[]){ c->border, c->border, c->border, c->border });
    x.h = (x.h + 2 * c->border - c->pool) / c->step + 1;
    x.w = (x.w + 2 * c->border - c->pool) / c->step + 1;
    return x;
}

static struct pare_flow add_conv(struct pare_net *n, struct pare_flow x)
{
    const struct conv_case *c = conv_case;
    int64_t dim[4] = { c->out, x.c, c->kernel[0], c->kernel[1] }, *size[2] = { &x.h, &x.w };
    const char *w = pare_net_uniform(n, "case.weight", 4, dim, 0.3);
    const char *b = c->bias ? pare_net_uniform(n, "case.bias", 1, dim, 0.3) : NULL;

    x.value = pare_builder_node(n->make, "Conv", "case", x.value, w, b, NULL);
    pare_builder_ints(n->make, "kernel_shape", 2, c->kernel);
    pare_builder_ints(n->make, "strides", 2, c->stride);
    pare_builder_ints(n->make, "dilations", 2, c->dilation);
    pare_builder_ints(n->make, "pads", 4, c->pads);
    for (int i = 0; i < 2; i++)
        *size[i] = (*size[i] + c->pads[i] + c->pads[i + 2] - (c->kernel[i] - 1) * c->dilation[i] -
                    1) /
                       c->stride[i] +
                   1;
    x.c = c->out;
    return x;
}

/* A first convolution without post-ops; its result is used again, after the case, so that the
 * gradient of the case's input is added to another. */
static struct pare_flow conv_net(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv lead = { .out = conv_case->in, .kernel = 3, .pad = 1, .bias = true };
    struct pare_flow y, z;

    x = pare_net_apply(n, pare_net_conv(n, x, "lead", lead), "Tanh", "lead.tanh");
    y = add_conv(n, x);
    if (conv_case->order == RELU || conv_case->order == RELU_POOL)
        y = pare_net_relu(n, y, "relu");
    if (conv_case->order >= POOL)
        y = add_pool(n, y);
    if (conv_case->order == POOL_RELU)
        y = pare_net_relu(n, y, "relu");
    z = pare_net_linear(n, pare_net_flatten(n, x, "flatten1"), "fc1", 6);
    y = pare_net_linear(n, pare_net_flatten(n, y, "flatten"), "fc", 6);
    return pare_net_linear(n, pare_net_sum(n, y, z, "sum"), "last", n->classes);
}

static void test_im2col_convolutions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(conv_cases) / sizeof(*conv_cases); i++) {
        conv_case = &conv_cases[i];
        compare_with_reference(conv_net, (int64_t[]){ 2, 13, 14 }, "conv_im2col", 2);
        compare_with_reference(conv_net, (int64_t[]){ 1, 18, 9 }, "conv_im2col", 2);
    }
}

/* ---- transformers ------------------------------------------------------------------------ */

static const char *reshape(struct pare_net *n, const char *x, const char *name, int rank,
                           const int64_t *dim)
{
    char part[64];

    snprintf(part, sizeof(part), "%s.shape", name);
    return pare_builder_node(n->make, "Reshape", name, x,
                             pare_builder_shape(n->make, part, rank, dim), NULL);
}

static const char *transpose(struct pare_net *n, const char *x, const char *name, int a, int b,
                             int c)
{
    const char *y = pare_builder_node(n->make, "Transpose", name, x, NULL);

    pare_builder_ints(n->make, "perm", 4, (int64_t[]){ 0, a, b, c });
    return y;
}

static struct {
    int64_t heads, size;
    bool again, on_scores; /* the projection has another consumer; scores are scaled */
} attention_case;

/* (N, 1, T, C) -> (N T, C) -> attention -> (N, T H D) */
static struct pare_flow attention_net(struct pare_net *n, struct pare_flow x)
{
    int64_t H = attention_case.heads, D = attention_case.size, T = x.h;
    struct pare_flow all, y;
    const char *part[3], *scale, *v;

    x = (struct pare_flow){ reshape(n, x.value, "rows", 2, (int64_t[]){ -1, x.w }), x.w, 0, 0 };
    all = pare_net_linear(n, x, "qkv", 3 * H * D);
    pare_builder_node(n->make, "Split", "split", all.value, NULL);
    pare_builder_int(n->make, "axis", 1);
    for (int i = 2; i >= 0; i--)
        part[i] = pare_builder_split(n->make, 3, i);
    for (int i = 0; i < 3; i++) {
        char name[2][32];

        snprintf(name[0], sizeof(name[0]), "part%d", i);
        snprintf(name[1], sizeof(name[1]), "heads%d", i);
        v = reshape(n, part[i], name[0], 4, (int64_t[]){ -1, T, H, D });
        part[i] = transpose(n, v, name[1], 2, i == 1 ? 3 : 1, i == 1 ? 1 : 3);
    }
    scale = pare_builder_number(n->make, "scale", attention_case.on_scores ? 1.3f : 0.6f);
    v = part[0];
    if (!attention_case.on_scores)
        v = pare_builder_node(n->make, "Mul", "scaled", v, scale, NULL);
    v = pare_builder_node(n->make, "MatMul", "scores", v, part[1], NULL);
    if (attention_case.on_scores)
        v = pare_builder_node(n->make, "Div", "scaled", v, scale, NULL);
    v = pare_builder_node(n->make, "Softmax", "softmax", v, NULL);
    pare_builder_int(n->make, "axis", -1);
    v = pare_builder_node(n->make, "MatMul", "mixed", v, part[2], NULL);
    v = reshape(n, transpose(n, v, "back", 2, 1, 3), "flat", 2, (int64_t[]){ -1, H * D });
    y = (struct pare_flow){ v, H * D, 0, 0 };
    if (attention_case.again) {
        all = pare_net_linear(n, pare_net_apply(n, all, "Tanh", "tanh"), "other", H * D);
        y = pare_net_sum(n, y, all, "sum");
    }
    y.value = reshape(n, y.value, "images", 2, (int64_t[]){ -1, T * H * D });
    y.c = T * H * D;
    return pare_net_linear(n, y, "fc", n->classes);
}

static void test_attention_kernels(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        attention_case.heads = 1 + i % 3;
        attention_case.size = 8 * (1 + i % 5);
        attention_case.again = i % 2;
        attention_case.on_scores = i / 2 % 2;
        compare_with_reference(attention_net, (int64_t[]){ 1, 1 + 5 * i, 12 }, "attention_train",
                               1);
        if (attention_case.heads == 3)
            compare_with_reference(attention_net, (int64_t[]){ 1, 1 + 5 * i, 12 }, "matmul_train",
                                   2);
    }
}

/* LayerNormalization and a GELU in single operators, alone and with a residual connection; and
 * linear layers of which only the first row of each image is used. */
static struct pare_flow add_layer_norm(struct pare_net *n, struct pare_flow x, const char *name,
                                       bool bias)
{
    char part[32];
    const char *w, *b = NULL;

    snprintf(part, sizeof(part), "%s.weight", name);
    w = pare_net_fill(n, part, 1, &x.c, 1);
    snprintf(part, sizeof(part), "%s.bias", name);
    if (bias)
        b = pare_net_fill(n, part, 1, &x.c, 0);
    x.value = pare_builder_node(n->make, "LayerNormalization", name, x.value, w, b, NULL);
    pare_builder_int(n->make, "axis", -1);
    return x;
}

static struct pare_flow add_gelu(struct pare_net *n, struct pare_flow x, bool mul)
{
    struct pare_builder *k = n->make;
    const char *y, *c; /* separate statements, because names share a buffer */

    c = pare_builder_number(k, pare_net_name(n, "root%d", mul), (float)(mul ? sqrt(0.5) : sqrt(2)));
    y = pare_builder_node(k, mul ? "Mul" : "Div", pare_net_name(n, "scaled%d", mul), x.value, c,
                          NULL);
    y = pare_builder_node(k, "Erf", pare_net_name(n, "erf%d", mul), y, NULL);
    c = pare_builder_number(k, pare_net_name(n, "one%d", mul), 1);
    y = pare_builder_node(k, "Add", pare_net_name(n, "add%d", mul), y, c, NULL);
    y = pare_builder_node(k, "Mul", pare_net_name(n, "mul%d", mul), x.value, y, NULL);
    c = pare_builder_number(k, pare_net_name(n, "two%d", mul), 0.5f);
    x.value = pare_builder_node(k, "Mul", pare_net_name(n, "half%d", mul), y, c, NULL);
    return x;
}

static struct pare_flow rows_net(struct pare_net *n, struct pare_flow x)
{
    int64_t T = x.h, first = 0;
    const char *which;

    x = (struct pare_flow){ reshape(n, x.value, "rows", 2, (int64_t[]){ -1, x.w }), x.w, 0, 0 };
    x = add_layer_norm(n, pare_net_linear(n, x, "start", 21), "norm1", true);
    x = add_gelu(n, pare_net_linear(n, x, "a", 19), false);
    x = pare_net_sum(n, x, add_layer_norm(n, x, "norm2", false), "sum1");
    x = pare_net_linear(n, x, "b", 33);
    x = pare_net_sum(n, x, add_gelu(n, x, true), "sum2");
    x = pare_net_linear(n, x, "c", 17);
    x.value = reshape(n, x.value, "images", 3, (int64_t[]){ -1, T, 17 });
    which = pare_builder_shape(n->make, "which", 1, &first);
    x.value = pare_builder_node(n->make, "Gather", "gather", x.value, which, NULL);
    pare_builder_int(n->make, "axis", 1);
    x.value = reshape(n, x.value, "first", 2, (int64_t[]){ -1, x.c });
    return pare_net_linear(n, x, "fc", n->classes);
}

static void test_norm_and_gelu_kernels(void **state)
{
    int64_t chw[3] = { 1, 31, 13 };

    (void)state;
    compare_with_reference(rows_net, chw, "norm_train", 2);
    compare_with_reference(rows_net, chw, "elementwise_train", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_im2col_convolutions),
        cmocka_unit_test(test_attention_kernels),
        cmocka_unit_test(test_norm_and_gelu_kernels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
