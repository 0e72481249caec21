/* test_quantize_zeros.c - quantizing and training a pruned model keeps zeros, also in the file. */
#include "quant_rig.h"

#include <unistd.h>

#include "quant/conv_bn_quant.h"

#define LEARN "optimizer=adam lr=2e-3 batch=32 threads=1 seed=1 valid=none epochs=2"
#define CONFIG(types, dtype, scheme)                                                           \
    "[{\"quant_types\": [" types "], \"op_types\": [\"Conv2d\", \"Linear\"], \"quant_bits\": " \
    "4, \"quant_dtype\": \"" dtype "\", \"quant_scheme\": \"" scheme "\"}]"

static const char *const names[] = { "conv1.weight", "conv2.weight", "fc1.weight", "fc2.weight" };

/* Two of three weights are removed, as after pruning. */
static bool is_removed(int64_t i)
{
    return i % 3 != 1;
}

static struct pare_model *pruned_model(void)
{
    struct pare_model *m = rig_model("small");

    for (int k = 0; k < 4; k++) {
        struct pare_tensor *t = rig_weight(m, names[k]);

        for (int64_t i = 0; i < pare_numel(t); i++)
            if (is_removed(i))
                pare_f32_mut(t)[i] = 0;
    }
    return m;
}

static int64_t int_at(const struct pare_tensor *t, int64_t i)
{
    return t->dtype == PARE_I8 ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

/* In the file, the integer of a removed weight is the zero point. */
static void check_file(struct pare_compression *r, const char *path)
{
    struct pare_export e = { .onnx = path };
    struct pare_model *m;

    ok(pare_compression_export(r, &e, &rig_err));
    ok(pare_model_load(path, &m, &rig_err));
    for (int k = 0; k < 4; k++) {
        char name[64];
        struct pare_tensor *q, *z;
        int64_t others = 0, n;

        snprintf(name, sizeof(name), "%s_quantized", names[k]);
        q = rig_weight(m, name);
        snprintf(name, sizeof(name), "%s_zero_point", names[k]);
        z = rig_weight(m, name);
        n = pare_numel(q);
        for (int64_t i = 0; i < n; i++) {
            int64_t zero = int_at(z, pare_numel(z) > 1 ? i / (n / q->dim[0]) : 0);

            if (is_removed(i))
                assert_int_equal(int_at(q, i), zero);
            others += int_at(q, i) != zero;
        }
        assert_true(others > n / 5); /* of the remaining third, some are rounded to 0 */
    }
    pare_model_free(m);
    unlink(path);
}

static void check_quantizer(const char *quantizer, const char *config)
{
    struct pare_model *m = pruned_model();
    struct pare_compression_opts o = { .quantizer = quantizer, .config = config, .threads = 1 };
    struct job j = { .model = m };
    char path[64];

    o.keep_zeros = true;
    snprintf(path, sizeof(path), "/tmp/pare-zeros-%d.onnx", (int)getpid());
    ok(pare_training_open(m, "digits", LEARN, &j.training, &rig_err));
    ok(pare_compression_new(m, &o, &j.compression, &rig_err));
    ok(pare_compression_follow(j.compression, j.training, &rig_err));
    ok(pare_compression_compress(j.compression, &rig_err));
    ok(pare_training_run(j.training, NULL, NULL, &rig_err));
    for (int k = 0; k < 4; k++) {
        struct pare_tensor *t = rig_weight(m, names[k]);
        struct pare_layer *l = pare_compression_layer(j.compression, k);

        for (int64_t i = 0; i < pare_numel(t); i++)
            if (is_removed(i)) {
                assert_true(pare_f32(t)[i] == 0);
                assert_true(pare_f32(&l->w)[i] == 0); /* training did not change it */
            }
    }
    check_file(j.compression, path);
    job_close(&j);
}

static void test_keep_zeros_keeps_removed_weights(void **state)
{
    (void)state;
    check_quantizer("qat", CONFIG("\"weight\"", "int", "per_channel_symmetric"));
    check_quantizer("qat", CONFIG("\"weight\", \"input\"", "uint", "per_tensor_affine"));
    check_quantizer("lsq", CONFIG("\"weight\", \"input\"", "int", "per_tensor_symmetric"));
    check_quantizer("lsq_plus", CONFIG("\"weight\"", "uint", "per_tensor_affine"));
}

/* Without keep_zeros, removed weights are trained like others. */
static void test_removed_weights_return_without_keep_zeros(void **state)
{
    struct job j = job_open(pruned_model(), "qat",
                            CONFIG("\"weight\"", "int", "per_channel_symmetric"), NULL, LEARN);
    int64_t back = 0;

    (void)state;
    ok(pare_training_run(j.training, NULL, NULL, &rig_err));
    for (int64_t i = 0; i < pare_numel(rig_weight(j.model, "fc1.weight")); i++)
        back += is_removed(i) && pare_f32(rig_weight(j.model, "fc1.weight"))[i] != 0;
    assert_true(back > 0);
    job_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keep_zeros_keeps_removed_weights),
        cmocka_unit_test(test_removed_weights_return_without_keep_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
