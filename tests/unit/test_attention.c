/* test_attention.c - the attention kernel on patterns of several exporters, against the reference
 * operators.
 */
#include "small_net.h"

#include "plan/plan.h"
#include "tensor/compare.h"

enum { ITEMS = 2, TOKENS = 11, HEADS = 3, DIM = 16, WIDTH = HEADS * DIM };

static const char *scale(struct net *n, const char *x, float v)
{
    return NODE("Mul", NAMES(x, build_scalar(&n->b, v)), NOTHING);
}

static const char *reshape(struct net *n, const char *x, const char *shape)
{
    return NODE("Reshape", NAMES(x, shape), NOTHING);
}

static const char *transpose(struct net *n, const char *x, int rank, const int64_t *perm)
{
    return NODE("Transpose", NAMES(x), at_ints("perm", rank, perm));
}

static const char *slice(struct net *n, const char *x, int64_t from, int64_t to)
{
    return NODE("Slice", NAMES(x, LIST(from), LIST(to), LIST(2)), NOTHING);
}

static const char *softmax(struct net *n, const char *x)
{
    return NODE("Softmax", NAMES(x), at_int("axis", -1));
}

static const char *matmul(struct net *n, const char *a, const char *b)
{
    return NODE("MatMul", NAMES(a, b), NOTHING);
}

static const char *joint_projection(struct net *n)
{
    return matmul(n, n->x, random_weight(n, INTS(WIDTH, 3 * WIDTH)));
}

/* (2, 11, 48) as (2, 3, 11, 16). */
static const char *split_heads(struct net *n, const char *x)
{
    return transpose(n, reshape(n, x, LIST(ITEMS, -1, HEADS, DIM)), INTS(0, 2, 1, 3));
}

static const char *merge_heads(struct net *n, const char *x)
{
    return reshape(n, transpose(n, x, INTS(0, 2, 1, 3)), LIST(0, 0, -1));
}

/* As timm writes it: one Split, one Transpose for keys, a scale on queries. */
NETWORK(by_split)
{
    const char *part[3], *k;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    k = transpose(n, reshape(n, part[1], LIST(ITEMS, -1, HEADS, DIM)), INTS(0, 2, 3, 1));
    k = matmul(n, scale(n, split_heads(n, part[0]), 0.25f), k);
    return merge_heads(n, matmul(n, softmax(n, k), split_heads(n, part[2])));
}

/* As torchvision writes it: sequence first, items and heads are one axis, queries divided. */
NETWORK(sequence_first)
{
    const char *x = transpose(n, joint_projection(n), INTS(1, 0, 2)), *part[3], *y;

    for (int i = 0; i < 3; i++) {
        part[i] = slice(n, x, i * WIDTH, (i + 1) * WIDTH);
        part[i] = reshape(n, part[i], LIST(TOKENS, ITEMS * HEADS, DIM));
        part[i] = transpose(n, part[i], INTS(1, 0, 2));
    }
    part[0] = NODE("Div", NAMES(part[0], build_scalar(&n->b, 4)), NOTHING);
    y = matmul(n, part[0], transpose(n, part[1], INTS(0, 2, 1)));
    y = transpose(n, matmul(n, softmax(n, y), part[2]), INTS(1, 0, 2));
    y = reshape(n, y, LIST(TOKENS * ITEMS, WIDTH));
    return reshape(n, matmul(n, y, random_weight(n, INTS(WIDTH, WIDTH))),
                   LIST(TOKENS, ITEMS, WIDTH));
}

/* Query, key and value are indices of one axis, read by Gather; scores are scaled. */
NETWORK(by_gather)
{
    const char *x = transpose(n,
                              reshape(n, joint_projection(n), LIST(ITEMS, TOKENS, 3, HEADS, DIM)),
                              INTS(2, 0, 3, 1, 4));
    const char *part[3], *y;

    for (int64_t i = 0; i < 3; i++)
        part[i] = NODE("Gather", NAMES(x, build_const(&n->b, PARE_I64, 0, NULL, &i)),
                       at_int("axis", 0));
    y = matmul(n, part[0], transpose(n, part[1], INTS(0, 1, 3, 2)));
    return merge_heads(n, matmul(n, softmax(n, scale(n, scale(n, y, 2), 0.1f)), part[2]));
}

