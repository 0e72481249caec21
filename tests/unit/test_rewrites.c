/* test_rewrites.c - graph rewrites: each changes what it is made for, leaves similar graphs as they
 * are, and never changes results. */
#include "rewrite_product_nets.h"

#include <stdio.h>

#include "graph/rewrite/rewrite.h"
#include "plan/plan.h"
#include "tensor/compare.h"

static struct pare_err err;

/* ---- networks from x (2, 4, 6, 6) ---------------------------------------------------------- */

static const char *pad(struct net *n, const char *x, float value, int count, const int64_t *amounts)
{
    const char *by = build_ints(&n->b, count, amounts);

    return NODE("Pad", NAMES(x, by, build_scalar(&n->b, value)), NOTHING);
}

static const char *transpose(struct net *n, const char *x, int count, const int64_t *perm)
{
    return NODE("Transpose", NAMES(x), at_ints("perm", count, perm));
}

NETWORK(copies)
{
    const char *y = NODE("Relu", NAMES(n->x), NOTHING);

    y = NODE("Identity", NAMES(y), NOTHING);
    y = NODE("Dropout", NAMES(y), NOTHING);
    y = NODE("Cast", NAMES(y), at_int("to", 1));
    y = NODE("Add", NAMES(y, build_scalar(&n->b, 0)), NOTHING);
    y = NODE("Mul", NAMES(build_scalar(&n->b, 1), y), NOTHING);
    y = NODE("Reshape", NAMES(y, LIST(2, C, S, S)), NOTHING);
    y = NODE("Slice", NAMES(y, LIST(0), LIST(INT64_MAX), LIST(2)), NOTHING);
    y = NODE("Concat", NAMES(y), at_int("axis", 1));
    y = pad(n, y, 5, INTS(0, 0, 0, 0, 0, 0, 0, 0));
    y = transpose(n, y, INTS(0, 1, 2, 3));
    return NODE("Identity", NAMES(y), NOTHING);
}

/* Nothing here is a copy. */
NETWORK(no_copies)
{
    const char *y = NODE("Add",
                         NAMES(n->x, build_floats(&n->b, INTS(1, 1, 1, 1, 1), (float[]){ 0 })),
                         NOTHING);

    y = NODE("Mul", NAMES(y, build_scalar(&n->b, 1.0000001f)), NOTHING);
    y = NODE("Max", NAMES(y, build_scalar(&n->b, -1e38f)), NOTHING);
    return NODE("Sub", NAMES(build_scalar(&n->b, 0), y), NOTHING);
}

/* Both the input and the result of a copy are outputs. */
NETWORK(copy_of_output)
{
    const char *y = NODE("Relu", NAMES(n->x), NOTHING);

    build_output(&n->b, y);
    return NODE("Identity", NAMES(y), NOTHING);
}

NETWORK(copy_of_input)
{
    return NODE("Identity", NAMES(n->x), NOTHING);
}

NETWORK(views)
{
    const char *y = NODE("Reshape", NAMES(n->x, LIST(0, -1)), NOTHING);

    y = NODE("Unsqueeze", NAMES(y, LIST(1)), NOTHING);
    y = NODE("Reshape", NAMES(y, LIST(C, -1, 3)), NOTHING);
    return NODE("Relu", NAMES(y), NOTHING);
}

NETWORK(inverse_views)
{
    const char *y = NODE("Unsqueeze", NAMES(NODE("Relu", NAMES(n->x), NOTHING), LIST(0)), NOTHING);

    return NODE("Tanh", NAMES(NODE("Squeeze", NAMES(y, LIST(0)), NOTHING)), NOTHING);
}

NETWORK(view_read_twice)
{
    const char *y = NODE("Reshape", NAMES(n->x, LIST(0, -1)), NOTHING);

    build_output(&n->b, NODE("Relu", NAMES(y), NOTHING));
    return NODE("Reshape", NAMES(y, LIST(C, -1)), NOTHING);
}

