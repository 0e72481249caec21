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
    { "BitCast", "the result has the same bits in another type" },
    { "ArgMax ArgMin NonZero NonMaxSuppression", "the result is indices" },
    { "Shape Size", "the result depends only on the shape of the input" },
    { "EyeLike RandomNormalLike RandomUniformLike",
      "the result depends only on the shape of the input" },
    { "Bernoulli Multinomial", "the result is random" },
    { "Hardmax", "the result is piecewise constant" },
    { "OneHot", "the result contains only two constants" },
    { "MelWeightMatrix", "the result is a table computed from settings" },
    { "Range", "the length of the result depends on the inputs" },
    { "Unique", "the length of the result depends on the input" },
    { "ConvInteger MatMulInteger", "the inputs are integers" },
    { "TfIdfVectorizer", "the inputs are integers or strings" },
    { "QuantizeLinear DynamicQuantizeLinear", "the result is integers" },
    { "DequantizeLinear QLinearConv QLinearMatMul QGemm MatMulNBits QLinearAdd QLinearMul "
      "QLinearSigmoid QLinearConcat QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu "
      "QLinearSoftmax QLinearWhere QLinearReduceMean MatMulIntegerToFloat DynamicQuantizeMatMul "
      "DynamicQuantizeLSTM",
      "quantized models are trained with fake-quant nodes" },
    { "If Loop Scan", "the body that runs, and how often, depends on data" },
    { "SequenceMap SequenceConstruct SequenceInsert SplitToSequence ConcatFromSequence SequenceAt",
      "sequences exist only while the graph runs" },
};

#define N_WITHOUT (sizeof(without) / sizeof(*without))

/* Is the word one of the words of a list? */
static bool is_in_list(const char *list, const char *word)
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
        if (is_in_list(without[i].types, type))
            return without[i].reason;
    return NULL;
}

static bool takes_floats(const struct pare_op *op)
{
    bool main_type = !op->types || op->types & PARE_T_FLOATS;

    return op->in && (strpbrk(op->in, "UAF") || (main_type && strchr(op->in, 'T')));
}

static void test_float_operators_have_gradients(void **state)
{
    (void)state;
    for (const struct pare_op *const *op = pare_ops; *op; op++)
        if (takes_floats(*op) && !(*op)->backward && !reason_of((*op)->type))
            fail_msg("%s has no backward() and is not in the list of reasons", (*op)->type);
}

static void test_listed_operators_have_no_gradient(void **state)
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
    assert_int_equal(n, 0); /* each name in the list is an operator */
}

/* Plans call map(), dmap(), map2() and dmap2() in any layout: none may be missing. */
static void test_elementwise_operators_have_derivatives(void **state)
{
    (void)state;
    for (const struct pare_op *const *op = pare_ops; *op; op++) {
        const struct pare_op *o = *op;

        if (o->backward == pare_backward_map && (!o->map || !o->dmap))
            fail_msg("%s has a backward pass by dmap() but lacks map() or dmap()", o->type);
        if (o->backward == pare_backward_map2 && (!o->map2 || !o->dmap2))
            fail_msg("%s has a backward pass by dmap2() but lacks map2() or dmap2()", o->type);
        if ((o->dmap && !o->map) || (o->dmap2 && !o->map2))
            fail_msg("%s has dmap() without map(), or dmap2() without map2()", o->type);
        if (o->backward && o->backward != pare_backward_zero &&
            ((o->map && !o->dmap) || (o->map2 && !o->dmap2)))
            fail_msg("%s has map() without dmap(), or map2() without dmap2()", o->type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_operators_have_gradients),
        cmocka_unit_test(test_listed_operators_have_no_gradient),
        cmocka_unit_test(test_elementwise_operators_have_derivatives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
