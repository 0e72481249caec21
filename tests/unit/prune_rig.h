/* prune_rig.h - fixture for tests of pruners: one layer without a model, and small networks in
 * training. */
#ifndef PARE_TESTS_PRUNE_RIG_H
#define PARE_TESTS_PRUNE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "onnx/model.h"
#include "compress/method.h"
#include "prune/prune_method.h"
#include "prune/prune_state.h"
#include "train/training.h"
#include "zoo/zoo_layers.h"

static struct pare_err rig_err;

static inline void ok(int rc)
{
    if (rc)
        fail_msg("%s", rig_err.msg);
}

static inline void expect_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.9g, expected %.9g", got, want);
}

/* ---- one layer, without a model ------------------------------------------------------------ */

struct pruner_rig {
    struct pare_arena *arena;
    const struct pare_algorithm *p;
    struct pare_compression compression;
    struct pare_prune_state prune;
    struct pare_layer layer;
    struct pare_layer_prune layer_prune;
    struct pare_entry entry;
    struct pare_trainer trainer; /* counts steps only */
    struct pare_optim optim;
    float *score;
};

/* A pruner with settings and keys, "name=value ...", and a layer with the weight w. */
static inline void pruner_rig_open(struct pruner_rig *f, const char *pruner, const char *settings,
                                   const struct pare_tensor *w, const struct pare_grain *g)
{
    struct pare_compression *r = &f->compression;
    struct pare_given *given = NULL;
    struct pare_option_group group;
    int n = 0;

    memset(f, 0, sizeof(*f));
    f->arena = pare_arena_new(1 << 16);
    assert_non_null(f->arena);
    ok(pare_find_pruner(NULL, pruner, &f->p, &rig_err));
    *r = (struct pare_compression){ .arena = f->arena,
                                    .layer = &f->layer,
                                    .n_layers = 1,
                                    .threads = 2 };
    r->scratch = pare_arena_new(1 << 16);
    r->method = &pare_method_prune;
    r->prune = &f->prune;
    r->algorithm[0] = f->p;
    f->prune.settings.mode = "normal";
    f->layer.prune = &f->layer_prune;
    r->trainer = &f->trainer;
    f->trainer.optim = &f->optim;
    r->conf[0] = pare_alloc(f->arena, f->p->opts_size + 1, 1);
    r->state[0] = pare_alloc(f->arena, f->p->state_size + 1, 1);
    if (settings)
        ok(pare_given_split(settings, f->arena, &given, &n, &rig_err));
    group = (struct pare_option_group){ "pruner", f->p->name, f->p->opts, r->conf[0] };
    if (f->p->opts)
        ok(pare_option_group_fill(&group, given, n, f->arena, &rig_err));
    f->layer.compression = r;
    f->layer.info = (struct pare_layer_info){ .name = "alone", .torch = "Linear", .type = "Gemm" };
    f->layer.w = *w;
    f->layer.out_axis = g->out_axis;
    f->layer.in_axis = g->in_axis;
    f->layer.entry = &f->entry;
    f->layer.state[0] = pare_alloc(f->arena, f->p->layer_size + 1, 1);
    f->layer.conf[0] = pare_alloc(f->arena, f->p->conf_size + 1, 1);
    group = (struct pare_option_group){ "pruner", f->p->name, f->p->keys, f->layer.conf[0] };
    if (f->p->keys)
        ok(pare_option_group_fill(&group, given, n, f->arena, &rig_err));
    ok(pare_tensor_new(f->arena, &f->layer.mask, PARE_BOOL, w->rank, w->dim, &rig_err));
    memset(f->layer.mask.data, 1, (size_t)pare_numel(w));
    ok(pare_units_make(w, g, &f->layer_prune.units, &rig_err));
    f->score = pare_alloc(f->arena, (size_t)f->layer_prune.units.n, sizeof(float));
}

static inline void pruner_rig_close(struct pruner_rig *f)
{
    pare_arena_free(f->compression.scratch);
    pare_arena_free(f->arena);
}

/* One training step with this gradient, which the pruner may change. */
static inline void pruner_rig_step(struct pruner_rig *f, const struct pare_tensor *grad)
{
    f->layer.grad = *grad;
    f->compression.in_step = true;
    ok(f->p->before_step(&f->compression, &rig_err));
    f->compression.in_step = false;
    f->optim.step++;
    if (f->p->on_step)
        ok(f->p->on_step(&f->compression, f->optim.step, &rig_err));
}

static inline const float *pruner_rig_score(struct pruner_rig *f)
{
    ok(f->p->pruner->score(&f->compression, &f->layer, f->score, &rig_err));
    return f->score;
}

/* ---- networks ------------------------------------------------------------------------------ */