/* Three projections, values last: the scores are computed before the values. */
NETWORK(three_projections)
{
    const char *q = split_heads(n, matmul(n, n->x, random_weight(n, INTS(WIDTH, WIDTH))));
    const char *k = split_heads(n, matmul(n, n->x, random_weight(n, INTS(WIDTH, WIDTH)))), *v, *y;

    y = matmul(n, q, transpose(n, k, INTS(0, 1, 3, 2)));
    y = NODE("Div", NAMES(y, build_scalar(&n->b, 4)), NOTHING);
    v = split_heads(n, matmul(n, n->x, random_weight(n, INTS(WIDTH, WIDTH))));
    return merge_heads(n, matmul(n, softmax(n, y), v));
}

/* The same, values first. */
NETWORK(values_first)
{
    const char *v = split_heads(n, matmul(n, n->x, random_weight(n, INTS(WIDTH, WIDTH))));
    const char *q = split_heads(n, matmul(n, n->x, random_weight(n, INTS(WIDTH, WIDTH))));
    const char *k = split_heads(n, matmul(n, n->x, random_weight(n, INTS(WIDTH, WIDTH)))), *y;

    y = matmul(n, q, scale(n, transpose(n, k, INTS(0, 1, 3, 2)), 0.25f));
    return merge_heads(n, matmul(n, softmax(n, y), v));
}

/* Fewer keys than queries, values of another width, no Transpose after the product. */
NETWORK(other_sizes)
{
    const char *x = joint_projection(n);
    const char *k = NODE("Slice", NAMES(x, LIST(1, 16), LIST(6, 32), LIST(1, 2)), NOTHING);
    const char *v = NODE("Slice", NAMES(x, LIST(2, 40), LIST(7, 48), LIST(1, 2)), NOTHING);
    const char *y = matmul(n, slice(n, x, 0, 16), transpose(n, k, INTS(0, 2, 1)));

    return matmul(n, softmax(n, y), v);
}

/* The elements of a head are not contiguous in queries, keys and values. */
NETWORK(strided_elements)
{
    const char *x = transpose(n,
                              reshape(n, joint_projection(n), LIST(ITEMS, TOKENS, DIM, 3 * HEADS)),
                              INTS(0, 3, 1, 2));
    const char *part[3], *y;

    build_node_outs(&n->b, "Split", NAMES(x), at_int("axis", 1), 3, part);
    y = matmul(n, part[0], transpose(n, part[1], INTS(0, 1, 3, 2)));
    return merge_heads(n, matmul(n, softmax(n, y), part[2]));
}

/* The Transpose after it would make elements non-contiguous: it remains a step. */
NETWORK(transposed_result)
{
    const char *part[3], *y;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    y = matmul(n, split_heads(n, part[0]), transpose(n, split_heads(n, part[1]), INTS(0, 1, 3, 2)));
    return transpose(n, matmul(n, softmax(n, y), split_heads(n, part[2])), INTS(0, 1, 3, 2));
}

/* ---- masks ---------------------------------------------------------------------------------- */

enum masking { SUM, SCALED_SUM, KEEP, FILL };

/* The scores of the parts, masked, and the product with the values; `mask` made before. */
static const char *masked(struct net *n, enum masking how, const char *mask, const char *fill)
{
    const char *part[3], *y;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    y = matmul(n, split_heads(n, part[0]), transpose(n, split_heads(n, part[1]), INTS(0, 1, 3, 2)));
    if (how != SUM)
        y = NODE("Div", NAMES(y, build_scalar(&n->b, 4)), NOTHING);
    y = how == KEEP   ? NODE("Where", NAMES(mask, y, fill), NOTHING)
        : how == FILL ? NODE("Where", NAMES(mask, fill, y), NOTHING)
        : how == SUM  ? NODE("Add", NAMES(y, mask), NOTHING)
                      : NODE("Add", NAMES(mask, y), NOTHING);
    return merge_heads(n, matmul(n, softmax(n, y), split_heads(n, part[2])));
}

