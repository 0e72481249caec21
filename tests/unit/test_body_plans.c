/* test_body_plans.c - bodies of If and Loop that run by plans of their own. */
#include "onnx_make.h"

#include <math.h>

#include "plan/plan.h"

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

static struct bin attr(const char *name, unsigned type, struct bin value)
{
    return msg(5, CAT(text(1, name), value, num(20, type)));
}

static struct pare_model *parse(struct bin file)
{
    struct pare_model *m = NULL;

    ok(pare_model_parse(file.p, file.n, NULL, &m, &err));
    return m;
}

static struct bin matrix(const char *name, float first)
{
    float v[16];

    for (int i = 0; i < 16; i++)
        v[i] = first + 0.1f * (float)(i * 7 % 11);
    return initializer(name, PARE_F32, "4,4", blob(9, v, sizeof(v)));
}

/* h = tanh(x v); five times: s = c ? relu(s w + h) : tanh(s w - h); l is the last s, y = l + h. */
static struct bin loop_with_if(void)
{
    struct bin yes = CAT(node("Add", "a1", "m,h", "p0"), node("Relu", "a2", "p0", "p"),
                         output("p", PARE_F32, "2,4"));
    struct bin no = CAT(node("Sub", "b1", "m,h", "q0"), node("Tanh", "b2", "q0", "q"),
                        output("q", PARE_F32, "2,4"));
    struct bin body = CAT(node("MatMul", "mul", "s,w", "m"),
                          node_with("If", "pick", "c", "t",
                                    CAT(attr("then_branch", 5, msg(6, yes)),
                                        attr("else_branch", 5, msg(6, no)))),
                          node("Identity", "more", "go", "go1"), input("i", PARE_I64, ""),
                          input("go", PARE_BOOL, ""), input("s", PARE_F32, "2,4"),
                          output("go1", PARE_BOOL, ""), output("t", PARE_F32, "2,4"));
    int64_t five = 5;

    return model(CAT(node("MatMul", "first", "x,v", "h0"), node("Tanh", "second", "h0", "h"),
                     node_with("Loop", "repeat", "n,,x", "l", attr("body", 5, msg(6, body))),
                     node("Add", "sum", "l,h", "y"), matrix("w", -0.4f), matrix("v", -0.5f),
                     initializer("n", PARE_I64, "", blob(9, &five, sizeof(five))),
                     input("c", PARE_BOOL, ""), input("x", PARE_F32, "2,4"),
                     output("y", PARE_F32, "2,4")));
}

struct feed {
    uint8_t c;
    float x[8];
    struct pare_tensor in[2];
};

static void fill(struct feed *f, int run)
{
    f->c = (uint8_t)(run % 3 != 1);
    for (int i = 0; i < 8; i++)
        f->x[i] = sinf((float)(run * 8 + i));
    f->in[0] = (struct pare_tensor){ .dtype = PARE_BOOL, .data = &f->c };
    f->in[1] = (struct pare_tensor){ .dtype = PARE_F32, .rank = 2, .dim = { 2, 4 }, .data = f->x };
}

/* Values around the body differ in every run, and so does the body that If chooses. */
static void test_plans_give_the_same_results(void **state)
{
    struct pare_model *m = parse(loop_with_if());
    struct pare_plan *fast = NULL, *plain = NULL;
    struct feed f;
    struct pare_plan_opts o = { .threads = 1, .in = f.in, .n_in = 2 };

    (void)state;
    fill(&f, 0);
    ok(pare_plan_new(m, &o, &fast, &err));
    o.reference = true;
    ok(pare_plan_new(m, &o, &plain, &err));
    for (int run = 0; run < 6; run++) {
        struct pare_tensor got, want;

        fill(&f, run);
        ok(pare_plan_run(fast, f.in, 2, &got, 1, &err));
        ok(pare_plan_run(plain, f.in, 2, &want, 1, &err));
        for (int i = 0; i < 8; i++)
            if (!(fabsf(pare_f32(&got)[i] - pare_f32(&want)[i]) <= 1e-5f))
                fail_msg("run %d, element %d is %g, expected %g", run, i, (double)pare_f32(&got)[i],
                         (double)pare_f32(&want)[i]);
    }
    assert_int_equal(pare_body_plans_count(fast), 1);
    assert_int_equal(pare_body_plans_count(plain), 0);
    pare_plan_free(fast);
    pare_plan_free(plain);
    pare_model_free(m);
}

/* Every allocation of a run may fail; the next run works. */
static void test_memory_may_run_out(void **state)
{
    struct pare_model *m = parse(loop_with_if());
    struct pare_tensor y;
    struct feed f;
    struct pare_plan_opts o = { .threads = 1, .in = f.in, .n_in = 2 };
    int rc = PARE_ENOMEM;

    (void)state;
    fill(&f, 0);
    for (int n = 1; rc == PARE_ENOMEM && n < 400; n++) {
        struct pare_plan *p = NULL;

        ok(pare_plan_new(m, &o, &p, &err));
        pare_oom_countdown = n;
        rc = pare_plan_run(p, f.in, 2, &y, 1, &err);
        pare_oom_countdown = 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("%s", err.msg);
        ok(pare_plan_run(p, f.in, 2, &y, 1, &err));
        pare_plan_free(p);
    }
    assert_int_equal(rc, 0);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_plans_give_the_same_results),
                                        cmocka_unit_test(test_memory_may_run_out) };
    int rc;

    pool = pare_arena_new(1 << 16);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pare_arena_free(pool);
    return rc;
}
