/* test_intake.c - intake: changes on load; an untouched model is saved with the same bytes. */
#include "onnx_make.h"

#include <stdio.h>

#include "graph/layer.h"
#include "onnx/intake/intake.h"

static struct pare_model *parse_with(struct bin file, struct pare_load_opts o)
{
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    if (pare_model_parse_with(file.p, file.n, NULL, &o, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

static struct pare_model *parse(struct bin file)
{
    return parse_with(file, (struct pare_load_opts){ 0 });
}

static int64_t intake_count(const struct pare_model *m, const char *step)
{
    const struct pare_intake_count *list;
    int n = pare_model_intake(m, &list);

    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, step))
            return list[i].count;
    fail_msg("intake has no step '%s'", step);
    return -1;
}

static struct bin pack_model(const struct pare_model *m)
{
    struct pare_err err = { 0 };
    struct bin b = NOTHING;
    void *bytes;

    if (pare_model_pack(m, pool, &bytes, &b.n, &err))
        fail_msg("%s", err.msg);
    b.p = bytes;
    return b;
}

/* An untouched model is saved with the same bytes.  After a change, here of the metadata, the saved
 * file contains what intake did and needs no intake. */
static void expect_same_bytes(struct bin file, const char *step)
{
    struct pare_model *as_is = parse_with(file, (struct pare_load_opts){ .as_is = true });
    struct bin again, sorted = pack_model(as_is); /* fields in the order of their numbers */
    struct pare_model *m = parse(sorted);
    struct pare_err err = { 0 };

    assert_true(intake_count(m, step) > 0);
    assert_int_equal(intake_count(as_is, step), 0);
    pare_model_free(as_is);
    again = pack_model(m);
    assert_int_equal(again.n, sorted.n);
    assert_memory_equal(again.p, sorted.p, sorted.n);
    assert_int_equal(pare_model_note(m, "key", "value", &err), 0);
    again = pack_model(m);
    pare_model_free(m);
    m = parse(again);
    assert_int_equal(intake_count(m, step), 0);
    pare_model_free(m);
}

/* The graph is the one that is built from what the model saves. */
static void expect_as_reloaded(struct pare_model *m)
{
    struct pare_err err = { 0 };
    struct pare_model *again;

    assert_int_equal(pare_model_note(m, "key", "value", &err), 0);
    again = parse_with(pack_model(m), (struct pare_load_opts){ .as_is = true });
    assert_int_equal(m->graph->n_nodes, again->graph->n_nodes);
    for (int i = 0; i < m->graph->n_nodes; i++) {
        const struct pare_node *a = m->graph->node[i], *b = again->graph->node[i];

        assert_int_equal(a->id, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->n_in, b->n_in);
        for (int k = 0; k < a->n_in; k++) {
            assert_int_equal(!a->in[k], !b->in[k]);
            if (!a->in[k])
                continue;
            assert_string_equal(a->in[k]->name, b->in[k]->name);
            assert_int_equal(a->in[k]->flags & PARE_V_CONST, b->in[k]->flags & PARE_V_CONST);
            if (a->in[k]->flags & PARE_V_CONST)
                assert_memory_equal(a->in[k]->t.data, b->in[k]->t.data,
                                    (size_t)pare_numel(&a->in[k]->t) * sizeof(float));
        }
    }
    assert_int_equal(m->graph->n_values, again->graph->n_values);
    for (int i = 0; i < m->graph->n_values; i++) {
        assert_int_equal(m->graph->value[i]->id, i);
        assert_non_null(pare_graph_find(again->graph, m->graph->value[i]->name));
        assert_ptr_equal(pare_graph_find(m->graph, m->graph->value[i]->name), m->graph->value[i]);
    }
    pare_model_free(again);
}

static const float ones[64] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static float ramp[64];

static struct bin float_initializer(const char *name, const char *dims, const float *v, size_t n)
{
    return initializer(name, PARE_F32, dims, blob(9, v, n * sizeof(*v)));
}

static struct bin constant_node(const char *name, const char *dims, const float *v, size_t n)
{
    struct bin t = tensor("", PARE_F32, dims, blob(9, v, n * sizeof(*v)));

