/* prune_fashion.c - prune a network and fine-tune it: a complete program on <pare/compress.h>.
 *
 * usage: prune_fashion MODEL.onnx DATA [SETTINGS]
 *
 *     pare new lenet --input 1,28,28 -o lenet.onnx
 *     pare train lenet.onnx --data fashion-mnist -o trained.onnx
 *     prune_fashion trained.onnx fashion-mnist
 *
 * SETTINGS are further options of `pare train`, for example "limit=2000 epochs=1".  Writes
 * model.pth and mask.pth, which PyTorch reads, and model.onnx with a fixed batch of one item.
 */
#include <stdio.h>

#include <pare/compress.h>

#define OPTIMIZER "optimizer=sgd lr=0.001 momentum=0.9 weight_decay=1e-4 epochs=2 "

/* Remove 70 % of the weights of all convolutions and linear layers, but 50 % of the first one's. */
static const char *const types[] = { "Conv2d", "Linear", NULL };
static const char *const first[] = { "conv1", NULL };
static const struct pare_rule rules[] = {
    { .op_types = types, .keys = "sparsity=0.7" },
    { .op_names = first, .keys = "sparsity=0.5" },
};

static bool print_epoch(void *user, const struct pare_epoch_result *r)
{
    (void)user;
    printf("epoch %d  loss %.4f  validated %.2f %%\n", (int)r->epoch + 1, r->loss,
           100 * r->valid_accuracy);
    return true;
}

static void print_layers(struct pare_compression *run)
{
    for (int i = 0; i < pare_compression_layers(run); i++) {
        struct pare_layer *l = pare_compression_layer(run, i);
        const uint8_t *mask = pare_layer_mask(l)->data;
        int64_t n = pare_numel(pare_layer_mask(l)), left = 0;

        for (int64_t k = 0; k < n; k++)
            left += mask[k];
        printf("%-8s %-8s %lld of %lld weights left\n", pare_layer_name(l), pare_layer_type(l),
               (long long)left, (long long)n);
    }
}

/* Exports the model with a fixed batch of one. */
static int export(struct pare_model *model, struct pare_compression *run, struct pare_err *err)
{
    struct pare_export files = { .model = "model.pth", .onnx = "model.onnx", .masks = "mask.pth" };
    int64_t shape[PARE_MAX_RANK];
    const struct pare_io *in;

    pare_model_inputs(model, &in);
    for (int i = 0; i < in->rank; i++)
        shape[i] = i ? in->dim[i] : 1;
    files.input_shape = shape;
    files.input_rank = in->rank;
    return pare_compression_export(run, &files, err);
}

static int prune(struct pare_model *model, struct pare_training *learn,
                 struct pare_compression *run, struct pare_err *err)
{
    struct pare_epoch_result r;

    PARE_TRY(pare_compression_follow(run, learn, err));
    PARE_TRY(pare_compression_compress(run, err));
    PARE_TRY(pare_training_validate(learn, &r, err));
    printf("pruned   validated %.2f %%\n", 100 * r.valid_accuracy);
    PARE_TRY(pare_training_run(learn, print_epoch, NULL, err)); /* masked weights stay 0 */
    print_layers(run);
    return export(model, run, err);
}

int main(int argc, char **argv)
{
    const struct pare_compression_opts opts = { .pruner = "level", .rule = rules, .n_rules = 2 };
    struct pare_model *model = NULL;
    struct pare_training *learn = NULL;
    struct pare_compression *run = NULL;
    struct pare_err err = { 0 };
    char settings[512];
    int rc;

    if (argc < 3 || argc > 4) {
        fputs("usage: prune_fashion MODEL.onnx DATA [SETTINGS]\n", stderr);
        return 2;
    }
    snprintf(settings, sizeof(settings), "%s%s", OPTIMIZER, argc == 4 ? argv[3] : "");
    rc = pare_model_load(argv[1], &model, &err);
    if (!rc)
        rc = pare_training_open(model, argv[2], settings, &learn, &err);
    if (!rc)
        rc = pare_compression_new(model, &opts, &run, &err);
    if (!rc)
        rc = prune(model, learn, run, &err);
    if (rc)
        fprintf(stderr, "prune_fashion: %s\n", err.msg);
    pare_training_free(learn); /* before the compression that follows it */
    pare_compression_free(run);
    pare_model_free(model);
    return rc ? 1 : 0;
}
