/* test_rnn_packed.c - LSTM, GRU and RNN by packed GEMM against the reference kernels: random
 * shapes, options and numbers of threads; inside of bodies; quantized weights; failing memory.
 */
#include "make_model.h"

#include <math.h>

#include "backend/recurrent/rnn_cells.h"
#include "base/rng.h"
#include "tensor/compare.h"

static struct pare_rng rng;
static struct pare_err err;

static int64_t below(int64_t n)
{
    return (int64_t)pare_rng_below(&rng, (uint64_t)n);
}

/* ---- models ---------------------------------------------------------------------------------- */

enum { RNN, GRU, LSTM };
static const char *const types[] = { "RNN", "GRU", "LSTM" };
static const int gates[] = { 1, 3, 4 }, activations[] = { 1, 2, 3 };

/* A recurrent layer; `with` has a bit for each optional input that it has. */
struct layer {
    int type;
    int64_t T, B, I, H, D;
    const char *direction;
    int64_t layout, linear, tied;
    float clip;
    bool odd_activations;
    unsigned with, without_out; /* bits of inputs that exist, of outputs that do not */
    bool quantized;             /* W and R come from DequantizeLinear */
};

static struct bin texts(const char *name, int n, const char *const *v)
{
    struct bin all = text(1, name);

    for (int i = 0; i < n; i++)
        all = CAT(all, text(9, v[i]));
    return msg(5, CAT(all, num(20, 8)));
}

static const float *random_floats(int64_t n, float range)
{
    float *v = pare_alloc(pool, (size_t)n + 1, sizeof(*v));

    for (int64_t i = 0; i < n; i++)
        v[i] = ((float)pare_rng_uniform(&rng) * 2 - 1) * range;
    return v;
}

static const char *weight(struct build *b, int rank, const int64_t *dim, float range)
{
    int64_t n = 1;

    for (int i = 0; i < rank; i++)
        n *= dim[i];
    return build_floats(b, rank, dim, random_floats(n, range));
}

/* An int8 constant of this shape and its DequantizeLinear. */
static const char *quantized(struct build *b, const int64_t *dim, float range)
{
    int64_t n = dim[0] * dim[1] * dim[2];
    int8_t *v = pare_alloc(pool, (size_t)n, 1);
    const char *q;

    for (int64_t i = 0; i < n; i++)
        v[i] = (int8_t)(below(255) - 127);
    q = build_const(b, PARE_I8, 3, dim, v);
    return build_node(b, "DequantizeLinear", NAMES(q, build_scalar(b, range / 127)), NOTHING);
}

static struct bin attributes(const struct layer *l)
{
    static const char *const odd[] = { "HardSigmoid", "Softsign", "Sigmoid",
                                       "Tanh",        "Relu",     "LeakyRelu" };
    const int n = activations[l->type] * (int)l->D;
    struct bin all = CAT(at_text("direction", l->direction), at_int("hidden_size", l->H),
                         at_int("layout", l->layout));

    if (l->clip > 0)
        all = CAT(all, at_float("clip", l->clip));
    if (l->odd_activations)
        all = CAT(all, texts("activations", n, odd));
    if (l->type == GRU)
        all = CAT(all, at_int("linear_before_reset", l->linear));
    if (l->type == LSTM)
        all = CAT(all, at_int("input_forget", l->tied));
    return all;
}

/* Add the layer; x, lens, h0 and c0 are names of values.  Returns the number of outputs. */
static int add_layer(struct build *b, const struct layer *l, const char *const value[4],
                     const char **out)
{
    const int64_t GH = gates[l->type] * l->H;
    const float range = 1.5f / sqrtf((float)(l->H > l->I ? l->H : l->I));
    const char *in[8] = { value[0], "", "", "", "", "", "", "" };
    const int64_t w[3] = { l->D, GH, l->I }, r[3] = { l->D, GH, l->H };
    struct bin all = NOTHING;
    int n = 0;

    in[1] = l->quantized ? quantized(b, w, range) : weight(b, 3, w, range);
    in[2] = l->quantized ? quantized(b, r, range) : weight(b, 3, r, range);
    if (l->with & PARE_IN(3))
        in[3] = weight(b, 2, (int64_t[]){ l->D, 2 * GH }, 1);
    for (int i = 4; i < 7; i++)
        in[i] = l->with & PARE_IN(i) ? value[i - 3] : "";
    if (l->with & PARE_IN(7))
        in[7] = weight(b, 2, (int64_t[]){ l->D, 3 * l->H }, 1);
    for (int i = 0; i < (l->type == LSTM ? 8 : 6); i++)
        all = CAT(all, text(1, in[i]));
    for (int i = 0; i < (l->type == LSTM ? 3 : 2); i++) {
        bool absent = l->without_out & (1u << i);
        const char *name = absent ? "" : build_name(b);

        all = CAT(all, text(2, name));
        if (!absent)
            out[n++] = name;
    }
    build_put(b, msg(1, CAT(all, text(3, "layer"), text(4, types[l->type]), attributes(l))));
    return n;
}

