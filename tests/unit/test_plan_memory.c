/* test_plan_memory.c - plans when allocations fail, and in other float types. */
#include "small_cnn.h"

#include <stdio.h>
#include <unistd.h>

#include "plan/plan.h"
#include "tensor/compare.h"

struct round_trip {
    struct bin bytes;
    char path[64];
    struct pare_tensor in, out, want;
};

/* Parse, save, load, compile, run. */
static int run_round_trip(struct round_trip *w, struct pare_err *err)
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
        rc = pare_plan_make(again, &(struct pare_plan_opts){ .threads = 1 }, &p, err);
    if (!rc)
        rc = pare_plan_execute(p, &w->in, &out, err);
    if (!rc && w->out.data)
        memcpy(w->out.data, out.data, (size_t)pare_numel(&out) * sizeof(float));
    else if (!rc)
        w->out = build_copy(&out);
    pare_plan_free(p);
    pare_model_free(again);
    pare_model_free(m);
    return rc;
}

static void begin_round_trip(struct round_trip *w)
{
    struct small_cnn *c = pare_alloc(pool, 1, sizeof(*c));
    struct pare_err err;
    int fd;

    small_cnn(c, PARE_F32, PARE_F32);
    memset(w, 0, sizeof(*w));
    w->bytes = build_bytes(&c->b);
    snprintf(w->path, sizeof(w->path), "/tmp/pare_oom_XXXXXX");
    fd = mkstemp(w->path);
    assert_true(fd >= 0);
    close(fd);
    w->in = small_input(c);
    if (run_round_trip(w, &err))
        fail_msg("%s", err.msg);
    w->want = build_copy(&w->out);
}

/* Fails the n-th allocation, for every n: expects an out-of-memory error, or the same result
 * without that memory (caches may be missing). */
static void fail_each_allocation(int sign, int fewest)
{
    struct round_trip w;
    struct pare_err err;
    int failures = 0, n;
    bool reached = true;

    begin_round_trip(&w);
    for (n = 1; reached; n++) {
        int rc;

        err = (struct pare_err){ 0 };
        pare_oom_countdown = sign * n;
        rc = run_round_trip(&w, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        failures += rc != 0;
        if (rc && (rc != PARE_ENOMEM || err.code != rc || !strstr(err.msg, "memory")))
            fail_msg("allocation %d: code %d, '%s'", n, rc, err.msg);
        if (!rc && pare_tensor_compare(&w.out, &w.want, (struct pare_tolerance){ 0, 1e-6 }, &err))
            fail_msg("allocation %d fails and the result differs: %s", n, err.msg);
        if (!rc && reached)
            print_message("allocation %d of %s can fail without an error\n", n,
                          sign > 0 ? "a block" : "any size");
    }
    print_message("%d of %d allocations give an error\n", failures, n - 1);
    assert_true(failures >= fewest);
    unlink(w.path);
}

static void test_failing_blocks(void **state)
{
    (void)state;
    fail_each_allocation(1, 8);
}

static void test_failing_arena_requests(void **state)
{
    (void)state;
    fail_each_allocation(-1, 500);
}

/* ---- float types -------------------------------------------------------------------------- */

static struct pare_tensor run_model(int dtype, int through, bool reference)
{
    struct small_cnn *c = pare_alloc(pool, 1, sizeof(*c));
    struct pare_plan_opts o = { .threads = 1, .reference = reference };
    struct pare_model *m;
    struct pare_tensor in, out;
    struct pare_plan *p;
    struct pare_err err;

    small_cnn(c, dtype, through);
    in = small_input(c);
    m = build_model(&c->b);
    if (pare_plan_make(m, &o, &p, &err) || pare_plan_execute(p, &in, &out, &err))
        fail_msg("%s", err.msg);
    pare_oom_countdown = 1 << 30;
    assert_int_equal(pare_plan_execute(p, &in, &out, &err), 0);
    assert_int_equal(pare_oom_countdown, 1 << 30); /* it allocates nothing */
    pare_oom_countdown = 0;
    assert_int_equal(out.dtype, dtype);
    out = build_copy(&out);
    small_convert(&out, PARE_F32);
    pare_plan_free(p);
    pare_model_free(m);
    return out;
}

/* The same network in another float type differs from float32 by that type's precision. */
static void test_other_float_types(void **state)
{
    static const struct {
        int dtype;
        double rtol;
    } types[] = { { PARE_F16, 0.01 }, { PARE_BF16, 0.08 }, { PARE_F64, 1e-4 } };
    struct pare_err err;

    (void)state;
    for (int i = 0; i < 3; i++) {
        int through = types[i].dtype == PARE_F64 ? PARE_F32 : types[i].dtype;
        struct pare_tensor want = run_model(PARE_F32, through, false);

        for (int reference = 0; reference < 2; reference++) {
            struct pare_tensor got = run_model(types[i].dtype, through, reference);

            if (pare_tensor_compare(&got, &want,
                                    (struct pare_tolerance){ types[i].rtol, types[i].rtol / 10 },
                                    &err))
                fail_msg("%s: %s", pare_dtype_name((enum pare_dtype)types[i].dtype), err.msg);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_failing_blocks, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_failing_arena_requests, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_other_float_types, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