    return node_with("Constant", "", "", name,
                     msg(5, CAT(text(1, "value"), msg(5, t), num(20, 4))));
}

static struct bin input_and_output(const char *dims_in, const char *dims_out)
{
    return CAT(text(2, "g"), input("x", PARE_F32, dims_in), output("y", PARE_F32, dims_out));
}

static const struct pare_layer_info *first_layer(const struct pare_model *m)
{
    struct pare_err err = { 0 };
    struct pare_graph *g = pare_graph_clone(pool, m->graph, &err);
    struct pare_layer_info *list;
    int n;

    assert_non_null(g);
    pare_graph_bind(g, 1);
    assert_int_equal(pare_graph_infer(g, false, &err), 0);
    assert_int_equal(pare_layers(pool, g, &list, &n, &err), 0);
    assert_true(n > 0);
    return &list[0];
}

/* ---- Constant nodes -------------------------------------------------------------------------- */

static struct bin linear_of_constants(struct bin weight)
{
    return model(CAT(weight, constant_node("b", "4", ramp, 4), constant_node("s", "1", ramp, 1),
                     node("MatMul", "fc", "x,w", "p"), node("Add", "", "p,b", "q"),
                     node("Mul", "", "q,s", "y"), input_and_output("N,3", "N,4")));
}

static void test_constant_weights_are_hoisted(void **state)
{
    struct bin file = linear_of_constants(constant_node("w", "3,4", ramp, 12));
    struct pare_model *m = parse(file);
    struct pare_value *w = pare_graph_find(m->graph, "w");
    struct pare_err err = { 0 };

    (void)state;
    assert_int_equal(intake_count(m, "hoist_constants"), 2); /* not the factor */
    assert_null(w->maker);
    assert_int_equal(pare_model_own(m, w, &err), 0);
    ((float *)w->t.data)[5] = 99;
    file = pack_model(m);
    pare_model_free(m);
    m = parse(file);
    w = pare_graph_find(m->graph, "w");
    assert_int_equal(intake_count(m, "hoist_constants"), 0);
    assert_int_equal(pare_value_load(m->arena, w, &err), 0);
    assert_true(((float *)w->t.data)[5] == 99);
    pare_model_free(m);
    expect_same_bytes(linear_of_constants(constant_node("w", "3,4", ramp, 12)), "hoist_constants");
}

/* If no layer has its weight in a Constant node, Constant nodes are not hoisted. */
static void test_other_constants_are_not_hoisted(void **state)
{
    struct pare_model *m = parse(linear_of_constants(float_initializer("w", "3,4", ramp, 12)));

    (void)state;
    assert_int_equal(intake_count(m, "hoist_constants"), 0);
    assert_non_null(pare_graph_find(m->graph, "b")->maker);
    pare_model_free(m);
}

static void test_constant_outputs_are_not_hoisted(void **state)
{
    struct bin graph = CAT(constant_node("w", "3,4", ramp, 12), node("MatMul", "", "x,w", "y"),
                           input_and_output("N,3", "N,4"), output("w", PARE_F32, "3,4"));
    struct pare_model *m = parse(model(graph));

    (void)state;
    assert_int_equal(intake_count(m, "hoist_constants"), 0);
    pare_model_free(m);
}

/* In the bodies of If, constants become initializers of the body. */
static void test_constants_in_bodies_are_hoisted(void **state)
{
    struct bin then = CAT(constant_node("w1", "3,4", ramp, 12), node("MatMul", "", "x,w1", "y1"),
                          text(2, "t"), output("y1", PARE_F32, "N,4"));
    struct bin other = CAT(constant_node("w2", "3,4", ones, 12), node("MatMul", "", "x,w2", "y2"),
                           text(2, "e"), output("y2", PARE_F32, "N,4"));
    struct bin attrs = CAT(msg(5, CAT(text(1, "then_branch"), msg(6, then), num(20, 5))),
                           msg(5, CAT(text(1, "else_branch"), msg(6, other), num(20, 5))));
    struct bin graph = CAT(node_with("If", "if", "c", "y", attrs), input_and_output("N,3", "N,4"),
                           input("c", PARE_BOOL, ""));
    struct pare_model *m = parse(model(graph));

    (void)state;
    assert_int_equal(intake_count(m, "hoist_constants"), 2);
    assert_non_null(m->graph->node[0]->op);
    pare_model_free(m);
    expect_same_bytes(model(graph), "hoist_constants");
}

/* ---- views ----------------------------------------------------------------------------------- */

static void test_reshaped_weights_are_stored(void **state)
{
    int64_t shape[2] = { 3, 4 }, axis = 0;
    struct bin more = CAT(initializer("shape", PARE_I64, "2", blob(9, shape, sizeof(shape))),
                          initializer("axis", PARE_I64, "1", blob(9, &axis, sizeof(axis))));
    struct bin graph = CAT(float_initializer("fc.weight", "12", ramp, 12), more,
                           node("Reshape", "", "fc.weight,shape", "a"),
                           node("Unsqueeze", "", "a,axis", "b"), node("Squeeze", "", "b,axis", "c"),
                           node("Identity", "", "c", "d"), node("MatMul", "mm", "x,d", "y"),
                           input_and_output("N,3", "N,4"));
    struct pare_model *m = parse(model(graph));
    const struct pare_layer_info *l = first_layer(m);

    (void)state;
    assert_int_equal(intake_count(m, "view_weights"), 4);
    assert_int_equal(m->graph->n_nodes, 1);
    assert_null(pare_graph_find(m->graph, "shape"));
    assert_string_equal(l->name, "fc");
    assert_int_equal(l->weight->t.rank, 2);
    assert_int_equal(l->weight->t.dim[1], 4);
    pare_model_free(m);
    expect_same_bytes(model(graph), "view_weights");
}

/* A tied weight keeps its Identity, so that training changes both uses. */
static void test_tied_weights_are_kept(void **state)
{
    struct bin graph = CAT(float_initializer("w", "3,3", ramp, 9), node("MatMul", "", "x,w", "a"),
                           node("Identity", "", "w", "w2"), node("MatMul", "", "a,w2", "b"),
                           node("MatMul", "", "b,w", "y"), input_and_output("N,3", "N,3"));
    struct pare_model *m = parse(model(graph));

    (void)state;
    assert_int_equal(intake_count(m, "view_weights"), 0);
    assert_int_equal(intake_count(m, "split_weights"), 0);
    pare_model_free(m);
}

/* ---- Cast and Transpose ---------------------------------------------------------------------- */

static uint16_t half[64];

static struct bin half_initializer(const char *name, const char *dims, size_t n)
{
    return initializer(name, PARE_F16, dims, blob(9, half, n * sizeof(*half)));
}

static struct bin cast_to_float(const char *in, const char *out)
{
    return node_with("Cast", "", in, out, msg(5, CAT(text(1, "to"), num(3, 1), num(20, 2))));
}

/* float16 weights, transposed and reshaped, and a float16 bias. */
static struct bin half_weights_model(const char *more)
{
    int64_t shape[2] = { 4, 3 };

