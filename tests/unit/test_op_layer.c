/* test_op_layer.c - layers: weights and PyTorch names in operator descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/arena.h"
#include "graph/layer.h"
#include "op/op.h"

static bool is_embedding(const struct pare_node *n)
{
    return n->in[2]->t.rank == 2;
}

/* A test operator with a weight and a bias. */
static const struct pare_op mix_op = {
    .type = "Mix",
    .in = "TTTT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .torch = "Mix#d",
    .layer = { .params = PARE_IN(1) | PARE_IN(2), .weight = 2, .bias = 1 },
    .infer = pare_infer_same,
};

/* A test operator that is a layer only if its weight is a matrix. */
static const struct pare_op lookup_op = {
    .type = "Lookup",
    .in = "TTTT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .layer = { .params = PARE_IN(2), .weight = 2, .is_layer = is_embedding },
    .infer = pare_infer_same,
};

static struct pare_value *add_value(struct pare_graph *g, const char *name, unsigned flags,
                                    int rank)
{
    struct pare_err err;
    struct pare_value *v = pare_graph_value(g, name, &err);

    assert_non_null(v);
    v->flags = flags;
    v->t.dtype = PARE_F32;
    v->t.rank = rank;
    for (int i = 0; i < rank; i++)
        v->t.dim[i] = i + 2;
    return v;
}

/* x (rank 4), b (2), w (2, 3, 4, 5), z (2): all except x are constants, w only if `constant`. */
static struct pare_graph *make_graph(struct pare_arena *a, const struct pare_op *op, bool constant)
{
    struct pare_err err;
    struct pare_graph *g = pare_graph_new(a, NULL, &err);
    struct pare_node *n;

    assert_non_null(g);
    n = pare_graph_add(g, 4, 1, &err);
    assert_non_null(n);
    n->op = op;
    n->name = "";
    n->type = op->type;
    n->in[0] = add_value(g, "x", PARE_V_INPUT, 4);
    n->in[1] = add_value(g, "mix.bias", PARE_V_CONST, 1);
    n->in[2] = add_value(g, "mix.weight", constant ? PARE_V_CONST : 0, 4);
    n->in[3] = add_value(g, "mix.z", PARE_V_CONST, 1);
    n->out[0] = add_value(g, "y", 0, 4);
    n->out[0]->maker = n;
    return g;
}

static void test_descriptor_makes_a_layer(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_graph *g = make_graph(a, &mix_op, true);
    struct pare_layer_info *list;
    struct pare_err err;
    int n;

    (void)state;
    assert_int_equal(pare_layers(a, g, &list, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].name, "mix");
    assert_string_equal(list[0].torch, "Mix2d");
    assert_ptr_equal(list[0].weight, g->node[0]->in[2]);
    assert_ptr_equal(list[0].bias, g->node[0]->in[1]);
    assert_int_equal(list[0].params, 2 * 3 * 4 * 5 + 2);
    pare_arena_free(a);
}

static void test_nodes_that_are_not_layers(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_layer_info *list;
    struct pare_err err;
    int n;

    (void)state;
    assert_int_equal(pare_layers(a, make_graph(a, &mix_op, false), &list, &n, &err), 0);
    assert_int_equal(n, 0);
    assert_int_equal(pare_layers(a, make_graph(a, &lookup_op, true), &list, &n, &err), 0);
    assert_int_equal(n, 0);
    pare_arena_free(a);
}

/* Every operator that names axes of a weight declares which input that is, and the declarations fit
 * the signature. */
static void test_all_operator_descriptors(void **state)
{
    int layers = 0;

    (void)state;
    for (const struct pare_op *const *o = pare_ops; *o; o++) {
        const struct pare_op *op = *o;
        unsigned params = op->layer.params;
        int inputs = 0;

        for (const char *c = op->in; *c; c++)
            inputs += *c >= 'A' && *c <= 'Z';
        if (op->axes && !params && !strchr(op->in, '+')) /* Einsum: any input may be the weight */
            fail_msg("%s has axes() and no .layer", op->type);
        if (!params)
            continue;
        layers++;
        assert_non_null(op->torch);
        assert_true(params & PARE_IN(op->layer.weight));
        assert_true(!op->layer.bias || params & PARE_IN(op->layer.bias));
        assert_true(params >> inputs == 0);
    }
    assert_true(layers >= 17);
}

static void test_pytorch_names(void **state)
{
    const struct pare_op *conv = pare_find_op("", "Conv"), *gemm = pare_find_op("", "Gemm");

    (void)state;
    assert_true(pare_op_is_torch(conv, "Conv1d") && pare_op_is_torch(conv, "Conv3d"));
    assert_false(pare_op_is_torch(conv, "Conv4d") || pare_op_is_torch(conv, "Conv2"));
    assert_false(pare_op_is_torch(conv, "Conv") || pare_op_is_torch(conv, "ConvTranspose2d"));
    assert_true(pare_op_is_torch(gemm, "Linear"));
    assert_false(pare_op_is_torch(gemm, "Linear2"));
    assert_false(pare_op_is_torch(pare_find_op("", "Shape"), "Shape"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptor_makes_a_layer),
        cmocka_unit_test(test_nodes_that_are_not_layers),
        cmocka_unit_test(test_all_operator_descriptors),
        cmocka_unit_test(test_pytorch_names),
    };

    return cmocka_run_group_tests_name("op_layer", tests, NULL, NULL);
}
