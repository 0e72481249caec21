/* compression.c - the life of a compression: settings, layers, calls of algorithms, start, end. */
#include "compression.h"

#include <string.h>

#include "../base/arena.h"
#include "../train/train_options.h"
#include "method.h"
#include "wrap.h"

/* ---- settings ---------------------------------------------------------------------------- */

static int make_settings(struct pare_compression *c, const struct pare_compression_opts *o,
                         struct pare_err *err)
{
    struct pare_option_group group[1 + PARE_MAX_ALGORITHMS] = { { c->method->group, NULL,
                                                                  c->method->settings, NULL } };
    struct pare_given *g;
    int n_groups = 1, n;

    PARE_TRY(pare_given_join(o->given, o->n_given, o->settings, c->arena, &g, &n, err));
    PARE_TRY(c->method->open(c, o, g, n, &group[0].into, err));
    for (int i = 0; i < PARE_MAX_ALGORITHMS && c->algorithm[i]; i++) {
        const struct pare_algorithm *a = c->algorithm[i];

        c->conf[i] = pare_alloc(c->arena, a->opts_size ? a->opts_size : 1, 1);
        c->state[i] = pare_alloc(c->arena, a->state_size ? a->state_size : 1, 1);
        if (!c->conf[i] || !c->state[i])
            return pare_no_memory(err, "for a compression");
        if (a->opts)
            group[n_groups++] = (struct pare_option_group){ c->method->name, a->name, a->opts,
                                                            c->conf[i] };
    }
    PARE_TRY(pare_option_groups_check(group, n_groups, g, n, err));
    for (int i = 0; i < n_groups; i++)
        PARE_TRY(pare_option_group_fill(&group[i], g, n, c->arena, err));
    return 0;
}

static int read_config(struct pare_compression *c, const struct pare_compression_opts *o,
                       struct pare_config *config, struct pare_err *err)
{
    if (!o->config == !o->rule)
        return pare_fail(err, PARE_ECONFIG, "a config_list is given once: as rules or as JSON");
    return o->config ? pare_config_read(c->arena, o->config, config, err)
                     : pare_config_rules(c->arena, o->rule, o->n_rules, config, err);
}

static int set_up(struct pare_compression *c, const struct pare_compression_opts *o,
                  struct pare_err *err)
{
    struct pare_config config;

    PARE_TRY(make_settings(c, o, err));
    PARE_TRY(read_config(c, o, &config, err));
    return c->method->wrap(c, &config, err);
}

int pare_compression_open(const struct pare_method *method, struct pare_model *model,
                          const struct pare_compression_opts *o, struct pare_graph *g,
                          struct pare_compression **to, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_compression *c = a ? pare_alloc(a, 1, sizeof(*c)) : NULL;
    int rc;

    *to = NULL;
    if (!c) {
        pare_arena_free(a);
        return pare_no_memory(err, "for a compression");
    }
    c->arena = a;
    c->scratch = pare_arena_new(1 << 20);
    c->method = method;
    c->model = model;
    c->graph = g;
    pare_model_retain(model);
    c->threads = o->threads;
    c->final = o->final;
    c->paged = o->final || method->paged;
    pare_rng_init(&c->rng, o->seed);
    rc = c->scratch ? set_up(c, o, err) : pare_no_memory(err, "for a compression");
    if (rc)
        pare_compression_free(c);
    else
        *to = c;
    return rc;
}

void pare_compression_free(struct pare_compression *c)
{
    struct pare_model *model;

    if (!c)
        return;
    model = c->model;
    pare_data_free(c->data);
    for (int i = 0; i < PARE_MAX_ALGORITHMS && c->started && c->algorithm[i]; i++) {
        struct pare_call_scope s = pare_call_begin(c, i);

        if (c->algorithm[i]->stop)
            c->algorithm[i]->stop(c);
        pare_call_end(c, s);
    }
    if (c->trainer) {
        c->trainer->o.hooks = (struct pare_hooks){ 0 };
        c->trainer->orphan = true;
    }
    if (c->method->close)
        c->method->close(c);
    pare_pages_free(c->pages);
    pare_arena_free(c->scratch);
    pare_arena_free(c->arena);
    pare_model_free(model);
}

