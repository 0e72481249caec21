/* test_body_hostile.c - models with random bodies of If, Loop and Scan: half of them are invalid.
 *
 * In every second model all values are (2, 3) matrices, and bodies have the inputs and outputs that
 * their nodes require, except for one invalid node in fifty.  Each model loads, runs and shrinks,
 * or gives an error with a message.  The sanitizers detect invalid memory accesses.  Environment:
 * PARE_GRAPHS, where the number of models is 40 times that, and PARE_SEED, the first seed.
 */
#include "make_model.h"

#include <stdlib.h>

#include <pare/compress.h>

#include "base/rng.h"
#include "graph/free_dims.h"
#include "onnx/model.h"

enum { NAMES_IN_SCOPE = 64, DEPTH = 3 };

struct scope {
    struct pare_rng r;
    const char *name[NAMES_IN_SCOPE];
    int n, depth;
    bool valid; /* most nodes are valid */
    int n_ran;  /* models that ran */
};

static int64_t random_below(struct scope *s, int64_t n)
{
    return (int64_t)pare_rng_below(&s->r, (uint64_t)n);
}

static const char *any_name(struct scope *s)
{
    if (s->valid)
        return s->name[random_below(s, s->n)];
    if (!s->n || !random_below(s, 30))
        return random_below(s, 2) ? "" : "unknown";
    return s->name[random_below(s, 3) ? s->n - 1 - random_below(s, s->n < 6 ? s->n : 6)
                                      : random_below(s, s->n)];
}

static void add_name(struct scope *s, const char *name)
{
    if (s->n < NAMES_IN_SCOPE)
        s->name[s->n++] = name;
}

/* A small constant; sometimes a large number. */
static const char *random_constant(struct scope *s, struct build *b)
{
    static const int64_t extreme[] = { 0, -1, 1 << 20, INT64_MAX, INT64_MIN };
    float f[6] = { 1, -2, 0.5f, 3, 0, 1 };
    int64_t v = random_below(s, 8) ? random_below(s, 4) : extreme[random_below(s, 5)];
    bool truth = random_below(s, 3) != 0;

    switch (random_below(s, 4)) {
    case 0: return build_const(b, PARE_BOOL, 0, NULL, &truth);
    case 1: return build_const(b, PARE_I64, 0, NULL, &v);
    case 2: return build_ints(b, 1, &v);
    default: return build_floats(b, INTS(2, 3), f);
    }
}

static void random_node(struct scope *s, struct build *b);

/* A body with random inputs, nodes and outputs. */
static struct build random_body(struct scope *s, const struct build *outer)
{
    struct build b = { .opset = outer->opset,
                       .prefix = pare_sprintf(pool, "b%lld_",
                                              (long long)random_below(s, 1 << 30)) };
    int names = s->n, nodes = (int)random_below(s, 4);

    s->depth++;
    for (int i = (int)random_below(s, 5); i > 0; i--)
        add_name(s, build_input(&b, (int[]){ PARE_F32, PARE_I64, PARE_BOOL }[random_below(s, 3)],
                                (int)random_below(s, 3),
                                (int64_t[]){ 2, random_below(s, 4) ? 3 : -1, 1 }));
    for (int i = 0; i < nodes; i++)
        random_node(s, &b);
    for (int i = (int)random_below(s, 4); i > 0; i--)
        build_output(&b, any_name(s));
    s->depth--;
    s->n = names;
    return b;
}

static struct bin random_bodies(struct scope *s, const struct build *b, int kind)
{
    static const char *const name[] = { "then_branch", "body", "body" };
    struct build body = random_body(s, b), other;
    struct bin attrs = at_graph(name[kind], &body);

    if (kind == 0 && random_below(s, 20)) {
        other = random_body(s, b);
        attrs = CAT(attrs, at_graph("else_branch", &other));
    }
    if (kind == 2 && random_below(s, 20))
        attrs = CAT(attrs, at_int("num_scan_inputs", random_below(s, 3)));
    if (kind == 2 && !random_below(s, 4))
        attrs = CAT(attrs, at_ints("scan_input_axes", INTS(random_below(s, 4) - 2)));
    return attrs;
}

/* ---- valid nodes ----------------------------------------------------------------------------- */

static const char *valid_constant(struct scope *s, struct build *b)
{
    float f[6];

    for (int i = 0; i < 6; i++)
        f[i] = (float)random_below(s, 5) - 2;
    return build_floats(b, INTS(2, 3), f);
}

/* A body: n_state inputs and outputs of (2, 3) matrices, after those that a loop requires. */
static struct build valid_body(struct scope *s, const struct build *outer, bool loop, int n_state)
{
    struct build b = { .opset = outer->opset,
                       .prefix = pare_sprintf(pool, "b%lld_",
                                              (long long)random_below(s, 1 << 30)) };
    int names = s->n;
    const char *more = NULL;