/* The inputs of the model: X, sequence_lens, initial_h, initial_c. */
static int make_inputs(const struct layer *l, struct pare_tensor *t)
{
    const int64_t x[3] = { l->layout ? l->B : l->T, l->layout ? l->T : l->B, l->I };
    const int64_t h[3] = { l->layout ? l->B : l->D, l->layout ? l->D : l->B, l->H };
    int n = 1;

    t[0] = build_tensor(PARE_F32, 3, x);
    memcpy(t[0].data, random_floats(pare_numel(&t[0]), 2), (size_t)pare_numel(&t[0]) * 4);
    for (int i = 4; i < 7; i++) {
        if (!(l->with & PARE_IN(i)))
            continue;
        t[n] = i == 4 ? build_tensor(PARE_I32, 1, &l->B) : build_tensor(PARE_F32, 3, h);
        if (i == 4)
            for (int64_t b = 0; b < l->B; b++)
                ((int32_t *)t[n].data)[b] = (int32_t)below(l->T + 1);
        else
            memcpy(t[n].data, random_floats(pare_numel(&t[n]), 1), (size_t)pare_numel(&t[n]) * 4);
        n++;
    }
    return n;
}

static struct pare_model *make_net(const struct layer *l, const struct pare_tensor *in)
{
    struct build b = { .opset = 14 };
    const char *value[4] = { "" }, *out[3];
    int at = 1, n;

    value[0] = build_input(&b, PARE_F32, 3, in[0].dim);
    for (int i = 4; i < 7; i++)
        if (l->with & PARE_IN(i)) {
            value[i - 3] = build_input(&b, (int)in[at].dtype, in[at].rank, in[at].dim);
            at++;
        }
    n = add_layer(&b, l, value, out);
    for (int i = 0; i < n; i++)
        build_output(&b, out[i]);
    return build_model(&b);
}

/* ---- against the reference kernels ----------------------------------------------------------- */

static bool uses_kernel(const struct pare_plan *p)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i]->kernel && !strcmp(p->step[i]->kernel->name, "rnn_packed"))
            return true;
    return false;
}

/* Run twice, so that the states of one run do not reach the next. */
static int run_plan(const struct pare_model *m, struct pare_plan_opts o, struct pare_tensor *out,
                    int n_out)
{
    struct pare_plan *p;
    int rc = pare_plan_new(m, &o, &p, &err);

    if (rc)
        fail_msg("%s", err.msg);
    assert_int_equal(uses_kernel(p), !o.reference);
    for (int i = 0; i < 2 && !rc; i++)
        rc = pare_plan_run(p, o.in, o.n_in, out, n_out, &err);
    for (int i = 0; i < n_out && !rc; i++)
        out[i] = build_copy(&out[i]);
    pare_plan_free(p);
    return rc;
}

static void compare(const struct layer *l, int threads)
{
    const struct pare_tolerance tol = { 1e-5, 4e-6 };
    struct pare_tensor in[4], want[3], got[3];
    int n_in = make_inputs(l, in), n_out = 0;
    struct pare_model *m = make_net(l, in);

    for (int i = 0; i < (l->type == LSTM ? 3 : 2); i++)
        n_out += !(l->without_out & (1u << i));
    assert_int_equal(run_plan(m,
                              (struct pare_plan_opts){ .in = in, .n_in = n_in, .reference = true },
                              want, n_out),
                     0);
    assert_int_equal(run_plan(m,
                              (struct pare_plan_opts){ .in = in, .n_in = n_in, .threads = threads },
                              got, n_out),
                     0);
    for (int i = 0; i < n_out; i++)
        if (pare_tensor_compare(&got[i], &want[i], tol, &err))
            fail_msg("%s %s, T %d, B %d, I %d, H %d, layout %d, with %x, linear %d, tied %d, "
                     "%d threads: output %d: %s",
                     types[l->type], l->direction, (int)l->T, (int)l->B, (int)l->I, (int)l->H,
                     (int)l->layout, l->with, (int)l->linear, (int)l->tied, threads, i, err.msg);
    pare_model_free(m);
}

