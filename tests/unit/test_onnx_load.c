/* test_onnx_load.c - load and save models without loss. */
#include "onnx_make.h"

#include "base/options.h"
#include "op/op.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct pare_model *parse(struct bin file)
{
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    if (pare_model_parse(file.p, file.n, NULL, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

static struct pare_value *find_value(const struct pare_model *m, const char *name)
{
    struct pare_value *v = pare_graph_find(m->graph, name);

    if (!v)
        fail_msg("the graph has no value '%s'", name);
    return v;
}

/* Expects the same bytes after parse and pack. */
static void expect_same_bytes(struct bin file)
{
    struct pare_model *m = parse(file);
    struct pare_err err = { 0 };
    void *bytes;
    size_t len;

    assert_int_equal(pare_model_pack(m, pool, &bytes, &len, &err), 0);
    assert_int_equal(len, file.n);
    assert_memory_equal(bytes, file.p, len);
    pare_model_free(m);
}

static struct bin small_graph(void)
{
    float w[6] = { 1, 2, 3, 4, 5, 6 };

    return CAT(node("Add", "add", "x,w", "s"), node("Relu", "", "s", "y"), text(2, "g"),
               initializer("w", PARE_F32, "2,3", blob(9, w, sizeof(w))),
               input("x", PARE_F32, "N,2,3"), output("y", PARE_F32, "N,2,3"));
}

static void test_graph_structure(void **state)
{
    struct pare_model *m = parse(model(small_graph()));
    const struct pare_io *io;
    struct pare_node *n;

    (void)state;
    assert_int_equal(m->graph->n_nodes, 2);
    n = m->graph->node[0];
    assert_string_equal(n->name, "add");
    assert_string_equal(n->op->type, "Add");
    assert_int_equal(n->version, 13);
    assert_ptr_equal(n->in[1], find_value(m, "w"));
    assert_true(find_value(m, "w")->flags & PARE_V_CONST);
    assert_float_equal(pare_f32(&find_value(m, "w")->t)[5], 6, 0);
    assert_string_equal(m->graph->node[1]->name, "Relu_1");
    assert_ptr_equal(find_value(m, "y")->maker, m->graph->node[1]);
    assert_true(find_value(m, "y")->flags & PARE_V_OUTPUT);
    assert_int_equal(pare_model_inputs(m, &io), 1);
    assert_string_equal(io[0].name, "x");
    assert_string_equal(io[0].sym[0], "N");
    assert_int_equal(io[0].dim[0], -1);
    assert_int_equal(io[0].dim[2], 3);
    assert_int_equal(pare_model_outputs(m, &io), 1);
    pare_model_free(m);
}

/* IR version 3 lists initializers as inputs; nodes may be written in any order. */
static void test_ir_3_and_unordered_nodes(void **state)
{
    float w[2] = { 1, 2 };
    struct pare_model *m = parse(
        model(CAT(node("Relu", "b", "s", "y"), node("Add", "a", "x,w", "s"),
                  initializer("w", PARE_F32, "2", blob(9, w, 8)), input("x", PARE_F32, "2"),
                  input("w", PARE_F32, "2"), output("y", PARE_F32, "2"))));
    const struct pare_io *io;

    (void)state;
    assert_int_equal(pare_model_inputs(m, &io), 1);
    assert_int_equal(m->graph->n_in, 1);
    assert_string_equal(m->graph->node[0]->name, "a");
    pare_model_free(m);
}

static struct bin float_field(unsigned field, int n, ...)
{
    struct bin all = NOTHING;
    va_list ap;

    va_start(ap, n);
    for (int i = 0; i < n; i++) {
        float *f = pare_alloc(pool, 1, sizeof(*f));

        *f = (float)va_arg(ap, double);
        all = CAT(all, ((struct bin){ (unsigned char *)f, 4 }));
    }
    va_end(ap);
    return msg(field, all);
}

/* Typed data fields, packed and not packed; 4-bit elements in raw_data and int32_data. */
static void test_typed_tensor_data(void **state)
{
    struct bin packed = CAT(varint(1), varint(200), varint((uint64_t)-3));
    unsigned char nibbles[2] = { 0x2f, 0x07 };
    struct pare_model *m = parse(
        model(CAT(initializer("f", PARE_F32, "3", float_field(4, 3, 1.5, -2.0, 0.25)),
                  initializer("u8", PARE_U8, "3", msg(5, packed)),
                  initializer("i8", PARE_I8, "2", CAT(num(5, -3), num(5, 127))),
                  initializer("b", PARE_BOOL, "2", CAT(num(5, 0), num(5, 2))),
                  initializer("h", PARE_F16, "1", num(5, 0x3c00)),
                  initializer("i64", PARE_I64, "1", num(7, INT64_MIN)),
                  initializer("u32", PARE_U32, "1", num(11, 4000000000)),
                  initializer("u64", PARE_U64, "1", num(11, -1)),
                  initializer("i4", PARE_I4, "3", blob(9, nibbles, 2)),
                  initializer("u4", PARE_U4, "3", CAT(num(5, 0x2f), num(5, 0x07))),
                  initializer("empty", PARE_F32, "0,4", NOTHING),
                  initializer("str", PARE_STR, "2", CAT(text(6, "one"), text(6, ""))))));

    (void)state;
    assert_float_equal(pare_f32(&find_value(m, "f")->t)[1], -2, 0);
    assert_int_equal(((uint8_t *)find_value(m, "u8")->t.data)[1], 200);
    assert_int_equal(((int8_t *)find_value(m, "i8")->t.data)[0], -3);
    assert_int_equal(((uint8_t *)find_value(m, "b")->t.data)[1], 1);
    assert_int_equal(((uint16_t *)find_value(m, "h")->t.data)[0], 0x3c00);
    assert_true(pare_i64(&find_value(m, "i64")->t)[0] == INT64_MIN);
    assert_true(((uint32_t *)find_value(m, "u32")->t.data)[0] == 4000000000u);
    assert_true(((uint64_t *)find_value(m, "u64")->t.data)[0] == UINT64_MAX);
    assert_int_equal(((int8_t *)find_value(m, "i4")->t.data)[0], -1);
    assert_int_equal(((int8_t *)find_value(m, "i4")->t.data)[1], 2);
    assert_int_equal(((uint8_t *)find_value(m, "u4")->t.data)[0], 15);
    assert_int_equal(((uint8_t *)find_value(m, "u4")->t.data)[2], 7);
    assert_non_null(find_value(m, "empty")->t.data);
    assert_int_equal(((struct pare_str *)find_value(m, "str")->t.data)[0].len, 3);
    pare_model_free(m);
}

/* Large weights are not copied. */
static void test_large_weights_are_not_copied(void **state)
{
    size_t n = 100000;
    char *w = pare_alloc(pool, n, 1);
    struct bin file = model(CAT(initializer("w", PARE_U8, "100000", blob(9, w, n)),
                                initializer("v", PARE_F32, "25000", blob(9, w, n)),
                                initializer("-u", PARE_F32, "25000", blob(9, w, n))));
    struct pare_model *m = parse(file);
    const struct pare_value *v = find_value(m, "w");

    (void)state;
    assert_true((unsigned char *)v->t.data > file.p &&
                (unsigned char *)v->t.data < file.p + file.n);
    for (int i = 0; i < 2; i++) {
        v = find_value(m, i ? "-u" : "v");
        assert_true((v->t.data != NULL) != (v->raw != NULL));
        assert_true(v->raw || (uintptr_t)v->t.data % 4 == 0);
    }
    pare_model_free(m);
}

static struct bin attribute(const char *name, int type, struct bin more)
{
    return msg(5, CAT(text(1, name), more, num(20, type)));
}

static void test_constant_nodes(void **state)
{
    int64_t at[2] = { 5, 0 };
    struct bin sparse = CAT(msg(1, tensor("", PARE_F32, "2", float_field(4, 2, 7.0, 8.0))),
                            msg(2, tensor("", PARE_I64, "2", blob(9, at, 16))), list(3, "2,3", 1));
    struct pare_model *m = parse(model(CAT(
        node_with("Constant", "", "", "t",
                  attribute("value", 4, msg(5, tensor("", PARE_I64, "1", num(7, 42))))),
        node_with("Constant", "", "", "i", attribute("value_int", 2, num(3, 7))),
        node_with("Constant", "", "", "l", attribute("value_ints", 7, CAT(num(8, 7), num(8, 8)))),
        node_with("Constant", "", "", "s", attribute("value_string", 3, text(4, "abc"))),
        node_with("Constant", "", "", "z", attribute("sparse_value", 11, msg(22, sparse))),
        msg(15, CAT(msg(1, tensor("q", PARE_F32, "1", float_field(4, 1, 9.0))),
                    msg(2, tensor("", PARE_I64, "1,2", blob(9, at, 16))), list(3, "6,2", 1))))));

    (void)state;
    assert_int_equal(pare_i64(&find_value(m, "t")->t)[0], 42);
    assert_int_equal(find_value(m, "i")->t.rank, 0);
    assert_int_equal(pare_i64(&find_value(m, "i")->t)[0], 7);
    assert_int_equal(find_value(m, "l")->t.dim[0], 2);
    assert_int_equal(((struct pare_str *)find_value(m, "s")->t.data)->len, 3);
    assert_float_equal(pare_f32(&find_value(m, "z")->t)[5], 7, 0);
    assert_float_equal(pare_f32(&find_value(m, "z")->t)[0], 8, 0);
    assert_float_equal(pare_f32(&find_value(m, "q")->t)[10], 9, 0);
    assert_int_equal(m->graph->n_nodes, 5);
    pare_model_free(m);
}

/* Nodes that cannot run are kept, with the reason. */
static void test_nodes_that_cannot_run(void **state)
{
    static const struct {
        const char *node, *why;
    } want[] = {
        { "foreign", "operator Frobnicate (domain 'com.example', version 3) is not known" },
        { "text", "operator StringConcat is not supported: it processes text; tokenize text before "
                  "the model and pass numbers" },
        { "odd", "unknown attribute 'alpha'" },
        { "many", "it has 3 inputs, Add takes at most 2" },
        { "few", "it has 1 inputs, Add takes at least 2" },
        { "complex", "constant 'c' cannot be used: its element type is complex64, which" },
    };
    struct bin graph = CAT(node_with("Frobnicate", "foreign", "x", "a", text(7, "com.example")),
                           node("StringConcat", "text", "x", "t"),
                           node_with("Relu", "odd", "x", "b", attribute("alpha", 2, num(3, 1))),
                           node("Add", "many", "x,x,x", "d"), node("Add", "few", "x", "e"),
                           node("Relu", "complex", "c", "f"),
                           initializer("c", 14, "1", float_field(9, 2, 1.0, 2.0)),
                           input("x", PARE_F32, "2"), output("a", PARE_F32, "2"));
    struct bin file = CAT(num(1, 8), msg(7, graph), opset("", 13), opset("com.example", 3));
    struct pare_model *m = parse(file);

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
        assert_string_equal(m->graph->node[i]->name, want[i].node);
        assert_null(m->graph->node[i]->op);
        if (!strstr(m->graph->node[i]->why, want[i].why))
            fail_msg("%s: %s", want[i].node, m->graph->node[i]->why);
    }
    pare_model_free(m);
    expect_same_bytes(file);
    m = parse(CAT(num(1, 8), msg(7, small_graph()), opset("", 27)));
    assert_null(m->graph->node[0]->op);
    assert_non_null(strstr(m->graph->node[0]->why, "opset 27 is newer than 26"));
    pare_model_free(m);
}

/* An If whose bodies use values of the enclosing graph, one of them two levels deep. */
static void test_values_captured_by_bodies(void **state)
{
    struct bin inner = CAT(node("Relu", "deep", "x", "r"), output("r", PARE_F32, "2"));
    struct bin yes = CAT(node_with("If", "if2", "c", "t",
                                   CAT(attribute("then_branch", 5, msg(6, inner)),
                                       attribute("else_branch", 5, msg(6, inner)))),
                         output("t", PARE_F32, "2"));
    struct bin no = CAT(node("Add", "sum", "x,w", "e"), output("e", PARE_F32, "2"));
    struct bin file = model(CAT(node_with("If", "if", "c", "y",
                                          CAT(attribute("then_branch", 5, msg(6, yes)),
                                              attribute("else_branch", 5, msg(6, no)))),
                                node("Relu", "late", "x", "w"), input("c", PARE_BOOL, ""),
                                input("x", PARE_F32, "2"), output("y", PARE_F32, "2")));
    struct pare_model *m = parse(file);
    struct pare_node *n = m->graph->node[1];

    (void)state;
    assert_string_equal(m->graph->node[0]->name, "late"); /* a body reads its result */
    assert_string_equal(n->name, "if");
    assert_int_equal(n->n_cap, 3);
    assert_ptr_equal(n->cap[0], find_value(m, "c"));
    assert_ptr_equal(n->cap[1], find_value(m, "x"));
    assert_ptr_equal(n->cap[2], find_value(m, "w"));
    pare_model_free(m);
    expect_same_bytes(file);
}

/* A function that calls another: twice(a) = (relu(double(a)), a), double(a) = a + a. */
static void test_functions_are_inlined(void **state)
{
    struct bin add = CAT(text(1, "double"), text(4, "a"), text(4, "unused"), text(5, "out"),
                         msg(7, CAT(list(1, "a,a", 0), text(2, "out"), text(4, "Add"))),
                         msg(9, num(2, 14)), text(10, "my"));
    struct bin outer = CAT(text(1, "twice"), text(4, "a"), text(5, "r"), text(5, "a"),
                           msg(7, CAT(text(1, "a"), text(2, "t"), text(3, "d"), text(4, "double"),
                                      text(7, "my"))),
                           msg(7, CAT(text(1, "t"), text(2, "r"), text(4, "Relu"))),
                           msg(9, num(2, 15)), text(10, "my"));
    struct bin graph = CAT(node_with("twice", "call", "x", "y,z", text(7, "my")),
                           node_with("twice", "again", "y", "u", text(7, "my")),
                           input("x", PARE_F32, "2"), output("u", PARE_F32, "2"),
                           output("z", PARE_F32, "2"));
    struct bin file = CAT(num(1, 8), msg(7, graph), opset("", 13), opset("my", 1), msg(25, add),
                          msg(25, outer));
    struct pare_model *m = parse(file);

    (void)state;
    assert_int_equal(m->graph->n_nodes, 5);
    assert_string_equal(m->graph->node[0]->name, "call/d/Add_0");
    assert_int_equal(m->graph->node[0]->version, 14);
    assert_ptr_equal(m->graph->node[0]->in[1], find_value(m, "x"));
    assert_string_equal(m->graph->node[0]->out[0]->name, "call/t");
    assert_string_equal(m->graph->node[1]->type, "Relu");
    assert_int_equal(m->graph->node[1]->version, 15);
    assert_ptr_equal(m->graph->node[1]->out[0], find_value(m, "y"));
    assert_string_equal(m->graph->node[2]->type, "Identity");
    assert_ptr_equal(m->graph->node[2]->out[0], find_value(m, "z"));
    assert_ptr_equal(m->graph->node[4]->out[0], find_value(m, "u"));
    pare_model_free(m);
    expect_same_bytes(file);
}

/* An attribute of a function: given by the call, or its default (a field newer than our
 * schema). */
static void test_function_attributes(void **state)
{
    struct bin leaky = CAT(text(1, "a"), text(2, "b"), text(4, "LeakyRelu"),
                           msg(5, CAT(text(1, "alpha"), num(20, 1), text(21, "slope"))));
    float half = 0.5f, quarter = 0.25f;
    struct bin by_default = CAT(text(1, "slope"), tag(2, 5),
                                ((struct bin){ (unsigned char *)&half, 4 }), num(20, 1));
    struct bin given = attribute("slope", 1,
                                 CAT(tag(2, 5), ((struct bin){ (unsigned char *)&quarter, 4 })));
    struct bin f = CAT(text(1, "f"), text(4, "a"), text(5, "b"), text(6, "slope"), msg(7, leaky),
                       msg(9, num(2, 16)), text(10, "my"), msg(11, by_default));
    struct bin graph = CAT(node_with("f", "one", "x", "y", text(7, "my")),
                           node_with("f", "two", "y", "z", CAT(given, text(7, "my"))),
                           input("x", PARE_F32, "2"), output("z", PARE_F32, "2"));
    struct pare_model *m = parse(
        CAT(num(1, 8), msg(7, graph), opset("", 13), opset("my", 1), msg(25, f)));
    const struct pare_op *op = pare_find_op("", "LeakyRelu");
    size_t at = pare_opt_find(op->attrs, "alpha")->offset;

    (void)state;
    assert_int_equal(m->graph->n_nodes, 2);
    for (int i = 0; i < 2; i++) {
        double alpha;

        assert_ptr_equal(m->graph->node[i]->op, op);
        memcpy(&alpha, (const char *)m->graph->node[i]->attr + at, sizeof(alpha));
        assert_true(alpha >= (i ? 0.25 : 0.5) && alpha <= (i ? 0.25 : 0.5));
    }
    pare_model_free(m);
}

/* Unknown fields at every level, documentation and metadata are kept. */
static void test_unknown_fields_are_kept(void **state)
{
    unsigned char data[5000] = { 1, 2, 3 };
    struct bin unknown_fields = CAT(num(999, 5), blob(1000, data, sizeof(data)), tag(1001, 5),
                                    ((struct bin){ data, 4 }), tag(1002, 1),
                                    ((struct bin){ data, 8 }));
    struct bin n = msg(1, CAT(text(1, "x"), text(2, "y"), text(4, "Relu"), text(6, "a doc"),
                              text(8, "overload"), msg(9, CAT(text(1, "k"), text(2, "v"))),
                              unknown_fields));
    struct bin t = initializer("w", PARE_F32, "1",
                               CAT(float_field(9, 1, 1.0), text(12, "doc"), unknown_fields));
    struct bin graph = CAT(n, text(2, "g"), t, text(10, "graph doc"), input("x", PARE_F32, "N"),
                           output("y", PARE_F32, "N"), unknown_fields);

    (void)state;
    expect_same_bytes(CAT(num(1, 9), text(2, "producer"), text(3, "1.0"), text(4, "domain"),
                          num(5, 3), text(6, "doc"), msg(7, graph), opset("", 18),
                          msg(14, CAT(text(1, "author"), text(2, "author"))), unknown_fields));
}

static void test_tensor_round_trip(void **state)
{
    struct pare_tensor t, back;
    struct pare_err err = { 0 };
    const char *name;
    int64_t dim[2] = { 2, 3 };
    void *bytes;
    size_t len;

    (void)state;
    assert_int_equal(pare_tensor_new(pool, &t, PARE_I4, 2, dim, &err), 0);
    for (int i = 0; i < 6; i++)
        ((int8_t *)t.data)[i] = (int8_t)(i - 3);
    assert_int_equal(pare_tensor_pack(&t, "t", pool, &bytes, &len, &err), 0);
    assert_int_equal(pare_tensor_parse(bytes, len, pool, &back, &name, &err), 0);
    assert_string_equal(name, "t");
    assert_true(pare_same_shape(&t, &back));
    assert_memory_equal(t.data, back.data, 6);
}

/* ---- files ------------------------------------------------------------------------------- */

static char folder[64];

static int make_folder(void **state)
{
    snprintf(folder, sizeof(folder), "/tmp/pare-test-XXXXXX");
    return make_pool(state) || !mkdtemp(folder);
}

static int remove_folder(void **state)
{
    static const char *const names[] = { "a.onnx", "b.onnx", "c.onnx", "b.onnx.data",
                                         "c.onnx.data" };
    char path[128];

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    drop_pool(state);
    return rmdir(folder); /* fails if a file is left */
}

static const char *path_in_folder(const char *name)
{
    return pare_sprintf(pool, "%s/%s", folder, name);
}

static void write_file(const char *path, struct bin b)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    if (b.n)
        assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    fclose(f);
}

static struct bin read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct bin b = { pare_alloc(pool, 1 << 20, 1), 0 };

    assert_non_null(f);
    b.n = fread(b.p, 1, 1 << 20, f);
    fclose(f);
    return b;
}

