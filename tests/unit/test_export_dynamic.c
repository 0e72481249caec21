/* test_export_dynamic.c - export with dynamic activation quantization of layers whose shapes are
 * unknown at size 1. */
#include "make_model.h"

#include <stdio.h>

#include "compress/compression.h"

#include <pare/session.h>

#define FILE_NAME "export_dynamic.tmp.onnx"

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* The window of the pooling does not fit height and width of 1, so that all later shapes and types
 * are unknown when free dimensions are 1. */
static struct pare_model *pooled(void)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, 1, -1, -1 });
    const char *w = build_floats(&b, 4, (int64_t[]){ 2, 1, 1, 1 }, (float[]){ 1, -0.5f });
    const char *y = build_node(&b, "MaxPool", NAMES(x), at_ints("kernel_shape", INTS(2, 2)));

    y = build_node(&b, "Conv", NAMES(y, w), NOTHING);
    build_put(&b, msg(12, build_info(y, PARE_F32, -1, NULL)));
    return build_model(&b);
}

static int count(const struct pare_model *m, const char *type)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_nodes; i++)
        n += !strcmp(m->graph->node[i]->type, type);
    return n;
}

static void test_unknown_shapes(void **state)
{
    struct pare_compression_opts o = {
        .quantizer = "group",
        .config = "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"quant_dtype\": \"int\", "
                  "\"quant_scheme\": \"per_channel_symmetric\", \"op_types\": [\"Conv2d\"]}]",
        .threads = 1,
    };
    const struct pare_export files = { .onnx = FILE_NAME, .dynamic = true };
    struct pare_model *m, *made;
    struct pare_compression *c;

    (void)state;
    pool = pare_arena_new(1 << 16);
    m = pooled();
    ok(pare_compression_new(m, &o, &c, &err));
    ok(pare_compression_compress(c, &err));
    ok(pare_compression_export(c, &files, &err));
    ok(pare_model_load(FILE_NAME, &made, &err));
    assert_int_equal(count(made, "ConvInteger"), 1);
    assert_int_equal(count(made, "Conv"), 0);
    pare_model_free(made);
    remove(FILE_NAME);
    pare_compression_free(c);
    pare_model_free(m);
    pare_arena_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_unknown_shapes) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