static struct layer random_layer(void)
{
    static const char *const directions[] = { "forward", "reverse", "bidirectional" };
    int64_t k = below(3);
    struct layer l = {
        .type = (int)below(3),
        .T = 1 + below(7),
        .B = 1 + below(below(3) ? 3 : 20),
        .I = 1 + below(70),
        .H = below(3) ? 1 + below(70) : 16 * (1 + below(9)),
        .D = 1 + (k == 2),
        .direction = directions[k],
        .layout = below(2),
        .linear = below(2),
        .tied = !below(4),
        .clip = below(4) ? 0 : 0.5f,
        .odd_activations = !below(4),
        .with = (unsigned)below(256),
    };

    if (l.type != LSTM)
        l.with &= ~(unsigned)(PARE_IN(6) | PARE_IN(7));
    else if (below(3))
        l.with &= ~(unsigned)PARE_IN(7);
    l.without_out = (unsigned)below(l.type == LSTM ? 7 : 3);
    return l;
}

static void test_random_layers_equal_reference(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        struct layer l = random_layer();

        compare(&l, 1 + (int)below(5));
    }
}

/* Products that are large enough to be divided among threads in each of the ways. */
static void test_divided_layers_equal_reference(void **state)
{
    (void)state;
    for (int type = 0; type < 3; type++)
        for (int k = 0; k < 8; k++) {
            const struct layer l = { .type = type,
                                     .T = 3,
                                     .B = k & 1 ? 9 : 1,
                                     .I = 130,
                                     .H = 276,
                                     .D = 1 + (k >> 1 & 1),
                                     .direction = k & 2 ? "bidirectional" : "reverse",
                                     .linear = k >> 2,
                                     .with = PARE_IN(3) | PARE_IN(5) };

            compare(&l, 2);
            compare(&l, 5);
        }
}

/* Constants that DequantizeLinear computes are weights like others. */
static void test_quantized_weights_are_packed(void **state)
{
    const struct layer l = { .type = LSTM,
                             .T = 4,
                             .B = 2,
                             .I = 24,
                             .H = 40,
                             .D = 1,
                             .direction = "forward",
                             .with = PARE_IN(3),
                             .quantized = true };

    (void)state;
    compare(&l, 1);
}

/* DynamicQuantizeLSTM of random 8-bit weights, with scales by column or by direction; signed8:
 * weights minus their zero points are int8. */
static struct pare_model *make_dynamic(const struct layer *l, const struct pare_tensor *x,
                                       bool by_column, bool signed8)
{
    struct build b = { .opset = 14, .microsoft = true };
    const int64_t columns = 4 * l->H, size = l->D * (by_column ? columns : 1);
    const int64_t w[3] = { l->D, l->I, columns }, r[3] = { l->D, l->H, columns };
    const int64_t per[2] = { l->D, columns };
    const char *in[12] = { "", "", "", "", "", "", "", "" }, *name = build_name(&b);
    struct bin all = NOTHING;

    in[0] = build_input(&b, PARE_F32, 3, x->dim);
    for (int k = 0; k < 2; k++) {
        int64_t n = l->D * columns * (k ? l->H : l->I);
        uint8_t *v = pare_alloc(pool, (size_t)(n + size), 1);
        float *s = pare_alloc(pool, (size_t)size, sizeof(*s));

        for (int64_t i = 0; i < n + size; i++)
            v[i] = (uint8_t)(i < n ? below(256) : signed8 ? 128 : 120 + below(16));
        for (int64_t i = 0; i < size; i++)
            s[i] = 0.002f + 0.002f * (float)pare_rng_uniform(&rng);
        in[1 + k] = build_const(&b, PARE_U8, 3, k ? r : w, v);
        in[8 + 2 * k] = build_const(&b, PARE_F32, by_column ? 2 : 1, per, s);
        in[9 + 2 * k] = build_const(&b, PARE_U8, by_column ? 2 : 1, per, v + n);
    }
    in[3] = weight(&b, 2, (int64_t[]){ l->D, 2 * columns }, 1);
    for (int i = 0; i < 12; i++)
        all = CAT(all, text(1, in[i]));
    build_put(&b, msg(1, CAT(all, text(2, name), text(3, "layer"), text(4, "DynamicQuantizeLSTM"),
                             text(7, "com.microsoft"), at_text("direction", l->direction),
                             at_int("hidden_size", l->H))));
    build_output(&b, name);
    return build_model(&b);
}

