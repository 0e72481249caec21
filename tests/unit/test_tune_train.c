/* test_tune_train.c - tuned training plans: correct gradients, lists of kernel choices, and every
 * combination of kernels for the passes of a convolution. */
#include "train_rig.h"

#include <unistd.h>

#define LINE 8192
#define LINES 64

static const int64_t chw[3] = { 40, 13, 14 };

static struct pare_flow filters(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 48, .kernel = 3, .pad = 1, .bias = true };

    x = pare_net_apply(n, pare_net_conv(n, x, "a", c), "Tanh", "a.tanh");
    c.out = 36;
    x = pare_net_apply(n, pare_net_conv(n, x, "b", c), "Tanh", "b.tanh");
    x = pare_net_conv(n, x, "c", c);
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

static int gradients_of(struct trial *t, struct pare_model *m, const int64_t size[3], bool tune,
                        const char *choices)
{
    begin(t, m, size, "2");
    t->setup->trainer.tune = tune;
    t->setup->trainer.choices = choices;
    assert_int_equal(pare_trainer_new(t->model, &t->setup->trainer, &t->trainer, &err), 0);
    return pare_trainer_gradient(t->trainer, &t->x, &t->y, &t->score, &err);
}

static void gradients(struct trial *t, bool tune, const char *choices, int code)
{
    int rc = gradients_of(t, make(filters, "filters", chw), chw, tune, choices);

    if (rc != code)
        fail_msg("%d, not %d: %s", rc, code, err.msg);
}

static void close_to(struct trial *a, struct trial *b, const char *what)
{
    for (int i = 0; i < b->trainer->n_params; i++) {
        double d = distance(&a->trainer->grad[i], &b->trainer->grad[i]);

        if (!(d < 1e-4))
            fail_msg("%s: the gradient of '%s' is off by %g", what, b->trainer->name[i], d);
    }
}

static void name_file(char *file)
{
    int fd = mkstemp(file);

    assert_true(fd >= 0);
    close(fd);
    unlink(file);
}

/* ---- lists -------------------------------------------------------------------------------- */

struct list {
    char *line[LINES];
    int n;
};

static void read_list(const char *file, struct list *l)
{
    char line[LINE];
    FILE *f = fopen(file, "r");

    assert_non_null(f);
    l->n = 0;
    while (fgets(line, sizeof(line), f)) {
        assert_true(l->n < LINES);
        if (*line != '#')
            l->line[l->n++] = strdup(line);
    }
    fclose(f);
}

static void free_list(struct list *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->line[i]);
}

static int way_of(const char *line)
{
    static const char *const end[] = { ", forward\n", ", data\n", ", weights\n" };

    for (int w = 0; w < 3; w++)
        if (strlen(line) > strlen(end[w]) && !strcmp(line + strlen(line) - strlen(end[w]), end[w]))
            return w;
    return -1;
}

/* The list, with a kernel by way on the lines that have this text; NULL: the line is left out. */
static void write_list(const char *file, const struct list *l, const char *text,
                       const char *const kernel[3])
{
    FILE *f = fopen(file, "w");

    assert_non_null(f);
    for (int i = 0; i < l->n; i++) {
        int w = way_of(l->line[i]);

        assert_true(w >= 0 && strstr(l->line[i], "gradients "));
        if (!strstr(l->line[i], text))
            fputs(l->line[i], f);
        else if (kernel[w])
            fprintf(f, "%s%s", kernel[w], strchr(l->line[i], '\t'));
    }
    fclose(f);
}

/* As it was written when all ways were one kernel's. */
static void write_old(const char *file, const struct list *l, const char *kernel)
{
    FILE *f = fopen(file, "w");

    assert_non_null(f);
    for (int i = 0; i < l->n; i++)
        if (way_of(l->line[i]) == 0)
            fprintf(f, "%s%.*s\n", kernel,
                    (int)(strrchr(l->line[i], ',') - strchr(l->line[i], '\t')),
                    strchr(l->line[i], '\t'));
    fclose(f);
}

