/* test_faults.c - out of memory: each allocation of typical work fails once.
 *
 * Allocations are counted first; then the work is repeated, and each time another one fails: blocks
 * of the system's allocator, and requests to arenas.  The work must return PARE_ENOMEM with a
 * message and leave no incomplete file; the address sanitizer finds leaks.  PARE_FAULTS=all tests
 * every allocation, otherwise about TRIES per kind of work.
 */
#include "make_model.h"

#include <pare/compress.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/file.h"
#include "io/npz.h"
#include "onnx/model.h"

enum { TRIES = 150, MANY = 1 << 30 };

static char folder[] = "/tmp/pare-faults-XXXXXX";
static char model_path[64], pruned_path[64], masks_path[64], out_path[64], more_path[64];
static const int64_t chw[] = { 1, 8, 8 };

static const struct pare_save_opts external_opts = { .external = true, .external_above = 64 };

/* ---- work ----------------------------------------------------------------------------------- */

static int load_and_save(struct pare_err *err)
{
    struct pare_model *m = NULL;
    int rc = pare_model_load(model_path, &m, err);

    if (!rc)
        rc = pare_model_save(m, out_path, NULL, err);
    pare_model_free(m);
    return rc;
}

static int save_external(struct pare_err *err)
{
    struct pare_model *m = NULL;
    int rc = pare_model_load(model_path, &m, err);

    if (!rc)
        rc = pare_model_save(m, out_path, &external_opts, err);
    pare_model_free(m);
    return rc;
}

static int make_network(struct pare_err *err)
{
    struct pare_model *m = NULL;
    int rc = pare_model_new("lenet", chw, 10, 1, &m, err);

    pare_model_free(m);
    return rc;
}

static int plan_and_run(struct pare_err *err)
{
    static float x[64];
    struct pare_tensor in = { PARE_F32, 4, { 1, 1, 8, 8 }, x }, out;
    struct pare_model *m = NULL;
    struct pare_plan *p = NULL;
    int rc = pare_model_load(model_path, &m, err);

    if (!rc)
        rc = pare_plan_make(m, &(struct pare_plan_opts){ .threads = 1 }, &p, err);
    if (!rc)
        rc = pare_plan_execute(p, &in, &out, err);
    pare_plan_free(p);
    pare_model_free(m);
    return rc;
}

static int train_step(struct pare_err *err)
{
    struct pare_model *m = NULL;
    struct pare_training *l = NULL;
    int rc = pare_model_load(model_path, &m, err);

    if (!rc)
        rc = pare_training_open(m, "digits", "limit=32 batch=16 epochs=1 threads=1 optimizer=adam",
                                &l, err);
    if (!rc)
        rc = pare_training_run(l, NULL, NULL, err);
    if (!rc)
        rc = pare_model_save(m, out_path, NULL, err);
    pare_training_free(l);
    pare_model_free(m);
    return rc;
}

/* A complete pruning or quantization; `learn` NULL: without data. */
static int run_compression(const struct pare_compression_opts *o, const char *learn,
                           struct pare_err *err)
{
    struct pare_export e = { .onnx = out_path, .masks = o->pruner ? more_path : NULL };
    struct pare_model *m = NULL;
    struct pare_training *l = NULL;
    struct pare_compression *r = NULL;
    int rc = pare_model_load(model_path, &m, err);

    if (!rc && learn)
        rc = pare_training_open(m, "digits", learn, &l, err);
    if (!rc)
        rc = pare_compression_new(m, o, &r, err);
    if (!rc && l)
        rc = pare_compression_follow(r, l, err);
    if (!rc)
        rc = pare_compression_compress(r, err);
    if (!rc && l)
        rc = pare_training_run(l, NULL, NULL, err);
    if (!rc)
        rc = pare_compression_export(r, &e, err);
    pare_training_free(l);
    pare_compression_free(r);
    pare_model_free(m);
    return rc;
}

#define LEARN "limit=32 batch=16 epochs=1 threads=1"

static int prune_level(struct pare_err *err)
{
    return run_compression(
        &(struct pare_compression_opts){ .pruner = "level",
                                         .config = "[{\"op_types\": [\"default\"], "
                                                   "\"sparsity\": 0.5}]",
                                         .threads = 1 },
        NULL, err);
}

