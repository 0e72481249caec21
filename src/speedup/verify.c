/* verify.c - run the original and the smaller model on the same inputs and compare outputs. */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/rng.h"
#include "../plan/plan.h"
#include "../tensor/tensor.h"
#include "speedup.h"

#define RUNS 2
#define TOLERANCE 1e-4
#define TOLERANCE_F16 5e-3 /* ten times the rounding error of 11 bits */
#define TOLERANCE_BF16 4e-2
#define SMALL 1e-3

struct pair {
    const struct pare_model *m[2];
    const struct pare_speedup_opts *o;
    struct pare_arena *arena;
    struct pare_tensor *in, *out[2];
    bool *given;
};

/* Inputs of the shapes in opts->in, or with free dimensions of 1. */
static int make_inputs(struct pair *p, struct pare_err *err)
{
    const struct pare_io *io;
    int n = pare_model_inputs(p->m[0], &io);

    p->in = pare_alloc(p->arena, (size_t)n + 1, sizeof(*p->in));
    p->given = pare_alloc(p->arena, (size_t)n + 1, sizeof(*p->given));
    if (!p->in || !p->given)
        return pare_no_memory(err, "for inputs");
    for (int i = 0; i < n; i++) {
        struct pare_tensor t = { .dtype = io[i].dtype, .rank = io[i].rank };

        for (int k = 0; k < io[i].rank; k++)
            t.dim[k] = io[i].dim[k] < 0 ? 1 : io[i].dim[k];
        if (p->o->in)
            t = p->o->in[i];
        p->given[i] = t.data != NULL;
        if (t.rank < 0 || t.dtype == PARE_NONE || t.dtype == PARE_STR)
            return pare_fail(err, PARE_ESHAPE, "input '%s' has no shape to verify with",
                             io[i].name);
        if (!p->given[i])
            PARE_TRY(pare_tensor_alloc(p->arena, &t, err));
        p->in[i] = t;
    }
    return 0;
}

/* Floats are normally distributed; integers are 0 or 1, valid indices almost everywhere. */
static int fill_inputs(struct pair *p, uint64_t seed, struct pare_err *err)
{
    struct pare_rng rng;
    const struct pare_io *io;
    int n = pare_model_inputs(p->m[0], &io);

    pare_rng_init(&rng, seed);
    for (int i = 0; i < n; i++) {
        struct pare_tensor *t = &p->in[i];
        bool real = t->dtype == PARE_F32 || t->dtype == PARE_F64 || t->dtype == PARE_F16 ||
                    t->dtype == PARE_BF16;
        size_t size = pare_dtype_size(t->dtype);

        for (int64_t k = 0; !p->given[i] && k < pare_numel(t); k++) {
            float v = real ? (float)pare_rng_normal(&rng) : (float)pare_rng_below(&rng, 2);

            PARE_TRY(
                pare_convert(t->dtype, (char *)t->data + (size_t)k * size, PARE_F32, &v, 1, err));
        }
    }
    return 0;
}

/* The largest difference, and the largest element of a.  Two NANs do not differ. */
static void differ(const struct pare_tensor *a, const struct pare_tensor *b, double *abs,
                   double *most)
{
    *abs = *most = 0;
    for (int64_t i = 0; i < pare_numel(a); i++) {
        double x = pare_get(a, i), y = pare_get(b, i), d = fabs(x - y);

        if (x == y || (isnan(x) && isnan(y)))
            d = 0;
        else if (isnan(d))
            d = INFINITY;
        *abs = d > *abs ? d : *abs;
        if (fabs(x) > *most && !isinf(x))
            *most = fabs(x);
    }
}

/* Outputs that are almost 0 are differences of larger numbers: compare them absolutely. */
static double relative(double abs, double most)
{
    return abs / (most > SMALL ? most : SMALL);
}

static int compare(struct pair *p, struct pare_speedup_report *r, struct pare_err *err)
{
    const struct pare_io *io;
    int n = pare_model_outputs(p->m[0], &io);
    double abs, most;

    for (int i = 0; i < n; i++) {
        if (!pare_same_shape(&p->out[0][i], &p->out[1][i]))
            return pare_fail(err, PARE_ESHAPE, "output '%s' has another shape", io[i].name);
        if (p->out[0][i].dtype == PARE_STR)
            continue;
        differ(&p->out[0][i], &p->out[1][i], &abs, &most);
        r->max_abs = abs > r->max_abs ? abs : r->max_abs;
        if (relative(abs, most) > r->max_rel)
            r->max_rel = relative(abs, most);
    }
    return 0;
}

static int run_both(struct pair *p, struct pare_plan *plan[2], struct pare_speedup_report *r,
                    struct pare_err *err)
{
    const struct pare_io *io;
    size_t n = (size_t)pare_model_outputs(p->m[0], &io) + 1;
    bool all_given = true;
    double start = pare_now();
    int runs;

