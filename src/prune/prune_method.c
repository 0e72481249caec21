/* prune_method.c - pruning as a compression method: options, sparsity and units of layers,
 * hooks. */
#include "prune_method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../compress/method.h"
#include "../base/arena.h"
#include "../base/options.h"
#include "../compress/wrap.h"
#include "../tensor/tensor.h"
#include "followers.h"
#include "input_grams.h"
#include "prune_state.h"
#include "removed_channels.h"

#define PRUNER(name) extern const struct pare_algorithm pare_pruner_##name;
#include "pruners.def"
#undef PRUNER

const struct pare_algorithm *const pare_pruners[] = {
#define PRUNER(name) &pare_pruner_##name,
#include "pruners.def"
#undef PRUNER
    NULL
};

#define AT(field) offsetof(struct pare_prune_settings, field)

const struct pare_opt pare_prune_options[] = {
    PARE_CHOICE(
        "mode", AT(mode),
        "how to rank units: each layer separately (normal), each output channel separately (row), "
        "the layers of an entry together (global), in tiles (balance), coupled channels together "
        "(dependency_aware), or coupled channels of all layers of an entry together (global_aware)",
        "default", "default|normal|row|global|balance|dependency_aware|global_aware"),
    PARE_CHOICE(
        "normalize", AT(normalize),
        "make scores of layers comparable that are ranked together: divide by their mean, their "
        "maximum, or as LAMP does, by the sum of those that are not smaller (default: mean in "
        "mode global_aware, else none)",
        "default", "default|none|mean|max|lamp"),
    PARE_FLOAT("min_keep", AT(min_keep),
               "fraction of each layer that is kept at least if layers are ranked together", 0, 0,
               1),
    PARE_FLAG("isomorphic", AT(isomorphic),
              "rank only layers together that have the same operators and kernels", 0),
    PARE_INTS("balance_gran", AT(balance_gran),
              "sizes of the tiles along the last axes, for mode balance", 1, 1e12),
    PARE_TEXT("base", AT(base), "NAME",
              "pruner that computes the masks, for agp, linear and lottery_ticket", "level"),
    PARE_FLAG("keep_constants", AT(keep_constants),
              "mask only weights and biases of the chosen layers: a removed channel is then the "
              "constant that a normalization after it makes of 0",
              0),
    PARE_OPT_END
};

#undef AT
#define AT(field) offsetof(struct pare_goal, field)

const struct pare_opt pare_goal_keys[] = {
    PARE_FLOAT("sparsity", AT(sparsity), "fraction of the weights to remove", -1, 0, 0.999999999),
    PARE_FLOAT("sparsity_per_layer", AT(sparsity_per_layer),
               "synonym of sparsity, NNI's newer name", -1, 0, 0.999999999),
    PARE_FLOAT("total_sparsity", AT(total_sparsity),
               "fraction of all weights of the entry's layers to remove, with mode=global", -1, 0,
               0.999999999),
    PARE_FLOAT("max_sparsity_per_layer", AT(max_sparsity_per_layer),
               "limit of the fraction removed from one layer, with mode=global", 0.99, 1e-9, 1),
    PARE_CHOICE(
        "granularity", AT(granularity),
        "units that are removed as a whole; block_4x1: 4 consecutive output channels at one input "
        "channel and kernel position",
        "default", "default|element|block|block_4x1|block_8x1|out_channel|in_channel|head"),
    PARE_INTS("block", AT(block),
              "size of a block along the last axes, for granularity block (-1: the whole axis)", -1,
              1e12),
    PARE_INT("heads", AT(heads), "number of attention heads, for granularity head", 0, 0, 1e9),
    PARE_INT(
        "parts", AT(parts),
        "number of fused projections with heads, for example 3 for queries, keys and values, for "
        "granularity head",
        1, 1, 1e6),
    PARE_TEXT("pattern", AT(pattern), "N:M",
              "instead of a sparsity: keep n of every m consecutive input channels, for example "
              "2:4",
              NULL),
    PARE_OPT_END
};

