/* test_widen_int4.c - 4-bit weights of convolutions and products with quantized inputs run in int8
 * kernels, with the results of the reference; those with float inputs stay packed. */
#include "make_model.h"

#include <math.h>

#include "plan/plan.h"

enum { C = 4, O = 6, SIDE = 5 };

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* n 4-bit values of a pattern, two per byte. */
static const char *packed(struct build *b, int dtype, int rank, const int64_t *dim, int step)
{
    const char *name = build_name(b);
    int64_t n = 1;
    uint8_t *bytes;

    for (int i = 0; i < rank; i++)
        n *= dim[i];
    bytes = pare_alloc(pool, (size_t)n / 2 + 1, 1);
    for (int64_t i = 0; i < n; i++)
        bytes[i / 2] |= (uint8_t)((i * step + i / 7) % 16 << (i % 2 ? 4 : 0));
    build_put(b, msg(5, CAT(build_dims(rank, dim, 1), num(2, (int64_t)dtype), text(8, name),
                            blob(9, bytes, (size_t)(n + 1) / 2))));
    return name;
}

static struct pare_model *layer(bool conv, int dtype, bool quantized)
{
    struct build b = { .opset = 21 };
    const int64_t w[4] = { O, C, 3, 3 }, m[2] = { C, O };
    const char *x = conv ? build_input(&b, PARE_F32, 4, (int64_t[]){ 1, C, SIDE, SIDE })
                         : build_input(&b, PARE_F32, 2, (int64_t[]){ 3, C });
    const char *step = build_scalar(&b, 0.01f), *q;
    const char *zero = build_const(&b, PARE_U8, 0, NULL, (uint8_t[]){ 128 });
    const char *scale = build_floats(&b, 1, (int64_t[]){ O },
                                     (float[]){ 0.1f, 0.2f, 0.3f, 0.1f, 0.2f, 0.3f });

    if (quantized) {
        x = build_node(&b, "QuantizeLinear", NAMES(x, step, zero), NOTHING);
        x = build_node(&b, "DequantizeLinear", NAMES(x, step, zero), NOTHING);
    }
    q = packed(&b, dtype, conv ? 4 : 2, conv ? w : m, 5);
    zero = packed(&b, dtype, 1, (int64_t[]){ O }, 3);
    q = build_node(&b, "DequantizeLinear", NAMES(q, scale, zero), at_int("axis", conv ? 0 : 1));
    build_output(&b, build_node(&b, conv ? "Conv" : "MatMul", NAMES(x, q), NOTHING));
    return build_model(&b);
}

/* The type of the weight that the plan's DequantizeLinear reads. */
static enum pare_dtype weight_type(const struct pare_plan *p)
{
    for (int i = 0; i < p->graph->n_nodes; i++) {
        const struct pare_node *n = p->graph->node[i];

        if (!strcmp(n->type, "DequantizeLinear") && n->in[0]->flags & PARE_V_CONST)
            return n->in[0]->t.dtype;
    }
    return PARE_NONE;
}

static void check(bool conv, int dtype, bool quantized)
{
    struct pare_model *m = layer(conv, dtype, quantized);
    struct pare_tensor x = conv ? build_tensor(PARE_F32, 4, (int64_t[]){ 1, C, SIDE, SIDE })
                                : build_tensor(PARE_F32, 2, (int64_t[]){ 3, C });
    float first[O * SIDE * SIDE];

    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = sinf((float)i);
    for (int run = 0; run < 2; run++) {
        struct pare_plan_opts o = { .in = &x, .threads = 1, .reference = run == 1 };
        struct pare_plan *p;
        struct pare_tensor y;

        ok(pare_plan_make(m, &o, &p, &err));
        ok(pare_plan_execute(p, &x, &y, &err));
        for (int64_t i = 0; i < pare_numel(&y) && run; i++)
            assert_true(fabsf(pare_f32(&y)[i] - first[i]) < 1e-4f);
        memcpy(first, y.data, (size_t)pare_numel(&y) * sizeof(float));
        if (!run && quantized)
            assert_int_equal(weight_type(p), dtype == PARE_I4 ? PARE_I8 : PARE_U8);
        if (!run && !quantized)
            assert_int_equal(weight_type(p), dtype);
        pare_plan_free(p);
    }
    pare_model_free(m);
}

static void test_quantized_inputs_widen_the_weights(void **state)
{
    (void)state;
    for (int form = 0; form < 8; form++) {
        pool = pare_arena_new(1 << 14);
        check(form & 1, form & 2 ? PARE_I4 : PARE_U4, form & 4);
        pare_arena_free(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantized_inputs_widen_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
