/* test_edit.c - the copy-on-write model editor: names in bodies, int4, sharing, sweeping. */
#include "onnx_make.h"

#include <pare/compress.h>

#include "onnx/edit.h"

static struct pare_err err;

#define OK(call)                                \
    do {                                        \
        if (call)                               \
            fail_msg("%s: %s", #call, err.msg); \
    } while (0)

static struct pare_model *parse(struct bin file)
{
    struct pare_model *m;

    OK(pare_model_parse(file.p, file.n, NULL, &m, &err));
    return m;
}

static struct bin float_data(size_t n, const float *v)
{
    return blob(9, v, n * sizeof(*v));
}

static struct bin body_attr(const char *attr, const char *type)
{
    struct bin graph = CAT(node(type, "inner", "y", "fc.bias"), text(2, attr),
                           output("fc.bias", PARE_F32, "1,2"));

    return msg(5, CAT(text(1, attr), msg(6, graph), num(20, 5)));
}

/* y = h W with h = (x . w, 3): the constant channel becomes a bias of the second Gemm, which would
 * be called "fc.bias".  Both bodies of the If have a value of that name. */
static struct bin constant_channel_and_if(void)
{
    static const float w1[] = { 1, 2, 0, 0 }, b1[] = { 0.5f, 3 }, w2[] = { 1, 2, 3, 4 };
    struct bin trans = msg(5, CAT(text(1, "transB"), num(3, 1), num(20, 2)));

    return model(
        CAT(node_with("Gemm", "g1", "x,w1,b1", "h", trans),
            node_with("Gemm", "g2", "h,fc.weight", "y", trans),
            node_with("If", "if", "c", "z",
                      CAT(body_attr("then_branch", "Relu"), body_attr("else_branch", "Neg"))),
            text(2, "g"), initializer("w1", PARE_F32, "2,2", float_data(4, w1)),
            initializer("b1", PARE_F32, "2", float_data(2, b1)),
            initializer("fc.weight", PARE_F32, "2,2", float_data(4, w2)),
            input("x", PARE_F32, "1,2"), input("c", PARE_BOOL, ""), output("z", PARE_F32, "1,2")));
}

static void test_speedup_avoids_names_of_bodies(void **state)
{
    struct pare_model *m = parse(constant_channel_and_if()), *smaller;
    struct pare_speedup_report r;

    (void)state;
    OK(pare_speedup(m, NULL, pool, &smaller, &r, &err));
    assert_true(r.verified);
    assert_null(pare_graph_find(smaller->graph, "fc.bias"));
    assert_non_null(pare_graph_find(smaller->graph, "fc.bias.1"));
    assert_int_equal(pare_graph_find(smaller->graph, "fc.weight")->t.dim[1], 1);
    pare_model_free(smaller);
    pare_model_free(m);
}

static void test_names_of_bodies_are_not_reused(void **state)
{
    struct pare_model *m = parse(constant_channel_and_if());
    struct pare_edit *e;

    (void)state;
    OK(pare_edit_new(m, &e, &err));
    assert_string_equal(pare_edit_name(e, "fc", ".bias"), "fc.bias_2");
    assert_string_equal(pare_edit_name(e, "inner", ""), "inner_2"); /* a node */
    assert_string_equal(pare_edit_name(e, "fc", ".bias"), "fc.bias_3");
    pare_edit_free(e);
    pare_model_free(m);
}

/* ---- contents -------------------------------------------------------------------------------- */

static struct bin int4_model(void)
{
    static const unsigned char packed[] = { 0x21, 0xf8, 0x07 }; /* 1 2 -8 -1 7 */

    return model(CAT(node("Identity", "id", "q", "y"), text(2, "g"),
                     initializer("q", PARE_I4, "5", blob(9, packed, 3)),
                     output("y", PARE_I4, "5")));
}

static void expect_int4(const struct pare_model *m, const char *name, int n, const int *want)
{
    struct pare_value v = *pare_graph_find(m->graph, name);

    assert_int_equal(v.t.dtype, PARE_I4);
    assert_int_equal(v.t.dim[0], n);
    OK(pare_value_load(pool, &v, &err));
    for (int i = 0; i < n; i++)
        assert_int_equal(pare_get_int(&v.t, i), want[i]);
}

static void test_int4_constants_are_copied_and_set(void **state)
{
    struct pare_model *m = parse(int4_model()), *to, *again;
    struct pare_tensor t = { .dtype = PARE_I4, .rank = 1, .dim = { 3 } };
    static const int old[] = { 1, 2, -8, -1, 7 }, new[] = { -3, 0, 5 };
    struct pare_edit *e;
    const char *name;
    void *bytes;
    size_t len;

    (void)state;
    OK(pare_tensor_alloc(pool, &t, &err));
    for (int i = 0; i < 3; i++)
        ((int8_t *)t.data)[i] = (int8_t) new[i];
    OK(pare_edit_new(m, &e, &err));
    OK(pare_edit_constant(e, "added", &t, &err));
    OK(pare_edit_add_constant(e, "q", &t, &name, &err));
    assert_string_equal(name, "q.1");
    OK(pare_edit_model(e, &to, &err));
    OK(pare_model_pack(to, pool, &bytes, &len, &err));
    OK(pare_model_parse(bytes, len, NULL, &again, &err));
    expect_int4(to, "q", 5, old);
    expect_int4(again, "q", 5, old);
    expect_int4(again, "added", 3, new);
    expect_int4(again, "q.1", 3, new);
    pare_model_free(again);
    pare_model_free(to);

    OK(pare_edit_new(m, &e, &err));
    OK(pare_edit_set_constant(e, "q", &t, &err));
    OK(pare_edit_model(e, &to, &err));
    expect_int4(to, "q", 3, new);
    expect_int4(m, "q", 5, old);
    pare_model_free(to);
    pare_model_free(m);
}

/* ---- sharing and sweeping -------------------------------------------------------------------- */

static struct bin chain_model(void)
{
    static const float w[] = { 1, 2, 3, 4 };
    struct bin file = model(CAT(node("Mul", "dead", "x,w", "unused"), node("Add", "a", "x,w", "y"),
                                text(2, "g"), initializer("w", PARE_F32, "4", float_data(4, w)),
                                initializer("extra", PARE_F32, "4", float_data(4, w)),
                                input("x", PARE_F32, "4"), output("y", PARE_F32, "4")));

    return file;
}

static void test_weights_are_shared_until_owned(void **state)
{
    struct pare_model *m = parse(chain_model()), *to;
    struct pare_value *old = pare_graph_find(m->graph, "w"), *v;
    struct pare_edit *e;

    (void)state;
    OK(pare_model_own(m, old, &err));
    OK(pare_edit_new(m, &e, &err));
    OK(pare_edit_sweep(e, &err));
    OK(pare_edit_model(e, &to, &err));
    v = pare_graph_find(to->graph, "w");
    assert_ptr_equal(v->t.data, old->t.data);
    assert_null(pare_graph_find(to->graph, "extra"));
    assert_int_equal(to->graph->n_nodes, 1);
    assert_int_equal(m->graph->n_nodes, 2);
    OK(pare_model_own(to, v, &err));
    pare_f32_mut(&v->t)[0] = 5;
    assert_true(pare_f32(&old->t)[0] == 1);
    pare_model_free(to);
    pare_model_free(m);
}

static void test_nodes_are_added_and_removed(void **state)
{
    struct pare_model *m = parse(chain_model()), *to;
    const struct pare_node *add = pare_graph_find(m->graph, "y")->maker, *last;
    struct pare_edit *e;

    (void)state;
    assert_true(pare_model_has_node(m, add));
    OK(pare_edit_new(m, &e, &err));
    OK(pare_edit_append(e, add, "Sub", "extra", &err));
    OK(pare_edit_set_input(e, add, 1, "extra", &err));
    OK(pare_edit_remove(e, "unused", &err));
    OK(pare_edit_sweep(e, &err));
    OK(pare_edit_model(e, &to, &err));
    last = pare_graph_find(to->graph, "y")->maker;
    assert_int_equal(to->graph->n_nodes, 2);
    assert_string_equal(last->type, "Sub");
    assert_string_equal(last->in[0]->name, "y.sum");
    assert_string_equal(last->in[0]->maker->in[1]->name, "extra");
    assert_true(pare_model_has_node(to, last) && !pare_model_has_node(m, last));
    assert_string_equal(add->in[1]->name, "w");
    pare_model_free(to);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speedup_avoids_names_of_bodies),
        cmocka_unit_test(test_names_of_bodies_are_not_reused),
        cmocka_unit_test(test_int4_constants_are_copied_and_set),
        cmocka_unit_test(test_weights_are_shared_until_owned),
        cmocka_unit_test(test_nodes_are_added_and_removed),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}