/* ---- by name ------------------------------------------------------------------------------ */

int pare_find_pruner(const struct pare_registry *g, const char *name,
                     const struct pare_algorithm **p, struct pare_err *err)
{
    return pare_find_algorithm(g, &pare_method_prune, name, p, err);
}

int pare_add_pruner(struct pare_registry *g, const struct pare_algorithm *a, struct pare_err *err)
{
    PARE_ERR(err);
    return pare_registry_add(g, &pare_method_prune, a, err);
}

const struct pare_algorithm *pare_pruner_at(int i)
{
    return pare_algorithm_at(NULL, &pare_method_prune, i);
}

bool pare_is_search(const struct pare_algorithm *a)
{
    for (int i = 0; pare_searches[i]; i++)
        if (pare_searches[i] == a)
            return true;
    return false;
}

static int check_pruner(struct pare_registry *g, struct pare_algorithm *a, struct pare_err *err)
{
    const struct pare_pruner *p = a->pruner;

    if (p) {
        a->pruner = p = pare_descriptor_copy(g, p, p->size, sizeof(*p), "pare_pruner", err);
        if (!p)
            return err->code;
    }
    if (!p || (!p->calc_mask && !p->score && !(a->flags & PARE_USES_BASE)))
        return pare_fail(err, PARE_ECONFIG, "pruner '%s' has neither calc_mask nor score", a->name);
    return 0;
}

int pare_prune_option_groups(struct pare_arena *a, const char *pruner,
                             struct pare_option_group **group, int *n, struct pare_err *err)
{
    const struct pare_algorithm *mine = NULL, *p;
    int all = 0;

    while ((p = pare_pruner_at(all)) != NULL) {
        if (pruner && !strcmp(p->name, pruner))
            mine = p;
        all++;
    }
    *group = pare_alloc(a, (size_t)all + 1, sizeof(**group));
    if (!*group)
        return pare_no_memory(err, "for the options");
    (*group)[0] = (struct pare_option_group){ "pruning", NULL, pare_prune_options, NULL };
    *n = 1;
    for (int i = 0; i < all; i++) {
        bool takes;

        p = pare_pruner_at(i);
        takes = !pruner || p == mine ||
                (mine && mine->flags & PARE_USES_BASE && !(p->flags & PARE_USES_BASE));
        if (takes && p->opts)
            (*group)[(*n)++] = (struct pare_option_group){ "pruner", p->name, p->opts, NULL };
    }
    return 0;
}

/* ---- options --------------------------------------------------------------------------------- */

/* The text of an option before the tables are filled: `base` decides which tables there are. */
static const char *given_text(const struct pare_given *g, int n, const char *name)
{
    const char *text = NULL;

    for (int i = 0; i < n; i++)
        if (!strcmp(g[i].name, name))
            text = g[i].text;
    return text;
}

static int open_state(struct pare_compression *c, const struct pare_compression_opts *o,
                      const struct pare_given *g, int n, void **settings, struct pare_err *err)
{
    const char *base = given_text(g, n, "base");

    c->prune = pare_alloc(c->arena, 1, sizeof(*c->prune));
    if (!c->prune)
        return pare_no_memory(err, "for a compression");
    *settings = &c->prune->settings;
    PARE_TRY(pare_find_pruner(o->registry, o->pruner, &c->algorithm[0], err));
    if (pare_is_search(c->algorithm[0]))
        return pare_fail(err, PARE_ECONFIG,
                         "%s is a search that prunes many times: call pare_prune() or 'pare prune'",
                         c->algorithm[0]->name);
    if (!(c->algorithm[0]->flags & PARE_USES_BASE)) {
        if (base)
            return pare_fail(err, PARE_ECONFIG,
                             "pruner %s does not use a base pruner, so option base has no effect",
                             c->algorithm[0]->name);
        return 0;
    }
    PARE_TRY(pare_find_pruner(o->registry, base ? base : "level", &c->algorithm[1], err));
    if (c->algorithm[1]->flags & PARE_USES_BASE)
        return pare_fail(err, PARE_ECONFIG,
                         "pruner %s uses a base pruner itself, so it cannot be used as a base",
                         c->algorithm[1]->name);
    return 0;
}

