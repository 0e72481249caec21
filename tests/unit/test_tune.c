/* test_tune.c - tuned plans: correct results, tuning caches and lists of choices. */
#include "make_model.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "plan/tune/kernels_hash.h"
#include "plan/tune/tune_cache.h"
#include "plan/tune/tune_measure.h"
#include "plan/tune/tune.h"
#include "tensor/compare.h"

/* A plan's result, its tuning statistics and kernels. */
struct result {
    struct pare_tensor y;
    struct pare_tuned tuned;
    const char *kernel[16]; /* of the convolutions */
    int n;
};

static struct {
    struct pare_model *model;
    struct pare_tensor x, want;
    char dir[64];
} net;

/* ---- the network ------------------------------------------------------------------------ */

static const char *random_weights(struct build *b, struct pare_rng *r, float scale, int rank,
                                  const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = scale * (float)(2 * pare_rng_uniform(r) - 1);
    return build_floats(b, rank, dim, t.data);
}

static const char *add_conv(struct build *b, struct pare_rng *r, const char *x, int64_t in,
                            int64_t out)
{
    const char *w = random_weights(b, r, 0.2f, INTS(out, in, 3, 3)),
               *bias = random_weights(b, r, 1, INTS(out));

    return build_node(b, "Conv", NAMES(x, w, bias), at_ints("pads", INTS(1, 1, 1, 1)));
}

/* Five 3x3 convolutions.  The input of the first has another layout than that of the second and the
 * third, which have the same key; then an odd number of channels, and a residual sum. */
enum { CONVS = 5, KINDS = 4 };

static void make_network(void)
{
    struct build *b = pare_alloc(pool, 1, sizeof(*b));
    struct pare_plan_opts o = { .reference = true };
    struct pare_plan *p;
    struct pare_tensor out;
    struct pare_rng r;
    struct pare_err err;
    const char *x, *y, *z;

    pare_rng_init(&r, 3);
    b->opset = 17;
    x = build_input(b, PARE_F32, INTS(2, 16, 12, 12));
    y = build_node(b, "Relu", NAMES(x), NOTHING);
    for (int i = 0; i < 3; i++)
        y = build_node(b, "Relu", NAMES(add_conv(b, &r, y, 16, 16)), NOTHING);
    z = build_node(b, "Relu", NAMES(add_conv(b, &r, y, 16, 21)), NOTHING);
    y = add_conv(b, &r, z, 21, 21);
    y = build_node(b, "Relu", NAMES(build_node(b, "Add", NAMES(y, z), NOTHING)), NOTHING);
    build_output(b, y);
    net.model = build_model(b);
    net.x = build_tensor(PARE_F32, INTS(2, 16, 12, 12));
    for (int64_t i = 0; i < pare_numel(&net.x); i++)
        pare_f32_mut(&net.x)[i] = (float)(2 * pare_rng_uniform(&r) - 1);
    assert_int_equal(pare_plan_make(net.model, &o, &p, &err), 0);
    assert_int_equal(pare_plan_execute(p, &net.x, &out, &err), 0);
    net.want = build_copy(&out);
    pare_plan_free(p);
}

static int make_and_run(const struct pare_plan_opts *o, struct result *r, struct pare_err *err)
{
    struct pare_plan *p;
    struct pare_plan_stat *stat;
    struct pare_tensor out;

    memset(r, 0, sizeof(*r));
    PARE_TRY(pare_plan_make(net.model, o, &p, err));
    assert_null(p->tuner);
    if (pare_plan_execute(p, &net.x, &out, err))
        fail_msg("%s", err->msg);
    r->y = build_copy(&out);
    r->tuned = p->tuned;
    for (int i = 0, n = pare_plan_stats(p, pool, &stat); i < n; i++)
        if (!strcmp(stat[i].type, "Conv")) {
            assert_true(r->n < 16);
            r->kernel[r->n++] = stat[i].kernel;
        }
    pare_plan_free(p);
    return 0;
}

/* Makes a plan and runs it; expects the result of the reference kernels. */
static struct result expect_plan(const struct pare_plan_opts *o)
{
    struct result r;
    struct pare_err err;

