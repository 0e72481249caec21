/* repair_choice.c - repair without training, compared with the original on held-out items. */
#include "repair_choice.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../compress/held_out.h"
#include "../compress/reconstruct.h"
#include "../compress/repair.h"
#include "../compress/wrap.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

#define ITEMS 1024
#define STATISTICS 16 /* batches, before the reconstructed model is compared */
#define BETTER 0.999  /* cost of a way with more changes, relative to the best before */

/* Damping of least squares before a training, as in struct pare_repair.  Only layers with many
 * positions, most convolutions, are fitted: a linear layer that has lost most of its inputs has
 * large weights then, and is worse after an epoch than one that was left alone. */
static const double damped[] = { 0.1, 1 };

/* A parameter that repair may change. */
struct saved {
    struct pare_tensor t; /* of the model */
    float *copy[2];       /* as it is, the best */
};

struct chooser {
    struct pare_repair_choice *c;
    struct pare_arena *a;
    struct saved *s;
    int n, cap;
    struct pare_held_out held;
    struct pare_repair repair;
    double best, cost[PARE_REPAIR_WAYS]; /* of what is kept; of each way, the best */
};

const char *pare_repair_way_name(enum pare_repair_way w)
{
    static const char *const name[] = { "as it is",      "statistics",
                                        "repair",        "repair + statistics",
                                        "damped repair", "reconstruction" };

    return name[w];
}

/* ---- parameters ------------------------------------------------------------------------------ */

static int save_tensor(struct chooser *s, const struct pare_tensor *t, struct pare_err *err)
{
    size_t n = (size_t)pare_numel(t);
    struct saved *v;

    for (int i = 0; i < s->n; i++)
        if (s->s[i].t.data == t->data)
            return 0;
    s->s = pare_grow(s->a, s->s, s->n, &s->cap, sizeof(*s->s));
    if (!s->s)
        return pare_no_memory(err, "to repair layers");
    v = &s->s[s->n];
    *v = (struct saved){ .t = *t };
    for (int i = 0; i < 2; i++) {
        v->copy[i] = pare_alloc_raw(s->a, n + 1, sizeof(float));
        if (!v->copy[i])
            return pare_no_memory(err, "to repair layers");
        memcpy(v->copy[i], t->data, n * sizeof(float));
    }
    s->n++;
    return 0;
}

static int save_value(struct chooser *s, const struct pare_value *v, struct pare_err *err)
{
    struct pare_value *own = v ? pare_graph_find(s->c->model->graph, v->name) : NULL;

    if (!own || own->maker || own->t.dtype != PARE_F32 || !(own->flags & PARE_V_CONST) ||
        pare_numel(&own->t) < 1)
        return 0;
    PARE_TRY(pare_model_own(s->c->model, own, err));
    return save_tensor(s, &own->t, err);
}

/* Weights and biases of layers, statistics of normalizations. */
static int save_all(struct chooser *s, struct pare_err *err)
{
    const struct pare_graph *g = s->c->model->graph;
    const struct pare_trainer *t = s->c->trainer;
    struct pare_layer_info *list;
    struct pare_graph *shapes;
    int n;

    PARE_TRY(pare_model_layers(s->c->model, s->a, &shapes, &list, &n, err));
    for (int i = 0; i < n; i++) {
        if (!list[i].weight || list[i].body || !list[i].node->op || !list[i].node->op->linear)
            continue;
        PARE_TRY(save_value(s, pare_value_root(list[i].weight), err));
        if (list[i].bias)
            PARE_TRY(save_value(s, pare_value_root(list[i].bias), err));
    }
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in && g->node[i]->op; k++)
            if (g->node[i]->op->statistics >> k & 1)
                PARE_TRY(save_value(s, g->node[i]->in[k], err));
    for (int i = 0; t && i < t->n_state; i++)
        PARE_TRY(save_tensor(s, &t->state[i].t, err));
    for (int i = 0; t && s->c->reconstruct && i < t->n_params; i++)
        PARE_TRY(save_value(s, pare_graph_find(g, t->name[i]), err));
    return 0;
}