int pare_compression_ranker(const struct pare_compression *c)
{
    return c->algorithm[1] ? 1 : 0;
}

const char *pare_prune_mode(const struct pare_compression *c)
{
    const char *own = c->algorithm[pare_compression_ranker(c)]->pruner->mode;

    if (strcmp(c->prune->settings.mode, "default"))
        return c->prune->settings.mode;
    return own ? own : "normal";
}

bool pare_prune_by_groups(const struct pare_compression *c)
{
    const char *mode = pare_prune_mode(c);

    return !strcmp(mode, "dependency_aware") || !strcmp(mode, "global_aware");
}

/* ---- layers ------------------------------------------------------------------------------- */

static int set_goal(struct pare_layer_prune *l, struct pare_err *err)
{
    const struct pare_goal *g = &l->goal;
    const double all[] = { g->sparsity, g->sparsity_per_layer, g->total_sparsity };
    int given = 0;

    l->config_sparsity = -1;
    for (int i = 0; i < 3; i++)
        if (all[i] >= 0) {
            l->config_sparsity = all[i];
            given++;
        }
    if (given > 1)
        return pare_fail(
            err, PARE_ECONFIG,
            "sparsity, sparsity_per_layer and total_sparsity are synonyms; specify only one of "
            "them");
    l->sparsity = l->config_sparsity;
    return 0;
}

/* "2:4" as numbers.  Fewer weights than m at the end of an axis keep at most n. */
static int set_pattern(struct pare_layer_prune *l, struct pare_err *err)
{
    const char *text = l->goal.pattern;
    char *end;
    long n, m = 0;

    if (!text)
        return 0;
    n = strtol(text, &end, 10);
    if (*end == ':')
        m = strtol(end + 1, &end, 10);
    if (*end || n < 1 || m < n || m > 1024)
        return pare_fail(err, PARE_ECONFIG,
                         "pattern is '%.40s'; expected n:m with 1 <= n <= m <= 1024, such as 2:4",
                         text);
    if (l->config_sparsity >= 0 && l->config_sparsity != 1 - (double)n / (double)m)
        return pare_fail(err, PARE_ECONFIG,
                         "pattern %s has the sparsity %g, but sparsity is %g; specify one of them",
                         text, 1 - (double)n / (double)m, l->config_sparsity);
    l->n = n;
    l->m = m;
    l->config_sparsity = l->sparsity = 1 - (double)n / (double)m;
    return 0;
}

/* Do both nodes have the same weight?  Then they are one layer that is used twice. */
static bool same_weight(const struct pare_node *a, const struct pare_node *b)
{
    int k = a->op->layer.weight;

    return a->op == b->op && b->n_in > k && b->in[k] &&
           pare_value_root(a->in[k]) == pare_value_root(b->in[k]);
}

/* A node of another layer that reads the constant; NULL: none. */
static const struct pare_node *other_user(const struct pare_layer *l, const struct pare_value *v)
{
    const struct pare_graph *g = l->compression->graph;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in && n != l->info.node; k++)
            if (n->in[k] && pare_value_root(n->in[k]) == v && !pare_node_known(n) &&
                !same_weight(l->info.node, n))
                return n;
    }
    return NULL;
}

/* A state of a recurrent layer is removed if W, R and the bias have no weights for it, which makes
 * it 0 at every step: an error if it would not. */
