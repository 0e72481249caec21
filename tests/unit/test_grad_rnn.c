/* test_grad_rnn.c - gradients of RNN, GRU and LSTM through time. */
#include "grad_rows.h"

/* Everything that is optional is there: biases, lengths, initial states, and peepholes. */
struct shape {
    const char *type;
    int gates, outs;
    bool peepholes;
};

static const struct shape rnn = { "RNN", 1, 2, false };
static const struct shape gru = { "GRU", 3, 2, false };
static const struct shape lstm = { "LSTM", 4, 3, true };

enum { T = 4, N = 3, I = 2, H = 3 };

static void sized(struct one_op *f, int a, int b, int c)
{
    char text[48];

    if (c)
        snprintf(text, sizeof(text), "%d,%d,%d", a, b, c);
    else
        snprintf(text, sizeof(text), "%d,%d", a, b);
    grad_in(f, text, -1, 1);
}

/* attrs as "name=value name=value". */
static void begin(struct one_op *f, const struct shape *s, const char *attrs, bool all)
{
    int D = strstr(attrs, "bidirectional") ? 2 : 1, G = s->gates;
    bool batch_first = strstr(attrs, "layout=1") != NULL;
    struct row head = { s->type, 14, "", attrs, s->outs, { 0 } };

    row_begin(f, &head);
    sized(f, batch_first ? N : T, batch_first ? T : N, I);
    sized(f, D, G * H, I);
    sized(f, D, G * H, H);
    if (!all)
        return;
    sized(f, D, 2 * G * H, 0);
    op_in(f, PARE_I32, "3", LIST(4, 2, 3));
    sized(f, batch_first ? N : D, batch_first ? D : N, H);
    if (!s->peepholes)
        return;
    sized(f, batch_first ? N : D, batch_first ? D : N, H);
    sized(f, D, 3 * H, 0);
}

static void check(const struct shape *s, const char *attrs)
{
    struct one_op f;

    print_message("%s %s\n", s->type, attrs);
    begin(&f, s, attrs, false);
    grad_check(&f);
    begin(&f, s, attrs, true);
    grad_check(&f);
}

static void test_directions(void **state)
{
    static const struct shape *const all[] = { &rnn, &gru, &lstm };

    (void)state;
    for (int i = 0; i < 3; i++) {
        check(all[i], "");
        check(all[i], "direction=reverse");
        check(all[i], "direction=bidirectional");
        check(all[i], "direction=bidirectional layout=1");
    }
}

static void test_variants(void **state)
{
    (void)state;
    check(&gru, "linear_before_reset=1");
    check(&gru, "linear_before_reset=1 direction=bidirectional");
    check(&gru, "linear_before_reset=1 direction=reverse layout=1");
    check(&lstm, "input_forget=1");
    check(&lstm, "input_forget=1 direction=bidirectional");
}

static void test_activations(void **state)
{
    (void)state;
    check(&rnn, "activations=Sigmoid");
    check(&rnn, "activations=Affine activation_alpha=0.7 activation_beta=0.2");
    check(&rnn, "activations=ScaledTanh activation_alpha=1.3 activation_beta=0.8");
    check(&rnn, "activations=Softsign");
    check(&rnn, "activations=Softplus");
    check(&rnn, "activations=HardSigmoid activation_alpha=0.05");
    check(&rnn, "activations=Elu,Softplus activation_alpha=1 direction=bidirectional");
    check(&gru, "activations=Softsign,Softplus");
    check(&lstm, "activations=Sigmoid,Affine,ScaledTanh activation_alpha=0.9,1.1 "
                 "activation_beta=0.1,0.8");
}

/* One input moves one state through a kink, once on each side of it. */
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

static void test_kinks(void **state)
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

/* Some sums are clipped, some are not; none is near the edge. */
static void test_clip(void **state)
{
    struct one_op f;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct shape *s = i ? &lstm : &gru;

        begin(&f, s, "clip=0.85 direction=bidirectional", true);
        grad_check_with(&f, &(struct grad_opts){ .step = 1e-3, .tol = 1e-2 });
    }
}

/* Only one of the outputs is used; or the others do not exist. */
static void test_outputs(void **state)
{
    struct one_op f;

    (void)state;
    for (unsigned used = 0; used < 3; used++) {
        begin(&f, &lstm, "direction=bidirectional", true);
        grad_check_with(&f, &(struct grad_opts){ .skip_out = 7u & ~(1u << used) });
    }
    begin(&f, &gru, "", true);
    f.node.n_out = 1;
    grad_check(&f);
    begin(&f, &lstm, "", true);
    grad_check_with(&f, &(struct grad_opts){ .skip_out = 7 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directions),  cmocka_unit_test(test_variants),
        cmocka_unit_test(test_activations), cmocka_unit_test(test_kinks),
        cmocka_unit_test(test_clip),        cmocka_unit_test(test_outputs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