/* x[..., 0] of each key, as a mask (ITEMS, 1, 1, TOKENS) that is computed. */
static const char *mask_of_keys(struct net *n)
{
    return reshape(n, slice(n, n->x, 0, 1), LIST(ITEMS, 1, 1, TOKENS));
}

static const char *positive(struct net *n, const char *x)
{
    return NODE("Greater", NAMES(x, build_scalar(&n->b, 0)), NOTHING);
}

NETWORK(with_mask)
{
    return masked(n, SUM, random_weight(n, INTS(TOKENS, TOKENS)), NULL);
}

/* -inf after the diagonal. */
NETWORK(with_causal_mask)
{
    float m[TOKENS * TOKENS];

    for (int i = 0; i < TOKENS * TOKENS; i++)
        m[i] = i % TOKENS > i / TOKENS ? -INFINITY : 0;
    return masked(n, SCALED_SUM, build_floats(&n->b, INTS(1, 1, TOKENS, TOKENS), m), NULL);
}

NETWORK(with_bias_by_head)
{
    return masked(n, SCALED_SUM, random_weight(n, INTS(HEADS, TOKENS, TOKENS)), NULL);
}

NETWORK(with_mask_of_keys)
{
    return masked(n, SCALED_SUM, scale(n, mask_of_keys(n), -50), NULL);
}

/* One number for each query: it has no effect, and no stride along the keys. */
NETWORK(with_mask_of_queries)
{
    return masked(n, SCALED_SUM, random_weight(n, INTS(TOKENS, 1)), NULL);
}

NETWORK(where_kept)
{
    return masked(n, KEEP, positive(n, mask_of_keys(n)), build_scalar(&n->b, -1e4f));
}

NETWORK(where_filled)
{
    const char *flags = positive(n, random_weight(n, INTS(TOKENS, TOKENS)));

    return masked(n, FILL, flags, build_scalar(&n->b, -1e30f));
}

/* As Swin writes it: a bias for each head, then a mask for each of two windows, the first axis, on
 * scores (1, 2, heads, tokens, tokens). */
static const char *of_windows(struct net *n, const char *back)
{
    const char *part[3], *y;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    y = matmul(n, scale(n, split_heads(n, part[0]), 0.25f),
               transpose(n, split_heads(n, part[1]), INTS(0, 1, 3, 2)));
    y = NODE("Add", NAMES(y, random_weight(n, INTS(1, HEADS, TOKENS, TOKENS))), NOTHING);
    y = reshape(n, y, LIST(-1, ITEMS, HEADS, TOKENS, TOKENS));
    y = NODE("Add", NAMES(y, random_weight(n, INTS(1, ITEMS, 1, TOKENS, TOKENS))), NOTHING);
    y = softmax(n, reshape(n, y, back));
    return merge_heads(n, matmul(n, y, split_heads(n, part[2])));
}

NETWORK(with_mask_of_windows)
{
    return of_windows(n, LIST(-1, HEADS, TOKENS, TOKENS));
}

/* Dropout of a ratio of 0, which exporters leave in training mode, and one that does not train. */
static const char *with_dropout(struct net *n, float ratio, bool trains)
{
    const char *part[3], *y, *mode;

    mode = build_const(&n->b, PARE_BOOL, 0, NULL, &trains);
    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    y = matmul(n, split_heads(n, part[0]), transpose(n, split_heads(n, part[1]), INTS(0, 1, 3, 2)));
    y = NODE("Dropout", NAMES(softmax(n, y), build_scalar(&n->b, ratio), mode), NOTHING);
    return merge_heads(n, matmul(n, y, split_heads(n, part[2])));
}

