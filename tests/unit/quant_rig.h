/* quant_rig.h - fixture for tests of quantizers: one layer without a model, and training on the
 * digits. */
#ifndef PARE_TESTS_QUANT_RIG_H
#define PARE_TESTS_QUANT_RIG_H

#include "prune_rig.h"

#include "quant/quant_config.h"
#include "compress/method.h"
#include "quant/quant_method.h"

/* ---- one layer, without a model ------------------------------------------------------------ */

struct quantizer_rig {
    struct pare_arena *arena;
    const struct pare_algorithm *a;
    const struct pare_quantizer *z; /* a->quantizer */
    struct pare_compression compression;
    struct pare_quant_state quant;
    struct pare_layer layer;
    struct pare_layer_quant layer_quant;
    struct pare_trainer trainer; /* counts steps only */
    struct pare_optim optim;
};

/* A pare_quant as from quant_dtype and quant_scheme: signed ("int") or not, symmetric or not. */
static inline struct pare_quant make_quant(int bits, bool has_sign, bool symmetric, int axis)
{
    int64_t half = (int64_t)1 << (bits - 1);

    return (struct pare_quant){ .bits = bits,
                                .has_sign = has_sign,
                                .symmetric = symmetric,
                                .per_channel = axis >= 0,
                                .axis = axis,
                                .qmin = has_sign ? -half + 1 : 0,
                                .qmax = has_sign ? half - 1 : 2 * half - 1,
                                .threads = 2 };
}

/* A layer with this weight; its `sites` (a bit mask) are quantized as q specifies. */
static inline void quantizer_rig_open(struct quantizer_rig *f, const char *quantizer,
                                      const char *settings, const struct pare_tensor *w,
                                      unsigned sites, struct pare_quant q)
{
    struct pare_compression *r = &f->compression;
    struct pare_given *given = NULL;
    struct pare_option_group group;
    int n = 0;

    memset(f, 0, sizeof(*f));
    f->arena = pare_arena_new(1 << 16);
    assert_non_null(f->arena);
    ok(pare_find_quantizer(NULL, quantizer, &f->a, &rig_err));
    f->z = f->a->quantizer;
    *r = (struct pare_compression){ .arena = f->arena,
                                    .layer = &f->layer,
                                    .n_layers = 1,
                                    .threads = 2 };
    r->scratch = pare_arena_new(1 << 16);
    r->method = &pare_method_quant;
    r->quant = &f->quant;
    r->algorithm[0] = f->a;
    f->quant.quantizer = f->z;
    r->trainer = &f->trainer;
    f->quant.training = true;
    f->layer.quant = &f->layer_quant;
    f->trainer.optim = &f->optim;
    r->conf[0] = pare_alloc(f->arena, f->a->opts_size + 1, 1);
    r->state[0] = pare_alloc(f->arena, f->a->state_size + 1, 1);
    if (settings)
        ok(pare_given_split(settings, f->arena, &given, &n, &rig_err));
    group = (struct pare_option_group){ "quantizer", f->a->name, f->a->opts, r->conf[0] };
    if (f->a->opts)
        ok(pare_option_group_fill(&group, given, n, f->arena, &rig_err));
    f->layer.compression = r;
    f->layer.info = (struct pare_layer_info){ .name = "alone", .torch = "Linear", .type = "Gemm" };
    if (w)
        f->layer.w = *w;
    f->layer.state[0] = pare_alloc(f->arena, f->a->layer_size + 1, 1);
    for (int i = 0; i < PARE_QUANT_SITES; i++)
        if (sites & 1u << i) {
            f->layer_quant.site[i] = q;
            f->layer_quant.quantized[i] = true;
        }
    if (f->a->start)
        ok(f->a->start(r, &rig_err));
}

static inline void quantizer_rig_close(struct quantizer_rig *f)
{
    pare_arena_free(f->compression.scratch);
    pare_arena_free(f->arena);
}

static inline int quantizer_rig_quantize(struct quantizer_rig *f, enum pare_quant_site site,
                                         const struct pare_tensor *x, struct pare_tensor *y)
{
    pare_quantize_fn *const fn[PARE_QUANT_SITES] = { f->z->weight, f->z->input, f->z->output };
    struct pare_call_scope t = pare_call_begin(&f->compression, 0);
    int rc = fn[site](&f->layer, x, y, &rig_err);

    pare_call_end(&f->compression, t);
    return rc;
}

/* An existing buffer, or NULL. */
static inline struct pare_tensor *quantizer_rig_buffer(struct quantizer_rig *f, const char *name)
{
    for (struct pare_buffer *b = f->layer.buffers; b; b = b->next)
        if (!strcmp(b->name, name))
            return &b->t;
    return NULL;
}

static inline double buffer_value(struct quantizer_rig *f, const char *name, int64_t i)
{
    struct pare_tensor *t = quantizer_rig_buffer(f, name);

    if (!t)
        fail_msg("the layer has no buffer %s", name);
    assert_true(i < pare_numel(t));
    return (double)pare_f32(t)[i];
}

#define VECTOR(values, n) ((struct pare_tensor){ PARE_F32, 1, { n }, values })

/* ---- training on the digits ------------------------------------------------------------------ */

struct job {
    struct pare_model *model;
    struct pare_training *training;
    struct pare_compression *compression;
};

static inline struct job job_open(struct pare_model *m, const char *quantizer, const char *config,
                                  const char *settings, const char *train)
{
    struct pare_compression_opts o = { .quantizer = quantizer,
                                       .config = config,
                                       .settings = settings };
    struct job j = { .model = m };

    o.threads = 1;
    ok(pare_training_open(j.model, "digits", train, &j.training, &rig_err));
    if (quantizer) {
        ok(pare_compression_new(j.model, &o, &j.compression, &rig_err));
        ok(pare_compression_follow(j.compression, j.training, &rig_err));
        ok(pare_compression_compress(j.compression, &rig_err));
    }
    return j;
}

static inline void job_close(struct job *j)
{
    pare_compression_free(j->compression);
    pare_training_free(j->training);
    pare_model_free(j->model);
}

#endif