NETWORK(inverse_transposes)
{
    const char *y = transpose(n, NODE("Relu", NAMES(n->x), NOTHING), INTS(0, 2, 3, 1));

    return NODE("Tanh", NAMES(transpose(n, y, INTS(0, 3, 1, 2))), NOTHING);
}

NETWORK(two_transposes)
{
    return transpose(n, transpose(n, n->x, INTS(0, 2, 3, 1)), INTS(0, 2, 3, 1));
}

NETWORK(pad_conv)
{
    return conv(n, pad(n, n->x, 0, INTS(0, 0, 1, 0, 0, 0, 1, 2)), 5, C,
                CAT(at_ints("strides", INTS(2, 2)), at_ints("pads", INTS(0, 1, 0, 0))));
}

NETWORK(pad_conv_valid)
{
    return conv(n, pad(n, n->x, 0, INTS(0, 0, 1, 1, 0, 0, 1, 1)), 5, C,
                at_text("auto_pad", "VALID"));
}

NETWORK(pad_conv_same)
{
    return conv(n, pad(n, n->x, 0, INTS(0, 0, 1, 1, 0, 0, 1, 1)), 5, C,
                at_text("auto_pad", "SAME_UPPER"));
}

NETWORK(pad_ones)
{
    return conv(n, pad(n, n->x, 1, INTS(0, 0, 1, 1, 0, 0, 1, 1)), 5, C, NOTHING);
}

NETWORK(pad_channels)
{
    return conv(n, pad(n, n->x, 0, INTS(0, 1, 1, 1, 0, 0, 1, 1)), 5, C + 1, NOTHING);
}

NETWORK(pad_negative)
{
    return conv(n, pad(n, n->x, 0, INTS(0, 0, -1, 1, 0, 0, 1, 1)), 5, C, NOTHING);
}

static const char *window(struct net *n, const char *type, const char *x, struct bin attrs)
{
    return NODE(type, NAMES(x),
                CAT(at_ints("kernel_shape", INTS(3, 3)), at_ints("strides", INTS(2, 2)), attrs));
}

NETWORK(pad_average)
{
    return window(n, "AveragePool", pad(n, n->x, 0, INTS(0, 0, 1, 1, 0, 0, 1, 1)), NOTHING);
}

/* The pool's own padding does not count, the zeros of the Pad do. */
NETWORK(pad_average_padded)
{
    return window(n, "AveragePool", pad(n, n->x, 0, INTS(0, 0, 1, 1, 0, 0, 0, 0)),
                  at_ints("pads", INTS(0, 0, 1, 1)));
}

NETWORK(pad_average_counted)
{
    return window(n, "AveragePool", pad(n, n->x, 0, INTS(0, 0, 1, 1, 0, 0, 0, 0)),
                  CAT(at_ints("pads", INTS(0, 0, 1, 1)), at_int("count_include_pad", 1)));
}

NETWORK(pad_max)
{
    return window(n, "MaxPool", pad(n, n->x, 0, INTS(0, 0, 1, 1, 0, 0, 1, 1)), NOTHING);
}

NETWORK(pad_max_of_relu)
{
    return window(n, "MaxPool",
                  pad(n, NODE("Relu", NAMES(n->x), NOTHING), 0, INTS(0, 0, 1, 1, 0, 0, 1, 1)),
                  at_ints("dilations", INTS(1, 1)));
}

NETWORK(pad_max_lowest)
{
    return window(n, "MaxPool", pad(n, n->x, -INFINITY, INTS(0, 0, 1, 1, 0, 0, 1, 1)), NOTHING);
}

NETWORK(pad_max_ceil)
{
    return window(n, "MaxPool", pad(n, n->x, -INFINITY, INTS(0, 0, 1, 1, 0, 0, 1, 1)),
                  at_int("ceil_mode", 1));
}

/* As wide as the window: some windows would have padding only. */
NETWORK(pad_wide)
{
    return conv(n, pad(n, n->x, 0, INTS(0, 0, 3, 0, 0, 0, 0, 0)), 5, C, NOTHING);
}

