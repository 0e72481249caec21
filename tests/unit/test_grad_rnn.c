/* test_grad_rnn.c - gradients of RNN, GRU and LSTM through time. */
#include "grad_rows.h"

/* A recurrent operator; peepholes: it has an input P. */
struct cell {
    const char *type;
    int gates, outs;
    bool peepholes;
};

static const struct cell rnn = { "RNN", 1, 2, false };
static const struct cell gru = { "GRU", 3, 2, false };
static const struct cell lstm = { "LSTM", 4, 3, true };

enum { T = 4, N = 3, I = 2, H = 3 };

static void add_random_input(struct one_op *f, int a, int b, int c)
{
    char text[48];

    if (c)
        snprintf(text, sizeof(text), "%d,%d,%d", a, b, c);
    else
        snprintf(text, sizeof(text), "%d,%d", a, b);
    grad_in(f, text, -1, 1);
}

/* attrs: "name=value name=value"; all: with biases, lengths, initial states and peepholes. */
static void begin_cell(struct one_op *f, const struct cell *s, const char *attrs, bool all)
{
    int D = strstr(attrs, "bidirectional") ? 2 : 1, G = s->gates;
    bool batch_first = strstr(attrs, "layout=1") != NULL;
    struct row head = { s->type, 14, "", attrs, s->outs, { 0 } };

    row_begin(f, &head);
    add_random_input(f, batch_first ? N : T, batch_first ? T : N, I);
    add_random_input(f, D, G * H, I);
    add_random_input(f, D, G * H, H);
    if (!all)
        return;
    add_random_input(f, D, 2 * G * H, 0);
    op_in(f, PARE_I32, "3", LIST(4, 2, 3));
    add_random_input(f, batch_first ? N : D, batch_first ? D : N, H);
    if (!s->peepholes)
        return;
    add_random_input(f, batch_first ? N : D, batch_first ? D : N, H);
    add_random_input(f, D, 3 * H, 0);
}

static void check_cell(const struct cell *s, const char *attrs)
{
    struct one_op f;

    print_message("%s %s\n", s->type, attrs);
    begin_cell(&f, s, attrs, false);
    grad_check(&f);
    begin_cell(&f, s, attrs, true);
    grad_check(&f);
}

static void test_directions_and_layouts(void **state)
{
    static const struct cell *const all[] = { &rnn, &gru, &lstm };

    (void)state;
    for (int i = 0; i < 3; i++) {
        check_cell(all[i], "");
        check_cell(all[i], "direction=reverse");
        check_cell(all[i], "direction=bidirectional");
        check_cell(all[i], "direction=bidirectional layout=1");
    }
}

static void test_variants_of_gru_and_lstm(void **state)
{
    (void)state;
    check_cell(&gru, "linear_before_reset=1");
    check_cell(&gru, "linear_before_reset=1 direction=bidirectional");
    check_cell(&gru, "linear_before_reset=1 direction=reverse layout=1");
    check_cell(&lstm, "input_forget=1");
    check_cell(&lstm, "input_forget=1 direction=bidirectional");
}

static void test_smooth_activations(void **state)
{
    (void)state;
    check_cell(&rnn, "activations=Sigmoid");
    check_cell(&rnn, "activations=Affine activation_alpha=0.7 activation_beta=0.2");
    check_cell(&rnn, "activations=ScaledTanh activation_alpha=1.3 activation_beta=0.8");
    check_cell(&rnn, "activations=Softsign");
    check_cell(&rnn, "activations=Softplus");
    check_cell(&rnn, "activations=HardSigmoid activation_alpha=0.05");
    check_cell(&rnn, "activations=Elu,Softplus activation_alpha=1 direction=bidirectional");
    check_cell(&gru, "activations=Softsign,Softplus");
    check_cell(&lstm, "activations=Sigmoid,Affine,ScaledTanh activation_alpha=0.9,1.1 "
                      "activation_beta=0.1,0.8");
}

/* The gradient at one value of the input, on one side of a kink. */
static void check_side(const char *attrs, double x)
{
    struct row head = { "RNN", 14, "", attrs, 2, { 0 } };
    struct one_op f;

    print_message("RNN %s at %g\n", attrs, x);
    row_begin(&f, &head);
    op_in(&f, PARE_F32, "2,1,1", LIST(x, x));
    op_in(&f, PARE_F32, "1,1,1", LIST(1));
    op_in(&f, PARE_F32, "1,1,1", LIST(0.1));
    grad_check(&f);
}

static void test_activations_with_kinks(void **state)
{
    static const char *const attrs[] = {
        "activations=Relu",
        "activations=LeakyRelu activation_alpha=0.3",
        "activations=ThresholdedRelu activation_alpha=0.4",
        "activations=Elu activation_alpha=0.7",
        "activations=HardSigmoid activation_alpha=0.6 activation_beta=0.5",
        "activations=Affine clip=0.6",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(attrs) / sizeof(*attrs); i++) {
        check_side(attrs[i], -1.2);
        check_side(attrs[i], -0.2);
        check_side(attrs[i], 0.25);
        check_side(attrs[i], 1.2);
    }
}

/* Some sums are clipped, some are not; none is near the limit. */
static void test_clipping(void **state)
{
    struct one_op f;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct cell *s = i ? &lstm : &gru;

        begin_cell(&f, s, "clip=0.85 direction=bidirectional", true);
        grad_check_with(&f, &(struct grad_opts){ .step = 1e-3, .tol = 1e-2 });
    }
}

/* Only one of the outputs has a gradient, or the others do not exist. */
static void test_used_outputs(void **state)
{
    struct one_op f;

    (void)state;
    for (unsigned used = 0; used < 3; used++) {
        begin_cell(&f, &lstm, "direction=bidirectional", true);
        grad_check_with(&f, &(struct grad_opts){ .skip_out = 7u & ~(1u << used) });
    }
    begin_cell(&f, &gru, "", true);
    f.node.n_out = 1;
    grad_check(&f);
    begin_cell(&f, &lstm, "", true);
    grad_check_with(&f, &(struct grad_opts){ .skip_out = 7 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directions_and_layouts),
        cmocka_unit_test(test_variants_of_gru_and_lstm),
        cmocka_unit_test(test_smooth_activations),
        cmocka_unit_test(test_activations_with_kinks),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_used_outputs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