NETWORK(dropout_of_nothing)
{
    return with_dropout(n, 0, true);
}

NETWORK(dropout_in_training)
{
    return with_dropout(n, 0.5f, false);
}

/* Queries and keys are computed right before the product, without data movement between. */
NETWORK(computed_operands)
{
    const char *part[3], *k, *v, *y;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    v = split_heads(n, part[2]);
    k = NODE("Relu", NAMES(transpose(n, split_heads(n, part[1]), INTS(0, 1, 3, 2))), NOTHING);
    y = NODE("Relu", NAMES(split_heads(n, part[0])), NOTHING);
    return merge_heads(n, matmul(n, softmax(n, matmul(n, y, k)), v));
}

/* ---- patterns that must not match ----------------------------------------------------------- */

/* The mask makes the scores larger: items of one batch become two. */
NETWORK(growing_mask)
{
    const char *part[3], *y;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    y = matmul(n, slice(n, part[0], 0, DIM),
               transpose(n, slice(n, part[1], 0, DIM), INTS(0, 2, 1)));
    y = NODE("Add", NAMES(y, random_weight(n, INTS(3, 1, TOKENS, TOKENS))), NOTHING);
    return NODE("ReduceMax", NAMES(matmul(n, softmax(n, y), slice(n, part[2], 0, DIM))),
                at_ints("axes", INTS(0)));
}

/* It drops in every run, the same elements. */
NETWORK(dropout)
{
    return with_dropout(n, 0.5f, true);
}

NETWORK(scores_are_output)
{
    const char *part[3], *y;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    y = matmul(n, split_heads(n, part[0]), transpose(n, split_heads(n, part[1]), INTS(0, 1, 3, 2)));
    y = softmax(n, y);
    build_output(&n->b, y);
    return merge_heads(n, matmul(n, y, split_heads(n, part[2])));
}

/* The keys are an output: they are computed first and read from their buffer. */
NETWORK(keys_are_output)
{
    const char *part[3], *y, *k;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    k = split_heads(n, part[1]);
    build_output(&n->b, k);
    y = matmul(n, split_heads(n, part[0]), transpose(n, k, INTS(0, 1, 3, 2)));
    return merge_heads(n, matmul(n, softmax(n, y), split_heads(n, part[2])));
}

NETWORK(other_axis)
{
    const char *part[3], *y;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    y = matmul(n, split_heads(n, part[0]), transpose(n, split_heads(n, part[1]), INTS(0, 1, 3, 2)));
    y = NODE("Softmax", NAMES(y), at_int("axis", 2));
    return merge_heads(n, matmul(n, y, split_heads(n, part[2])));
}

/* The mask is scaled, too. */
NETWORK(scaled_mask)
{
    const char *part[3], *y;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    y = matmul(n, split_heads(n, part[0]), transpose(n, split_heads(n, part[1]), INTS(0, 1, 3, 2)));
    y = NODE("Add", NAMES(y, random_weight(n, INTS(TOKENS, TOKENS))), NOTHING);
    return merge_heads(n, matmul(n, softmax(n, scale(n, y, 0.25f)), split_heads(n, part[2])));
}

/* A scale per head is not a scalar. */
NETWORK(scale_by_head)
{
    const char *part[3], *y;

    build_node_outs(&n->b, "Split", NAMES(joint_projection(n)), at_int("axis", -1), 3, part);
    y = matmul(n, split_heads(n, part[0]), transpose(n, split_heads(n, part[1]), INTS(0, 1, 3, 2)));
    y = NODE("Mul", NAMES(y, random_weight(n, INTS(HEADS, 1, 1))), NOTHING);
    return merge_heads(n, matmul(n, softmax(n, y), split_heads(n, part[2])));
}

/* One set of keys for all heads. */
NETWORK(shared_keys)
{
    const char *x = joint_projection(n);
    const char *k = reshape(n, slice(n, x, 0, DIM), LIST(ITEMS, 1, TOKENS, DIM));
    const char *y = matmul(n, split_heads(n, slice(n, x, 0, WIDTH)),
                           transpose(n, k, INTS(0, 1, 3, 2)));

    return merge_heads(n, matmul(n, softmax(n, y), split_heads(n, slice(n, x, WIDTH, 2 * WIDTH))));
}