/* ---- calls of algorithms ------------------------------------------------------------------ */

struct pare_call_scope pare_call_begin(struct pare_compression *c, int algorithm)
{
    struct pare_call_scope s = { c->current, pare_mark(c->scratch) };

    c->current = algorithm;
    return s;
}

void pare_call_end(struct pare_compression *c, struct pare_call_scope s)
{
    c->current = s.algorithm;
    pare_rewind(c->scratch, s.mark);
}

/* Call one hook of each algorithm, the one that uses another as its base first. */
#define CALL_EACH(c, err, hook, ...)                                      \
    for (int i = 0; i < PARE_MAX_ALGORITHMS && (c)->algorithm[i]; i++) {  \
        const struct pare_algorithm *a = (c)->algorithm[i];               \
        struct pare_call_scope scope = pare_call_begin(c, i);             \
        int rc = a->hook ? a->hook(__VA_ARGS__) : 0;                      \
                                                                          \
        pare_call_end(c, scope);                                          \
        if (rc)                                                           \
            return pare_at(err, rc, "%s %s", (c)->method->name, a->name); \
    }                                                                     \
    return 0

int pare_compression_on_start(struct pare_compression *c, struct pare_err *err)
{
    CALL_EACH(c, err, start, c, err);
}

int pare_compression_on_epoch(struct pare_compression *c, int64_t epoch, struct pare_err *err)
{
    CALL_EACH(c, err, on_epoch, c, epoch, err);
}

int pare_compression_on_step(struct pare_compression *c, int64_t step, struct pare_err *err)
{
    CALL_EACH(c, err, on_step, c, step, err);
}

int pare_compression_before_step(struct pare_compression *c, struct pare_err *err)
{
    CALL_EACH(c, err, before_step, c, err);
}

int pare_compression_loss(struct pare_compression *c, double *loss, struct pare_err *err)
{
    CALL_EACH(c, err, loss, c, loss, err);
}

int pare_compression_length(struct pare_compression *c, int64_t *epochs, int64_t *steps,
                            struct pare_err *err)
{
    PARE_ERR(err);
    *epochs = *steps = 0;
    for (int i = 0; i < PARE_MAX_ALGORITHMS && c->algorithm[i]; i++) {
        const struct pare_algorithm *a = c->algorithm[i];
        struct pare_call_scope scope = pare_call_begin(c, i);
        int64_t e = 0, s = 0;
        int rc = a->length ? a->length(c, &e, &s, err) : 0;

        pare_call_end(c, scope);
        if (rc)
            return pare_at(err, rc, "%s %s", c->method->name, a->name);
        *epochs = e > *epochs ? e : *epochs;
        *steps = s > *steps ? s : *steps;
    }
    return 0;
}

/* ---- start -------------------------------------------------------------------------------- */

/* A training may have no data set: then its batches come from the caller. */
static int check_needs(const struct pare_compression *c, struct pare_err *err)
{
    for (int i = 0; i < PARE_MAX_ALGORITHMS && c->algorithm[i]; i++)
        if ((c->algorithm[i]->flags & PARE_NEEDS_STEPS && !c->trainer) ||
            (c->algorithm[i]->flags & PARE_NEEDS_DATA && !c->data && !c->trainer))
            return pare_fail(err, PARE_ECONFIG,
                             "%s %s needs data: use --data, or call pare_compression_follow()",
                             c->method->name, c->algorithm[i]->name);
    return 0;
}

int pare_compression_start(struct pare_compression *c, struct pare_err *err)
{
    PARE_TRY(check_needs(c, err));
    c->started = true;
    return pare_compression_on_start(c, err);
}

int pare_compression_compress(struct pare_compression *c, struct pare_err *err)
{
    PARE_ERR(err);
    if (c->started)
        return pare_fail(err, PARE_ECONFIG, "the compression has been started already");
    return c->method->start(c, err);
}