static int prune_taylor(struct pare_err *err)
{
    return run_compression(
        &(struct pare_compression_opts){ .pruner = "taylor",
                                         .config = "[{\"op_types\": [\"Conv2d\"], "
                                                   "\"sparsity\": 0.5}]",
                                         .settings = "training_steps=1",
                                         .threads = 1 },
        LEARN, err);
}

static int quantize_ptq(struct pare_err *err)
{
    return run_compression(
        &(struct pare_compression_opts){ .quantizer = "ptq",
                                         .config = "[{\"op_types\": [\"default\"], "
                                                   "\"quant_types\": [\"weight\", \"input\"], "
                                                   "\"quant_bits\": 8}]",
                                         .threads = 1 },
        LEARN, err);
}

static int quantize_qat(struct pare_err *err)
{
    return run_compression(
        &(struct pare_compression_opts){ .quantizer = "qat",
                                         .config = "[{\"op_types\": [\"default\"], "
                                                   "\"quant_types\": [\"weight\", \"output\"], "
                                                   "\"quant_bits\": 8}]",
                                         .threads = 1 },
        LEARN, err);
}

static int apply_masks(struct pare_err *err)
{
    struct pare_model *m = NULL;
    int rc = pare_model_load(model_path, &m, err);

    if (!rc)
        rc = pare_apply_masks(m, masks_path, err);
    if (!rc)
        rc = pare_model_save(m, out_path, NULL, err);
    pare_model_free(m);
    return rc;
}

static int speedup(struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_speedup_opts o = { .threads = 1 };
    struct pare_model *m = NULL, *smaller = NULL;
    struct pare_speedup_report report;
    int rc = a ? 0 : pare_fail(err, PARE_ENOMEM, "no memory");

    if (!rc)
        rc = pare_model_load(pruned_path, &m, err);
    if (!rc)
        rc = pare_speedup(m, &o, a, &smaller, &report, err);
    if (!rc)
        rc = pare_model_save(smaller, out_path, NULL, err);
    pare_model_free(smaller);
    pare_model_free(m);
    pare_arena_free(a);
    return rc;
}

/* ---- failing allocations ------------------------------------------------------------ */

/* The name or error of an incomplete file in the folder; NULL: none. */
static const char *incomplete_file(void)
{
    static char name[512];
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_model *m = NULL;
    struct pare_named *list;
    struct pare_err err;
    struct dirent *e;
    DIR *d = opendir(folder);
    int n;

    name[0] = '\0';
    while ((e = readdir(d)))
        if (strstr(e->d_name, ".tmp"))
            snprintf(name, sizeof(name), "%s", e->d_name);
    closedir(d);
    if (!access(out_path, F_OK) && pare_model_load(out_path, &m, &err))
        snprintf(name, sizeof(name), "%s", err.msg);
    if (!access(more_path, F_OK) && pare_npz_read(a, more_path, &list, &n, &err))
        snprintf(name, sizeof(name), "%s", err.msg);
    pare_model_free(m);
    pare_arena_free(a);
    return name[0] ? name : NULL;
}

/* Is the written model identical to `want`? */
static bool same_output(const struct pare_bytes *want)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_bytes b = { NULL, 0 };
    struct pare_err err;
    bool yes;

    yes = !want->data || (!pare_file_read(a, out_path, &b.data, &b.len, &err) &&
                          b.len == want->len && !memcmp(b.data, want->data, b.len));
    pare_arena_free(a);
    return yes;
}

static void remove_outputs(void)
{
    char data[80];

    unlink(out_path);
    unlink(more_path);
    snprintf(data, sizeof(data), "%s.data", out_path);
    unlink(data);
}

static struct {
    int failed, harmless;
} totals;