/* A state near the middle of two 8-bit values may round to either, so that results differ by a
 * few steps of 1/255. */
static void test_dynamic_quantization_equals_reference(void **state)
{
    const struct pare_tolerance tol = { 0, 0.03 };

    (void)state;
    for (int i = 0; i < 24; i++) {
        const struct layer l = { .type = LSTM,
                                 .T = 5,
                                 .B = 1 + i % 3,
                                 .I = 24,
                                 .H = 20 + 7 * i,
                                 .D = 1 + i % 2,
                                 .direction = i % 2 ? "bidirectional" : "reverse" };
        struct pare_tensor in[4], want, got;
        struct pare_plan_opts o = { .in = in, .threads = 1 + i % 3 }, ref = o;
        struct pare_model *m;

        o.n_in = ref.n_in = make_inputs(&l, in);
        ref.reference = true;
        m = make_dynamic(&l, in, i % 4 < 2, i % 3 > 0);
        assert_int_equal(run_plan(m, ref, &want, 1), 0);
        assert_int_equal(run_plan(m, o, &got, 1), 0);
        if (pare_tensor_compare(&got, &want, tol, &err))
            fail_msg("H %d, D %d: %s", (int)l.H, (int)l.D, err.msg);
        pare_model_free(m);
    }
}

static void test_bad_sequence_length_is_an_error(void **state)
{
    const struct layer l = { .type = GRU,
                             .T = 4,
                             .B = 2,
                             .I = 3,
                             .H = 5,
                             .D = 1,
                             .direction = "forward",
                             .with = PARE_IN(4) };
    struct pare_tensor in[4], out[2];
    struct pare_plan_opts o = { .in = in, .threads = 1 };
    struct pare_model *m;

    (void)state;
    o.n_in = make_inputs(&l, in);
    m = make_net(&l, in);
    ((int32_t *)in[1].data)[1] = 5;
    assert_int_equal(run_plan(m, o, out, 2), PARE_ESHAPE);
    assert_non_null(strstr(err.msg, "a sequence length is 5, but there are 4 steps"));
    ((int32_t *)in[1].data)[1] = -1;
    assert_int_equal(run_plan(m, o, out, 2), PARE_ESHAPE);
    pare_model_free(m);
}

/* Lanes of one instruction set: the vector loops against the loops for any activations. */
static void check_cells(int block, float range)
{
    enum { BLOCKS = 3, MOST = BLOCKS * 16 };
    const struct pare_rnn attr = { .clip = 3 };
    struct pare_rnn_act act[PARE_RNN_ACTS];

    for (int kind = 0; kind < PARE_CELL_KINDS; kind++) {
        float result[2][4][MOST];
        const float *x = random_floats(4 * MOST, range), *r = random_floats(4 * MOST, range);
        const float *h = random_floats(MOST, 1), *c = random_floats(MOST, 2);
        const struct pare_rnn_cell *cell = kind == PARE_CELL_RNN    ? &pare_simple_rnn_cell
                                           : kind == PARE_CELL_LSTM ? &pare_lstm_cell
                                                                    : &pare_gru_cell;

        assert_int_equal(pare_rnn_acts(&attr, cell, 1, act, &err), 0);
        for (int i = 0; i < 2; i++) {
            struct pare_rnn_units u = {
                x,      r,     h, result[i][0], result[i][1], result[i][2], result[i][3], NULL,
                BLOCKS, block, 3, false,        act
            };

            memcpy(result[i][1], c, MOST * sizeof(float));
            memcpy(result[i][2], h, MOST * sizeof(float));
            memset(result[i][0], 0, sizeof(result[i][0]));
            memset(result[i][3], 0, sizeof(result[i][3]));
            pare_rnn_cell_find((enum pare_rnn_cell_kind)kind, block, i == 0)(&u);
        }
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < BLOCKS * block; i++)
                assert_true(fabsf(result[0][k][i] - result[1][k][i]) <=
                            1e-6f * fabsf(result[1][k][i]) + 1.5e-6f);
    }
}

