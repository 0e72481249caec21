/* compress_digits.c - remove channels from a network, then quantize it to int8: a complete program
 * on <pare/compress.h>.
 *
 * usage: compress_digits MODEL.onnx DATA
 *
 *     pare new lenet --input 1,8,8 -o lenet.onnx
 *     pare train lenet.onnx --data digits -o trained.onnx
 *     compress_digits trained.onnx digits
 *
 * Writes small.onnx, with half of the channels of conv2 and fc1, and int8.onnx, the same model
 * quantized to int8, with its scales in scales.json.
 */
#include <stdio.h>

#include <pare/compress.h>

static const char *const names[] = { "conv2", "fc1", NULL };
static const struct pare_rule half = { .op_names = names, .keys = "sparsity=0.5" };

#define INT8                                                         \
    "[{\"quant_types\": [\"weight\", \"input\"], \"quant_bits\": 8," \
    "  \"op_types\": [\"Conv2d\", \"Linear\"]}]"

/* Masks channels: the model keeps its size, with zeros in it. */
static int mask_channels(struct pare_model *model, struct pare_err *err)
{
    struct pare_compression_opts opts = { .pruner = "l1",
                                          .rule = &half,
                                          .n_rules = 1,
                                          .final = true };
    struct pare_export files = { .masks = "masks.pth" };
    struct pare_compression *run;
    int rc = pare_compression_new(model, &opts, &run, err);

    if (rc)
        return rc;
    rc = pare_compression_compress(run, err);
    if (!rc)
        rc = pare_compression_export(run, &files, err);
    pare_compression_free(run);
    return rc;
}

/* Removes the masked channels.  pare_speedup() compares the outputs of both models first. */
static int remove_channels(struct pare_model *model, struct pare_arena *arena, struct pare_err *err)
{
    struct pare_speedup_opts opts = { .round_to = 2 };
    struct pare_speedup_report report;
    struct pare_model *smaller;
    int rc;

    PARE_TRY(pare_speedup(model, &opts, arena, &smaller, &report, err));
    printf("%lld of %lld parameters are left, outputs differ by %.1e\n",
           (long long)report.params_left, (long long)report.params, report.max_rel);
    rc = pare_model_save(smaller, "small.onnx", NULL, err);
    pare_model_free(smaller); /* before the model it was made from */
    return rc;
}

static int quantize_int8(struct pare_model *model, const char *data, struct pare_err *err)
{
    struct pare_compression_opts opts = { .quantizer = "ptq", .config = INT8 };
    struct pare_export files = { .onnx = "int8.onnx", .calibration = "scales.json" };
    struct pare_training *learn = NULL;
    struct pare_compression *run = NULL;
    int rc = pare_training_open(model, data, "threads=1", &learn, err);

    if (!rc)
        rc = pare_compression_new(model, &opts, &run, err);
    if (!rc)
        rc = pare_compression_follow(run, learn, err); /* ptq calibrates on the training's data */
    if (!rc)
        rc = pare_compression_compress(run, err);
    if (!rc)
        rc = pare_compression_export(run, &files, err);
    pare_training_free(learn);
    pare_compression_free(run);
    return rc;
}

int main(int argc, char **argv)
{
    struct pare_arena *arena = pare_arena_new(1 << 16);
    struct pare_model *model = NULL, *small = NULL;
    struct pare_err err = { 0 };
    int rc;

    if (argc != 3 || !arena) {
        fputs("usage: compress_digits MODEL.onnx DATA\n", stderr);
        pare_arena_free(arena);
        return 2;
    }
    rc = pare_model_load(argv[1], &model, &err);
    if (!rc)
        rc = mask_channels(model, &err);
    if (!rc)
        rc = remove_channels(model, arena, &err);
    if (!rc)
        rc = pare_model_load("small.onnx", &small, &err);
    if (!rc)
        rc = quantize_int8(small, argv[2], &err);
    if (rc)
        fprintf(stderr, "compress_digits: %s\n", err.msg);
    pare_model_free(small);
    pare_model_free(model);
    pare_arena_free(arena);
    return rc ? 1 : 0;
}