static void copy_all(struct chooser *s, int which, bool back)
{
    for (int i = 0; i < s->n; i++) {
        size_t len = (size_t)pare_numel(&s->s[i].t) * sizeof(float);

        memcpy(back ? s->s[i].t.data : (void *)s->s[i].copy[which],
               back ? (const void *)s->s[i].copy[which] : s->s[i].t.data, len);
    }
    if (back)
        pare_repair_update_copies(s->c->compression);
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* New statistics of normalizations; of layers without one by their weights. */
static int renew_statistics(struct chooser *s, bool *any, bool *estimated, struct pare_err *err)
{
    struct pare_repair_choice *c = s->c;
    int64_t done = 0;

    s->repair.corrected = 0;
    if (c->trainer && c->recalibrate.batches > 0)
        PARE_TRY(pare_recalibrate(c->trainer, c->data, &c->recalibrate, &done, err));
    if (c->corrects)
        PARE_TRY(pare_correct_statistics(c->model, &s->repair, err));
    pare_repair_update_copies(c->compression);
    *estimated = done > 0;
    *any = done > 0 || s->repair.corrected > 0;
    return 0;
}

/* What is compared: the model, or a copy after the first steps of the training that follows. */
static int compare(struct chooser *s, struct pare_output_distance *d, struct pare_err *err)
{
    struct pare_repair_choice *c = s->c;
    struct pare_model *copy;
    int rc;

    if (!c->trial)
        return pare_held_out_compare(&s->held, c->model, d, err);
    PARE_TRY(pare_model_duplicate(c->model, &copy, err));
    rc = c->trial(c->trial_user, copy, err);
    *d = (struct pare_output_distance){ INFINITY, INFINITY, INFINITY };
    if (!rc)
        rc = pare_held_out_compare(&s->held, copy, d, err);
    pare_model_free(copy);
    return rc == PARE_ELIMIT ? 0 : rc; /* the training diverges */
}

/* Measure a way, and keep it if it is better than those before. */
static int measure(struct chooser *s, enum pare_repair_way w, bool estimated, struct pare_err *err)
{
    struct pare_repair_choice *c = s->c;
    struct pare_output_distance d;

    PARE_TRY(compare(s, &d, err));
    if (isnan(c->db[w]) || pare_output_cost(&d) < s->cost[w]) {
        s->cost[w] = pare_output_cost(&d);
        c->db[w] = pare_held_out_db(d.noise);
        c->divergence[w] = d.divergence;
        c->loss[w] = d.loss;
    }
    if (w != PARE_WAY_NONE && !(pare_output_cost(&d) < BETTER * s->best))
        return 0;
    s->best = pare_output_cost(&d);
    c->kept = w;
    copy_all(s, 1, false);
    if (w == PARE_WAY_RECONSTRUCTION) {
        c->estimated |= estimated;
        return 0;
    }
    c->fitted = w >= PARE_WAY_REPAIR ? s->repair.layers : 0;
    c->corrected = w == PARE_WAY_STATISTICS || w == PARE_WAY_BOTH ? s->repair.corrected : 0;
    c->estimated = estimated;
    return 0;
}

static int try_ways(struct chooser *s, struct pare_err *err)
{
    bool any, estimated;

    PARE_TRY(measure(s, PARE_WAY_NONE, false, err));
    PARE_TRY(renew_statistics(s, &any, &estimated, err));
    if (any)
        PARE_TRY(measure(s, PARE_WAY_STATISTICS, estimated, err));
    if (!s->c->fit)
        return 0;
    copy_all(s, 0, true);
    PARE_TRY(pare_repair(s->c->model, &s->repair, s->c->compression, err));
    if (!s->repair.layers)
        return 0;
    PARE_TRY(measure(s, PARE_WAY_REPAIR, false, err));
    PARE_TRY(renew_statistics(s, &any, &estimated, err));
    if (any)
        PARE_TRY(measure(s, PARE_WAY_BOTH, estimated, err));
    for (size_t i = 0; i < sizeof(damped) / sizeof(*damped) && s->c->trial; i++) {
        copy_all(s, 0, true);
        s->repair.ample = true;
        s->repair.damping = damped[i];
        s->repair.layers = s->repair.corrected = 0;
        PARE_TRY(pare_repair(s->c->model, &s->repair, s->c->compression, err));
        PARE_TRY(measure(s, PARE_WAY_DAMPED, false, err));
    }
    return 0;
}

/* Train the best so far toward the original's outputs.  Least squares and corrections do not
 * follow: they would replace what was learned. */
static int reconstruct(struct chooser *s, struct pare_err *err)
{
    struct pare_repair_choice *c = s->c;
    const struct pare_reconstruct_opts *o = c->reconstruct;
    struct pare_reconstruct r = { .model = c->model,
                                  .teacher = c->dense,
                                  .data = c->data,
                                  .held = &s->held,
                                  .items = o->items,
                                  .steps = o->steps > 0 ? o->steps : PARE_RECONSTRUCT_STEPS,
                                  .rate = o->rate > 0 ? o->rate : PARE_RECONSTRUCT_RATE,
                                  .keep_zeros = true,
                                  .recalibrate = STATISTICS,
                                  .seed = c->recalibrate.seed,
                                  .dist = c->dist,
                                  .threads = c->threads,
                                  .progress = c->recalibrate.progress,
                                  .user = c->recalibrate.user };
    int64_t done = 0;

    if (!c->trainer)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "reconstruction needs a model that can be trained");
    r.freeze = c->trainer->o.freeze;
    r.n_freeze = c->trainer->o.n_freeze;
    copy_all(s, 1, true);
    PARE_TRY(pare_reconstruct(&r, err));
    c->steps = r.kept_step;
    if (!r.kept_step)
        return 0;
    pare_repair_update_copies(c->compression);
    PARE_TRY(measure(s, PARE_WAY_RECONSTRUCTION, false, err));
    if (!c->recalibrate.batches)
        return 0;
    PARE_TRY(pare_recalibrate(c->trainer, c->data, &c->recalibrate, &done, err));
    return done ? measure(s, PARE_WAY_RECONSTRUCTION, true, err) : 0;
}

