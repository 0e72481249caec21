/* test_opset_upgrade.c - opset upgrades of every changed operator keep the results. */
#include <stdio.h>
#include <unistd.h>

#include "make_model.h"

#include "base/limits.h"
#include "onnx/edit.h"
#include "tensor/compare.h"

#define PACK "models/opsets.pack" /* written by tools/make_opset_models.py */

static struct pare_err e;

static void ok(int rc, const char *what)
{
    if (rc)
        fail_msg("%s: %s", what, e.msg);
}

/* ---- the models ------------------------------------------------------------------------------ */

struct old_model {
    char name[80];
    struct bin bytes;
    int opset;
};

static bool read_part(FILE *f, struct bin *to)
{
    unsigned char n[4];

    if (fread(n, 1, 4, f) != 4)
        return false;
    to->n = n[0] | (size_t)n[1] << 8 | (size_t)n[2] << 16 | (size_t)n[3] << 24;
    assert_true(to->n < 1 << 20);
    to->p = pare_alloc(pool, to->n + 1, 1);
    return fread(to->p, 1, to->n, f) == to->n;
}

static bool read_model(FILE *f, struct old_model *m)
{
    struct bin name;

    if (!read_part(f, &name) || !read_part(f, &m->bytes))
        return false;
    assert_true(name.n < sizeof(m->name));
    memcpy(m->name, name.p, name.n + 1);
    m->opset = (int)strtol(strrchr(m->name, '-') + 1, NULL, 10);
    return true;
}

/* A random input; free dimensions get different sizes. */
static struct pare_tensor random_input(const struct pare_model *m)
{
    const struct pare_io *io;
    struct pare_tensor x;
    int64_t dim[PARE_MAX_RANK];

    assert_int_equal(pare_model_inputs(m, &io), 1);
    for (int i = 0; i < io->rank; i++)
        dim[i] = io->dim[i] < 0 ? 2 + i : io->dim[i];
    x = build_tensor(PARE_F32, io->rank, dim);
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)(i * 37 % 101) / 50 - 1;
    return x;
}

/* Runs the model; false: an operator is not known. */
static bool run_model(const struct pare_model *m, const struct pare_tensor *x,
                      struct pare_tensor *y, const char *what)
{
    struct pare_plan_opts o = { .in = x, .threads = 1 };
    struct pare_plan *p;
    struct pare_tensor out;
    int rc = pare_plan_make(m, &o, &p, &e);

    if (rc == PARE_EUNSUPPORTED && strstr(e.msg, "is not known"))
        return false;
    ok(rc, what);
    rc = pare_plan_execute(p, x, &out, &e);
    if (rc == PARE_EUNSUPPORTED && strstr(e.msg, "is not known")) {
        pare_plan_free(p);
        return false;
    }
    ok(rc, what);
    *y = build_copy(&out);
    pare_plan_free(p);
    return true;
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static void check_upgrade(const struct old_model *old, const struct pare_model *m, int to,
                          const struct pare_tensor *x, const struct pare_tensor *want)
{
    const struct pare_tolerance close = { 2e-6, 2e-6 };
    struct pare_model *upgraded;
    struct pare_tensor y;
    char what[128], path[64];

    snprintf(what, sizeof(what), "%s to %d", old->name, to);
    ok(pare_model_raise_opset(m, to, &upgraded, &e), what);
    if (to == PARE_OPSET_NEWEST) { /* also saved and loaded */
        snprintf(path, sizeof(path), "opset-%ld.onnx", (long)getpid());
        ok(pare_model_save(upgraded, path, NULL, &e), what);
        pare_model_free(upgraded);
        ok(pare_model_load(path, &upgraded, &e), what);
        unlink(path);
    }
    assert_true(run_model(upgraded, x, &y, what));
    ok(pare_tensor_compare(&y, want, close, &e), what);
    pare_model_free(upgraded);
}

static void expect_refused(const struct pare_model *m, int to, const char *why)
{
    struct pare_model *upgraded;

    assert_int_equal(pare_model_raise_opset(m, to, &upgraded, &e), PARE_EUNSUPPORTED);
    assert_null(upgraded);
    if (!strstr(e.msg, why))
        fail_msg("expected '%s' in: %s", why, e.msg);
}

static void test_upgrades_keep_results(void **state)
{
    FILE *f = fopen(PACK, "rb");
    struct old_model old;
    int run_count = 0, skipped = 0;

    (void)state;
    assert_non_null(f);
    while (read_model(f, &old)) {
        struct pare_mark mark = pare_mark(pool);
        struct pare_model *m;
        struct pare_tensor x, y;

        ok(pare_model_parse(old.bytes.p, old.bytes.n, NULL, &m, &e), old.name);
        x = random_input(m);
        if (!run_model(m, &x, &y, old.name)) {
            printf("skipped %s: %s\n", old.name, e.msg);
            skipped++;
        } else {
            run_count++;
            for (int to = old.opset + 1; to <= PARE_OPSET_NEWEST; to++)
                if (strncmp(old.name, "if_unknown", 10) || to >= 15)
                    check_upgrade(&old, m, to, &x, &y);
                else
                    expect_refused(m, to, "element type that is not declared");
        }
        pare_model_free(m);
        pare_reset(pool, mark);
    }
    fclose(f);
    assert_true(run_count >= 260);
    assert_int_equal(skipped, 0);
}

/* The model of this name and opset. */
static struct pare_model *load_packed_model(const char *name)
{
    FILE *f = fopen(PACK, "rb");
    struct pare_model *m = NULL;
    struct old_model old;

