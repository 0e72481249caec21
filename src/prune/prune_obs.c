/* prune_obs.c - optimal brain surgeon pruner: remove what changes the outputs of layers least,
 * after the weights that are left have been fitted.  Frantar et al., "Optimal brain compression",
 * 2022, arXiv 2208.11580; channels as in Kurtic et al., "ZipLM", 2023, arXiv 2302.04089.
 *
 * Scores are what removals cost, in the order in which they are cheapest (obs_trace.h for single
 * weights, obs_curves.h for channels), from the inputs of the dense model.  After the masks are
 * made, the weights that are left are fitted by least squares (compress/repair.h), which is where
 * the updates of all removals end.
 */
#include <stddef.h>
#include <string.h>

#include "../base/arena.h"
#include "../compress/repair.h"
#include "../tensor/tensor.h"
#include "dependency_groups.h"
#include "obs_curves.h"

#define AT(field) offsetof(struct pare_obs_options, field)

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_INT("items", AT(gram.items), "items of the data for statistics of inputs",
             PARE_GRAM_ITEMS, 1, 1e9),
    PARE_FLOAT("damping", AT(gram.damping),
               "part of the mean power of inputs that is added to each (-1: 0.001 for "
               "convolutions, else 0.01)", -1, -1, 1),
    PARE_INT("span", AT(span),
             "inputs whose correlations count together when single weights are ranked", 640, 1,
             1e6),
    PARE_CHOICE("scale", AT(scale),
                "divide costs by the mean square of the layer's outputs, or of each output; or "
                "multiply them by what they do to the loss (fisher) or to the model's outputs; "
                "auto: outputs for single weights, else layer",
                "auto", "auto|none|layer|row|fisher|outputs"),
    PARE_CHOICE("price", AT(price),
                "divide costs of channels by the parameters or multiply-accumulates that they free",
                "macs", "none|params|macs"),
    PARE_OPT_END
};
/* clang-format on */

/* ready: the scores are new, and were not read. */
struct layer {
    int64_t ready;
};

static struct pare_tensor *scores(struct pare_layer *l, struct pare_err *err)
{
    return pare_layer_buffer(l, "obs", PARE_F32, 1, &pare_layer_units(l)->n, err);
}

/* Scores of single weights and blocks. */
struct elements {
    const struct pare_obs_options *o;
    struct pare_fisher *f; /* by layer of the compression; or NULL */
};

static int score_layer(const struct pare_input_gram *m, void *user, struct pare_err *err)
{
    const struct elements *e = user;
    struct pare_tensor *b;

    if (pare_layer_by_channels(m->l))
        return 0;
    b = scores(m->l, err);
    if (!b)
        return err->code;
    ((struct layer *)pare_layer_state(m->l))->ready = 1;
    return pare_obs_scores(m, e->o, e->f ? &e->f[m->l - m->l->compression->layer] : NULL,
                           pare_f32_mut(b), err);
}

/* What a group costs more than those before it is the score of its members, in equal parts. */
static int score_curve(struct pare_compression *c, const struct pare_obs_curve *v,
                       struct pare_err *err)
{
    const struct pare_obs_options *o = pare_compression_conf(c);
    const struct pare_unit_groups *g = v->set;
    double price = !strcmp(o->price, "macs") ? v->macs : v->params;
    int members = 0;

    if (!strcmp(o->price, "none") || !(price > 0))
        price = 1;
    for (int k = 0; k < g->n_layers; k++)
        members += !c->layer[g->layer[k]].prune->follows;
    for (int k = 0; k < g->n_layers; k++) {
        struct pare_layer *l = &c->layer[g->layer[k]];
        struct pare_tensor *b;

        if (l->prune->follows)
            continue;
        b = scores(l, err);
        if (!b)
            return err->code;
        for (int64_t i = 0; i < g->n; i++)
            pare_f32_mut(b)[g->unit[v->order[i] * g->n_layers + k]] =
                (float)((v->error[i + 1] - v->error[i]) / price / members);
        ((struct layer *)pare_layer_state(l))->ready = 1;
    }
    return 0;
}