static void prepare(struct chooser *s)
{
    struct pare_repair_choice *c = s->c;

    s->held = (struct pare_held_out){ .dense = c->dense,
                                      .data = c->data,
                                      .dist = c->dist,
                                      .threads = c->threads,
                                      .progress = c->recalibrate.progress,
                                      .user = c->recalibrate.user };
    pare_held_out_divide(&s->held, ITEMS);
    s->repair = (struct pare_repair){ .dense = c->dense,
                                      .data = c->data,
                                      .items = s->held.fitted,
                                      .dist = c->dist,
                                      .threads = c->threads,
                                      .progress = c->recalibrate.progress,
                                      .user = c->recalibrate.user };
    c->items = s->held.items;
    c->kept = PARE_WAY_NONE;
    c->fitted = c->corrected = 0;
    c->estimated = false;
    for (int i = 0; i < PARE_REPAIR_WAYS; i++)
        c->db[i] = c->divergence[i] = c->loss[i] = NAN;
}

int pare_repair_choose(struct pare_repair_choice *c, struct pare_err *err)
{
    struct chooser s = { .c = c, .a = pare_arena_new(1 << 16) };
    int rc;

    prepare(&s);
    rc = s.a ? save_all(&s, err) : pare_no_memory(err, "to repair layers");
    if (!rc) {
        rc = try_ways(&s, err);
        if (!rc && c->reconstruct)
            rc = reconstruct(&s, err);
        copy_all(&s, rc ? 0 : 1, true);
    }
    pare_arena_free(s.a);
    return rc;
}

const char *pare_repair_choice_text(const struct pare_repair_choice *c, struct pare_arena *a)
{
    const char *when = c->trial ? pare_sprintf(a, " after %lld steps of training",
                                               (long long)c->trial_steps)
                                : "";
    const char *text = when ? pare_sprintf(a,
                                           "outputs against the original's%s, %lld items not "
                                           "fitted to:",
                                           when, (long long)c->items)
                            : NULL;

    for (int i = 0; i < PARE_REPAIR_WAYS && text; i++) {
        if (isnan(c->db[i]))
            continue;
        text = pare_sprintf(a, "%s%s %s %.1f dB", text, i ? "," : "",
                            pare_repair_way_name((enum pare_repair_way)i), c->db[i]);
        if (text && !isnan(c->loss[i]))
            text = pare_sprintf(a, "%s (loss %.3g)", text, c->loss[i]);
        else if (text && !isnan(c->divergence[i]))
            text = pare_sprintf(a, "%s (KL %.3g)", text, c->divergence[i]);
    }
    return text ? pare_sprintf(a, "%s; kept: %s", text, pare_repair_way_name(c->kept)) : NULL;
}
