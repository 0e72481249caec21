/* compression.c - a compression from its beginning to its end. */
#include "compression.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/option_groups.h"
#include "../train/train_options.h"
#include "../quant/bias_correct.h"
#include "../quant/calibration_file.h"
#include "../quant/equalize.h"
#include "../quant/conv_bn_quant.h"
#include "registry.h"
#include "../quant/quant_config.h"
#include "wrap.h"

#include "default_rules.h"

#define AT(field) offsetof(struct pare_prune_settings, field)

const struct pare_opt pare_prune_options[] = {
    PARE_CHOICE("mode", AT(mode),
                "rank each layer by itself, all together, in tiles, or channels that go together",
                "default", "default|normal|global|balance|dependency_aware"),
    PARE_INTS("balance_gran", AT(balance_gran),
              "of mode balance: the tiles' sizes along the last axes", 1, 1e12),
    PARE_TEXT("base", AT(base), "NAME", "of agp and the like: the pruner that they work over",
              "level"),
    PARE_OPT_END
};

#undef AT
#define AT(field) offsetof(struct pare_quant_settings, field)

const struct pare_opt pare_quant_options[] = {
    PARE_FLAG("equalize", AT(equalize),
              "first scale channels of neighbouring layers so that both reach equally far", 0),
    PARE_FLAG("bias_correction", AT(bias_correction),
              "biases undo what rounding weights does to the mean of outputs", 0),
    PARE_INT("correction_steps", AT(correction_steps), "of bias_correction: batches to look at", 8,
             1, 1e6),
    PARE_OPT_END
};

static const char *kind(const struct pare_compression *r)
{
    return r->quantizer ? "quantizer" : "pruner";
}

/* ---- settings ---------------------------------------------------------------------------- */

/* The text of a setting, before tables are filled: `base` decides which tables there are. */
static const char *text_of(const struct pare_given *g, int n, const char *name)
{
    const char *text = NULL;

    for (int i = 0; i < n; i++)
        if (!strcmp(g[i].name, name))
            text = g[i].text;
    return text;
}

static int find_pruners(struct pare_compression *r, const struct pare_compression_opts *o,
                        const struct pare_given *g, int n, struct pare_err *err)
{
    const char *base = text_of(g, n, "base");

    if (!o->pruner == !o->quantizer)
        return pare_fail(err, PARE_ECONFIG, "a run has either a pruner or a quantizer");
    if (o->quantizer) {
        PARE_TRY(pare_find_quantizer(o->registry, o->quantizer, &r->quantizer, err));
        r->pruner[0] = &r->quantizer->base;
        return 0;
    }
    PARE_TRY(pare_find_pruner(o->registry, o->pruner, &r->pruner[0], err));
    if (!(r->pruner[0]->flags & PARE_USES_BASE)) {
        if (base)
            return pare_fail(err, PARE_ECONFIG,
                             "pruner %s does not work over another, so it has "
                             "no base",
                             r->pruner[0]->name);
        return 0;
    }
    PARE_TRY(pare_find_pruner(o->registry, base ? base : "level", &r->pruner[1], err));
    if (r->pruner[1]->flags & PARE_USES_BASE)
        return pare_fail(err, PARE_ECONFIG, "pruner %s works over another itself, so it is no base",
                         r->pruner[1]->name);
    return 0;
}

static int make_settings(struct pare_compression *r, const struct pare_compression_opts *o,
                         struct pare_err *err)
{
    struct pare_option_group part[1 + PARE_COMPRESSION_PRUNERS] = {
        { "pruning", NULL, pare_prune_options, &r->settings }
    };
    struct pare_given *g = NULL;
    int n_parts = 1, n = 0;