static struct pare_model *load_model(const char *path)
{
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    if (pare_model_load(path, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

/* Saved with external data and then without it, the model has the same bytes. */
static void test_external_data_round_trip(void **state)
{
    struct pare_save_opts external_opts = { .external = true, .external_above = 2000 };
    float *w = pare_alloc(pool, 1000, sizeof(*w));
    struct pare_err err = { 0 };
    struct pare_model *a, *b;
    struct bin file;
    struct stat st;

    (void)state;
    for (int i = 0; i < 1000; i++)
        w[i] = (float)i;
    file = model(
        CAT(node("Add", "", "w,v", "y"), initializer("w", PARE_F32, "1000", blob(9, w, 4000)),
            initializer("v", PARE_F32, "1,1000", blob(9, w, 4000)),
            initializer("small", PARE_F32, "10", blob(9, w, 40)), output("y", PARE_F32, "1,1000")));
    write_file(path_in_folder("a.onnx"), file);
    a = load_model(path_in_folder("a.onnx"));
    assert_int_equal(pare_model_save(a, path_in_folder("b.onnx"), &external_opts, &err), 0);
    assert_int_equal(stat(path_in_folder("b.onnx.data"), &st), 0);
    assert_int_equal(st.st_size, 4032 + 4000);
    b = load_model(path_in_folder("b.onnx"));
    assert_non_null(find_value(b, "v")->t.data); /* 64-aligned in the file: used in place */
    assert_memory_equal(find_value(b, "v")->t.data, w, 4000);
    assert_float_equal(pare_f32(&find_value(b, "small")->t)[9], 9, 0);
    assert_int_equal(pare_model_save(b, path_in_folder("c.onnx"), NULL, &err), 0);
    assert_int_equal(read_file(path_in_folder("c.onnx")).n, file.n);
    assert_memory_equal(read_file(path_in_folder("c.onnx")).p, file.p, file.n);
    assert_int_equal(pare_model_save(b, path_in_folder("c.onnx"), &external_opts, &err), 0);
    assert_memory_equal(read_file(path_in_folder("c.onnx.data")).p + 4032, w, 4000);
    pare_model_free(a);
    pare_model_free(b);
}

/* Saving refuses to overwrite the loaded files; a failed save leaves no file. */
static void test_files_that_must_not_be_overwritten(void **state)
{
    struct pare_save_opts external_opts = { .external = true, .external_above = 8 };
    struct pare_err err = { 0 };
    struct pare_model *m;
    char *other;

    (void)state;
    write_file(path_in_folder("a.onnx"), model(small_graph()));
    m = load_model(path_in_folder("a.onnx"));
    assert_int_equal(pare_model_save(m, path_in_folder("a.onnx"), NULL, &err), PARE_EIO);
    assert_non_null(strstr(err.msg, "a.onnx: holds the model that is being saved"));
    other = pare_sprintf(pool, "%s/./a.onnx", folder);
    assert_int_equal(pare_model_save(m, other, NULL, &err), PARE_EIO);
    assert_int_equal(pare_model_save(m, folder, NULL, &err), PARE_EIO);
    assert_non_null(strstr(err.msg, "not a regular file"));
    assert_int_equal(pare_model_save(m, path_in_folder("none/b.onnx"), NULL, &err), PARE_EIO);
    assert_non_null(strstr(err.msg, "No such file or directory"));
    assert_int_equal(pare_model_save(m, path_in_folder(""), NULL, &err), PARE_EIO);
    assert_int_equal(pare_model_save(m, path_in_folder("b.onnx"), &external_opts, &err), 0);
    pare_model_free(m);
    m = load_model(path_in_folder("b.onnx"));
    assert_int_equal(rename(path_in_folder("b.onnx.data"), path_in_folder("c.onnx.data")), 0);
    assert_int_equal(pare_model_save(m, path_in_folder("c.onnx"), &external_opts, &err), PARE_EIO);
    assert_non_null(strstr(err.msg, "holds weights of the model"));
    assert_int_equal(access(path_in_folder("c.onnx"), F_OK), -1);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_graph_structure, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_ir_3_and_unordered_nodes, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_typed_tensor_data, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_large_weights_are_not_copied, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_constant_nodes, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_nodes_that_cannot_run, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_values_captured_by_bodies, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_functions_are_inlined, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_function_attributes, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_unknown_fields_are_kept, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_tensor_round_trip, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_external_data_round_trip, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_files_that_must_not_be_overwritten, make_folder,
                                        remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