    s->depth++;
    if (loop) {
        build_input(&b, PARE_I64, 0, NULL);
        more = build_input(&b, PARE_BOOL, 0, NULL);
        for (int i = 0; i < n_state; i++)
            add_name(s, build_input(&b, PARE_F32, INTS(2, 3)));
        build_output(&b, build_node(&b, "Identity", NAMES(more), NOTHING));
    }
    for (int i = 1 + (int)random_below(s, 3); i > 0; i--)
        random_node(s, &b);
    for (int i = 0; i < n_state; i++)
        build_output(&b, build_node(&b, "Relu", NAMES(any_name(s)), NOTHING));
    s->depth--;
    s->n = names;
    return b;
}

static void valid_if(struct scope *s, struct build *b)
{
    int n = 1 + (int)random_below(s, 2);
    bool truth = random_below(s, 2);
    struct build then = valid_body(s, b, false, n), other = valid_body(s, b, false, n);
    const char *out[2], *c = build_const(b, PARE_BOOL, 0, NULL, &truth);

    build_node_outs(b, "If", 1, &c,
                    CAT(at_graph("then_branch", &then), at_graph("else_branch", &other)), n, out);
    for (int i = 0; i < n; i++)
        add_name(s, out[i]);
}

static void valid_loop(struct scope *s, struct build *b)
{
    int n = 1 + (int)random_below(s, 2);
    int64_t count = random_below(s, 4);
    bool truth = random_below(s, 4) != 0;
    struct build body = valid_body(s, b, true, n);
    const char *out[2], *in[4] = { build_const(b, PARE_I64, 0, NULL, &count),
                                   build_const(b, PARE_BOOL, 0, NULL, &truth) };

    for (int i = 0; i < n; i++)
        in[2 + i] = any_name(s);
    build_node_outs(b, "Loop", 2 + n, in, at_graph("body", &body), n, out);
    for (int i = 0; i < n; i++)
        add_name(s, out[i]);
}

/* Rows of a matrix, one after the other, with a state of the same size. */
static void valid_scan(struct scope *s, struct build *b)
{
    struct build body = { .opset = b->opset,
                          .prefix = pare_sprintf(pool, "b%lld_",
                                                 (long long)random_below(s, 1 << 30)) };
    const char *state = build_input(&body, PARE_F32, INTS(3)), *out[2], *in[2];
    const char *row = build_input(&body, PARE_F32, INTS(3));

    build_output(&body, build_node(&body, "Add", NAMES(state, row), NOTHING));
    build_output(&body, build_node(&body, "Mul", NAMES(row, state), NOTHING));
    in[0] = build_floats(b, INTS(3), (float[]){ 1, 0, -1 });
    in[1] = any_name(s);
    build_node_outs(b, "Scan", 2, in, CAT(at_graph("body", &body), at_int("num_scan_inputs", 1)), 2,
                    out);
    add_name(s, out[1]);
}

static void valid_node(struct scope *s, struct build *b)
{
    static const char *const one[] = { "Relu", "Identity", "Neg", "Tanh" };
    static const char *const two[] = { "Add", "Mul", "Sub", "Max" };
    int64_t kind = random_below(s, s->depth < DEPTH ? 7 : 4);

    if (kind == 4)
        valid_if(s, b);
    else if (kind == 5)
        valid_loop(s, b);
    else if (kind == 6)
        valid_scan(s, b);
    else if (kind < 2)
        add_name(s, build_node(b, one[random_below(s, 4)], NAMES(any_name(s)), NOTHING));
    else
        add_name(s, build_node(b, two[random_below(s, 4)],
                               NAMES(any_name(s), kind == 2 ? any_name(s) : valid_constant(s, b)),
                               NOTHING));
}

/* ---- any nodes ------------------------------------------------------------------------------- */

static void invalid_node(struct scope *s, struct build *b);

static void random_node(struct scope *s, struct build *b)
{
    if (s->valid && random_below(s, 50))
        valid_node(s, b);
    else
        invalid_node(s, b);
}