    if (o->settings)
        PARE_TRY(pare_given_split(o->settings, r->arena, &g, &n, err));
    PARE_TRY(find_pruners(r, o, g, n, err));
    if (r->quantizer)
        part[0] = (struct pare_option_group){ "quantization", NULL, pare_quant_options, &r->quant };
    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && r->pruner[i]; i++) {
        const struct pare_pruner *p = r->pruner[i];

        r->conf[i] = pare_alloc(r->arena, p->opts_size ? p->opts_size : 1, 1);
        r->state[i] = pare_alloc(r->arena, p->run_size ? p->run_size : 1, 1);
        if (!r->conf[i] || !r->state[i])
            return pare_no_memory(err, "for a compression");
        if (p->opts)
            part[n_parts++] = (struct pare_option_group){ kind(r), p->name, p->opts, r->conf[i] };
    }
    PARE_TRY(pare_option_groups_check(part, n_parts, g, n, err));
    for (int i = 0; i < n_parts; i++)
        PARE_TRY(pare_option_group_fill(&part[i], g, n, r->arena, err));
    if (r->quantizer) {
        r->settings.mode = "normal";
    } else if (!strcmp(r->settings.mode, "default")) {
        const char *mode = r->pruner[pare_compression_ranker(r)]->mode;

        r->settings.mode = mode ? mode : "normal";
    }
    return 0;
}

static int make(struct pare_compression *r, const struct pare_compression_opts *o,
                struct pare_err *err)
{
    struct pare_config c;

    PARE_TRY(make_settings(r, o, err));
    if (!o->config == !o->rule)
        return pare_fail(err, PARE_ECONFIG, "a config_list is given once: as rules or as JSON");
    if (o->config)
        PARE_TRY(pare_config_read(r->arena, o->config, &c, err));
    else
        PARE_TRY(pare_config_rules(r->arena, o->rule, o->n_rules, &c, err));
    if (r->quant.equalize)
        PARE_TRY(pare_model_equalize(r->model, &r->equalized, err));
    PARE_TRY(pare_compression_wrap(r, &c, err));
    if (!r->quantizer)
        return 0;
    r->in_graph = true;
    PARE_TRY(pare_conv_bn_find(r, err));
    return pare_fake_quant_insert(r, err);
}

int pare_compression_new(struct pare_model *model, const struct pare_compression_opts *o,
                         struct pare_compression **run, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_compression *r = a ? pare_alloc(a, 1, sizeof(*r)) : NULL;
    int rc;

    *run = NULL;
    if (!r) {
        pare_arena_free(a);
        return pare_no_memory(err, "for a compression");
    }
    r->arena = a;
    r->scratch = pare_arena_new(1 << 20);
    r->model = model;
    pare_model_retain(model);
    r->threads = o->threads;
    r->final = o->final;
    r->keep_zeros = o->quantizer && o->keep_zeros;
    pare_rng_init(&r->rng, o->seed);
    rc = r->scratch ? make(r, o, err) : pare_no_memory(err, "for a compression");
    if (rc)
        pare_compression_free(r);
    else
        *run = r;
    return rc;
}

void pare_compression_free(struct pare_compression *r)
{
    struct pare_model *model;

    if (!r)
        return;
    model = r->model;
    pare_data_free(r->data);
    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && r->started && r->pruner[i]; i++) {
        struct pare_turn t = pare_turn_begin(r, i);

        if (r->pruner[i]->stop)
            r->pruner[i]->stop(r);
        pare_turn_end(r, t);
    }
    if (r->trainer) {
        r->trainer->o.hooks = (struct pare_hooks){ 0 };
        r->trainer->orphan = true;
    }
    if (r->in_graph)
        pare_fake_quant_remove(r);
    if (r->in_graph && r->trainer)
        r->trainer->stale = true; /* its plans have our nodes */
    pare_pages_free(r->pages);
    pare_arena_free(r->scratch);
    pare_arena_free(r->arena);
    pare_model_free(model);
}

/* ---- calling pruners ---------------------------------------------------------------------- */

struct pare_turn pare_turn_begin(struct pare_compression *r, int who)
{
    struct pare_turn t = { r->who, pare_mark(r->scratch) };

    r->who = who;
    return t;
}

void pare_turn_end(struct pare_compression *r, struct pare_turn t)
{
    r->who = t.who;
    pare_rewind(r->scratch, t.mark);
}

int pare_compression_ranker(const struct pare_compression *r)
{
    return r->pruner[1] ? 1 : 0;
}