static int score_channels(struct pare_compression *c, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_obs_curves v = { 0 };
    int rc = a ? pare_obs_curves(c, pare_compression_conf(c), a, &v, err)
               : pare_no_memory(err, "for error curves");

    for (int i = 0; i < v.n && !rc; i++)
        rc = score_curve(c, &v.list[i], err);
    pare_arena_free(a);
    return rc;
}

static bool is_ranked(const struct pare_layer *l)
{
    return !pare_layer_by_channels(l) && !l->prune->follows;
}

/* Are single weights ranked, in all layers?  A pattern compares weights of one output only. */
static bool ranks_weights(const struct pare_compression *c)
{
    bool all = true;

    for (int i = 0; i < c->n_layers; i++)
        if (is_ranked(&c->layer[i]))
            all &= pare_units_single(&c->layer[i].prune->units) && !c->layer[i].prune->m;
    return all;
}

/* The Fisher information of the outputs of all layers whose weights or blocks are ranked. */
static int find_fisher(struct pare_compression *c, struct elements *e, struct pare_arena *a,
                       struct pare_err *err)
{
    struct pare_fisher_source s = { .model = c->model,
                                    .data = c->data,
                                    .items = PARE_OBS_FISHER_ITEMS,
                                    .outputs = strcmp(e->o->scale, "fisher") != 0,
                                    .dist = c->dist,
                                    .threads = c->threads };
    struct pare_fisher *f = pare_alloc(a, (size_t)c->n_layers + 1, sizeof(*f));
    int n = 0;

    e->f = pare_alloc(a, (size_t)c->n_layers + 1, sizeof(*e->f));
    if (!f || !e->f)
        return pare_no_memory(err, "for Fisher information");
    for (int i = 0; i < c->n_layers; i++)
        if (is_ranked(&c->layer[i]))
            f[n++].layer = &c->layer[i].info;
    PARE_TRY(pare_fisher_collect(&s, a, f, n, err));
    for (int i = 0, k = 0; i < c->n_layers; i++)
        if (k < n && f[k].layer == &c->layer[i].info)
            e->f[i] = f[k++];
    return 0;
}

static int score_elements(struct pare_compression *c, struct pare_err *err)
{
    struct elements e = { .o = pare_compression_conf(c) };
    struct pare_input_grams s = { .c = c,
                                  .items = e.o->gram.items,
                                  .each = score_layer,
                                  .user = &e };
    struct pare_arena *a = pare_arena_new(1 << 14);
    int rc = a ? 0 : pare_no_memory(err, "for Fisher information");

    if (!rc && pare_obs_by_fisher(e.o)) {
        rc = find_fisher(c, &e, a, err);
    } else if (!rc && !strcmp(e.o->scale, "auto") && ranks_weights(c)) {
        rc = find_fisher(c, &e, a, err);
        if (rc == PARE_EUNSUPPORTED) { /* no backward pass */
            rc = 0;
            e.f = NULL;
            *err = (struct pare_err){ 0 };
        }
    }
    if (!rc)
        rc = pare_input_grams(&s, err);
    pare_arena_free(a);
    return rc;
}

/* The first layer that is asked for scores all of its kind. */
static int score(struct pare_compression *c, struct pare_layer *l, float *to, struct pare_err *err)
{
    struct layer *s = pare_layer_state(l);
    struct pare_tensor *b;

    if (!s->ready)
        PARE_TRY(pare_layer_by_channels(l) ? score_channels(c, err) : score_elements(c, err));
    s->ready = 0;
    b = scores(l, err);
    if (!b)
        return err->code;
    memcpy(to, b->data, (size_t)pare_numel(b) * sizeof(*to));
    return 0;
}

static int fit(struct pare_compression *c, struct pare_err *err)
{
    const struct pare_obs_options *o = pare_compression_conf(c);

    return pare_repair_masked(c, o->gram.items, err);
}

const struct pare_algorithm pare_pruner_obs = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "obs",
    .doc = "Remove what changes outputs least (optimal brain surgeon), and fit the rest to it.",
    .opts = opts,
    .opts_size = sizeof(struct pare_obs_options),
    .layer_size = sizeof(struct layer),
    .flags = PARE_ONE_SHOT | PARE_NEEDS_DATA | PARE_USES_GRAMS,
    .types = "Conv1d|Conv2d|Conv3d|Linear",
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "out_channel",
            .mode = "global",
            .score = score,
            .fit = fit,
        },
};
