/* test_blocked_kernels.c - fast kernels after a convolution, in its blocked layout, against
 * reference kernels. */
#include <math.h>

#include "make_model.h"

#include "backend/backend.h"
#include "base/rng.h"
#include "plan/plan.h"

static struct pare_rng rng;

static int64_t random_between(int64_t low, int64_t high)
{
    return low + (int64_t)pare_rng_below(&rng, (uint64_t)(high - low + 1));
}

static const char *random_floats(struct build *b, int rank, const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = (float)pare_rng_normal(&rng);
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* A network whose input goes through a pointwise convolution, whose result is blocked. */
struct net {
    struct build b;
    struct pare_tensor in;
    const char *x;           /* the blocked value */
    const char *const *skip; /* kernels not to use */
};

static struct net start_net(int rank, const int64_t *dim)
{
    struct net n = { .b = { .opset = 18 }, .in = build_tensor(PARE_F32, rank, dim) };
    int64_t w[4] = { dim[1], dim[1], 1, 1 };

    for (int64_t i = 0; i < pare_numel(&n.in); i++)
        pare_f32_mut(&n.in)[i] = (float)pare_rng_normal(&rng);
    n.x = build_input(&n.b, PARE_F32, rank, dim);
    n.x = build_node(&n.b, "Conv", NAMES(n.x, random_floats(&n.b, rank, w)), NOTHING);
    return n;
}

static struct pare_tensor run_net(const struct net *n, const struct pare_model *m,
                                  const struct pare_plan_opts *o, const char *type,
                                  const char *kernel)
{
    struct pare_plan_build with = { .opts = o, .without = n->skip };
    struct pare_plan *p;
    struct pare_tensor y;
    struct pare_err err;
    bool seen = !kernel;

    if (pare_plan_build(m, &with, &p, &err) || pare_plan_execute(p, &n->in, &y, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < p->n_steps && kernel; i++) {
        const struct pare_step *s = p->step[i];

        if (!s->node || strcmp(s->node->type, type) || strcmp(s->kernel->name, kernel))
            continue;
        seen = true;
        if (s->in_block[0] < 8 && p->backend.block >= 8)
            fail_msg("%s reads layout %d", kernel, s->in_block[0]);
    }
    if (!seen)
        fail_msg("no %s is run by %s", type, kernel);
    y = build_copy(&y);
    pare_plan_free(p);
    return y;
}

/* With one thread and several, the result is that of the reference kernels, and nodes of this type
 * are run by this kernel in the blocked layout. */
static void check_net(struct net *n, const char *y, const char *type, const char *kernel)
{
    struct pare_model *m;
    struct pare_tensor want;
    double largest = 1;

    build_output(&n->b, y);
    m = build_model(&n->b);
    want = run_net(n, m, &(struct pare_plan_opts){ .reference = true }, NULL, NULL);
    for (int64_t i = 0; i < pare_numel(&want); i++)
        largest = fmax(largest, fabs((double)pare_f32(&want)[i]));
    for (int threads = 1; threads <= 3; threads += 2) {
        struct pare_tensor got = run_net(n, m, &(struct pare_plan_opts){ .threads = threads }, type,
                                         kernel);

        assert_true(pare_same_shape(&got, &want));
        for (int64_t i = 0; i < pare_numel(&want); i++) {
            double a = (double)pare_f32(&got)[i], b = (double)pare_f32(&want)[i];

            if (!(fabs(a - b) <= 3e-5 * largest))
                fail_msg("%s, element %d: %g, expected %g", kernel, (int)i, a, b);
        }
    }
    pare_model_free(m);
}

/* ---- convolutions by Winograd's algorithm ------------------------------------------ */

static const char *apply_activation(struct build *b, const char *x, int kind)
{
    static const char *const types[] = { "Sigmoid", "HardSwish", "Relu" };

    if (kind < 3)
        return build_node(b, types[kind], NAMES(x), NOTHING);
    return build_node(b, "Mul", NAMES(x, build_node(b, "Sigmoid", NAMES(x), NOTHING)), NOTHING);
}

/* Activations before and after a residual Add; lanes beyond the channels stay zero. */
static void test_winograd_post_ops(void **state)
{
    static const char *const others[] = { "conv_onednn", "conv_taps", "conv_gemm", NULL };

    (void)state;
    pare_rng_init(&rng, 3);
    for (int kind = 0; kind < 16; kind++) {
        int64_t c = kind & 4 ? 32 : 19, h = random_between(5, 17), w = random_between(5, 17);
        struct net n = start_net(INTS(2, c, h, w));
        const char *y = build_node(&n.b, "Conv", NAMES(n.x, random_floats(&n.b, INTS(c, c, 3, 3))),
                                   at_ints("pads", INTS(1, 1, 1, 1)));

        n.skip = others;
        if (c % 16 && kind % 4 == 0)
            continue; /* the sigmoid of a lane beyond the channels is not zero */
        y = apply_activation(&n.b, y, kind % 4);
        if (kind & 8)
            y = apply_activation(&n.b, build_node(&n.b, "Add", NAMES(y, n.x), NOTHING), 3);
        y = build_node(&n.b, "Conv", NAMES(y, random_floats(&n.b, INTS(c, c, 1, 1))), NOTHING);
        check_net(&n, y, "Conv", "conv_winograd");
    }
}

/* oneDNN adds residuals before activations only; the Add after an activation is a step of its
 * own. */
static void test_sum_after_activation(void **state)
{
    static const char *const others[] = { "conv_winograd", "conv_taps", "conv_1x1_packed",
                                          "conv_gemm", NULL };
    struct net n;
    const char *y;

    (void)state;
    if (!pare_has_onednn)
        skip();
    pare_rng_init(&rng, 4);
    n = start_net(INTS(1, 32, 9, 9));
    n.skip = others;
    y = build_node(&n.b, "Conv", NAMES(n.x, random_floats(&n.b, INTS(32, 32, 3, 3))),
                   at_ints("pads", INTS(1, 1, 1, 1)));
    y = build_node(&n.b, "Add", NAMES(apply_activation(&n.b, y, 3), n.x), NOTHING);
    check_net(&n, y, "Conv", "conv_onednn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_winograd_post_ops, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_sum_after_activation, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