    return model(CAT(half_initializer("fc.weight", "12", 12), half_initializer("fc.bias", "4", 4),
                     initializer("shape", PARE_I64, "2", blob(9, shape, sizeof(shape))),
                     node("Reshape", "", "fc.weight,shape", "a"), cast_to_float("a", "b"),
                     node("Transpose", "", "b", "c"), node("MatMul", "mm", "x,c", "p"),
                     cast_to_float("fc.bias", "d"), node("Add", "", "p,d", "y"),
                     input_and_output("N,3", "N,4"),
                     *more ? output(more, PARE_F32, "3,4") : NOTHING));
}

static void test_cast_and_transposed_weights_are_folded(void **state)
{
    struct pare_model *m = parse(half_weights_model(""));
    struct pare_value *w = pare_graph_find(m->graph, "fc.weight");
    struct pare_err err = { 0 };

    (void)state;
    assert_int_equal(intake_count(m, "fold_weights"), 4);
    assert_int_equal(m->graph->n_nodes, 2);
    assert_string_equal(first_layer(m)->name, "fc");
    assert_int_equal(w->t.dtype, PARE_F32);
    assert_int_equal(w->t.dim[0], 3);
    assert_int_equal(pare_value_load(m->arena, w, &err), 0);
    for (int i = 0; i < 12; i++)
        assert_true(((float *)w->t.data)[i] == pare_f16_to_f32(half[i % 4 * 3 + i / 4]));
    pare_model_free(m);
    expect_same_bytes(half_weights_model(""), "fold_weights");
}

/* A changed model is saved with float16 weights and a Cast again, and loads to the same values; a
 * value that float16 cannot represent keeps its tensor in float32. */
static void test_weights_are_saved_in_their_type(void **state)
{
    static const char path[] = "stored_types.tmp.onnx";
    struct pare_err err = { 0 };

    (void)state;
    for (int large = 0; large < 2; large++) {
        struct pare_model *m = parse(half_weights_model("")), *copy, *back;
        struct pare_value *w = pare_graph_find(m->graph, "fc.weight");

        assert_int_equal(pare_model_own(m, w, &err), 0);
        ((float *)w->t.data)[2] = large ? 1e6f : 0.5f;
        assert_int_equal(pare_model_duplicate(m, &copy, &err), 0);
        assert_int_equal(pare_model_save(copy, path, NULL, &err), 0);
        assert_int_equal(pare_model_load(path, &back, &err), 0);
        assert_int_equal(intake_count(back, "fold_weights"),
                         large ? 0 : 2); /* of a weight, else none */
        w = pare_graph_find(back->graph, "fc.weight");
        assert_non_null(w);
        assert_string_equal(first_layer(back)->name, "fc");
        assert_int_equal(pare_value_load(back->arena, w, &err), 0);
        assert_true(((float *)w->t.data)[2] == (large ? 1e6f : 0.5f));
        assert_true(((float *)w->t.data)[1] == pare_f16_to_f32(half[3]));
        pare_model_free(back);
        pare_model_free(copy);
        pare_model_free(m);
        remove(path);
    }
}

/* Values that are outputs, or that another node reads as stored, are not folded. */
static void test_used_weights_are_not_folded(void **state)
{
    struct bin tied = CAT(float_initializer("w", "3,3", ramp, 9), node("Transpose", "", "w", "t"),
                          node("MatMul", "", "x,t", "a"), node("MatMul", "", "a,w", "y"),
                          input_and_output("N,3", "N,3"));
    struct pare_model *m = parse(model(tied));

    (void)state;
    assert_int_equal(intake_count(m, "fold_weights"), 0);
    assert_int_equal(m->graph->n_nodes, 3);
    pare_model_free(m);
    m = parse(half_weights_model("c"));
    assert_int_equal(intake_count(m, "fold_weights"), 3); /* not the Transpose */
    assert_non_null(pare_graph_find(m->graph, "c")->maker);
    pare_model_free(m);
}

/* The initializer gets the name of the folded result, which a body reads. */
static void test_weights_read_by_bodies_are_folded(void **state)
{
    struct bin then = CAT(node("MatMul", "", "x,b", "y1"), text(2, "t"),
                          output("y1", PARE_F32, "N,3"));
    struct bin other = CAT(node("Identity", "", "x", "y2"), text(2, "e"),
                           output("y2", PARE_F32, "N,3"));
    struct bin attrs = CAT(msg(5, CAT(text(1, "then_branch"), msg(6, then), num(20, 5))),
                           msg(5, CAT(text(1, "else_branch"), msg(6, other), num(20, 5))));
    struct bin graph = CAT(half_initializer("w", "3,3", 9), node("Transpose", "", "w", "a"),
                           cast_to_float("a", "b"), node("MatMul", "", "x,b", "h"),
                           node_with("If", "if", "c", "z", attrs), node("Add", "", "h,z", "y"),
                           input_and_output("N,3", "N,3"), input("c", PARE_BOOL, ""));
    struct pare_model *m = parse(model(graph));
    const struct pare_value *w = pare_graph_find(m->graph, "b");

    (void)state;
    assert_int_equal(intake_count(m, "fold_weights"), 2);
    assert_int_equal(m->graph->n_nodes, 3);
    assert_true(w && !w->maker && w->t.dtype == PARE_F32);
    assert_ptr_equal(m->graph->node[0]->in[1], w);
    assert_null(pare_graph_find(m->graph, "w"));
    pare_model_free(m);
    expect_same_bytes(model(graph), "fold_weights");
}

/* A Cast that is not before a layer's weight is not folded. */
static void test_other_casts_are_not_folded(void **state)
{
    struct bin graph = CAT(half_initializer("t", "4", 4), cast_to_float("t", "u"),
                           node("Add", "", "x,u", "y"), input_and_output("N,4", "N,4"));
    struct pare_model *m = parse(model(graph));

    (void)state;
    assert_int_equal(intake_count(m, "fold_weights"), 0);
    pare_model_free(m);
}

/* ---- shared parameters ----------------------------------------------------------------------- */

static struct bin training_mode_attr(void)
{
    return msg(5, CAT(text(1, "training_mode"), num(3, 1), num(20, 2)));
}

/* An untrained batch normalization, whose scale is also the variance and whose bias is the mean. */
static void test_parameters_shared_by_identity_are_split(void **state)
{
    struct bin graph = CAT(float_initializer("scale", "4", ones, 4),
                           float_initializer("bias", "4", ramp + 60, 4),
                           node("Identity", "", "scale", "var"),
                           node("Identity", "", "bias", "mean"),
                           node("BatchNormalization", "", "x,scale,bias,mean,var", "y"),
                           input_and_output("N,4,2,2", "N,4,2,2"));
    struct pare_model *m = parse(model(graph));
    const struct pare_node *n = m->graph->node[0];

    (void)state;
    assert_int_equal(intake_count(m, "split_weights"), 2);
    assert_int_equal(m->graph->n_nodes, 1);
    for (int i = 1; i < 5; i++)
        assert_null(n->in[i]->maker);
    assert_string_equal(n->in[4]->name, "var");
    assert_ptr_not_equal(n->in[1], n->in[4]);
    pare_model_free(m);
    expect_same_bytes(model(graph), "split_weights");
}

/* The same without Identity, in two layers; all eight parameters become separate. */
static void test_shared_parameters_are_split(void **state)
{
    struct bin graph = CAT(float_initializer("one", "4", ones, 4),
                           float_initializer("zero", "4", ramp + 60, 4),
                           node("BatchNormalization", "", "x,one,zero,zero,one", "h"),
                           node("BatchNormalization", "", "h,one,zero,zero,one", "y"),
                           input_and_output("N,4,2,2", "N,4,2,2"));
    struct pare_model *m = parse(model(graph));
    const struct pare_value *seen[8];
    int n = 0;

    (void)state;
    assert_int_equal(intake_count(m, "split_weights"), 6);
    for (int i = 0; i < 2; i++)
        for (int k = 1; k < 5; k++)
            seen[n++] = m->graph->node[i]->in[k];
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(seen[i], seen[k]);
    pare_model_free(m);
    expect_same_bytes(model(graph), "split_weights");
}

/* An LSTM whose initial h is made by ConstantOfShape, of this value, through Slice or none. */
static struct bin states_model(const char *initial, float value, struct bin more)
{
    static const int64_t zero = 0, one = 1, two = 2;
    static const float zeros[6];
    struct bin v = msg(5, CAT(text(1, "value"),
                              msg(5, tensor("", PARE_F32, "1", blob(9, &value, sizeof(value)))),
                              num(20, 4)));
    struct bin constants = CAT(float_initializer("w", "1,8,2", ramp, 16),
                               float_initializer("r", "1,8,2", ramp, 16),
                               float_initializer("p", "1,6", ramp, 6),
                               float_initializer("zeros", "1,3,2", zeros, 6),
                               initializer("zero", PARE_I64, "1", blob(9, &zero, 8)),
                               initializer("one", PARE_I64, "1", blob(9, &one, 8)),
                               initializer("two", PARE_I64, "1", blob(9, &two, 8)));
    struct bin states = CAT(node("Shape", "", "x", "s"), node("Gather", "", "s,one", "n"),
                            node_with("Concat", "", "two,n,two", "size",
                                      msg(5, CAT(text(1, "axis"), num(3, 0), num(20, 2)))),
                            node_with("ConstantOfShape", "", "size", "all", v),
                            node("Slice", "", "all,one,two,zero", "h0"));

