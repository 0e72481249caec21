/* own_batches.c - a pruner, a quantizer and a training loop of your own, with your own batches.
 *
 * usage: own_batches OUTPUT.onnx
 *
 * Trains a network on batches that the program makes, prunes it by a collector's activations,
 * removes the channels, and trains it again with a quantizer that has its own backward function.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <pare/compress.h>
#include <pare/plugin.h>

#define N 64 /* items of a batch */

/* Noise with one bright quadrant; the label says which. */
static void make_batch(float *x, int64_t *y)
{
    for (int i = 0; i < N; i++) {
        y[i] = rand() % 4;
        for (int k = 0; k < 64; k++)
            x[i * 64 + k] = (float)rand() / (float)RAND_MAX +
                            0.4f * (float)(k / 32 * 2 + k % 8 / 4 == y[i]);
    }
}

/* ---- the pruner: removes the output channels with the least activation ---------------------- */

static int collect(struct pare_layer *l, const struct pare_tensor *in,
                   const struct pare_tensor *out, void *user, struct pare_err *err)
{
    int64_t c = out->dim[1], area = pare_numel(out) / out->dim[0] / c;
    struct pare_tensor *sum = pare_layer_statistic(l, "sum", PARE_MERGE_SUM, PARE_F32, c, err);

    (void)in, (void)user;
    for (int64_t i = 0; sum && i < pare_numel(out); i++)
        pare_f32_mut(sum)[i / area % c] += fmaxf(pare_f32(out)[i], 0);
    return sum ? 0 : err->code;
}

static int score(struct pare_compression *c, struct pare_layer *l, float *score,
                 struct pare_err *err)
{
    int64_t n = pare_layer_units(l)->n;
    struct pare_tensor *sum = pare_layer_statistic(l, "sum", PARE_MERGE_SUM, PARE_F32, n, err);

    for (int64_t i = 0; sum && i < n; i++)
        score[i] = pare_f32(sum)[i];
    return !sum ? err->code : pare_compression_steps(c) < 10 ? PARE_NOT_YET : 0;
}

static const struct pare_pruner prune = { .size = sizeof(prune),
                                          .granularity = "out_channel",
                                          .score = score };
static const struct pare_algorithm active = { .abi = PARE_ABI,
                                              .size = sizeof(active),
                                              .name = "active",
                                              .doc = "Keep active channels.",
                                              .types = "Conv2d",
                                              .flags = PARE_ONE_SHOT,
                                              .pruner = &prune };

/* ---- the quantizer: weights by their largest magnitude; gradients of large weights are 0 ---- */

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    struct pare_tensor *scale = pare_layer_scale(l, PARE_WEIGHT, 1, err);
    struct pare_tensor *zero = scale ? pare_layer_zero_point(l, PARE_WEIGHT, 1, err) : NULL;
    float largest = 0;

    if (!zero)
        return err->code;
    for (int64_t i = 0; i < pare_numel(x); i++)
        largest = fmaxf(largest, fabsf(pare_f32(x)[i]));
    pare_quant_fit(pare_layer_quant(l, PARE_WEIGHT), (double)-largest, (double)largest,
                   pare_f32_mut(scale), pare_f32_mut(zero));
    pare_quant_apply(pare_layer_quant(l, PARE_WEIGHT), x, pare_f32(scale), pare_f32(zero), y);
    return 0;
}

static int backward(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *err)
{
    (void)l, (void)site, (void)err;
    for (int64_t i = 0; i < pare_numel(x); i++)
        pare_f32_mut(gx)[i] = fabsf(pare_f32(x)[i]) > 1 ? 0 : pare_f32(gy)[i];
    return 0;
}

static const struct pare_quantizer quant = { sizeof(quant), weight, NULL, NULL, backward, 2, 8 };
static const struct pare_algorithm largest = { .abi = PARE_ABI,
                                               .size = sizeof(largest),
                                               .name = "largest",
                                               .doc = "Scale by the maximum.",
                                               .quantizer = &quant };

/* ---- the loop ------------------------------------------------------------------------------- */

/* Trains 100 batches; algorithm: what compresses the model meanwhile, NULL: nothing.  files: what
 * to write at the end. */
