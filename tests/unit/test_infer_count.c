/* test_infer_count.c - number of shape inferences in prune, speedup, quantize and plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include <pare/compress.h>

#include "graph/graph.h"
#include "plan/plan.h"

static struct pare_err err;

#define OK(call)                     \
    do {                             \
        if (call)                    \
            fail_msg("%s", err.msg); \
    } while (0)

static const int64_t gray[3] = { 1, 8, 8 };

static int64_t count_prune(const char *settings, const struct pare_speedup_opts *shrink)
{
    struct pare_prune_opts o = { .pruner = "l1",
                                 .sparsity = 0.5,
                                 .settings = settings,
                                 .speedup = true,
                                 .shrink = shrink };
    struct pare_model *m, *out;
    int64_t before;

    OK(pare_model_new("lenet", gray, 10, 1, &m, &err));
    before = pare_infer_count();
    OK(pare_prune(m, &o, &out, NULL, &err));
    before = pare_infer_count() - before;
    pare_model_free(out);
    pare_model_free(m);
    return before;
}

/* The masked graph is changed, so it is inferred again, for three sizes of the batch; the smaller
 * graph for two of them.  Wrapping the layers needs one inference, verification none. */
static void test_prune_and_speedup_inference_count(void **state)
{
    struct pare_speedup_opts unverified = { .unverified = true };

    (void)state;
    assert_int_equal(count_prune("mode=normal", &unverified), 6);
    assert_int_equal(count_prune("mode=normal", NULL), 6);
    /* Dependency groups, the default, need the graph before masking, for three sizes as well. */
    assert_int_equal(count_prune(NULL, NULL), 9);
}

static int64_t count_quantize(const char *preset, const char *settings)
{
    struct pare_quantize_opts o = { .preset = preset, .settings = settings };
    struct pare_model *m, *out;
    int64_t before;

    OK(pare_model_new("lenet", gray, 10, 1, &m, &err));
    if (!strcmp(preset, "int8"))
        OK(pare_data_open("digits", "train", NULL, &o.tuning.data, &err));
    o.tuning.settings = o.tuning.data ? "threads=1" : NULL;
    before = pare_infer_count();
    OK(pare_quantize(m, &o, &out, NULL, &err));
    before = pare_infer_count() - before;
    pare_data_free(o.tuning.data);
    pare_model_free(out);
    pare_model_free(m);
    return before;
}

/* Preset int8 looks for normalizations of rows.  The rules of the preset and the wrapped layers
 * share a graph.  Calibration builds a plan of the model, the check afterward one of the float and
 * one of the quantized model, on items that calibration has seen and on others. */
static void test_quantize_inference_count(void **state)
{
    (void)state;
    assert_int_equal(count_quantize("int8-weights", NULL), 1);
    assert_int_equal(count_quantize("int8", "observer=minmax"), 7);
}

/* A plan clones a graph that has been inferred for its inputs, and infers for any others. */
static void test_plans_reuse_inferred_shapes(void **state)
{
    struct pare_tensor in = { PARE_F32, 4, { 1, 1, 8, 8 }, NULL };
    struct pare_plan_opts po = { .in = &in, .threads = 1 };
    struct pare_plan_build b = { .opts = &po };
    struct pare_plan *first, *second;
    struct pare_model *m;
    int64_t before;

    (void)state;
    OK(pare_model_new("lenet", gray, 10, 1, &m, &err));
    OK(pare_plan_build(m, &b, &first, &err));
    b.shaped = first->graph;
    before = pare_infer_count();
    OK(pare_plan_build(m, &b, &second, &err));
    assert_int_equal(pare_infer_count() - before, 0);
    pare_plan_free(second);
    in.dim[0] = 2;
    OK(pare_plan_build(m, &b, &second, &err));
    assert_int_equal(pare_infer_count() - before, 1);
    assert_int_equal(second->graph->out[0]->t.dim[0], 2);
    pare_plan_free(second);
    pare_plan_free(first);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prune_and_speedup_inference_count),
        cmocka_unit_test(test_quantize_inference_count),
        cmocka_unit_test(test_plans_reuse_inferred_shapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