static const struct {
    const char *name;
    const char *(*make)(struct net *n);
    bool fused; /* into one step */
} nets[] = {
    { "by split", by_split, true },
    { "sequence first", sequence_first, true },
    { "by gather", by_gather, true },
    { "three projections", three_projections, false },
    { "values first", values_first, true },
    { "other sizes", other_sizes, true },
    { "strided elements", strided_elements, true },
    { "transposed result", transposed_result, true },
    { "with a mask", with_mask, true },
    { "with a causal mask", with_causal_mask, true },
    { "with a bias for each head", with_bias_by_head, true },
    { "with a mask of keys", with_mask_of_keys, true },
    { "with a mask of queries", with_mask_of_queries, true },
    { "where kept", where_kept, true },
    { "where filled", where_filled, true },
    { "with a mask of windows", with_mask_of_windows, true },
    { "dropout of nothing", dropout_of_nothing, true },
    { "dropout in training", dropout_in_training, true },
    { "dropout", dropout, false },
    { "operands are computed", computed_operands, true },
    { "growing mask", growing_mask, false },
    { "scores are an output", scores_are_output, false },
    { "keys are an output", keys_are_output, true },
    { "another axis", other_axis, false },
    { "scaled mask", scaled_mask, false },
    { "a scale for each head", scale_by_head, false },
    { "shared keys", shared_keys, false },
};

/* ---- run ------------------------------------------------------------------------------------- */

static struct pare_err err;

static bool has_attention(const struct pare_plan *p)
{
    for (int i = 0; i < p->n_steps; i++)
        if (!strcmp(p->step[i]->kernel->name, "attention"))
            return true;
    return false;
}

static void compare_with_reference(const struct pare_model *m, const struct pare_tensor *x,
                                   const struct pare_tensor *want, int threads, size_t i)
{
    struct pare_plan_opts o = { .threads = threads, .in = x };
    struct pare_tensor out[2];
    struct pare_plan *p;

    if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o }, &p, &err) ||
        pare_plan_execute(p, x, out, &err))
        fail_msg("%s: %s", nets[i].name, err.msg);
    if (has_attention(p) != nets[i].fused)
        fail_msg("%s: %s", nets[i].name,
                 nets[i].fused ? "attention is not fused" : "attention is fused");
    for (int k = 0; k < p->graph->n_out; k++)
        if (pare_tensor_compare(&out[k], &want[k], (struct pare_tolerance){ 1e-4, 1e-5 }, &err))
            fail_msg("%s, %d threads: %s", nets[i].name, threads, err.msg);
    pare_plan_free(p);
}

static void test_attention_patterns_of_exporters(void **state)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(ITEMS, TOKENS, WIDTH)), out[2], want[2];

    (void)state;
    for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
        static struct net n;
        struct pare_plan_opts o = { .threads = 1, .in = &x, .reference = true };
        struct pare_model *m;
        struct pare_plan *p;
        const char *y;

        net_begin(&n, 5, 0.2f);
        rg_fill(&n.r, &x, 1);
        n.x = build_input(&n.b, PARE_F32, INTS(ITEMS, TOKENS, WIDTH));
        y = nets[i].make(&n);
        build_output(&n.b, y);
        m = build_model(&n.b);
        if (pare_plan_make(m, &o, &p, &err) || pare_plan_execute(p, &x, out, &err))
            fail_msg("%s: %s", nets[i].name, err.msg);
        for (int k = 0; k < p->graph->n_out; k++)
            want[k] = build_copy(&out[k]);
        pare_plan_free(p);
        for (int threads = 1; threads < 4; threads++)
            compare_with_reference(m, &x, want, threads, i);
        pare_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_attention_patterns_of_exporters, make_pool, drop_pool),
    };

    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