static int check_states(const struct pare_layer *l, struct pare_err *err)
{
    const struct pare_node *n = l->info.node;
    const struct pare_op_weights *k = &n->op->layer;
    const char *why = k->not_zero ? k->not_zero(n) : NULL;

    if (why)
        return pare_fail(err, PARE_EUNSUPPORTED, "%s, so masked states are not 0", why);
    for (int i = 0; i < n->n_in && i < 32; i++) {
        const struct pare_value *v = n->in[i];
        const struct pare_node *other;

        if (!v || !(PARE_IN(i) & k->params) || (i != k->second && i != k->bias))
            continue;
        if (!(v->flags & PARE_V_CONST) || pare_value_root(v)->t.dtype != PARE_F32)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "its %s is not a constant of type float32, so its states cannot be "
                             "masked",
                             i == k->bias ? "bias" : "recurrent weight");
        other = other_user(l, pare_value_root(v));
        if (other)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "its %s '%.64s' is also used by '%.64s', whose states would be masked",
                             i == k->bias ? "bias" : "recurrent weight", v->name, other->name);
    }
    return 0;
}

static int set_units(struct pare_layer *l, struct pare_err *err)
{
    const struct pare_compression *c = l->compression;
    const struct pare_pruner *p = c->algorithm[pare_compression_ranker(c)]->pruner;
    const struct pare_goal *goal = &l->prune->goal;
    const char *own = p->granularity ? p->granularity : "element";
    struct pare_grain g = {
        .name = l->prune->follows                      ? "out_channel"
                : strcmp(goal->granularity, "default") ? goal->granularity
                                                       : own,
        .block = goal->block,
        .heads = goal->heads,
        .parts = goal->parts,
        .out_axis = l->out_axis,
        .in_axis = l->in_axis,
        .gates = l->info.node->op ? l->info.node->op->layer.gates : 0,
    };

    if (g.gates && !strcmp(g.name, "out_channel"))
        PARE_TRY(check_states(l, err));
    if (l->prune->m && !strcmp(goal->granularity, "default") && !l->prune->follows)
        g.name = "element";
    if (l->prune->m && strcmp(g.name, "element") != 0 && !l->prune->follows)
        return pare_fail(err, PARE_ECONFIG, "pattern %s is of single weights, not of '%s'",
                         goal->pattern, g.name);
    return pare_units_make(&l->w, &g, &l->prune->units, err);
}

static bool uses_grams(const struct pare_compression *c)
{
    return c->algorithm[pare_compression_ranker(c)]->flags & PARE_USES_GRAMS;
}

static int wrap_layer(struct pare_layer *l, const void *keys, struct pare_err *err)
{
    l->prune = pare_alloc(l->compression->arena, 1, sizeof(*l->prune));
    if (!l->prune)
        return pare_no_memory(err, "for the layers of a compression");
    l->prune->goal = *(const struct pare_goal *)keys;
    l->prune->due = true;
    l->prune->follows = l->compression->prune->following;
    PARE_TRY(set_goal(l->prune, err));
    PARE_TRY(set_pattern(l->prune, err));
    PARE_TRY(set_units(l, err));
    return uses_grams(l->compression) && !l->prune->follows ? pare_input_gram_check(l, err) : 0;
}

static int wrap_all(struct pare_compression *c, const struct pare_config *config,
                    struct pare_err *err)
{
    PARE_TRY(pare_compression_wrap(c, config, err));
    if (pare_prune_by_groups(c))
        return pare_followers_add(c, config, err);
    return c->prune->settings.keep_constants ? 0
                                             : pare_removed_channels_add(c, config, c->graph, err);
}

double pare_layer_sparsity(const struct pare_layer *l)
{
    return l->prune->sparsity > 0 ? l->prune->sparsity : 0;
}

double pare_layer_config_sparsity(const struct pare_layer *l)
{
    return l->prune->config_sparsity;
}

