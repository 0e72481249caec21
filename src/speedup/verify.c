/* verify.c - run the original and the smaller model on the same inputs and compare outputs. */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/rng.h"
#include "../plan/plan.h"
#include "../tensor/tensor.h"
#include "output_difference.h"
#include "speedup.h"

#define RUNS 2
#define LEAST_AGREEMENT 0.9 /* of elements that follow discontinuous operators */

/* What a run computed. */
struct results {
    struct pare_tensor *out, *point; /* outputs, and the values of pare_points.names */
};

struct pair {
    struct pare_speedup *s;
    const struct pare_model *m[2];
    const struct pare_speedup_opts *o;
    struct pare_arena *arena;
    struct pare_sample sample;
    struct results *masked; /* of the masked model, by run */
    int runs;
    double start; /* of all runs at these shapes */
    struct pare_points points;
    bool fed; /* the inputs come from opts->feed */
    int more; /* the first run at these shapes, if they are of opts->more; else 0 */
    double tolerance;
    double equal, of; /* elements that follow discontinuous operators: the equal ones, all */
};

/* Inputs of the shapes of the graph; with `own`, contents are the caller's where there are any. */
static int make_inputs(struct pair *p, const struct pare_graph *g, bool own, struct pare_err *err)
{
    struct pare_sample *t = &p->sample;

    t->n = pare_model_inputs(p->m[0], &t->io);
    t->arena = p->arena;
    t->in = pare_alloc(p->arena, (size_t)t->n + 1, sizeof(*t->in));
    t->given = pare_alloc(p->arena, (size_t)t->n + 1, sizeof(*t->given));
    if (!t->in || !t->given)
        return pare_no_memory(err, "for inputs");
    for (int i = 0; i < t->n; i++) {
        struct pare_tensor x = g->in[i]->t;

        if (x.rank < 0 || x.dtype == PARE_NONE || x.dtype == PARE_STR)
            return pare_fail(err, PARE_ESHAPE, "input '%s' has no shape to verify with",
                             t->io[i].name);
        x.data = own && p->o->in && !p->more ? p->o->in[i].data : NULL;
        t->given[i] = x.data != NULL;
        if (!t->given[i])
            PARE_TRY(pare_tensor_alloc(p->arena, &x, err));
        t->in[i] = x;
    }
    p->fed = own && p->o->feed;
    return 0;
}

static void note_difference(const struct pare_tensor *a, const struct pare_tensor *b,
                            struct pare_speedup_report *r)
{
    double abs, most;

    pare_outputs_differ(a, b, &abs, &most);
    r->max_abs = abs > r->max_abs ? abs : r->max_abs;
    if (pare_relative_difference(abs, most) > r->max_rel)
        r->max_rel = pare_relative_difference(abs, most);
}

static enum pare_point kind_of_output(const struct pair *p, const char *name)
{
    const struct pare_value *v = pare_map_get(&p->s->before->names, name);

    return v ? (enum pare_point)p->points.kind[v->id] : PARE_POINT_SMOOTH;
}

/* Compare a run of the smaller model with that of the masked model. */
static int compare(struct pair *p, const struct results *was, const struct results *now,
                   struct pare_speedup_report *r, struct pare_err *err)
{
    const struct pare_io *io;
    int n = pare_model_outputs(p->m[0], &io);