NETWORK(twice)
{
    const char *a = NODE("Mul", NAMES(n->x, build_scalar(&n->b, 2)), NOTHING);
    const char *b = NODE("Mul", NAMES(n->x, build_scalar(&n->b, 2)), NOTHING);
    const char *c = NODE("LeakyRelu", NAMES(a), at_float("alpha", 0.1f));

    return NODE("Add", NAMES(c, NODE("LeakyRelu", NAMES(b), at_float("alpha", 0.1f))), NOTHING);
}

NETWORK(twice_differently)
{
    const char *a = NODE("Mul", NAMES(n->x, build_scalar(&n->b, 2)), NOTHING);
    const char *b = NODE("Mul", NAMES(n->x, build_scalar(&n->b, 2.5f)), NOTHING);
    const char *c = NODE("LeakyRelu", NAMES(a), at_float("alpha", 0.1f));

    b = NODE("Sub", NAMES(b, NODE("LeakyRelu", NAMES(a), at_float("alpha", 0.2f))), NOTHING);
    return NODE("Add", NAMES(c, b), NOTHING);
}

NETWORK(twice_as_outputs)
{
    build_output(&n->b, NODE("Relu", NAMES(n->x), NOTHING));
    return NODE("Relu", NAMES(n->x), NOTHING);
}

static const char *by_channel(struct net *n, const char *type, const char *x, bool first)
{
    const char *c = random_weight(n, INTS(1, 5, 1, 1));

    return first ? NODE(type, NAMES(c, x), NOTHING) : NODE(type, NAMES(x, c), NOTHING);
}

/* Kernels fold the BatchNormalization; the rest is folded here. */
NETWORK(affine)
{
    const char *y = conv(n, n->x, 5, C, NOTHING), *p[4];

    y = by_channel(n, "Mul", y, false);
    y = by_channel(n, "Sub", y, true);
    y = by_channel(n, "Div", y, false);
    y = NODE("Mul", NAMES(y, build_scalar(&n->b, 3)), NOTHING);
    for (int i = 0; i < 4; i++)
        p[i] = build_floats(&n->b, INTS(5), (float[]){ 1, 2, 3, 0.5f, 4 });
    y = NODE("BatchNormalization", NAMES(y, p[0], p[1], p[2], p[3]), NOTHING);
    return y;
}

NETWORK(no_affine)
{
    const char *y = conv(n, n->x, 5, C, NOTHING);

    y = by_channel(n, "Max", y, true);
    y = conv(n, y, 4, 5, NOTHING);
    return NODE("Add", NAMES(y, random_weight(n, INTS(2))), NOTHING); /* along the last axis */
}

/* The convolution's own result is needed as well. */
NETWORK(affine_read_twice)
{
    const char *y = conv(n, n->x, 5, C, NOTHING);

    build_output(&n->b, NODE("Relu", NAMES(y), NOTHING));
    return by_channel(n, "Mul", y, false);
}

/* Exact integers must stay exact: Cast cuts off. */
NETWORK(affine_cut_off)
{
    const char *y = NODE("Mul", NAMES(conv(n, n->x, 5, C, NOTHING), build_scalar(&n->b, 3)),
                         NOTHING);

    build_output(&n->b, NODE("Relu", NAMES(y), NOTHING));
    y = NODE("Relu", NAMES(by_channel(n, "Add", y, true)), NOTHING);
    y = NODE("Cast", NAMES(y), at_int("to", PARE_I32));
    return NODE("Cast", NAMES(y), at_int("to", PARE_F32));
}

NETWORK(affine_product)
{
    const char *y = NODE("Reshape", NAMES(n->x, LIST(2, -1)), NOTHING);

    y = NODE("MatMul", NAMES(y, random_weight(n, INTS(C * S * S, 5))), NOTHING);
    y = NODE("Mul", NAMES(y, random_weight(n, INTS(5))), NOTHING);
    return NODE("Add", NAMES(random_weight(n, INTS(1, 5)), y), NOTHING);
}