/* Fails each allocation once.  sign -1: arena requests; 1: blocks. */
static void fail_each_allocation(const char *name, int (*work)(struct pare_err *err), int sign)
{
    const char *all = getenv("PARE_FAULTS");
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_bytes want = { NULL, 0 };
    struct pare_err err = { 0 };
    int n, step = 1, failed = 0, harmless = 0;

    pare_oom_countdown = sign * MANY;
    if (work(&err))
        fail_msg("%s: %s", name, err.msg);
    n = MANY - sign * pare_oom_countdown;
    assert_true(n > 0);
    pare_oom_countdown = 0;
    if (!access(out_path, F_OK))
        assert_int_equal(pare_file_read(a, out_path, &want.data, &want.len, &err), 0);
    remove_outputs();
    if (!all || strcmp(all, "all") != 0)
        step = (n + TRIES - 1) / TRIES;
    for (int i = 1; i <= n; i += step) {
        bool reached;
        int rc;

        err = (struct pare_err){ 0 };
        pare_oom_countdown = sign * i;
        rc = work(&err);
        reached = !pare_oom_countdown;
        pare_oom_countdown = 0;
        if (!reached)
            continue;
        failed += rc != 0;
        harmless += !rc;
        if (rc && (rc != PARE_ENOMEM || err.code != rc || !strstr(err.msg, "memory")))
            fail_msg("%s, request %d of %d: code %d, '%s'", name, i, n, rc, err.msg);
        if (incomplete_file())
            fail_msg("%s, request %d of %d leaves an incomplete file: %s", name, i, n,
                     incomplete_file());
        if (!rc && !same_output(&want))
            fail_msg("%s, request %d of %d fails and the result differs", name, i, n);
        remove_outputs();
    }
    totals.failed += failed;
    totals.harmless += harmless;
    print_message("%-14s %-8s %5d: %d errors, %d without effect\n", name,
                  sign < 0 ? "requests" : "blocks", n, failed, harmless);
    assert_true(failed > 0);
    pare_arena_free(a);
}

#define WORK(name)                                  \
    static void test_faults_of_##name(void **state) \
    {                                               \
        (void)state;                                \
        fail_each_allocation(#name, name, -1);      \
        fail_each_allocation(#name, name, 1);       \
    }
WORK(load_and_save)
WORK(save_external)
WORK(make_network)
WORK(plan_and_run)
WORK(train_step)
WORK(prune_level)
WORK(prune_taylor)
WORK(quantize_ptq)
WORK(quantize_qat)
WORK(apply_masks)
WORK(speedup)

static int setup(void **state)
{
    struct pare_compression_opts o = {
        .pruner = "l1",
        .config = "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5}]",
        .threads = 1
    };
    struct pare_export e = { .onnx = pruned_path, .masks = masks_path };
    struct pare_model *m = NULL;
    struct pare_compression *r = NULL;
    struct pare_err err;

    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(model_path, sizeof(model_path), "%s/in.onnx", folder);
    snprintf(pruned_path, sizeof(pruned_path), "%s/in_pruned.onnx", folder);
    snprintf(masks_path, sizeof(masks_path), "%s/in_masks.pth", folder);
    snprintf(out_path, sizeof(out_path), "%s/out.onnx", folder);
    snprintf(more_path, sizeof(more_path), "%s/out.npz", folder);
    if (pare_model_new("lenet", chw, 10, 1, &m, &err) ||
        pare_model_save(m, model_path, NULL, &err) || pare_compression_new(m, &o, &r, &err) ||
        pare_compression_compress(r, &err) || pare_compression_export(r, &e, &err))
        fail_msg("%s", err.msg);
    pare_compression_free(r);
    pare_model_free(m);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    print_message("%d failed allocations gave an error, %d had no effect\n", totals.failed,
                  totals.harmless);
    unlink(model_path);
    unlink(pruned_path);
    unlink(masks_path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_of_load_and_save),
        cmocka_unit_test(test_faults_of_save_external),
        cmocka_unit_test(test_faults_of_make_network),
        cmocka_unit_test(test_faults_of_plan_and_run),
        cmocka_unit_test(test_faults_of_train_step),
        cmocka_unit_test(test_faults_of_prune_level),
        cmocka_unit_test(test_faults_of_prune_taylor),
        cmocka_unit_test(test_faults_of_quantize_ptq),
        cmocka_unit_test(test_faults_of_quantize_qat),
        cmocka_unit_test(test_faults_of_apply_masks),
        cmocka_unit_test(test_faults_of_speedup),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