/* The network of NNI's tests, "t1". */
static inline struct pare_flow t1_build(struct pare_net *n, struct pare_flow x)
{
    x = pare_net_conv(n, x, "conv1", (struct pare_conv){ .out = 5, .kernel = 5, .bias = true });
    x = pare_net_relu(n, pare_net_batch_norm(n, x, "bn1"), "relu1");
    x = pare_net_max_pool(n, x, "pool1", 2);
    x = pare_net_conv(n, x, "conv2", (struct pare_conv){ .out = 10, .kernel = 5, .bias = true });
    x = pare_net_relu(n, pare_net_batch_norm(n, x, "bn2"), "relu2");
    x = pare_net_flatten(n, pare_net_max_pool(n, x, "pool2", 2), "flatten");
    x = pare_net_relu(n, pare_net_linear(n, x, "fc1", 100), "relu3");
    return pare_net_apply(n, pare_net_linear(n, x, "fc2", n->classes), "LogSoftmax", "softmax");
}

/* A network for the digits, with batch normalization: "small". */
static inline struct pare_flow small_build(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 8, .kernel = 3, .pad = 1, .bias = true };

    x = pare_net_batch_norm(n, pare_net_conv(n, x, "conv1", c), "bn1");
    x = pare_net_max_pool(n, pare_net_relu(n, x, "relu1"), "pool1", 2);
    c.out = 16;
    x = pare_net_batch_norm(n, pare_net_conv(n, x, "conv2", c), "bn2");
    x = pare_net_max_pool(n, pare_net_relu(n, x, "relu2"), "pool2", 2);
    x = pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc1", 32);
    return pare_net_linear(n, pare_net_relu(n, x, "relu3"), "fc2", n->classes);
}

static inline struct pare_model *rig_model(const char *name)
{
    static const struct pare_network own[] = { { .name = "t1", .build = t1_build },
                                               { .name = "small", .build = small_build } };
    struct pare_network_opts o = { .c = 1, .h = 8, .w = 8, .classes = 10, .seed = 1 };
    const struct pare_network *net = NULL;
    struct pare_model *m;

    for (int i = 0; i < 2; i++)
        if (!strcmp(own[i].name, name))
            net = &own[i];
    if (net == own)
        o.h = o.w = 28;
    if (!net)
        ok(pare_find_network(name, &net, &rig_err));
    ok(pare_network_make(net, &o, &m, &rig_err));
    return m;
}

static inline struct pare_tensor *rig_weight(struct pare_model *m, const char *name)
{
    struct pare_value *v = pare_graph_find(m->graph, name);

    assert_non_null(v);
    ok(pare_model_own(m, v, &rig_err));
    return &v->t;
}

/* Channel c of the first axis is filled with first + c * step. */
static inline void rig_fill_channels(struct pare_model *m, const char *name, float first,
                                     float step)
{
    struct pare_tensor *t = rig_weight(m, name);
    int64_t size = pare_numel(t) / t->dim[0];

    for (int64_t i = 0; i < pare_numel(t); i++)
        pare_f32_mut(t)[i] = first + (float)(i / size) * step;
}

static inline struct pare_compression *rig_compression(struct pare_model *m, const char *pruner,
                                                       const char *config, const char *settings)
{
    struct pare_compression_opts o = { .pruner = pruner, .config = config, .settings = settings };
    struct pare_compression *r;

    o.seed = 1;
    o.threads = 1;
    ok(pare_compression_new(m, &o, &r, &rig_err));
    return r;
}

static inline struct pare_layer *rig_layer(struct pare_compression *r, const char *name)
{
    for (int i = 0; i < pare_compression_layers(r); i++)
        if (!strcmp(pare_layer_name(pare_compression_layer(r, i)), name))
            return pare_compression_layer(r, i);
    fail_msg("the compression has no layer %s", name);
    return NULL;
}

/* The kept channels of the first axis as text: "11001"; '?' for a channel that is kept in part. */
static inline const char *rig_kept(const struct pare_tensor *mask, char text[64])
{
    int64_t n = mask->dim[0], size = pare_numel(mask) / n;

    assert_true(n < 64);
    for (int64_t c = 0; c < n; c++) {
        int64_t sum = 0;

        for (int64_t i = 0; i < size; i++)
            sum += ((const uint8_t *)mask->data)[c * size + i];
        text[c] = sum == size ? '1' : sum ? '?' : '0';
    }
    text[n] = 0;
    return text;
}

static inline void rig_expect_kept(struct pare_compression *r, const char *layer, const char *kept)
{
    struct pare_layer *l = rig_layer(r, layer);
    char text[64];

    assert_string_equal(rig_kept(pare_layer_mask(l), text), kept);
    if (pare_layer_bias_mask(l))
        assert_string_equal(rig_kept(pare_layer_bias_mask(l), text), kept);
}

/* Accuracy on the validation set. */
static inline double rig_accuracy(struct pare_training *l)
{
    struct pare_epoch_result r;

    ok(pare_training_validate(l, &r, &rig_err));
    return r.valid_accuracy;
}

/* Number of removed weights of a layer. */
static inline int64_t rig_removed(struct pare_layer *l)
{
    const struct pare_tensor *m = pare_layer_mask(l);
    int64_t removed = 0;

    for (int64_t i = 0; i < pare_numel(m); i++)
        removed += !((const uint8_t *)m->data)[i];
    return removed;
}

#endif