    for (int i = 0; i < p->points.names.n; i++)
        if (pare_same_shape(&was->point[i], &now->point[i]))
            note_difference(&was->point[i], &now->point[i], r);
    for (int i = 0; i < n; i++) {
        const struct pare_tensor *a = &was->out[i], *b = &now->out[i];
        enum pare_point kind = kind_of_output(p, io[i].name);

        if (kind == PARE_POINT_RANDOM || a->dtype == PARE_STR)
            continue;
        if (kind == PARE_POINT_STEPS)
            p->of += (double)pare_numel(a);
        if (!pare_same_shape(a, b) && kind == PARE_POINT_SMOOTH)
            return pare_fail(err, PARE_ESHAPE, "output '%s' has another shape", io[i].name);
        if (!pare_same_shape(a, b))
            continue;
        if (kind == PARE_POINT_STEPS)
            p->equal += (double)pare_outputs_equal(a, b, p->tolerance);
        else
            note_difference(a, b, r);
    }
    return 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static int new_results(const struct pair *p, struct results *t, struct pare_err *err)
{
    const struct pare_io *io;
    size_t n = (size_t)pare_model_outputs(p->m[0], &io) + 1;

    t->out = pare_alloc(p->arena, n, sizeof(*t->out));
    t->point = pare_alloc(p->arena, (size_t)p->points.names.n + 1, sizeof(*t->point));
    return t->out && t->point ? 0 : pare_no_memory(err, "for outputs");
}

static int run(const struct pair *p, struct pare_plan *plan, struct results *t,
               struct pare_err *err)
{
    PARE_TRY(pare_plan_execute(plan, p->sample.in, t->out, err));
    for (int i = 0; i < p->points.names.n; i++)
        t->point[i] = *pare_plan_value(plan, i);
    return 0;
}

static int keep(const struct pair *p, struct pare_tensor *t, struct pare_err *err)
{
    struct pare_tensor of_plan = *t;

    return t->dtype == PARE_STR ? 0 : pare_value_copy(p->arena, &of_plan, t, err);
}

/* The results of the masked model, in memory of their own. */
static int run_masked(struct pair *p, struct pare_plan *plan, int i, struct pare_err *err)
{
    struct results *t = &p->masked[i];
    const struct pare_io *io;
    int n = pare_model_outputs(p->m[0], &io), rc;

    PARE_TRY(new_results(p, t, err));
    rc = run(p, plan, t, err);
    p->s->too_small = rc == PARE_ESHAPE;
    for (int k = 0; k < n && !rc; k++)
        rc = keep(p, &t->out[k], err);
    for (int k = 0; k < p->points.names.n && !rc; k++)
        rc = keep(p, &t->point[k], err);
    return rc;
}

static int run_smaller(struct pair *p, struct pare_plan *plan, int i, struct pare_speedup_report *r,
                       struct pare_err *err)
{
    struct results t;

    PARE_TRY(new_results(p, &t, err));
    PARE_TRY(run(p, plan, &t, err));
    return compare(p, &p->masked[i], &t, r, err);
}

/* Progress, and the inputs of run i.  done: runs so far, of either model. */
static int next_inputs(struct pair *p, const struct pare_graph *g, int i, int done,
                       struct pare_err *err)
{
    struct pare_progress now = { "verify", done, 2 * p->runs, pare_now() - p->start };

    if (p->o->progress && !p->o->progress(p->o->progress_user, &now))
        return pare_fail(err, PARE_ECANCEL, "verification was canceled");
    return p->fed ? p->o->feed(p->o->user, p->more + i, p->sample.in, err)
                  : pare_sample_fill(&p->sample, g, p->o->seed + (uint64_t)i, err);
}

static int start_runs(struct pair *p, struct pare_err *err)
{
    bool all_given = true;

    for (int i = 0; i < p->sample.n; i++)
        all_given &= p->sample.given[i];
    if (p->s->rewritten && p->s->second[0])
        all_given = true; /* one run at each of two shapes */
    p->runs = p->more ? 1 : p->fed ? p->o->runs : all_given ? 1 : RUNS;
    p->start = pare_now();
    p->masked = pare_alloc(p->arena, (size_t)p->runs + 1, sizeof(*p->masked));
    return p->masked ? 0 : pare_no_memory(err, "for outputs");
}

/* The rewrites that made one model of the other are not run on either: an error in one would
 * change both alike.  Half precision, which has no fast kernels, is computed in float32. */
static const char *const *rewrites_of(const struct pair *p)
{
    static const char *const of_files[] = { "any_shape", NULL };

    return p->s->rewritten ? of_files : NULL;
}

/* Run the masked model, 0, or the smaller one, 1, whose results are compared. */
static int run_model(struct pair *p, int model, const struct pare_graph *const g[2],
                     struct pare_speedup_report *r, struct pare_err *err)
{
    struct pare_plan_opts po = { .threads = p->o->threads, .in = p->sample.in };
    struct pare_plan_build build = { .opts = &po,
                                     .compact = true,
                                     .observe = p->points.names,
                                     .without_rewrites = rewrites_of(p),
                                     .shaped = g[model] };
    struct pare_plan *plan;
    int rc = pare_plan_build(p->m[model], &build, &plan, err);