    if (make_and_run(o, &r, &err) ||
        pare_tensor_compare(&r.y, &net.want, (struct pare_tolerance){ 1e-4, 1e-4 }, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(r.n, CONVS);
    return r;
}

static void expect_refused(const struct pare_plan_opts *o, const char *why)
{
    struct result r;
    struct pare_err err;

    assert_int_not_equal(make_and_run(o, &r, &err), 0);
    if (!strstr(err.msg, why))
        fail_msg("expected '%s' in: %s", why, err.msg);
}

/* ---- files -------------------------------------------------------------------------------- */

static const char *path_in_folder(const char *name)
{
    return pare_sprintf(pool, "%s/%s", net.dir, name);
}

static void write_file(const char *file, const char *text)
{
    FILE *f = fopen(file, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static char *read_file(const char *file)
{
    FILE *f = fopen(file, "r");
    char *text = pare_alloc(pool, 1 << 16, 1);

    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    return text;
}

static bool same_bytes(const struct pare_tensor *a, const struct pare_tensor *b)
{
    return !memcmp(a->data, b->data, (size_t)pare_numel(a) * sizeof(float));
}

/* Writes a list of choices of the network on one thread, with this kernel for every step. */
static struct pare_tune_cache write_list(const char *file, const char *kernel)
{
    struct pare_tune_cache c = { .arena = pool };
    struct pare_err err;

    unlink(file);
    expect_plan(&(struct pare_plan_opts){ .threads = 1, .tune = true, .choices = file });
    assert_int_equal(pare_tune_cache_read(&c, file, true, &err), 0);
    for (int i = 0; i < c.n; i++)
        c.item[i]->kernel = kernel;
    unlink(file);
    assert_int_equal(pare_tune_cache_save(&c, file, true, &err), 0);
    return c;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_tuned_plans_are_correct(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        struct result r = expect_plan(&(struct pare_plan_opts){ .threads = threads, .tune = true });

        assert_int_equal(r.tuned.layers, CONVS);
        assert_int_equal(r.tuned.measured, KINDS); /* two have the same key */
        assert_int_equal(r.tuned.cached, 1);
        /* at most 13 runs of each candidate, and reorders */
        assert_in_range(r.tuned.runs, KINDS * 2 * 2, KINDS * (PARE_TUNE_CANDIDATES * 13 + 12));
        assert_true(r.tuned.seconds > 0);
    }
}

static void test_tuning_is_off_by_default(void **state)
{
    struct result r;

    (void)state;
    r = expect_plan(&(struct pare_plan_opts){ .threads = 1 });
    assert_int_equal(r.tuned.layers, 0);
    assert_int_equal(r.tuned.runs, 0);
    r = expect_plan(&(struct pare_plan_opts){ .threads = 1, .cache = path_in_folder("unused") });
    assert_int_equal(r.tuned.runs, 0);
    assert_int_not_equal(access(path_in_folder("unused"), F_OK), 0);
}

static void test_excluded_kernels_are_not_measured(void **state)
{
    static const char *const without[] = { "conv_winograd", "conv_taps", NULL };
    struct pare_plan_opts o = { .threads = 1, .tune = true };
    struct pare_plan *p;
    struct pare_err err;

    (void)state;
    assert_int_equal(pare_plan_build(net.model,
                                     &(struct pare_plan_build){ .opts = &o, .without = without },
                                     &p, &err),
                     0);
    assert_int_equal(p->tuned.changed, 0);
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; without[k]; k++)
            assert_string_not_equal(p->step[i]->kernel->name, without[k]);
    pare_plan_free(p);
}

static void test_list_of_choices_is_followed(void **state)
{
    static const char *const kernels[] = { "conv_onednn", "conv_winograd" };
    const char *file = path_in_folder("list.txt");
    struct pare_plan_opts o = { .threads = 1, .choices = file };
    struct result r[2];

    (void)state;
    if (!pare_has_onednn)
        skip(); /* in that build no other kernel has the layouts of conv_winograd */
    for (int k = 0; k < 2; k++) {
        struct result again;

        write_list(file, kernels[k]);
        r[k] = expect_plan(&o);
        assert_int_equal(r[k].tuned.listed, CONVS);
        assert_int_equal(r[k].tuned.runs, 0);
        for (int i = 0; i < CONVS; i++)
            assert_string_equal(r[k].kernel[i], kernels[k]);
        o.tune = true; /* nothing remains to be measured */
        again = expect_plan(&o);
        o.tune = false;
        assert_int_equal(again.tuned.runs, 0);
        assert_true(same_bytes(&again.y, &r[k].y));
    }
    assert_false(same_bytes(&r[0].y, &r[1].y)); /* otherwise this test would prove nothing */
}

/* Different kernels for different layers; layers that are not listed follow the rules. */
static void test_list_of_some_choices(void **state)
{
    const char *file = path_in_folder("some.txt");
    struct pare_plan_opts o = { .threads = 1, .choices = file };
    struct result rules = expect_plan(&(struct pare_plan_opts){ .threads = 1 }), r;
    struct pare_tune_cache c;
    struct pare_err err;

    (void)state;
    if (!pare_has_onednn)
        skip(); /* as above */
    c = write_list(file, "conv_onednn");
    assert_int_equal(c.n, KINDS);
    c.item[2]->kernel = "conv_winograd";
    unlink(file);
    assert_int_equal(pare_tune_cache_save(&c, file, true, &err), 0);
    r = expect_plan(&o);
    assert_string_equal(r.kernel[0], "conv_onednn");
    assert_string_equal(r.kernel[1], "conv_onednn");
    assert_string_equal(r.kernel[2], "conv_onednn");
    assert_string_equal(r.kernel[3], "conv_winograd");
    assert_string_equal(r.kernel[4], "conv_onednn");
    c.n = 3;
    unlink(file);
    assert_int_equal(pare_tune_cache_save(&c, file, true, &err), 0);
    r = expect_plan(&o);
    assert_int_equal(r.tuned.listed, CONVS - 1);
    assert_string_equal(r.kernel[4], rules.kernel[4]);
    o.tune = true; /* now it is measured and recorded */
    r = expect_plan(&o);
    assert_int_equal(r.tuned.measured, 1);
    o.tune = false;
    assert_int_equal(expect_plan(&o).tuned.listed, CONVS);
}

static void test_wrong_lists_are_errors(void **state)
{
    const char *file = path_in_folder("bad.txt");
    struct pare_plan_opts o = { .threads = 1, .choices = file };

    (void)state;
    unlink(file);
    expect_refused(&o, "bad.txt: No such file");
    write_file(file, "# a remark\n\nconv_onednn Conv\n");
    expect_refused(&o, "bad.txt: line 3: expected a kernel's name");
    write_file(file, "conv_onednn\tConv\x01\n");
    expect_refused(&o, "line 1: expected");
    write_list(file, "linear_onednn");
    expect_refused(&o, "kernel 'linear_onednn' is listed for node");
    expect_refused(&o, pare_has_onednn ? "but cannot run it" : "but this build has no oneDNN");
    o.choices = net.dir;
    expect_refused(&o, "not a regular file");
    o.choices = path_in_folder("no/such/folder.txt");
    o.tune = true;
    expect_refused(&o, "cannot create");
}

/* A last line without a newline, as some editors leave it. */
static void test_list_without_a_final_newline(void **state)
{
    const char *file = path_in_folder("no_end.txt");
    struct pare_tune_cache c = { .arena = pool };
    struct pare_err err;

    (void)state;
    write_file(file, "first\tone\nsecond\ttwo");
    assert_int_equal(pare_tune_cache_read(&c, file, true, &err), 0);
    assert_int_equal(c.n, 2);
    assert_string_equal(pare_tune_cache_get(&c, "two"), "second");
    c = (struct pare_tune_cache){ .arena = pool };
    assert_int_equal(pare_tune_cache_read(&c, file, false, &err),
                     0); /* a cache: the line is incomplete */
    assert_int_equal(c.n, 1);
}

static const char *cache_file(const char *folder)
{
    const char *file = pare_tune_cache_file(pool, folder, pare_kernels_hash, false);

    assert_non_null(file);
    return file;
}

static void test_cache_is_kept(void **state)
{
    const char *folder = path_in_folder("deep/cache"), *file = cache_file(folder);
    struct pare_plan_opts o = { .threads = 1, .tune = true, .cache = folder };
    struct result first, second;
    char *text;

    (void)state;
    first = expect_plan(&o);
    assert_int_equal(first.tuned.measured, KINDS);
    second = expect_plan(&o);
    assert_int_equal(second.tuned.measured, 0);
    assert_int_equal(second.tuned.cached, CONVS);
    assert_int_equal(second.tuned.runs, 0);
    assert_true(same_bytes(&first.y, &second.y));
    o.threads = 2; /* another key */
    assert_int_equal(expect_plan(&o).tuned.measured, KINDS);
    o.threads = 1;
    assert_int_equal(expect_plan(&o).tuned.measured, 0);
    text = read_file(file); /* lines with unknown kernels are ignored */
    for (char *at = strstr(text, "\nconv_"); at; at = strstr(at + 1, "\nconv_"))
        at[1] = 'k';
    write_file(file, text);
    assert_int_equal(expect_plan(&o).tuned.measured, KINDS);
}

/* Kernels of another build may take other layers or times, though they have the same names. */
static void test_cache_is_of_one_build(void **state)
{
    const char *folder = path_in_folder("builds"), *file = cache_file(folder), *other;
    struct pare_plan_opts o = { .threads = 1, .tune = true, .cache = folder };

    (void)state;
    other = pare_tune_cache_file(pool, folder, "0123456789abcdef", false);
    assert_int_equal(strlen(pare_kernels_hash), 16);
    assert_string_not_equal(file, other);
    expect_plan(&o);
    assert_int_equal(expect_plan(&o).tuned.measured, 0);
    assert_int_equal(rename(file, other), 0); /* as if another build had written it */
    assert_int_equal(expect_plan(&o).tuned.measured, KINDS);
}

/* Damaged cache files, and folders that cannot be written. */
static void test_damaged_cache_is_ignored(void **state)
{
    const char *folder = path_in_folder("damaged"), *file = cache_file(folder);
    struct pare_plan_opts o = { .threads = 1, .tune = true, .cache = folder };
    char *text, *all, *junk;

    (void)state;
    expect_plan(&o);
    text = read_file(file);
    junk = pare_alloc(pool, 40000, 1);
    memset(junk, 'x', 39999);
    all = pare_sprintf(pool, "garbage\n\t\n%s\n\xff\xfe\tConv\nconv_onednn\n%sconv_onednn\tcut",
                       junk, text);
    write_file(file, all);
    assert_int_equal(expect_plan(&o).tuned.measured, 0);
    write_file(file, "");
    assert_int_equal(expect_plan(&o).tuned.measured, KINDS);
    assert_int_equal(expect_plan(&o).tuned.measured, 0);
    write_file(path_in_folder("file"),
               "not a folder"); /* cannot be written, which is not an error */
    o.cache = path_in_folder("file");
    assert_int_equal(expect_plan(&o).tuned.measured, KINDS);
    assert_int_equal(expect_plan(&o).tuned.measured, KINDS);
    o.cache = "/proc/self";
    assert_int_equal(expect_plan(&o).tuned.measured, KINDS);
    assert_int_equal(mkdir(path_in_folder("shut"), 0500), 0);
    o.cache = path_in_folder("shut");
    expect_plan(&o);
}

/* Two processes that write one after the other both find their choices. */
static void test_caches_are_merged(void **state)
{
    const char *file = path_in_folder("merged.txt");
    struct pare_tune_cache a = { .arena = pool }, b = { .arena = pool }, c = { .arena = pool };
    struct pare_err err;

    (void)state;
    assert_int_equal(pare_tune_cache_set(&a, "one", "first", &err), 0);
    assert_int_equal(pare_tune_cache_set(&a, "two", "first", &err), 0);
    assert_int_equal(pare_tune_cache_set(&b, "two", "second", &err), 0);
    assert_int_equal(pare_tune_cache_set(&b, "three", "second", &err), 0);
    assert_int_equal(pare_tune_cache_save(&a, file, true, &err), 0);
    assert_int_equal(pare_tune_cache_save(&b, file, true, &err), 0);
    assert_int_equal(pare_tune_cache_read(&c, file, true, &err), 0);
    assert_int_equal(c.n, 3);
    assert_string_equal(pare_tune_cache_get(&c, "one"), "first");
    assert_string_equal(pare_tune_cache_get(&c, "two"), "second");
    assert_string_equal(pare_tune_cache_get(&c, "three"), "second");
    assert_null(pare_tune_cache_get(&c, "four"));
}

static void test_user_cache_folder(void **state)
{
    (void)state;
    setenv("HOME", "/h", 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("PARE_CACHE");
    assert_string_equal(pare_cache_folder(pool), "/h/.cache/pare");
    setenv("XDG_CACHE_HOME", "/x", 1);
    assert_string_equal(pare_cache_folder(pool), "/x/pare");
    setenv("PARE_CACHE", "here", 1);
    assert_string_equal(pare_cache_folder(pool), "here");
    setenv("PARE_CACHE", "", 1);
    assert_null(pare_cache_folder(pool));
}

/* The key contains the fraction of zero weights if a kernel depends on it, and separately that of
 * zero blocks of four outputs. */
static void check_zeros_in_keys(bool blocks)
{
    struct build *b = pare_alloc(pool, 1, sizeof(*b));
    struct pare_tensor w = build_tensor(PARE_F32, INTS(16, 16, 3, 3));
    char with[PARE_TUNE_KEY], without[PARE_TUNE_KEY];
    struct pare_model *m;
    struct pare_plan *p;
    struct pare_err err;
    const char *x;

    b->opset = 17;
    for (int64_t i = 0; i < pare_numel(&w); i++)
        pare_f32_mut(&w)[i] = (blocks ? i % 144 * 7 + i / 576 * 3 : i) % 10 < 7 ? 0 : 1;
    x = build_input(b, PARE_F32, INTS(1, 16, 8, 8));
    build_output(b, build_node(b, "Conv", NAMES(x, build_floats(b, INTS(16, 16, 3, 3), w.data)),
                               at_text("auto_pad", "SAME_UPPER")));
    m = build_model(b);
    assert_int_equal(pare_plan_make(m, &(struct pare_plan_opts){ .threads = 1 }, &p, &err), 0);
    for (int i = 0; i < p->n_steps; i++) {
        if (!p->step[i]->node || strcmp(p->step[i]->node->type, "Conv"))
            continue;
        assert_true(pare_tune_key(p, p->step[i], true, false, with));
        assert_true(pare_tune_key(p, p->step[i], false, true, without));
        assert_non_null(strstr(with, "16,16,3,3 zeros 70%,"));
        assert_int_equal(strstr(with, "16,16,3,3 zeros 70%,70%,") != NULL, blocks);
        assert_non_null(strstr(with, "auto_pad=SAME_UPPER"));
        assert_null(strstr(without, "zeros"));
        assert_non_null(strstr(without, "cold"));
    }
    pare_plan_free(p);
    pare_model_free(m);
}

static void test_keys_contain_zeros(void **state)
{
    (void)state;
    check_zeros_in_keys(false);
    check_zeros_in_keys(true);
}

/* Each allocation fails once: an out-of-memory error, or success without that memory. */
static void test_out_of_memory(void **state)
{
    struct pare_plan_opts o = { .threads = 1, .tune = true, .choices = path_in_folder("oom.txt") };
    int failures = 0;

    (void)state;
    for (int n = -1; build_plan_fails(net.model, &o, 0, n, &failures); n -= 7)
        unlink(o.choices);
    unlink(o.choices);
    for (int n = 1; build_plan_fails(net.model, &o, 0, n, &failures); n++)
        unlink(o.choices);
    assert_true(failures > 30);
}

/* ---- main ------------------------------------------------------------------------------------ */

static int setup(void **state)
{
    (void)state;
    pool = pare_arena_new(1 << 20);
    snprintf(net.dir, sizeof(net.dir), "/tmp/pare_tune_XXXXXX");
    if (!pool || !mkdtemp(net.dir))
        return -1;
    make_network();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_model_free(net.model);
    (void)!system(pare_sprintf(pool, "rm -rf '%s'", net.dir));
    pare_arena_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tuned_plans_are_correct),
        cmocka_unit_test(test_tuning_is_off_by_default),
        cmocka_unit_test(test_list_of_choices_is_followed),
        cmocka_unit_test(test_list_of_some_choices),
        cmocka_unit_test(test_wrong_lists_are_errors),
        cmocka_unit_test(test_list_without_a_final_newline),
        cmocka_unit_test(test_cache_is_kept),
        cmocka_unit_test(test_cache_is_of_one_build),
        cmocka_unit_test(test_damaged_cache_is_ignored),
        cmocka_unit_test(test_caches_are_merged),
        cmocka_unit_test(test_keys_contain_zeros),
        cmocka_unit_test(test_excluded_kernels_are_not_measured),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_user_cache_folder),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