static void listed(const char *file, const char *kernel, int least, struct trial *plain)
{
    struct trial t;

    gradients(&t, false, file, 0);
    uses(t.trainer->plan[0], kernel, least);
    assert_int_equal(t.trainer->plan[0]->tuned.runs, 0);
    close_to(&t, plain, kernel);
    end(&t);
}

static void refused(const char *file, const char *sentence)
{
    struct trial t;

    gradients(&t, false, file, PARE_ECONFIG);
    if (!strstr(err.msg, sentence))
        fail_msg("not '%s' but '%s'", sentence, err.msg);
    end(&t);
}

/* What it is without trying, and what was written when it was tried. */
static void tune(char *file, struct trial *plain, struct list *l)
{
    struct trial t;

    name_file(file);
    start(plain, make(filters, "filters", chw), chw, true, "1");
    gradients(&t, true, file, 0);
    assert_int_equal(t.trainer->plan[0]->tuned.layers, 3);
    assert_in_range(t.trainer->plan[0]->tuned.measured, 1, 3); /* as time allows */
    close_to(&t, plain, "tuned");
    end(&t);
    read_list(file, l);
    assert_int_equal(l->n, 8); /* the first has no gradient of its data */
}

static void test_tuned(void **state)
{
    static const char *const train[3] = { "conv_train", "conv_train", "conv_train" };
    static const char *const columns[3] = { "conv_im2col", "conv_im2col", "conv_im2col" };
    static const char *const panel[3] = { "conv_1x1_packed", "conv_train", "conv_train" };
    char file[] = "tune-train-XXXXXX";
    struct trial plain;
    struct list l;

    (void)state;
    tune(file, &plain, &l);
    write_list(file, &l, "", train);
    listed(file, "conv_train", 3, &plain);
    write_list(file, &l, "", columns); /* its consumers have another layout, not in the list */
    listed(file, "conv_im2col", 1, &plain);
    write_list(file, &l, "", panel); /* it cannot train */
    refused(file, "kernel 'conv_1x1_packed' is listed for node 'a' (forward) but cannot run it");
    write_old(file, &l, "conv_train");
    listed(file, "conv_train", 3, &plain);
    write_old(file, &l, "conv_1x1_packed");
    refused(file, "kernel 'conv_1x1_packed' is listed for node 'a' (forward) but cannot run it");
    free_list(&l);
    unlink(file);
    end(&plain);
}

static void test_mixed_list(void **state)
{
    static const char *const mixed[3] = { "conv_train", "conv_winograd_train", "conv_train" };
    static const char *const back[3] = { NULL, "conv_train", "conv_train" };
    static const char *const some[3] = { "conv_train", NULL, "conv_train" };
    static const char *const apart[3] = { "conv_im2col", "conv_winograd_train", "conv_im2col" };
    char file[] = "tune-train-XXXXXX";
    struct trial plain, tuned;
    struct list l;

    (void)state;
    tune(file, &plain, &l);
    write_list(file, &l, "", mixed);
    listed(file, "conv_train|conv_winograd_train|conv_train", 2, &plain);
    listed(file, "conv_train", 1, &plain);
    write_list(file, &l, "", back); /* the rest goes by the rules: Winograd's forward */
    listed(file, "conv_winograd_train|conv_train|conv_train", 2, &plain);
    write_list(file, &l, "", some);
    listed(file, "conv_train|conv_winograd_train|conv_train", 2, &plain);
    write_list(file, &l, "", apart); /* row-major, then by the rules, then both */
    refused(file,
            "kernel 'conv_winograd_train' is listed for node 'c' (data) but cannot run it next to "
            "'conv_im2col'");
    write_list(file, &l, "", some);
    gradients(&tuned, true, file, 0); /* what is missing is tried and added */
    assert_in_range(tuned.trainer->plan[0]->tuned.measured, 1, 2);
    assert_int_equal(tuned.trainer->plan[0]->tuned.listed, 1);
    close_to(&tuned, &plain, "tuned in part");
    end(&tuned);
    free_list(&l);
    read_list(file, &l);
    assert_int_equal(l.n, 8);
    free_list(&l);
    unlink(file);
    end(&plain);
}