/* A product of more than two axes has no bias. */
NETWORK(affine_batch)
{
    const char *y = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(S, 5))), NOTHING);

    y = NODE("Mul", NAMES(y, random_weight(n, INTS(5))), NOTHING);
    return NODE("Add", NAMES(y, random_weight(n, INTS(5))), NOTHING);
}

/* Channels last between convolutions, as exporters of TensorFlow write it. */
NETWORK(channels_last)
{
    const char *y = transpose(n, conv(n, n->x, 5, C, NOTHING), INTS(0, 2, 3, 1)), *z;

    y = NODE("Add", NAMES(y, random_weight(n, INTS(5))), NOTHING);
    y = NODE("Relu", NAMES(y), NOTHING);
    y = pad(n, y, 0, INTS(0, 1, 1, 0, 0, 1, 1, 0));
    y = conv(n, transpose(n, y, INTS(0, 3, 1, 2)), 5, 5, NOTHING);
    y = transpose(n, y, INTS(0, 2, 3, 1));
    z = NODE("Mul", NAMES(y, NODE("Sigmoid", NAMES(y), NOTHING)), NOTHING);
    z = NODE("Concat", NAMES(z, y), at_int("axis", -1));
    z = NODE("ReduceMean", NAMES(z), at_ints("axes", INTS(1, 2)));
    return conv(n, pad(n, transpose(n, z, INTS(0, 3, 1, 2)), 0, INTS(0, 0, 1, 1, 0, 0, 1, 1)), 4,
                10, NOTHING);
}

/* The Transpose moves to where it has less to move; then the convolution can pad. */
NETWORK(channels_last_input)
{
    const char *y = pad(n, n->x, 0, INTS(0, 1, 1, 0, 0, 1, 1, 0));

    return conv(n, transpose(n, y, INTS(0, 3, 1, 2)), 5, S, NOTHING);
}

/* The mean of all positions has its axes in order. */
NETWORK(channels_last_mean)
{
    const char *y = transpose(n, conv(n, n->x, 5, C, NOTHING), INTS(0, 2, 3, 1));

    y = NODE("ReduceMean", NAMES(NODE("Relu", NAMES(y), NOTHING)),
             CAT(at_ints("axes", INTS(1, 2)), at_int("keepdims", 0)));
    return NODE("Tanh", NAMES(y), NOTHING);
}

NETWORK(reduce_in_another_order)
{
    const char *y = transpose(n, n->x, INTS(0, 3, 2, 1));

    return NODE("ReduceMean", NAMES(NODE("Relu", NAMES(y), NOTHING)),
                CAT(at_ints("axes", INTS(2)), at_int("keepdims", 0)));
}

NETWORK(transpose_of_ones)
{
    const char *y = NODE("ReduceMax", NAMES(n->x), at_ints("axes", INTS(2, 3)));

    return NODE("Tanh", NAMES(transpose(n, y, INTS(0, 2, 3, 1))), NOTHING);
}

/* One Transpose would become one elsewhere. */
NETWORK(one_transpose)
{
    return NODE("Relu", NAMES(transpose(n, n->x, INTS(0, 2, 3, 1))), NOTHING);
}

/* Rows along the last axis stay rows. */
NETWORK(rows)
{
    const char *y = transpose(n, n->x, INTS(0, 2, 3, 1));

    y = NODE("Softmax", NAMES(y), at_int("axis", -1));
    return transpose(n, y, INTS(0, 3, 1, 2));
}

/* The value between the Transposes is an output. */
NETWORK(output_between)
{
    const char *y = NODE("Tanh", NAMES(transpose(n, n->x, INTS(0, 2, 3, 1))), NOTHING);

    build_output(&n->b, y);
    return NODE("Relu", NAMES(transpose(n, y, INTS(0, 3, 1, 2))), NOTHING);
}

/* A value plus its own transposed form. */
NETWORK(with_itself)
{
    const char *y = NODE("Relu", NAMES(n->x), NOTHING);

    return NODE("Add", NAMES(y, transpose(n, y, INTS(0, 1, 3, 2))), NOTHING);
}