void pare_layer_aim(struct pare_layer *l, double sparsity)
{
    if (l->prune->sparsity != sparsity)
        l->prune->due = true;
    l->prune->sparsity = sparsity;
}

const struct pare_units *pare_layer_units(const struct pare_layer *l)
{
    return &l->prune->units;
}

/* ---- training ----------------------------------------------------------------------------- */

static bool any_due(const struct pare_compression *c)
{
    for (int i = 0; i < c->n_layers; i++)
        if (c->layer[i].prune->due)
            return true;
    return false;
}

static int start(struct pare_compression *c, struct pare_err *err)
{
    PARE_TRY(pare_compression_start(c, err));
    return pare_compression_update_masks(c, err);
}

static int at_epoch(struct pare_compression *c, int64_t epoch, struct pare_err *err)
{
    PARE_TRY(pare_compression_on_epoch(c, epoch, err));
    return any_due(c) ? pare_compression_update_masks(c, err) : 0;
}

/* Masks of a checkpoint are not the first ones. */
static int after_step(struct pare_compression *c, int64_t step, struct pare_err *err)
{
    int (*masked)(void *, struct pare_err *) = c->masked;

    if (masked && pare_compression_zeros(c))
        masked = c->masked = NULL;
    PARE_TRY(pare_compression_on_step(c, step, err));
    PARE_TRY(pare_compression_update_masks(c, err));
    if (!masked || !pare_compression_zeros(c))
        return 0;
    c->masked = NULL;
    return masked(c->masked_user, err);
}

/* aim/LAYER: the target sparsity, and whether a new mask is due.  It is copied into the pass's
 * arena because a tensor that is saved must live until the file is written. */
static int checkpoint(struct pare_compression *c, const struct pare_checkpoint_pass *p,
                      struct pare_err *err)
{
    const int64_t two = 2;

    for (int i = 0; i < c->n_layers; i++) {
        struct pare_layer_prune *l = c->layer[i].prune;
        struct pare_tensor t;
        double *v;

        PARE_TRY(pare_tensor_new(p->arena, &t, PARE_F64, 1, &two, err));
        v = t.data;
        v[0] = l->sparsity;
        v[1] = l->due;
        PARE_TRY(pare_checkpoint_pass(p, "aim", c->layer[i].info.name, &t, err));
        l->sparsity = v[0];
        l->due = v[1] != 0;
    }
    return 0;
}

/* A pruner that makes masks in training has made none if its hooks were never called. */
static int check_export(const struct pare_compression *c, struct pare_err *err)
{
    double asked = 0;
    int64_t zeros = 0;

    for (int i = 0; i < c->n_layers; i++) {
        const struct pare_layer *l = &c->layer[i];

        asked = fmax(asked, l->prune->config_sparsity * (double)l->prune->units.n);
        zeros += l->mask.data ? pare_mask_zeros(&l->mask) : 0;
    }
    return asked < 1 || zeros ? 0
                              : pare_fail(err, PARE_ECONFIG,
                                          "%s has masked nothing yet: train with its hooks, "
                                          "pare_training_run() or pare_training_step() after each "
                                          "step and pare_training_update_epoch() at each epoch",
                                          c->algorithm[0]->name);
}

const struct pare_method pare_method_prune = {
    .name = "pruner",
    .group = "pruning",
    .settings = pare_prune_options,
    .keys = pare_goal_keys,
    .keys_size = sizeof(struct pare_goal),
    .builtin = pare_pruners,
    .searches = pare_searches,
    .check = check_pruner,
    .open = open_state,
    .wrap = wrap_all,
    .wrap_layer = wrap_layer,
    .skips_layers = true,
    .start = start,
    .write_weight = pare_layer_write_masked,
    .at_epoch = at_epoch,
    .after_backward = pare_compression_before_step,
    .after_step = after_step,
    .reads_weights = any_due,
    .checkpoint = checkpoint,
    .check_export = check_export,
};