/* ---- every mix ---------------------------------------------------------------------------- */

static struct {
    int64_t in, out, kernel, stride, pads[4];
    bool bias;
} now;

/* Its input has another consumer, so that the gradient is added to another. */
static struct pare_flow one_conv(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv lead = { .out = now.in, .kernel = 3, .pad = 1, .bias = true };
    int64_t dim[4] = { now.out, now.in, now.kernel, now.kernel };
    struct pare_flow y, z;
    const char *w, *b;

    x = pare_net_apply(n, pare_net_conv(n, x, "lead", lead), "Tanh", "lead.tanh");
    y = x;
    w = pare_net_uniform(n, "case.weight", 4, dim, 0.3);
    b = now.bias ? pare_net_uniform(n, "case.bias", 1, dim, 0.3) : NULL;
    y.value = pare_builder_node(n->make, "Conv", "case", x.value, w, b, NULL);
    pare_builder_ints(n->make, "kernel_shape", 2, dim + 2);
    pare_builder_ints(n->make, "strides", 2, (int64_t[]){ now.stride, now.stride });
    pare_builder_ints(n->make, "pads", 4, now.pads);
    y.c = now.out;
    y.h = (x.h + now.pads[0] + now.pads[2] - now.kernel) / now.stride + 1;
    y.w = (x.w + now.pads[1] + now.pads[3] - now.kernel) / now.stride + 1;
    y = pare_net_apply(n, y, "Tanh", "case.tanh");
    z = pare_net_linear(n, pare_net_flatten(n, x, "flatten1"), "fc1", 6);
    y = pare_net_linear(n, pare_net_flatten(n, y, "flatten"), "fc", 6);
    return pare_net_linear(n, pare_net_sum(n, y, z, "sum"), "last", n->classes);
}

static const char *const rivals[3] = { "conv_train", "conv_winograd_train", "conv_im2col" };

/* The step of the convolution, by its kernels. */
static const char *kernel_of(const struct pare_plan *p)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i]->node && !strcmp(p->step[i]->node->name, "case"))
            return p->step[i]->kernel->name;
    return "";
}

static bool one_mix(const char *file, const struct list *l, const int64_t size[3], int mix,
                    struct trial *plain)
{
    const char *k[3] = { rivals[mix % 3], rivals[mix / 3 % 3], rivals[mix / 9] };
    char text[64], name[128];
    struct trial t;
    int rc;

    snprintf(text, sizeof(text), "float32 %lld,%lld,", (long long)now.out, (long long)now.in);
    write_list(file, l, text, k);
    rc = gradients_of(&t, make(one_conv, "one", size), size, false, file);
    if (rc && (rc != PARE_ECONFIG || !strstr(err.msg, "but cannot run it")))
        fail_msg("%s|%s|%s: %s", k[0], k[1], k[2], err.msg);
    if (!rc) {
        snprintf(name, sizeof(name), "%s|%s|%s", k[0], k[1], k[2]);
        close_to(&t, plain, name);
        if (k[0] == k[1] && k[1] == k[2])
            snprintf(name, sizeof(name), "%s", k[0]);
        assert_string_equal(kernel_of(t.trainer->plan[0]), name);
    }
    end(&t);
    return !rc;
}

static int64_t pick(struct pare_rng *r, int64_t from, int64_t to)
{
    return from + (int64_t)(pare_rng_next(r) % (uint64_t)(to - from + 1));
}

/* All combinations of Winograd's and oneDNN's in blocks; conv_im2col with oneDNN's, which is then
 * row-major; but never in blocks and row-major. */