static const char *part(struct net *n, const char *x, int64_t from, int64_t to)
{
    return NODE("Slice", NAMES(x, LIST(from), LIST(to), LIST(1)), NOTHING);
}

NETWORK(parts)
{
    const char *y = NODE("Relu", NAMES(n->x), NOTHING), *out[2];

    y = NODE("Concat", NAMES(part(n, y, 0, 1), part(n, y, 1, INT32_MAX)), at_int("axis", 1));
    build_node_outs(&n->b, "Split", NAMES(y, LIST(1, 3)), at_int("axis", 1), 2, out);
    y = NODE("Concat", NAMES(out[0], out[1]), at_int("axis", 1));
    return NODE("Tanh", NAMES(y), NOTHING);
}

/* In another order, with a gap, or along another axis. */
NETWORK(no_parts)
{
    const char *y = NODE("Concat", NAMES(part(n, n->x, 1, C), part(n, n->x, 0, 1)),
                         at_int("axis", 1));
    const char *z = NODE("Concat", NAMES(part(n, y, 0, 1), part(n, y, 0, 3)), at_int("axis", 1));

    return NODE("Concat", NAMES(part(n, z, 0, 2), part(n, z, 2, C)), at_int("axis", 0));
}

static const struct {
    const char *name;
    const char *(*make)(struct net *n);
    const char *left; /* operators of the rewritten graph, in order */
} nets[] = {
    { "copies", copies, "Relu" },
    { "no copies", no_copies, "Add Mul Max Sub" },
    { "copy of an output", copy_of_output, "Relu Identity" },
    { "copy of an input", copy_of_input, "Identity" },
    { "views", views, "Reshape Relu" },
    { "inverse views", inverse_views, "Relu Tanh" },
    { "view that is read twice", view_read_twice, "Reshape Relu Reshape" },
    { "inverse transposes", inverse_transposes, "Relu Tanh" },
    { "two transposes", two_transposes, "Transpose" },
    { "pad, convolution", pad_conv, "Conv" },
    { "pad, convolution with VALID", pad_conv_valid, "Conv" },
    { "pad, convolution with SAME_UPPER", pad_conv_same, "Pad Conv" },
    { "pad with ones", pad_ones, "Pad Conv" },
    { "pad channels", pad_channels, "Pad Conv" },
    { "pad by a negative amount", pad_negative, "Pad Conv" },
    { "pad, mean", pad_average, "AveragePool" },
    { "pad, mean that ignores its padding", pad_average_padded, "Pad AveragePool" },
    { "pad, mean that counts its padding", pad_average_counted, "AveragePool" },
    { "pad with zeros, maximum", pad_max, "Pad MaxPool" },
    { "pad with zeros, maximum of Relu", pad_max_of_relu, "Relu MaxPool" },
    { "pad with the lowest, maximum", pad_max_lowest, "MaxPool" },
    { "pad, maximum with ceil_mode", pad_max_ceil, "Pad MaxPool" },
    { "pad as wide as the window", pad_wide, "Pad Conv" },
    { "scales and shifts, convolution", affine, "Conv BatchNormalization" },
    { "no scales and shifts", no_affine, "Conv Max Conv Add" },
    { "scale of a result that is read twice", affine_read_twice, "Conv Relu Mul" },
    { "scales of what is cut off", affine_cut_off, "Conv Mul Relu Add Relu Cast Cast" },
    { "scales and shifts, product", affine_product, "Reshape Gemm" },
    { "scales and shifts, many products", affine_batch, "MatMul Add" },
    { "channels last", channels_last, "Conv Relu Conv Sigmoid Mul Concat ReduceMean Conv" },
    { "channels last, pad of the input", channels_last_input, "Transpose Conv" },
    { "channels last, mean", channels_last_mean, "Conv Relu ReduceMean Tanh" },
    { "mean in another order", reduce_in_another_order, "Transpose Relu ReduceMean" },
    { "transpose of axes of size 1", transpose_of_ones, "ReduceMax Reshape Tanh" },
    { "one transpose", one_transpose, "Transpose Relu" },
    { "transposes around rows", rows, "Transpose Softmax Transpose" },
    { "output between transposes", output_between, "Tanh Relu Transpose" },
    { "a value and its transposed form", with_itself, "Relu Transpose Add" },
    { "all parts of a value", parts, "Relu Tanh" },
    { "parts that are not the value", no_parts,
      "Slice Slice Concat Slice Slice Concat Slice Slice Concat" },
    { "twice the same", twice, "Mul LeakyRelu Add" },
    { "twice with other settings", twice_differently, "Mul Mul LeakyRelu LeakyRelu Sub Add" },
    { "twice the same, both outputs", twice_as_outputs, "Relu Relu" },
    { "Einsum, heads", einsum_heads, "Tanh Transpose MatMul" },
    { "Einsum, heads inside", einsum_heads_inside, "Tanh Transpose Transpose MatMul" },
    { "Einsum, weights", einsum_weight, "MatMul" },
    { "Einsum, weights first", einsum_weight_first, "MatMul" },
    { "Einsum, dots", einsum_dots, "MatMul" },
    { "Einsum, two sums", einsum_two_sums, "Reshape MatMul" },
    { "Einsum, two columns", einsum_two_columns, "MatMul Reshape" },
    { "Einsum, a sum of one operand", einsum_alone, "ReduceSum MatMul" },
    { "Einsum, dot products", einsum_dot, "Tanh Reshape Reshape MatMul Squeeze" },
    { "Einsum, vector", einsum_vector, "MatMul" },
    { "Einsum, outer product", einsum_outer, "Transpose Unsqueeze Mul" },
    { "Einsum, gate", einsum_gate, "ReduceMax Reshape Mul" },
    { "Einsum, broadcast", einsum_broadcast, "MatMul" },
    { "Einsum, broadcast sum", einsum_broadcast_sum, "Einsum" },
    { "Einsum, diagonal", einsum_diagonal, "Einsum" },
    { "Einsum, transpose", einsum_transpose, "Transpose" },
    { "Einsum, sum", einsum_sum, "ReduceSum Transpose" },
    { "Einsum, sum of all", einsum_all, "ReduceSum" },
    { "Einsum, copy", einsum_copy, "Tanh" },
    { "Einsum, three operands", einsum_three, "Einsum" },
    { "Einsum, rows and columns of both", einsum_both_extra, "Unsqueeze MatMul Transpose" },
    { "scales and shifts before a convolution", next_conv, "Relu Conv" },
    { "scales and shifts before padding", next_padded_conv, "Relu Add Conv" },
    { "scales and shifts before groups", next_groups, "Relu Conv" },
    { "scales and shifts around ConvTranspose", next_transposed, "Relu ConvTranspose" },
    { "scales and shifts before a product", next_product, "Reshape Gemm" },
    { "scales and shifts before many products", next_products, "Relu Add MatMul" },
    { "scales that stay", next_other,
      "Relu Mul MatMul Relu Mul MatMul Add Relu Mul MatMul Relu Mul MatMul" },
};

