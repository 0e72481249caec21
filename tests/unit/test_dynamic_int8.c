/* test_dynamic_int8.c - ConvInteger and MatMulInteger of dynamically quantized values, with all
 * that is fused after them, against reference kernels. */
#include <math.h>

#include "make_model.h"

#include "base/rng.h"
#include "plan/plan.h"

static struct pare_rng rng;

static int64_t random_between(int64_t low, int64_t high)
{
    return low + (int64_t)pare_rng_below(&rng, (uint64_t)(high - low + 1));
}

/* ---- models ---------------------------------------------------------------------------- */

struct net {
    struct build b;
    struct pare_tensor in;
    const char *input, *q[3]; /* q: uint8 values, scale, zero point */
    bool exact;               /* no operator but sums and products, which round alike */
    int most_reorders;        /* of the plan; 0: any number */
};

static struct net start_net(int rank, const int64_t *dim)
{
    struct net n = { .b = { .opset = 18 }, .in = build_tensor(PARE_F32, rank, dim), .exact = true };

    for (int64_t i = 0; i < pare_numel(&n.in); i++)
        pare_f32_mut(&n.in)[i] = (float)pare_rng_normal(&rng);
    n.input = build_input(&n.b, PARE_F32, rank, dim);
    build_node_outs(&n.b, "DynamicQuantizeLinear", NAMES(n.input), NOTHING, 3, n.q);
    return n;
}