static void test_every_mix(void **state)
{
    bool done[27] = { false };
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 17);
    for (int i = 0; i < 12; i++) {
        int64_t size[3] = { 2, pick(&r, 5, 18), pick(&r, 5, 18) };
        char file[] = "tune-train-XXXXXX";
        struct trial tuned, plain;
        struct list l;

        now.in = pick(&r, 3, 40);
        now.out = pick(&r, 1, 40);
        now.kernel = i % 3 ? 3 : pick(&r, 1, 5);
        now.stride = i % 3 ? 1 : pick(&r, 1, 2);
        now.bias = i % 2;
        for (int k = 0; k < 4; k++)
            now.pads[k] = pick(&r, 0, 2);
        name_file(file);
        assert_int_equal(gradients_of(&tuned, make(one_conv, "one", size), size, true, file), 0);
        end(&tuned);
        read_list(file, &l);
        start(&plain, make(one_conv, "one", size), size, true, "1");
        for (int mix = 0; mix < 27; mix++)
            done[mix] |= one_mix(file, &l, size, mix, &plain);
        end(&plain);
        free_list(&l);
        unlink(file);
    }
    for (int mix = 0; mix < 27; mix++) {
        bool columns = mix % 3 == 2, winograd = false, any_columns = false;

        for (int i = 0, w = mix; i < 3; i++, w /= 3) {
            winograd |= w % 3 == 1;
            any_columns |= w % 3 == 2;
        }
        if (winograd && any_columns ? done[mix] : (columns || !any_columns) && !done[mix])
            fail_msg("%s forward, %s and %s back: %s", rivals[mix % 3], rivals[mix / 3 % 3],
                     rivals[mix / 9], done[mix] ? "ran" : "never ran");
    }
}

/* ---- faults ------------------------------------------------------------------------------- */

/* At the n-th block of memory, or at request -n of an arena; false: there are fewer. */
static bool fails_at(int n, const char *file, bool tune, int *failures)
{
    const int64_t size[3] = { 2, 7, 6 };
    struct trial t;
    bool reached;
    int rc;

    begin(&t, make(one_conv, "one", size), size, "1");
    t.setup->trainer.tune = tune;
    t.setup->trainer.choices = file;
    assert_int_equal(pare_trainer_new(t.model, &t.setup->trainer, &t.trainer, &err), 0);
    pare_oom_countdown = n;
    rc = pare_trainer_gradient(t.trainer, &t.x, &t.y, &t.score, &err);
    reached = pare_oom_countdown == 0;
    pare_oom_countdown = 0;
    *failures += rc != 0;
    if (rc && (rc != PARE_ENOMEM || !strstr(err.msg, "memory")))
        fail_msg("request %d: code %d, '%s'", n, rc, err.msg);
    end(&t);
    return reached;
}

static void test_no_memory(void **state)
{
    static const char *const mixed[3] = { "conv_winograd_train", "conv_train",
                                          "conv_winograd_train" };
    char file[] = "tune-train-XXXXXX";
    struct list l;
    int failures = 0;

    (void)state;
    now.in = now.out = 9;
    now.kernel = 3;
    now.stride = 1;
    now.bias = true;
    memset(now.pads, 0, sizeof(now.pads));
    name_file(file);
    for (int n = -1; fails_at(n, file, true, &failures); n -= 11)
        unlink(file);
    unlink(file);
    for (int n = 1; fails_at(n, file, true, &failures); n++)
        unlink(file);
    assert_true(failures > 80);
    read_list(file, &l); /* by the one that had enough */
    write_list(file, &l, "float32 9,9,3,3", mixed);
    failures = 0;
    for (int n = -1; fails_at(n, file, false, &failures); n -= 3)
        ;
    assert_true(failures > 50);
    free_list(&l);
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tuned),
        cmocka_unit_test(test_mixed_list),
        cmocka_unit_test(test_every_mix),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