    for (int i = 0; i < p->runs && !rc; i++) {
        rc = next_inputs(p, g[0], i, i + model * p->runs, err);
        if (!rc)
            rc = model ? run_smaller(p, plan, i, r, err) : run_masked(p, plan, i, err);
    }
    pare_plan_free(plan);
    return rc;
}

/* Inputs that come once: both models run with each of them. */
static int run_fed(struct pair *p, const struct pare_graph *const g[2],
                   struct pare_speedup_report *r, struct pare_err *err)
{
    struct pare_plan_opts po = { .threads = p->o->threads, .in = p->sample.in };
    struct pare_plan_build build = { .opts = &po, .compact = true, .observe = p->points.names };
    struct pare_plan *plan[2] = { NULL, NULL };
    int rc = 0;

    for (int i = 0; i < 2 && !rc; i++) {
        build.shaped = g[i];
        rc = pare_plan_build(p->m[i], &build, &plan[i], err);
    }
    for (int i = 0; i < p->runs && !rc; i++) {
        struct pare_mark m = pare_mark(p->arena);

        rc = next_inputs(p, g[0], i, 2 * i, err);
        if (!rc)
            rc = run_masked(p, plan[0], i, err);
        if (!rc)
            rc = run_smaller(p, plan[1], i, r, err);
        pare_rewind(p->arena, m);
    }
    pare_plan_free(plan[0]);
    pare_plan_free(plan[1]);
    return rc;
}

/* ---- the first difference -------------------------------------------------------------------- */

/* Names of values that have the same shape in both models, in execution order. */
static int common_values(const struct pair *p, const struct pare_graph *const both[2],
                         struct pare_strs *names, struct pare_err *err)
{
    const struct pare_graph *g = both[0];
    const char **list = pare_alloc(p->arena, (size_t)g->n_values + 1, sizeof(*list));

    *names = (struct pare_strs){ list, 0 };
    if (!list)
        return pare_no_memory(err, "for names");
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_out; k++) {
            const struct pare_value *v = g->node[i]->out[k], *w;

            w = v ? pare_map_get(&both[1]->names, v->name) : NULL;
            if (w && v->t.dtype == PARE_F32 && !(v->flags & PARE_V_CONST) &&
                !(w->flags & PARE_V_CONST) && pare_same_shape(&v->t, &w->t))
                list[names->n++] = v->name;
        }
    return 0;
}

static const char *first_difference(struct pair *p, struct pare_plan *plan[2],
                                    struct pare_strs names, double tolerance)
{
    struct results t;
    struct pare_err ignored;
    double abs, most;

    if (new_results(p, &t, &ignored) || pare_plan_execute(plan[0], p->sample.in, t.out, &ignored) ||
        pare_plan_execute(plan[1], p->sample.in, t.out, &ignored))
        return NULL;
    for (int i = 0; i < names.n; i++) {
        pare_outputs_differ(pare_plan_value(plan[0], i), pare_plan_value(plan[1], i), &abs, &most);
        if (pare_relative_difference(abs, most) > tolerance)
            return names.v[i];
    }
    return NULL;
}

static const char *find_difference(struct pair *p, const struct pare_graph *const g[2],
                                   double tolerance)
{
    struct pare_plan_opts po = { .threads = p->o->threads, .in = p->sample.in };
    struct pare_plan *look[2] = { NULL, NULL };
    const char *name = NULL;
    struct pare_plan_build build = { .opts = &po };
    struct pare_err ignored;

    if (!common_values(p, g, &build.observe, &ignored) &&
        !pare_plan_build(p->m[0], &build, &look[0], &ignored) &&
        !pare_plan_build(p->m[1], &build, &look[1], &ignored))
        name = first_difference(p, look, build.observe, tolerance);
    pare_plan_free(look[0]);
    pare_plan_free(look[1]);
    return name;
}