    return model(CAT(constants, states, node("LSTM", "lstm", initial, "y"), more,
                     input_and_output("4,N,2", "4,1,N,2")));
}

/* Initial states of zeros are left out, with the nodes that compute them; peepholes stay where they
 * are.  Other values are kept, and nodes that are used elsewhere. */
static void test_zero_states_are_left_out(void **state)
{
    struct pare_model *m;
    struct bin file;

    (void)state;
    file = states_model("x,w,r,,,h0,zeros,p", 0, NOTHING);
    m = parse(file);
    assert_int_equal(intake_count(m, "zero_states"), 2);
    assert_int_equal(m->graph->n_nodes, 1);
    assert_int_equal(m->graph->node[0]->n_in, 8);
    assert_null(m->graph->node[0]->in[5]);
    assert_null(m->graph->node[0]->in[6]);
    assert_string_equal(m->graph->node[0]->in[7]->name, "p");
    assert_null(pare_graph_find(m->graph, "zeros"));
    assert_null(pare_graph_find(m->graph, "two"));
    assert_int_equal(m->builds, 1);
    expect_as_reloaded(m);
    pare_model_free(m);
    expect_same_bytes(file, "zero_states");

    m = parse(states_model("x,w,r,,,h0", 1, NOTHING));
    assert_int_equal(intake_count(m, "zero_states"), 0);
    pare_model_free(m);

    m = parse(states_model("x,w,r,,,h0", 0, node("Neg", "", "h0", "z")));
    assert_int_equal(intake_count(m, "zero_states"), 1);
    assert_non_null(pare_graph_find(m->graph, "h0"));
    assert_int_equal(m->graph->n_nodes, 7);
    expect_as_reloaded(m);
    pare_model_free(m);
}

/* A module applied twice has one bias; two modules with equal biases have two. */
static void test_biases_of_different_layers_are_split(void **state)
{
    for (int twice = 0; twice < 2; twice++) {
        struct bin graph = CAT(float_initializer("w", "4,4", ramp, 16),
                               float_initializer("v", "4,4", ramp + 20, 16),
                               float_initializer("b", "4", ones, 4), node("Gemm", "", "x,w,b", "h"),
                               node("Gemm", "", twice ? "h,w,b" : "h,v,b", "y"),
                               input_and_output("N,4", "N,4"));
        struct pare_model *m = parse(model(graph));

        assert_int_equal(intake_count(m, "split_weights"), !twice);
        assert_int_equal(m->graph->node[0]->in[2] == m->graph->node[1]->in[2], twice);
        pare_model_free(m);
    }
    (void)state;
}

/* Identity nodes of parameters, before and between nodes with and without names. */
static struct bin merged_parameters(const char *first, const char *second)
{
    return model(CAT(float_initializer("one", "4", ones, 4),
                     float_initializer("zero", "4", ramp + 60, 4),
                     node("Identity", "copy1", "one", "var"),
                     node("BatchNormalization", first, "x,one,zero,zero,var", "h"),
                     node("Identity", "copy2", "zero", "mean"),
                     node("BatchNormalization", second, "h,one,zero,mean,one", "y"),
                     input_and_output("N,4,2,2", "N,4,2,2")));
}

/* Separating parameters changes the graph in place: building it again takes as long as loading.
 * Names that follow from positions change with the positions: then the graph is built again. */
static void test_splitting_does_not_build_the_graph_again(void **state)
{
    struct pare_model *m = parse(merged_parameters("bn1", "bn2"));
    struct pare_err err = { 0 };
    struct pare_value *var = pare_graph_find(m->graph, "var");

    (void)state;
    assert_int_equal(intake_count(m, "split_weights"), 6);
    assert_int_equal(m->builds, 1);
    expect_as_reloaded(m);
    assert_int_equal(pare_model_own(m, var, &err), 0);
    ((float *)var->t.data)[0] = 5;
    assert_float_equal(((float *)pare_graph_find(m->graph, "one")->t.data)[0], 1, 0);
    expect_as_reloaded(m);
    pare_model_free(m);
    m = parse(merged_parameters("bn", ""));
    assert_int_equal(m->builds, 2);
    assert_string_equal(m->graph->node[1]->name, "BatchNormalization_1");
    expect_as_reloaded(m);
    pare_model_free(m);
}

/* ---- training mode --------------------------------------------------------------------------- */

static struct bin with_opset(struct bin graph, int version)
{
    return CAT(num(1, 8), msg(7, graph), opset("", version));
}

static struct bin norm_parameters(void)
{
    return CAT(float_initializer("s", "4", ramp, 4), float_initializer("b", "4", ramp + 4, 4),
               float_initializer("m", "4", ramp + 8, 4), float_initializer("v", "4", ramp + 12, 4));
}

static void test_training_mode_is_removed(void **state)
{
    struct bin t = { (unsigned char *)(uintptr_t) "\1", 1 };
    struct bin graph = CAT(norm_parameters(), initializer("on", PARE_BOOL, "", blob(9, t.p, 1)),
                           node_with("BatchNormalization", "", "x,s,b,m,v", "h,m2,v2",
                                     training_mode_attr()),
                           node("Dropout", "", "h,,on", "y"),
                           input_and_output("N,4,2,2", "N,4,2,2"));
    struct pare_model *m = parse(with_opset(graph, 15));

    (void)state;
    assert_int_equal(intake_count(m, "inference_mode"), 2);
    assert_int_equal(m->graph->node[0]->n_out, 1);
    pare_model_free(m);
    m = parse_with(with_opset(graph, 15), (struct pare_load_opts){ .keep_training_mode = true });
    assert_int_equal(intake_count(m, "inference_mode"), 0);
    assert_int_equal(m->graph->node[0]->n_out, 3);
    pare_model_free(m);
    expect_same_bytes(with_opset(graph, 15), "inference_mode");
}

/* Before opset 14, five outputs mean training; a node whose outputs are used is not changed. */
static void test_training_outputs_are_removed(void **state)
{
    struct bin norm = node("BatchNormalization", "", "x,s,b,m,v", "y,m2,v2,m3,v3");
    struct bin graph = CAT(norm_parameters(), norm, input_and_output("N,4,2,2", "N,4,2,2"));
    struct pare_model *m = parse(with_opset(graph, 9));

    (void)state;
    assert_int_equal(intake_count(m, "inference_mode"), 1);
    pare_model_free(m);
    m = parse(with_opset(CAT(graph, output("m2", PARE_F32, "4")), 9));
    assert_int_equal(intake_count(m, "inference_mode"), 0);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant_weights_are_hoisted),
        cmocka_unit_test(test_other_constants_are_not_hoisted),
        cmocka_unit_test(test_constant_outputs_are_not_hoisted),
        cmocka_unit_test(test_constants_in_bodies_are_hoisted),
        cmocka_unit_test(test_reshaped_weights_are_stored),
        cmocka_unit_test(test_tied_weights_are_kept),
        cmocka_unit_test(test_cast_and_transposed_weights_are_folded),
        cmocka_unit_test(test_weights_are_saved_in_their_type),
        cmocka_unit_test(test_used_weights_are_not_folded),
        cmocka_unit_test(test_weights_read_by_bodies_are_folded),
        cmocka_unit_test(test_other_casts_are_not_folded),
        cmocka_unit_test(test_parameters_shared_by_identity_are_split),
        cmocka_unit_test(test_shared_parameters_are_split),
        cmocka_unit_test(test_biases_of_different_layers_are_split),
        cmocka_unit_test(test_splitting_does_not_build_the_graph_again),
        cmocka_unit_test(test_zero_states_are_left_out),
        cmocka_unit_test(test_training_mode_is_removed),
        cmocka_unit_test(test_training_outputs_are_removed),
    };

    for (int i = 0; i < 60; i++) /* the last four are 0 */
        ramp[i] = 0.1f * (float)(i + 1);
    for (int i = 0; i < 64; i++)
        half[i] = pare_f32_to_f16(ramp[i]);
    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}