static void test_vector_cells_equal_plain_cells(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        check_cells(8, i % 2 ? 2 : 100);
        check_cells(16, i % 2 ? 2 : 100);
    }
}

/* If c, y is the layer's result for x, else x: the weights are constants of the body. */
static void test_layers_in_bodies_run_by_the_kernel(void **state)
{
    const struct layer l = { .type = LSTM,
                             .T = 3,
                             .B = 2,
                             .I = 20,
                             .H = 20,
                             .D = 1,
                             .direction = "forward",
                             .without_out = 1 | 4 };
    struct build b = { .opset = 14 }, yes = { .prefix = "yes" }, no = { .prefix = "no" };
    const struct pare_tolerance tol = { 1e-5, 1e-6 };
    const char *out[3], *value[4] = { "" }, *c, *name;
    struct pare_tensor in[4], y, want;
    struct pare_model *m;
    struct pare_plan *p;

    (void)state;
    in[1] = build_tensor(PARE_BOOL, 0, NULL);
    *(bool *)in[1].data = true;
    make_inputs(&l, in);
    value[0] = build_input(&b, PARE_F32, 3, in[0].dim);
    c = build_input(&b, PARE_BOOL, 0, NULL);
    add_layer(&yes, &l, value, out);
    build_output(&yes, out[0]);
    build_output(&no, build_node(&no, "Identity", NAMES(value[0]), NOTHING));
    name = build_node(&b, "If", NAMES(c),
                      CAT(at_graph("then_branch", &yes), at_graph("else_branch", &no)));
    build_output(&b, name);
    m = build_model(&b);
    for (int reference = 1; reference >= 0; reference--) {
        struct pare_plan_opts o = { .in = in, .n_in = 2, .reference = reference };

        assert_int_equal(pare_plan_new(m, &o, &p, &err), 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pare_plan_run(p, in, 2, &y, 1, &err), 0);
        if (reference)
            want = build_copy(&y);
        else
            assert_int_equal(pare_tensor_compare(&y, &want, tol, &err), 0);
        assert_int_equal(pare_body_plans_count(p), !reference);
        pare_plan_free(p);
    }
    pare_model_free(m);
}

static void fail_allocations(const struct pare_model *m, const struct pare_plan_opts *o)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        int failures = 0;

        for (int n = 1; build_plan_fails(m, o, 0, sign * n, &failures); n++)
            ;
        assert_true(failures > 0);
    }
}

static void test_failing_memory(void **state)
{
    const struct layer l = { .type = LSTM,
                             .T = 3,
                             .B = 2,
                             .I = 20,
                             .H = 20,
                             .D = 2,
                             .direction = "bidirectional",
                             .with = PARE_IN(3) | PARE_IN(7) };
    struct pare_tensor in[4];
    struct pare_plan_opts o = { .in = in, .threads = 1 };
    struct pare_model *m;

    (void)state;
    o.n_in = make_inputs(&l, in);
    m = make_net(&l, in);
    fail_allocations(m, &o);
    pare_model_free(m);
    for (int signed8 = 0; signed8 < 2; signed8++) {
        m = make_dynamic(&l, in, true, signed8);
        fail_allocations(m, &o);
        pare_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_layers_equal_reference, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_divided_layers_equal_reference, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_quantized_weights_are_packed, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_dynamic_quantization_equals_reference, make_pool,
                                        drop_pool),
        cmocka_unit_test_setup_teardown(test_bad_sequence_length_is_an_error, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_vector_cells_equal_plain_cells, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_layers_in_bodies_run_by_the_kernel, make_pool,
                                        drop_pool),
        cmocka_unit_test_setup_teardown(test_failing_memory, make_pool, drop_pool),
    };

    pare_rng_init(&rng, 23);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