#define NETS (sizeof(nets) / sizeof(*nets))

/* ---- tests ---------------------------------------------------------------------------------- */

static struct pare_model *make_model(size_t i)
{
    static struct net n;

    net_begin(&n, 7, 0.5f);
    n.x = build_input(&n.b, PARE_F32, INTS(2, C, S, S));
    build_output(&n.b, nets[i].make(&n));
    return build_model(&n.b);
}

static const char *types_of(const struct pare_graph *g)
{
    const char *all = "";

    for (int i = 0; i < g->n_nodes; i++)
        all = pare_sprintf(pool, "%s%s%s", all, *all ? " " : "", g->node[i]->type);
    return all;
}

static void rewrite(struct pare_graph *g, const char *const *without)
{
    struct pare_rewrite_opts o = { .without = without };

    for (int late = 0; late < 2; late++) {
        o.late = late != 0;
        if (pare_graph_rewrite(g, &o, NULL, &err))
            fail_msg("%s", err.msg);
    }
}

static void test_each_fires_where_it_should(void **state)
{
    (void)state;
    for (size_t i = 0; i < NETS; i++) {
        struct pare_model *m = make_model(i);
        struct pare_arena *a = pare_arena_new(1 << 16);
        struct pare_graph *g = pare_graph_clone(a, m->graph, &err);
        const char *before;

        assert_non_null(g);
        assert_int_equal(pare_graph_infer(g, false, &err), 0);
        before = types_of(g);
        rewrite(g, (const char *const[]){ "all", NULL });
        assert_string_equal(types_of(g), before);
        rewrite(g, (const char *const[]){ NULL });
        if (strcmp(types_of(g), nets[i].left) != 0)
            fail_msg("%s: '%s' became '%s', expected '%s'", nets[i].name, before, types_of(g),
                     nets[i].left);
        pare_arena_free(a);
        pare_model_free(m);
    }
}