/* Bytes from lo to hi. */
static const char *bytes(struct net *n, int type, int rank, const int64_t *dim, int lo, int hi)
{
    struct pare_tensor t = build_tensor(type, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        ((uint8_t *)t.data)[i] = (uint8_t)random_between(lo, hi);
    return build_const(&n->b, type, rank, dim, t.data);
}

static const char *floats(struct net *n, int rank, const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = (float)pare_rng_normal(&rng);
    return build_floats(&n->b, rank, dim, pare_f32(&t));
}

/* Weights and their zero point, of one of the kinds that the kernels treat differently: w - zero
 * fits in int8 everywhere, for some channels only, or nowhere. */
static void weights(struct net *n, int rank, const int64_t *dim, int64_t channels,
                    const char *name[2])
{
    int kind = (int)random_between(0, 4), type = kind < 3 ? PARE_U8 : PARE_I8;
    static const int range[5][4] = {
        { 0, 255, 128, 128 }, { 0, 255, 100, 140 },   { 0, 255, 0, 30 },
        { -128, 127, 0, 0 },  { -128, 127, -60, 60 },
    };
    const int *r = range[kind];
    bool each = random_between(0, 1);

    name[0] = bytes(n, type, rank, dim, r[0], r[1]);
    name[1] = bytes(n, type, each, &channels, r[2], r[3]);
}

/* What may follow an int32 result, in parts: the bias as quantizers write it (computed from the
 * scales, with a Reshape), the scale, a float bias, an activation, a residual Add. */
static const char *rest(struct net *n, const char *y, const char *other, int rank, int64_t O)
{
    int64_t row[5] = { 1, O, 1, 1, 1 };
    const char *scale = build_node(&n->b, "Mul", NAMES(n->q[1], build_scalar(&n->b, 0.01f)),
                                   NOTHING);
    int kind = (int)random_between(0, 3);

    if (rank && random_between(0, 1)) {
        const char *b = build_node(&n->b, "Div", NAMES(floats(n, 1, &O), scale), NOTHING);

        b = build_node(&n->b, "Cast", NAMES(build_node(&n->b, "Floor", NAMES(b), NOTHING)),
                       at_int("to", PARE_I32));
        b = build_node(&n->b, "Reshape", NAMES(b, build_ints(&n->b, rank, row)), NOTHING);
        y = build_node(&n->b, "Add", NAMES(y, b), NOTHING);
    }
    y = build_node(&n->b, "Cast", NAMES(y), at_int("to", PARE_F32));
    if (random_between(0, 5))
        y = build_node(&n->b, "Mul", NAMES(scale, y), NOTHING);
    if (random_between(0, 1))
        y = build_node(&n->b, "Add", NAMES(y, rank ? floats(n, rank, row) : floats(n, 1, &O)),
                       NOTHING);
    if (kind == 1)
        y = build_node(&n->b, "Relu", NAMES(y), NOTHING);
    if (kind > 1) {
        y = build_node(&n->b, "Mul", NAMES(y, build_node(&n->b, "Sigmoid", NAMES(y), NOTHING)),
                       NOTHING);
        n->exact = false;
    }
    return other && random_between(0, 1) ? build_node(&n->b, "Add", NAMES(other, y), NOTHING) : y;
}

/* ---- comparing ------------------------------------------------------------------------- */

static struct pare_tensor run_net(const struct net *n, const struct pare_model *m,
                                  const struct pare_plan_opts *o, const char *kernel)
{
    struct pare_plan *p;
    struct pare_tensor y;
    struct pare_err err;
    bool seen = !kernel;
    int reorders = 0;

    if (pare_plan_build(m, &(struct pare_plan_build){ .opts = o }, &p, &err))
        fail_msg("%s", err.msg);
    memset(p->memory, 0xff, p->memory_bytes);
    for (int run = 0; run < 2; run++)
        if (pare_plan_execute(p, &n->in, &y, &err))
            fail_msg("%s", err.msg);
    for (int i = 0; i < p->n_steps && kernel; i++)
        seen |= !strcmp(p->step[i]->kernel->name, kernel);
    for (int i = 0; i < p->n_steps && n->most_reorders && kernel; i++)
        reorders += p->step[i]->kernel == &pare_kernel_reorder;
    if (p->backend.vnni && p->backend.block == 16)
        assert_true(reorders <= n->most_reorders);
    if (!seen && p->backend.vnni && p->backend.block == 16)
        fail_msg("no step is run by %s", kernel);
    y = build_copy(&y);
    pare_plan_free(p);
    return y;
}

static void check_net(struct net *n, const char *y, const char *kernel)
{
    struct pare_model *m;
    struct pare_tensor want;
    double largest = 0;

    build_output(&n->b, y);
    m = build_model(&n->b);
    want = run_net(n, m, &(struct pare_plan_opts){ .reference = true }, NULL);
    for (int64_t i = 0; i < pare_numel(&want); i++)
        largest = fmax(largest, fabs(pare_get(&want, i)));
    for (int threads = 1; threads <= 3; threads++) {
        struct pare_tensor got = run_net(n, m, &(struct pare_plan_opts){ .threads = threads },
                                         kernel);

        assert_true(pare_same_shape(&got, &want));
        for (int64_t i = 0; i < pare_numel(&want); i++) {
            double a = pare_get(&got, i), b = pare_get(&want, i);

            if (!(fabs(a - b) <= (n->exact ? 0 : 1e-6 * largest)))
                fail_msg("%s, element %d: %g, expected %g", kernel, (int)i, a, b);
        }
    }
    pare_model_free(m);
}

static void test_convolutions(void **state)
{
    (void)state;
    pare_rng_init(&rng, 21);
    for (int i = 0; i < 120; i++) {
        int rank = (int)random_between(3, 5), nd = rank - 2;
        int64_t big = random_between(0, 1) ? 4 : 17, C = random_between(1, 2 * big);
        int64_t dim[5] = { random_between(1, 2), C, random_between(3, 9), random_between(3, 12),
                           random_between(3, 5) };
        int64_t w[5] = { random_between(0, 2) ? random_between(1, 70) : C, C, random_between(1, 3),
                         random_between(1, 3), 2 };
        int64_t pads[6] = { random_between(0, 2), random_between(0, 2), random_between(0, 1),
                            random_between(0, 2), random_between(0, 2), random_between(0, 1) };
        int64_t strides[3] = { random_between(1, 2), random_between(1, 2), 1 };
        int64_t dilations[3] = { 1, nd == 2 ? random_between(1, 2) : 1, 1 };
        struct net n;
        const char *w_name[2], *y;

        if (!(i % 3)) /* the rows are the tensor itself */
            for (int k = 0; k < 3; k++) {
                w[2 + k] = strides[k] = 1;
                pads[k] = pads[k + 3] = 0;
            }
        for (int k = 0; k < nd; k++) /* room for every window */
            dim[2 + k] += 2 * dilations[k];
        n = start_net(rank, dim);
        weights(&n, rank, w, w[0], w_name);
        y = build_node(&n.b, "ConvInteger", NAMES(n.q[0], w_name[0], n.q[2], w_name[1]),
                       CAT(at_ints("strides", nd, strides), at_ints("pads", 2 * nd, pads),
                           at_ints("dilations", nd, dilations)));
        check_net(&n, rest(&n, y, !(i % 3) && w[0] == C ? n.input : NULL, rank, w[0]),
                  "conv_dynamic_int8");
    }
}

/* Two convolutions in a row: quantized values stay in the layout with channels last. */
static void test_layout(void **state)
{
    struct net n;
    const char *y, *q[3], *w[2];

    (void)state;
    pare_rng_init(&rng, 22);
    n = start_net(INTS(1, 8, 9, 9));
    n.most_reorders = 2; /* of the first input and of the result */
    weights(&n, INTS(24, 8, 3, 3), 24, w);
    y = build_node(&n.b, "ConvInteger", NAMES(n.q[0], w[0], n.q[2], w[1]), NOTHING);
    y = build_node(&n.b, "Cast", NAMES(y), at_int("to", PARE_F32));
    y = build_node(&n.b, "Mul", NAMES(y, n.q[1]), NOTHING);
    build_node_outs(&n.b, "DynamicQuantizeLinear", NAMES(y), NOTHING, 3, q);
    weights(&n, INTS(7, 24, 1, 1), 7, w);
    y = build_node(&n.b, "ConvInteger", NAMES(q[0], w[0], q[2], w[1]), NOTHING);
    y = build_node(&n.b, "Cast", NAMES(y), at_int("to", PARE_F32));
    check_net(&n, build_node(&n.b, "Mul", NAMES(y, q[1]), NOTHING), "conv_dynamic_int8");
}

static void test_products(void **state)
{
    (void)state;
    pare_rng_init(&rng, 23);
    for (int i = 0; i < 120; i++) {
        int64_t M = random_between(0, 1) ? random_between(1, 9) : random_between(1, 130);
        int64_t K = random_between(0, 1) ? 4 * random_between(1, 40) : random_between(1, 150);
        int64_t N = i % 3 ? random_between(1, 150) : K;
        int64_t dim[3] = { random_between(1, 2), M, K }, w[2] = { K, N };
        struct net n = start_net(3, dim);
        const char *w_name[2], *y;

        weights(&n, 2, w, N, w_name);
        y = build_node(&n.b, "MatMulInteger", NAMES(n.q[0], w_name[0], n.q[2], w_name[1]), NOTHING);
        y = rest(&n, y, N == K ? n.input : NULL, 0, N);
        check_net(&n, y, "linear_dynamic_int8");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_convolutions, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_layout, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_products, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