/* ---- rounding noise --------------------------------------------------------------------------
 *
 * A deep network may amplify rounding errors beyond the tolerance.  How far is measured: the masked
 * model is run with its inputs rounded differently, in the last bit, with the reference kernels,
 * which sum in another order, and with its weights rounded differently, as folding a
 * normalization or a scale into them does.  Of ten networks (convolutions, attention, GroupNorm,
 * CTC readers), the smaller model differed by 0.3 to 1.7 times the first two.
 */

#define ROUNDINGS 4         /* of each input */
#define WEIGHT_ROUNDINGS 2  /* of all weights */
#define NOISE_FACTOR 4      /* times the largest measured noise are tolerated */
#define MOST_TOLERANCE 1e-3 /* up to this; above it, not more than the noise */
#define MOST_NOISE 1e-2     /* no network of use amplifies rounding further */

/* Move the floats of an input up or down by one unit in the last place. */
static int round_differently(const struct pair *p, struct pare_rng *r, struct pare_tensor *t,
                             struct pare_err *err)
{
    struct pare_tensor from = *t;

    if (t->dtype != PARE_F32)
        return 0;
    PARE_TRY(pare_value_copy(p->arena, &from, t, err));
    for (int64_t i = 0; i < pare_numel(t); i++) {
        float *x = &pare_f32_mut(t)[i];

        *x = *x == 0 ? 0 : nextafterf(*x, pare_rng_below(r, 2) ? INFINITY : -INFINITY);
    }
    return 0;
}

/* Run the plan with the inputs of run i, rounded by *rounding if it is not NULL. */
static int add_noise(struct pair *p, struct pare_plan *plan, int i, struct pare_rng *rounding,
                     struct pare_speedup_report *noise, struct pare_err *err)
{
    struct pare_tensor *in = p->sample.in, *rounded;
    struct results t;
    int rc = 0;

    rounded = pare_alloc(p->arena, (size_t)p->sample.n + 1, sizeof(*rounded));
    if (!rounded)
        return pare_no_memory(err, "for inputs");
    PARE_TRY(new_results(p, &t, err));
    for (int k = 0; k < p->sample.n && !rc; k++) {
        rounded[k] = in[k];
        if (rounding)
            rc = round_differently(p, rounding, &rounded[k], err);
    }
    p->sample.in = rounded;
    if (!rc)
        rc = run(p, plan, &t, err);
    p->sample.in = in;
    return rc ? rc : compare(p, &p->masked[i], &t, noise, err);
}

/* A clone of the graph with its filters and matrices rounded differently.  Vectors stay: sizes and
 * bounds are among them. */
static int round_weights(const struct pair *p, const struct pare_graph *g, struct pare_rng *r,
                         struct pare_graph **rounded, struct pare_err *err)
{
    *rounded = pare_graph_clone(p->arena, g, err);
    if (!*rounded)
        return err->code;
    for (int i = 0; i < (*rounded)->n_values; i++) {
        struct pare_value *v = (*rounded)->value[i];

        if ((v->flags & PARE_V_CONST) && v->t.rank >= 2 && v->t.data)
            PARE_TRY(round_differently(p, r, &v->t, err));
    }
    return 0;
}

/* The noise of differently rounded weights. */
static int measure_weight_noise(struct pair *p, const struct pare_graph *g,
                                struct pare_speedup_report *noise, struct pare_err *err)
{
    struct pare_plan_opts po = { .threads = p->o->threads, .in = p->sample.in };
    struct pare_plan_build build = { .opts = &po, .compact = true, .observe = p->points.names };
    struct pare_rng r;
    int rc = 0;