static void run(const struct pare_model *m, const struct pare_plan_build *b,
                const struct pare_tensor *x, struct pare_tensor *out)
{
    struct pare_plan *p;
    struct pare_tensor y[4];

    if (pare_plan_build(m, b, &p, &err) || pare_plan_execute(p, x, y, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < p->graph->n_out; i++)
        out[i] = build_copy(&y[i]);
    pare_plan_free(p);
}

static void test_results_stay_the_same(void **state)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(2, C, S, S)), want[4], got[4];
    struct pare_plan_opts reference = { .reference = true }, fast = { .threads = 1 };
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 1);
    rg_fill(&r, &x, 1);
    for (size_t i = 0; i < NETS; i++) {
        struct pare_model *m = make_model(i);

        run(m, &(struct pare_plan_build){ .opts = &reference }, &x, want);
        run(m,
            &(struct pare_plan_build){ .opts = &fast,
                                       .without_rewrites = (const char *const[]){ NULL } },
            &x, got);
        for (int k = 0; k < m->n_out; k++)
            if (pare_tensor_compare(&got[k], &want[k], (struct pare_tolerance){ 1e-5, 1e-5 }, &err))
                fail_msg("%s: %s", nets[i].name, err.msg);
        pare_model_free(m);
    }
}

/* A value that the caller reads keeps its contents, although it could be left out. */
static void test_observed_values_stay(void **state)
{
    static struct net n;
    struct pare_tensor x = build_tensor(PARE_F32, INTS(2, C, S, S)), out;
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_model *m;
    struct pare_plan *p;
    const char *mid;

    (void)state;
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = 1;
    net_begin(&n, 7, 0.5f);
    n.x = build_input(&n.b, PARE_F32, INTS(2, C, S, S));
    mid = pad(&n, n.x, 0, INTS(0, 0, 1, 1, 0, 0, 1, 1));
    build_output(&n.b, conv(&n, mid, 5, C, NOTHING));
    m = build_model(&n.b);
    if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o, .observe = { &mid, 1 } }, &p,
                        &err) ||
        pare_plan_execute(p, &x, &out, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(pare_plan_value(p, 0)->dim[3], S + 2);
    assert_float_equal(pare_f32(pare_plan_value(p, 0))[0], 0, 0);
    assert_float_equal(pare_f32(pare_plan_value(p, 0))[S + 3], 1, 0);
    pare_plan_free(p);
    pare_model_free(m);
}

/* Every allocation may fail. */
static void test_out_of_memory(void **state)
{
    struct pare_plan_opts o = { .threads = 1 };

    (void)state;
    for (size_t i = 0; i < NETS; i += 3) {
        struct pare_model *m = make_model(i);
        int failures = 0;

        for (int k = 1; build_plan_fails(m, &o, 0, -k, &failures); k++)
            ;
        assert_true(failures > 0);
        pare_model_free(m);
    }
}

static int setup(void **state)
{
    (void)state;
    pool = pare_arena_new(1 << 16);
    return pool ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_fires_where_it_should),
        cmocka_unit_test(test_results_stay_the_same),
        cmocka_unit_test(test_observed_values_stay),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