/* The same for each of the pruners, the upper one first. */
#define EACH(r, err, callback, ...)                                        \
    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && (r)->pruner[i]; i++) { \
        const struct pare_pruner *p = (r)->pruner[i];                      \
        struct pare_turn turn = pare_turn_begin(r, i);                     \
        int rc = p->callback ? p->callback(__VA_ARGS__) : 0;               \
                                                                           \
        pare_turn_end(r, turn);                                            \
        if (rc)                                                            \
            return pare_at(err, rc, "%s %s", kind(r), p->name);            \
    }                                                                      \
    return 0

static int on_start(struct pare_compression *r, struct pare_err *err)
{
    EACH(r, err, start, r, err);
}

int pare_compression_on_epoch(struct pare_compression *r, int64_t epoch, struct pare_err *err)
{
    EACH(r, err, on_epoch, r, epoch, err);
}

int pare_compression_on_step(struct pare_compression *r, int64_t step, struct pare_err *err)
{
    EACH(r, err, on_step, r, step, err);
}

int pare_compression_before_step(struct pare_compression *r, struct pare_err *err)
{
    EACH(r, err, before_step, r, err);
}

int pare_compression_loss(struct pare_compression *r, double *loss, struct pare_err *err)
{
    EACH(r, err, loss, r, loss, err);
}

/* ---- the beginning ------------------------------------------------------------------------ */

int pare_compression_length(struct pare_compression *r, int64_t *epochs, int64_t *steps,
                            struct pare_err *err)
{
    *epochs = *steps = 0;
    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && r->pruner[i]; i++) {
        struct pare_turn t = pare_turn_begin(r, i);
        int64_t e = 0, s = 0;
        int rc = r->pruner[i]->length ? r->pruner[i]->length(r, &e, &s, err) : 0;

        pare_turn_end(r, t);
        if (rc)
            return pare_at(err, rc, "%s %s", kind(r), r->pruner[i]->name);
        *epochs = e > *epochs ? e : *epochs;
        *steps = s > *steps ? s : *steps;
    }
    return 0;
}

static int check_needs(const struct pare_compression *r, struct pare_err *err)
{
    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && r->pruner[i]; i++)
        if ((r->pruner[i]->flags & PARE_NEEDS_STEPS && !r->trainer) ||
            (r->pruner[i]->flags & PARE_NEEDS_DATA && !r->data))
            return pare_fail(err, PARE_ECONFIG,
                             "%s %s looks at data, give it some (--data, or follow a learner)",
                             kind(r), r->pruner[i]->name);
    return 0;
}

int pare_compression_restart(struct pare_compression *r, struct pare_err *err)
{
    bool *was = pare_alloc(r->arena, (size_t)r->n_layers, sizeof(*was));
    int rc;

    if (!was)
        return pare_no_memory(err, "for a compression");
    for (int i = 0; i < r->n_layers; i++) {
        was[i] = r->layer[i].quantized[PARE_WEIGHT];
        r->layer[i].quantized[PARE_WEIGHT] = false;
    }
    r->twin = NULL;
    rc = pare_compression_write_weights(r, err);
    for (int i = 0; i < r->n_layers; i++)
        r->layer[i].quantized[PARE_WEIGHT] = was[i];
    return rc ? rc : on_start(r, err);
}

int pare_compression_compress(struct pare_compression *r, struct pare_err *err)
{
    bool known = r->calibration && !r->trainer; /* then there is nothing to find out */

    if (r->started)
        return pare_fail(err, PARE_ECONFIG, "the compression has been started already");
    if (!known)
        PARE_TRY(check_needs(r, err));
    r->started = true;
    if (!known)
        PARE_TRY(on_start(r, err));
    if (r->calibration)
        PARE_TRY(pare_calibration_apply(r, err));
    if (!r->quantizer)
        return pare_compression_update_masks(r, err);
    if (r->quant.bias_correction)
        return pare_bias_correct(r, r->quant.correction_steps, err);
    return pare_compression_write_weights(r, err);
}