    pare_rng_init(&r, p->o->seed);
    for (int k = 0; k < WEIGHT_ROUNDINGS && !rc; k++) {
        struct pare_mark m = pare_mark(p->arena);
        struct pare_plan *plan = NULL;
        struct pare_graph *rounded;

        rc = round_weights(p, g, &r, &rounded, err);
        build.shaped = rounded;
        if (!rc)
            rc = pare_plan_build(p->m[0], &build, &plan, err);
        for (int i = 0; i < p->runs && !rc; i++) {
            rc = pare_sample_fill(&p->sample, g, p->o->seed + (uint64_t)i, err);
            if (!rc)
                rc = add_noise(p, plan, i, NULL, noise, err);
        }
        pare_plan_free(plan);
        pare_reset(p->arena, m);
    }
    return rc;
}

/* Largest relative difference of the masked model from itself, with the inputs of all runs. */
static int measure_noise(struct pair *p, const struct pare_graph *g, bool reference,
                         struct pare_speedup_report *noise, struct pare_err *err)
{
    struct pare_plan_opts po = { .threads = p->o->threads,
                                 .in = p->sample.in,
                                 .reference = reference };
    struct pare_plan_build build = { .opts = &po, .observe = p->points.names, .shaped = g };
    struct pare_mark m = pare_mark(p->arena);
    struct pare_plan *plan;
    struct pare_rng r;
    int rc = pare_plan_build(p->m[0], &build, &plan, err);

    pare_rng_init(&r, p->o->seed);
    for (int i = 0; i < p->runs && !rc; i++) {
        rc = pare_sample_fill(&p->sample, g, p->o->seed + (uint64_t)i, err);
        for (int k = 0; k < (reference ? 1 : ROUNDINGS) && !rc; k++)
            rc = add_noise(p, plan, i, reference ? NULL : &r, noise, err);
    }
    pare_plan_free(plan);
    pare_reset(p->arena, m);
    return rc;
}

/* Raise the tolerance to the noise of the masked model, if that explains the difference. */
static int allow_noise(struct pair *p, const struct pare_graph *g, struct pare_speedup_report *r,
                       struct pare_err *err)
{
    struct pare_speedup_report noise = { 0 };
    double equal = p->equal, of = p->of;

    if (p->fed || p->o->tolerance > 0 || !(r->max_rel <= MOST_NOISE))
        return 0;
    PARE_TRY(measure_noise(p, g, false, &noise, err));
    PARE_TRY(measure_noise(p, g, true, &noise, err));
    PARE_TRY(measure_weight_noise(p, g, &noise, err));
    p->equal = equal;
    p->of = of;
    if (noise.max_rel > r->noise)
        r->noise = noise.max_rel;
    if (r->max_rel <= (r->max_rel <= MOST_TOLERANCE ? NOISE_FACTOR : 1) * r->noise)
        p->tolerance = r->max_rel;
    return 0;
}

/* Compare at the input shapes of the graphs, which are those of the two models. */
static int verify_at(struct pair *p, const struct pare_graph *const g[2], bool own,
                     struct pare_speedup_report *r, struct pare_err *err)
{
    struct pare_mark m = pare_mark(p->arena);

    PARE_TRY(make_inputs(p, g[0], own, err));
    PARE_TRY(start_runs(p, err));
    if (p->fed) {
        PARE_TRY(run_fed(p, g, r, err));
    } else { /* one after the other: plans have packed weights and buffers */
        PARE_TRY(run_model(p, 0, g, r, err));
        PARE_TRY(run_model(p, 1, g, r, err));
    }
    if (!(r->max_rel <= p->tolerance))
        PARE_TRY(allow_noise(p, g[0], r, err));
    if (!(r->max_rel <= p->tolerance)) {
        const char *where = find_difference(p, g, p->tolerance);

        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the %s model's outputs differ by %.3g, relative %.3g, which is more "
                         "than %.3g%s%s%s",
                         p->s->rewritten ? "simplified" : "smaller", r->max_abs, r->max_rel,
                         p->tolerance, where ? "; the first difference is at '" : "",
                         where ? where : "", where ? "'" : "");
    }
    pare_reset(p->arena, m);
    return 0;
}

