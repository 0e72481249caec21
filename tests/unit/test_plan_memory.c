/* test_plan_memory.c - plans when memory runs out, and what they keep asking for. */
#include "build.h"

#include <stdio.h>
#include <unistd.h>

#include "base/rng.h"
#include "plan/plan.h"
#include "tensor/compare.h"

static struct pare_rng rng;

static const char *weights(struct build *b, int rank, const int64_t *dim, float mid)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32(&t)[i] = mid + 0.4f * (float)(2 * pare_rng_uniform(&rng) - 1);
    return build_floats(b, rank, dim, pare_f32(&t));
}
#define W(b, mid, ...) weights(b, INTS(__VA_ARGS__), mid)

static const char *block(struct build *b, const char *x, int64_t in, int64_t out)
{
    const char *y = build_node(b, "Conv", NAMES(x, W(b, 0, out, in, 3, 3), W(b, 0, out)),
                               at_ints("pads", INTS(1, 1, 1, 1)));

    y = build_node(b, "BatchNormalization",
                   NAMES(y, W(b, 1, out), W(b, 0, out), W(b, 0, out), W(b, 1, out)), NOTHING);
    return build_node(b, "Relu", NAMES(y), NOTHING);
}

/* Something of each kind of kernel. */
static void small_cnn(struct build *b)
{
    const char *x, *y, *z, *s;

    pare_rng_init(&rng, 7);
    b->opset = 17;
    x = build_input(b, PARE_F32, INTS(2, 3, 8, 8));
    x = block(b, x, 3, 16);
    y = build_node(b, "Add", NAMES(block(b, x, 16, 16), x), NOTHING);
    z = build_node(b, "MaxPool", NAMES(y),
                   CAT(at_ints("kernel_shape", INTS(2, 2)), at_ints("strides", INTS(2, 2))));
    y = build_node(b, "Concat", NAMES(z, block(b, z, 16, 5)), at_int("axis", 1));
    s = build_node(b, "GlobalAveragePool", NAMES(y), NOTHING);
    y = build_node(b, "Mul", NAMES(y, build_node(b, "Sigmoid", NAMES(s), NOTHING)), NOTHING);
    y = build_node(b, "Transpose", NAMES(y), at_ints("perm", INTS(0, 2, 3, 1)));
    y = build_node(b, "LayerNormalization", NAMES(y, W(b, 1, 21), W(b, 0, 21)), NOTHING);
    y = build_node(b, "Flatten", NAMES(y), NOTHING);
    y = build_node(b, "Gemm", NAMES(y, W(b, 0, 336, 10), W(b, 0, 10)), NOTHING);
    build_output(b, build_node(b, "Softmax", NAMES(y), at_int("axis", 1)));
}

struct whole {
    struct bin bytes;
    char path[64];
    struct pare_tensor in, out, want;
};

/* Parse, save, load, compile, run. */
static int once(struct whole *w, struct pare_err *err)
{
    struct pare_model *m = NULL, *again = NULL;
    struct pare_plan *p = NULL;
    struct pare_tensor out;
    int rc = pare_model_parse(w->bytes.p, w->bytes.n, NULL, &m, err);

    if (!rc)
        rc = pare_model_save(m, w->path, NULL, err);
    if (!rc)
        rc = pare_model_load(w->path, &again, err);
    if (!rc)
        rc = pare_plan_new(again, &(struct pare_plan_opts){ .threads = 1 }, &p, err);
    if (!rc)
        rc = pare_plan_run(p, &w->in, &out, err);
    if (!rc && w->out.data)
        memcpy(w->out.data, out.data, (size_t)pare_numel(&out) * sizeof(float));
    else if (!rc)
        w->out = build_copy(&out);
    pare_plan_free(p);
    pare_model_free(again);
    pare_model_free(m);
    return rc;
}

static void begin(struct whole *w)
{
    struct build *b = pare_alloc(pool, 1, sizeof(*b));
    struct pare_err err;
    int fd;

    small_cnn(b);
    memset(w, 0, sizeof(*w));
    w->bytes = build_bytes(b);
    snprintf(w->path, sizeof(w->path), "/tmp/pare_oom_XXXXXX");
    fd = mkstemp(w->path);
    assert_true(fd >= 0);
    close(fd);
    w->in = build_tensor(PARE_F32, INTS(2, 3, 8, 8));
    for (int64_t i = 0; i < pare_numel(&w->in); i++)
        pare_f32(&w->in)[i] = (float)pare_rng_normal(&rng);
    if (once(w, &err))
        fail_msg("%s", err.msg);
    w->want = build_copy(&w->out);
}

/* The n-th allocation fails, for every n in turn: an error that says so, or all is well without
 * (what is only kept for later may be missing). */
static void fails_everywhere(int sign, int step, int fewest)
{
    struct whole w;
    struct pare_err err;
    int failures = 0, n;
    bool reached = true;

    begin(&w);
    for (n = 1; reached; n += step) {
        int rc;

        err = (struct pare_err){ 0 };
        pare_oom_countdown = sign * n;
        rc = once(&w, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        failures += rc != 0;
        if (rc && (rc != PARE_ENOMEM || err.code != rc || !strstr(err.msg, "memory")))
            fail_msg("allocation %d: code %d, '%s'", n, rc, err.msg);
        if (!rc && pare_tensor_compare(&w.out, &w.want, (struct pare_tolerance){ 0, 1e-6 }, &err))
            fail_msg("allocation %d fails and the result is another: %s", n, err.msg);
        if (!rc && reached)
            print_message("allocation %d of %s may fail\n", n, sign > 0 ? "a block" : "any size");
    }
    print_message("%d of %d fail\n", failures, n / step);
    assert_true(failures >= fewest);
    unlink(w.path);
}

static void blocks_run_out(void **state)
{
    (void)state;
    fails_everywhere(1, 1, 8);
}

static void requests_run_out(void **state)
{
    const char *step = getenv("PARE_OOM_STEP");

    (void)state;
    fails_everywhere(-1, step ? atoi(step) : 7, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_run_out, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(requests_run_out, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