    assert_non_null(f);
    while (!m && read_model(f, &old))
        if (!strcmp(old.name, name))
            ok(pare_model_parse(old.bytes.p, old.bytes.n, NULL, &m, &e), name);
    fclose(f);
    assert_non_null(m);
    return m;
}

static void test_initializers_are_not_inputs_since_ir_4(void **state)
{
    struct pare_model *m = load_packed_model("ir3-8"), *upgraded;
    const struct pare_io *io;
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "opset-%ld.onnx", (long)getpid());
    ok(pare_model_raise_opset(m, 13, &upgraded, &e), "ir3");
    ok(pare_model_save(upgraded, path, NULL, &e), "ir3");
    pare_model_free(upgraded);
    ok(pare_model_load(path, &upgraded, &e), "ir3");
    unlink(path);
    assert_int_equal(pare_model_inputs(upgraded, &io), 1);
    pare_model_free(upgraded);
    pare_model_free(m);
}

static void test_removed_features_are_refused(void **state)
{
    const int64_t dim[4] = { 1, 1, 4, 4 };
    const float scale[4] = { 1, 1, 2, 2 };
    struct build b = { .opset = 11 }, s = { .opset = 8 }, body = { .prefix = "b" };
    struct pare_model *m;
    const char *x;

    (void)state;
    x = build_input(&b, PARE_F32, 4, dim);
    x = build_node(&b, "Resize", NAMES(x, "", build_floats(&b, 1, dim + 2, scale)),
                   CAT(at_text("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
                       at_text("nearest_mode", "ceil")));
    build_output(&b, x);
    m = build_model(&b);
    expect_refused(m, 13, "has the mode tf_half_pixel_for_nn");
    expect_refused(m, PARE_OPSET_NEWEST + 1, "cannot be raised to 27; opsets 7 to 26 are handled");
    expect_refused(m, 10, "which cannot be lowered to 10");
    pare_model_free(m);

    x = build_input(&s, PARE_F32, 4, dim);
    build_output(&body, build_input(&body, PARE_F32, 3, dim));
    build_output(&s, build_node(&s, "Scan", NAMES(build_ints(&s, 1, dim), x),
                                CAT(at_graph("body", &body), at_int("num_scan_inputs", 1))));
    m = build_model(&s);
    expect_refused(m, 9, "has sequence lengths");
    pare_model_free(m);
}

/* Each allocation fails once: an out-of-memory error, and no leak. */
static void test_out_of_memory(void **state)
{
    static const char *const name[] = { "if-9",
                                        "function-10",
                                        "scan_direction1-8",
                                        "softmax_0-7",
                                        "batch_norm_training_pare-9",
                                        "resize_nearest_mixed-10" };

    (void)state;
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        struct pare_model *m = load_packed_model(name[i]), *upgraded;
        int failures = 0;

        for (int n = 1;; n++) {
            bool reached;
            int rc;

            pare_oom_countdown = -n;
            rc = pare_model_raise_opset(m, PARE_OPSET_NEWEST, &upgraded, &e);
            reached = pare_oom_countdown == 0;
            pare_oom_countdown = 0;
            pare_model_free(upgraded);
            failures += rc != 0;
            if (rc && (rc != PARE_ENOMEM || !strstr(e.msg, "memory")))
                fail_msg("%s, allocation %d: code %d, '%s'", name[i], n, rc, e.msg);
            if (!reached)
                break;
        }
        assert_true(failures > 20);
        pare_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upgrades_keep_results),
        cmocka_unit_test(test_initializers_are_not_inputs_since_ir_4),
        cmocka_unit_test(test_removed_features_are_refused),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}