    p->out[0] = pare_alloc(p->arena, n, sizeof(**p->out));
    p->out[1] = pare_alloc(p->arena, n, sizeof(**p->out));
    if (!p->out[0] || !p->out[1])
        return pare_no_memory(err, "for outputs");
    for (int i = 0; i < pare_model_inputs(p->m[0], &io); i++)
        all_given &= p->given[i];
    runs = p->o->feed ? p->o->runs : all_given ? 1 : RUNS;
    for (int i = 0; i < runs; i++) {
        struct pare_progress now = { "verify", i, runs, pare_now() - start };

        if (p->o->progress && !p->o->progress(p->o->progress_user, &now))
            return pare_fail(err, PARE_ECANCEL, "verification was canceled");
        if (p->o->feed)
            PARE_TRY(p->o->feed(p->o->user, i, p->in, err));
        else
            PARE_TRY(fill_inputs(p, p->o->seed + (uint64_t)i, err));
        PARE_TRY(pare_plan_execute(plan[0], p->in, p->out[0], err));
        PARE_TRY(pare_plan_execute(plan[1], p->in, p->out[1], err));
        PARE_TRY(compare(p, r, err));
    }
    return 0;
}

/* ---- the first difference -------------------------------------------------------------------- */

/* Names of values that have the same shape in both models, in execution order. */
static int common_values(const struct pair *p, struct pare_plan *plan[2], struct pare_strs *names,
                         struct pare_err *err)
{
    const struct pare_graph *g = plan[0]->graph;
    const char **list = pare_alloc(p->arena, (size_t)g->n_values + 1, sizeof(*list));

    *names = (struct pare_strs){ list, 0 };
    if (!list)
        return pare_no_memory(err, "for names");
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_out; k++) {
            const struct pare_value *v = g->node[i]->out[k], *w;

            w = v ? pare_map_get(&plan[1]->graph->names, v->name) : NULL;
            if (w && v->t.dtype == PARE_F32 && !(v->flags & PARE_V_CONST) &&
                !(w->flags & PARE_V_CONST) && pare_same_shape(&v->t, &w->t))
                list[names->n++] = v->name;
        }
    return 0;
}

static const char *first_difference(struct pair *p, struct pare_plan *plan[2],
                                    struct pare_strs names, double tolerance)
{
    struct pare_err ignored;
    double abs, most;

    if (pare_plan_execute(plan[0], p->in, p->out[0], &ignored) ||
        pare_plan_execute(plan[1], p->in, p->out[1], &ignored))
        return NULL;
    for (int i = 0; i < names.n; i++) {
        differ(pare_plan_value(plan[0], i), pare_plan_value(plan[1], i), &abs, &most);
        if (relative(abs, most) > tolerance)
            return names.v[i];
    }
    return NULL;
}

static const char *find_difference(struct pair *p, struct pare_plan *plan[2],
                                   const struct pare_plan_opts *po, double tolerance)
{
    struct pare_plan *look[2] = { NULL, NULL };
    const char *name = NULL;
    struct pare_plan_build build = { .opts = po };
    struct pare_err ignored;

    if (!common_values(p, plan, &build.observe, &ignored) &&
        !pare_plan_build(p->m[0], &build, &look[0], &ignored) &&
        !pare_plan_build(p->m[1], &build, &look[1], &ignored))
        name = first_difference(p, look, build.observe, tolerance);
    pare_plan_free(look[0]);
    pare_plan_free(look[1]);
    return name;
}

/* The tolerance for the element types of the model. */
static double tolerance_of(const struct pare_model *m)
{
    double most = TOLERANCE;

    for (int i = 0; i < m->graph->n_values; i++) {
        enum pare_dtype t = m->graph->value[i]->t.dtype;
        double mine = t == PARE_F16 ? TOLERANCE_F16 : t == PARE_BF16 ? TOLERANCE_BF16 : 0;

        most = mine > most ? mine : most;
    }
    return most;
}

static int verify(struct pair *p, struct pare_speedup_report *r, struct pare_err *err)
{
    double tolerance = p->o->tolerance > 0 ? p->o->tolerance : tolerance_of(p->m[0]);
    struct pare_plan *plan[2] = { NULL, NULL };
    struct pare_plan_opts po = { .threads = p->o->threads };
    int rc = make_inputs(p, err);

    po.in = p->in;
    for (int i = 0; i < 2 && !rc; i++)
        rc = pare_plan_make(p->m[i], &po, &plan[i], err);
    if (!rc)
        rc = run_both(p, plan, r, err);
    r->verified = !rc;
    if (!rc && !(r->max_rel <= tolerance)) {
        const char *where = find_difference(p, plan, &po, tolerance);

        rc = pare_fail(err, PARE_EUNSUPPORTED,
                       "the smaller model's outputs differ by %.3g, relative %.3g, which is more "
                       "than %.3g%s%s%s",
                       r->max_abs, r->max_rel, tolerance,
                       where ? "; the first difference is at '" : "", where ? where : "",
                       where ? "'" : "");
    }
    pare_plan_free(plan[0]);
    pare_plan_free(plan[1]);
    return rc;
}

int pare_speedup_verify(const struct pare_model *a, const struct pare_model *b,
                        const struct pare_speedup_opts *o, struct pare_speedup_report *r,
                        struct pare_err *err)
{
    struct pair p = { .m = { a, b }, .o = o, .arena = pare_arena_new(1 << 16) };
    int rc = p.arena ? verify(&p, r, err) : pare_no_memory(err, "to verify");

    pare_arena_free(p.arena);
    return pare_at(err, rc, "verifying");
}