static int train(struct pare_model *m, const struct pare_compression_opts *algorithm,
                 const struct pare_export *files, struct pare_err *err)
{
    static float pixel[N * 64];
    static int64_t label[N];
    struct pare_training_opts o = { .size = sizeof(o),
                                    .settings = "optimizer=adam lr=2e-3 schedule=constant" };
    struct pare_tensor x = { PARE_F32, 4, { N, 1, 8, 8 }, pixel },
                       y = { PARE_I64, 1, { N }, label };
    struct pare_tensor out;
    struct pare_training *t = NULL;
    struct pare_compression *c = NULL;
    double loss = 0;
    int id, rc = pare_training_new(m, &o, &t, err);

    if (!rc && algorithm && !(rc = pare_compression_new(m, algorithm, &c, err)) &&
        !(rc = pare_compression_follow(c, t, err)) && !(rc = pare_compression_compress(c, err)))
        rc = algorithm->pruner ? pare_add_collector(c, collect, NULL, &id, err) : 0;
    for (int i = 0; i < 100 && !rc; i++) {
        make_batch(pixel, label);
        rc = pare_training_forward(t, &x, 1, &out, err);
        rc = rc ? rc : pare_training_loss(t, &y, &loss, err);
        rc = rc ? rc : pare_training_backward(t, err);
        rc = rc ? rc : pare_training_optimize(t, err);
        rc = rc ? rc : pare_training_step(t, err); /* masks or scales are updated */
        if (!rc && c && algorithm->pruner && i == 10)
            rc = pare_remove_collector(c, id, err);
    }
    printf("%-8s loss %.3f\n", algorithm ? c ? pare_compression_algorithm(c) : "" : "float", loss);
    rc = !rc && files ? pare_compression_export(c, files, err) : rc;
    pare_training_free(t);
    pare_compression_free(c);
    return rc;
}

static int run(const char *path, struct pare_registry *g, struct pare_model **m,
               struct pare_arena *a, struct pare_err *err)
{
    static const char *const convs[] = { "conv1", "conv2", NULL }, *const all[] = { "default",
                                                                                    NULL };
    const struct pare_rule half = { .op_names = convs, .keys = "sparsity=0.5" };
    const struct pare_rule int8 = { .op_types = all, .keys = "quant_types=weight quant_bits=8" };
    struct pare_compression_opts o = { .pruner = "active", .rule = &half, .n_rules = 1 };
    const struct pare_export files = { .size = sizeof(files), .onnx = path };
    struct pare_speedup_report r;
    struct pare_model_quant q;

    PARE_TRY(pare_add_pruner(g, &active, err));
    PARE_TRY(pare_add_quantizer(g, &largest, err));
    o.registry = g;
    PARE_TRY(pare_model_new("lenet", (int64_t[]){ 1, 8, 8 }, 4, 1, &m[0], err));
    PARE_TRY(train(m[0], NULL, NULL, err));
    PARE_TRY(train(m[0], &o, NULL, err));
    PARE_TRY(pare_speedup(m[0], NULL, a, &m[1], &r, err));
    printf("%lld of %lld parameters are left\n", (long long)r.params_left, (long long)r.params);
    o.pruner = NULL;
    o.quantizer = "largest";
    o.rule = &int8;
    PARE_TRY(train(m[1], &o, &files, err));
    PARE_TRY(pare_model_load(path, &m[2], err));
    PARE_TRY(pare_model_layer_quant(m[2], "conv1", 'w', &q, err));
    printf("conv1: scale %g, %s\n", (double)*pare_f32(&q.scale), pare_dtype_name(q.dtype));
    return 0;
}

int main(int argc, char **argv)
{
    struct pare_err err = { 0, "usage: own_batches OUTPUT.onnx" };
    struct pare_registry *g = pare_registry_new(&err);
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_model *m[3] = { NULL, NULL, NULL };
    int rc = argc == 2 && g && a ? run(argv[1], g, m, a, &err) : 1;

    if (rc)
        fprintf(stderr, "own_batches: %s\n", err.msg);
    for (int i = 0; i < 3; i++)
        pare_model_free(m[i]);
    pare_registry_free(g);
    pare_arena_free(a);
    return rc ? 1 : 0;
}
