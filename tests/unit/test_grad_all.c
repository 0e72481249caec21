/* test_grad_all.c - every operator of floats has a gradient, or a reason not to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"

static const struct {
    const char *types, *reason;
} without[] = {
    { "Equal Greater GreaterOrEqual Less LessOrEqual IsInf IsNaN", "the result is true or false" },
    { "BitCast", "the result is other numbers with the same bits" },
    { "ArgMax ArgMin NonZero NonMaxSuppression", "the result is indices" },
    { "Shape Size", "only the shape of the input counts" },
    { "EyeLike RandomNormalLike RandomUniformLike", "only the shape of the input counts" },
    { "Bernoulli Multinomial", "the result is drawn" },
    { "Hardmax", "the result is constant wherever it is not a jump" },
    { "OneHot", "the result is a choice of two settings" },
    { "MelWeightMatrix", "the result is a table, made of settings" },
    { "Range", "how long the result is depends on the inputs" },
    { "Unique", "how long the result is depends on the input" },
    { "ConvInteger MatMulInteger", "the inputs are integers" },
    { "QuantizeLinear DynamicQuantizeLinear", "the result is integers" },
    { "DequantizeLinear QLinearConv QLinearMatMul QGemm MatMulNBits QLinearAdd QLinearMul "
      "QLinearSigmoid QLinearConcat QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu "
      "QLinearSoftmax QLinearWhere QLinearReduceMean MatMulIntegerToFloat DynamicQuantizeMatMul "
      "DynamicQuantizeLSTM",
      "what is quantized is trained before, with simulated quantization" },
    { "If Loop Scan", "which graph runs, and how often, depends on data" },
    { "SequenceMap SequenceConstruct SequenceInsert SplitToSequence ConcatFromSequence SequenceAt",
      "sequences exist only while the graph runs" },
};

#define N_WITHOUT (sizeof(without) / sizeof(*without))

/* Is the word one of the words of a list? */
static bool listed(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = strstr(list, word); p; p = strstr(p + 1, word))
        if ((p == list || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
            return true;
    return false;
}

static const char *reason_of(const char *type)
{
    for (size_t i = 0; i < N_WITHOUT; i++)
        if (listed(without[i].types, type))
            return without[i].reason;
    return NULL;
}

static bool takes_reals(const struct pare_op *op)
{
    bool main_type = !op->types || op->types & PARE_T_FLOATS;

    return op->in && (strpbrk(op->in, "UAF") || (main_type && strchr(op->in, 'T')));
}

static void real_operators_have_gradients(void **state)
{
    (void)state;
    for (const struct pare_op *const *op = pare_ops; *op; op++)
        if (takes_reals(*op) && !(*op)->backward && !reason_of((*op)->type))
            fail_msg("%s has no backward(), and no reason is given", (*op)->type);
}

static void reasons_are_needed(void **state)
{
    int n = 0;

    (void)state;
    for (const struct pare_op *const *op = pare_ops; *op; op++) {
        if (!reason_of((*op)->type))
            continue;
        if ((*op)->backward)
            fail_msg("%s has a backward() although '%s'", (*op)->type, reason_of((*op)->type));
        n++;
    }
    for (size_t i = 0; i < N_WITHOUT; i++)
        for (const char *p = without[i].types; p; p = strchr(p + 1, ' '))
            n--;
    assert_int_equal(n, 0); /* no name in the list is unknown */
}

/* What plans apply to other layouts belongs together. */
static void elementwise_operators_have_both(void **state)
{
    (void)state;
    for (const struct pare_op *const *op = pare_ops; *op; op++) {
        const struct pare_op *o = *op;

        if (o->backward == pare_backward_map && (!o->map || !o->dmap))
            fail_msg("%s goes back by dmap() but lacks map() or dmap()", o->type);
        if (o->backward == pare_backward_map2 && (!o->map2 || !o->dmap2))
            fail_msg("%s goes back by dmap2() but lacks map2() or dmap2()", o->type);
        if ((o->dmap && !o->map) || (o->dmap2 && !o->map2))
            fail_msg("%s has the derivative of a function it has not", o->type);
        if (o->backward && o->backward != pare_backward_zero &&
            ((o->map && !o->dmap) || (o->map2 && !o->dmap2)))
            fail_msg("%s has a function without its derivative", o->type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_operators_have_gradients),
        cmocka_unit_test(reasons_are_needed),
        cmocka_unit_test(elementwise_operators_have_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