static void invalid_node(struct scope *s, struct build *b)
{
    static const char *const type[] = { "Add",
                                        "Mul",
                                        "MatMul",
                                        "Concat",
                                        "Relu",
                                        "Identity",
                                        "Reshape",
                                        "Gather",
                                        "Less",
                                        "Not",
                                        "Cast",
                                        "Shape",
                                        "Squeeze",
                                        "Unsqueeze",
                                        "SequenceAt",
                                        "SequenceInsert",
                                        "SequenceEmpty",
                                        "SequenceConstruct",
                                        "SequenceErase",
                                        "ConcatFromSequence",
                                        "SplitToSequence",
                                        "SequenceLength",
                                        "Optional",
                                        "OptionalGetElement" };
    static const char *const with_body[] = { "If", "Loop", "Scan" };
    bool body = s->depth < DEPTH && !random_below(s, s->depth ? 4 : 2);
    int kind = (int)random_below(s, 3), n_in = (int)random_below(s, 4),
        n_out = body ? (int)random_below(s, 4) : 1;
    const char *in[4], *out[4] = { "" };
    struct bin attrs = body ? random_bodies(s, b, kind)
                            : CAT(random_below(s, 2) ? at_int("axis", random_below(s, 3)) : NOTHING,
                                  random_below(s, 2) ? at_int("to", 1 + random_below(s, 9))
                                                     : NOTHING);

    for (int i = 0; i < 4; i++)
        in[i] = random_below(s, 4) ? any_name(s) : random_constant(s, b);
    n_in = !body ? 1 + (int)random_below(s, 2) : kind == 0 ? 1 : 1 + n_in;
    build_node_outs(b, body ? with_body[kind] : type[random_below(s, 24)], n_in, in, attrs,
                    n_out ? n_out : 1, out);
    for (int i = 0; i < n_out; i++)
        add_name(s, out[i]);
}

/* If rc is an error, its message is neither empty nor ends in a period. */
static void expect_message(uint64_t seed, int rc, const struct pare_err *err)
{
    if (rc && (!err->msg[0] || err->msg[strlen(err->msg) - 1] == '.'))
        fail_msg("seed %llu: expected a message without a period, got '%s'",
                 (unsigned long long)seed, err->msg);
}

static void run_and_shrink(struct scope *s, uint64_t seed, struct pare_model *m)
{
    struct pare_tensor x = build_tensor(PARE_F32, 2, (int64_t[]){ 2, 3 }), y[8];
    struct pare_plan_opts o = { .threads = 1, .in = &x, .n_in = 1 };
    struct pare_speedup_report r;
    struct pare_model *small = NULL;
    struct pare_plan *p = NULL;
    struct pare_all_sizes all;
    const struct pare_io *io;
    struct pare_err err = { 0 };
    int n = pare_model_outputs(m, &io), rc;

    assert_true(n <= 8);
    rc = pare_plan_new(m, &o, &p, &err);
    if (!rc)
        rc = pare_plan_run(p, &x, 1, y, n, &err);
    s->n_ran += !rc;
    expect_message(seed, rc, &err);
    pare_plan_free(p);
    pare_model_inputs(m, &io);
    expect_message(seed, pare_graph_all_sizes(pool, m->graph, io, NULL, &all, &err), &err);
    rc = pare_speedup(m, &(struct pare_speedup_opts){ .threads = 1 }, pool, &small, &r, &err);
    expect_message(seed, rc, &err);
    pare_model_free(small);
}

static void random_model(struct scope *s, uint64_t seed)
{
    struct build *b = pare_alloc(pool, 1, sizeof(*b));
    struct pare_err err = { 0 };
    struct pare_model *m = NULL;
    struct bin bytes;
    int rc;

    assert_non_null(b);
    b->opset = (int)(int[]){ 13, 16, 18, 21 }[random_below(s, 4)];
    s->n = s->depth = 0;
    s->valid = seed % 2;
    add_name(s, build_input(b, PARE_F32, 2,
                            (int64_t[]){ !s->valid && random_below(s, 2) ? -1 : 2, 3 }));
    for (int i = 1 + (int)random_below(s, 4); i > 0; i--)
        random_node(s, b);
    for (int i = 1 + (int)random_below(s, 3); i > 0; i--)
        build_output(b, any_name(s));
    bytes = build_bytes(b);
    rc = pare_model_parse(bytes.p, bytes.n, NULL, &m, &err);
    expect_message(seed, rc, &err);
    if (!rc)
        run_and_shrink(s, seed, m);
    pare_model_free(m);
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *v = getenv(name);

    return v ? strtoull(v, NULL, 10) : otherwise;
}

static void test_random_bodies_run_or_give_an_error(void **state)
{
    uint64_t first = env_number("PARE_SEED", 1), count = env_number("PARE_GRAPHS", 50) * 40;
    struct scope s = { .n = 0 };

    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct pare_mark m = pare_mark(pool);

        pare_rng_init(&s.r, seed);
        random_model(&s, seed);
        pare_reset(pool, m);
    }
    print_message("%d of %llu models run\n", s.n_ran, (unsigned long long)count);
    assert_true(count < 100 || (uint64_t)s.n_ran * 5 > 2 * count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_bodies_run_or_give_an_error, make_pool,
                                        drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