/* "x (1, 3, 64, 64), ids (1, 64)" of the inputs with free dimensions. */
static const char *shapes_text(struct pare_arena *a, const struct pair *p,
                               const struct pare_graph *g)
{
    const char *text = "";

    for (int i = 0; i < p->sample.n && text; i++) {
        char shape[PARE_SHAPE_TEXT];
        bool free_dim = p->sample.io[i].rank < 0;

        for (int k = 0; k < p->sample.io[i].rank; k++)
            free_dim |= p->sample.io[i].dim[k] < 0;
        if (free_dim)
            text = pare_sprintf(a, "%s%s%s %s", text, *text ? ", " : "", p->sample.io[i].name,
                                pare_shape_text(&g->in[i]->t, shape, sizeof(shape)));
    }
    return text;
}

/* Fill in what was compared, and where. */
static int describe(struct pair *p, struct pare_arena *a, struct pare_speedup_report *r,
                    struct pare_err *err)
{
    const struct pare_graph *g[2] = { p->s->before, p->s->second[0] };

    for (int i = 0; i < 2 && g[i]; i++) {
        r->shapes[i] = shapes_text(a, p, g[i]);
        if (!r->shapes[i])
            return pare_no_memory(err, "for the report");
    }
    r->agreement = p->of > 0 ? p->equal / p->of : -1;
    r->discontinuous = p->points.first ? pare_strdup(a, p->points.first) : NULL;
    if (p->of > 0 && r->agreement < LEAST_AGREEMENT)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "after discontinuous operators such as %s only %.1f%% of the elements of "
                         "the %s model's outputs agree, less than %.0f%%",
                         p->points.first ? p->points.first : "ArgMax", 100 * r->agreement,
                         p->s->rewritten ? "simplified" : "smaller", 100 * LEAST_AGREEMENT);
    return 0;
}

/* The second comparison; at other sizes if the model does not run at small ones. */
static int verify_second(struct pair *p, struct pare_speedup_report *r, struct pare_err *err)
{
    struct pare_speedup *s = p->s;
    int rc = verify_at(p, s->second, false, r, err);

    if (!s->too_small || s->second[0] == s->before->other[0])
        return rc;
    s->second[0] = s->before->other[0];
    s->second[1] = s->after->other[0];
    return verify_at(p, s->second, false, r, err);
}

/* The caller's other shapes: one run at each. */
static int verify_more(struct pair *p, struct pare_speedup_report *r, struct pare_err *err)
{
    int n = p->o->feed ? p->o->n_more : 0;

    for (int i = 0; i < n; i++) {
        struct pare_mark m = pare_mark(p->arena);
        struct pare_graph *g[2];

        for (int k = 0; k < 2; k++)
            PARE_TRY(
                pare_sample_infer(&p->sample, p->m[k], p->o->more + i * p->o->n_in, &g[k], err));
        p->more = p->o->runs + i;
        PARE_TRY(verify_at(p, (const struct pare_graph *const[]){ g[0], g[1] }, true, r, err));
        p->more = 0;
        pare_reset(p->arena, m);
    }
    return 0;
}

static int verify(struct pair *p, struct pare_arena *a, struct pare_speedup_report *r,
                  struct pare_err *err)
{
    const struct pare_graph *first[2] = { p->s->before, p->s->after };

    p->tolerance = p->o->tolerance > 0 ? p->o->tolerance : pare_outputs_tolerance(p->m[0]);
    PARE_TRY(pare_points_find(p->arena, first[0], first[1], &p->points, err));
    PARE_TRY(verify_at(p, first, true, r, err));
    PARE_TRY(verify_more(p, r, err));
    if (p->s->second[0])
        PARE_TRY(verify_second(p, r, err));
    PARE_TRY(describe(p, a, r, err));
    r->verified = true;
    return 0;
}

int pare_speedup_verify(struct pare_speedup *s, const struct pare_model *smaller,
                        struct pare_arena *a, struct pare_speedup_report *r, struct pare_err *err)
{
    struct pair p = { .s = s,
                      .m = { s->from, smaller },
                      .o = s->opts,
                      .arena = pare_arena_new(1 << 16) };
    int rc = p.arena ? verify(&p, a, r, err) : pare_no_memory(err, "to verify");

    pare_arena_free(p.arena);
    return pare_at(err, rc, "verifying");
}
