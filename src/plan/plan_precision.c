/* plan_precision.c - bf16 or float32 operands of a plan's products: relative error of the outputs,
 * and the choice between them (PARE_PRECISION_AUTO). */
#include "plan_precision.h"

#include <math.h>
#include <string.h>

#include "../base/rng.h"

/* Sums of squares over all outputs. */
struct squares {
    double difference, value;
};

static bool is_same(double a, double b)
{
    return !(a < b || a > b) && isnan(a) == isnan(b);
}

static void add_output(const struct pare_tensor *want, const struct pare_tensor *have,
                       struct squares *s)
{
    const int64_t n = pare_is_tensor(want) && want->dtype != PARE_STR ? pare_numel(want) : 0;

    if (n != (pare_is_tensor(have) && have->dtype != PARE_STR ? pare_numel(have) : 0)) {
        s->difference = INFINITY; /* a shape that depends on values */
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double a = pare_get(want, i), b = pare_get(have, i);

        if (is_same(a, b) && !isfinite(a))
            continue;
        s->difference += isfinite(a - b) ? (a - b) * (a - b) : INFINITY;
        s->value += a * a;
    }
}

/* Random values: floats from the normal distribution, 0 or 1 otherwise. */
static int fill_input(struct pare_tensor *t, struct pare_rng *rng, struct pare_arena *a,
                      struct pare_err *err)
{
    const size_t size = pare_dtype_size(t->dtype);
    int64_t n;

    if (!pare_is_tensor(t) || t->dtype == PARE_STR || t->dtype == PARE_NONE)
        return pare_fail(err, PARE_EUNSUPPORTED, "an input is not a numeric tensor");
    PARE_TRY(pare_tensor_size(t, &n, NULL, err));
    t->data = pare_alloc(a, (size_t)n + 1, size);
    if (!t->data)
        return pare_no_memory(err, "for random inputs");
    for (int64_t i = 0; i < n; i++) {
        bool real = t->dtype == PARE_F32 || t->dtype == PARE_F64 || t->dtype == PARE_F16 ||
                    t->dtype == PARE_BF16;
        float v = real ? (float)pare_rng_normal(rng) : (float)pare_rng_below(rng, 2);

        PARE_TRY(pare_convert(t->dtype, (char *)t->data + (size_t)i * size, PARE_F32, &v, 1, err));
    }
    return 0;
}

/* The given inputs, or random ones of the plan's shapes. */
static int find_inputs(const struct pare_plan *p, const struct pare_tensor *given,
                       struct pare_arena *a, struct pare_tensor **in, struct pare_err *err)
{
    const int n = p->graph->n_in;
    struct pare_rng rng;

    *in = pare_alloc(a, (size_t)n + 1, sizeof(**in));
    if (!*in)
        return pare_no_memory(err, "for random inputs");
    pare_rng_init(&rng, 0);
    for (int i = 0; i < n; i++) {
        (*in)[i] = given ? given[i] : p->graph->in[i]->t;
        if (!given || !given[i].data)
            PARE_TRY(fill_input(&(*in)[i], &rng, a, err));
    }
    return 0;
}

/* Run both plans and compare their outputs. */
static int compare(struct pare_plan *exact, struct pare_plan *bf16, const struct pare_tensor *given,
                   struct pare_arena *a, struct pare_err *err)
{
    const int n = exact->graph->n_out;
    struct squares s = { 0 };
    struct pare_tensor *in, *want, *have;

    PARE_TRY(find_inputs(exact, given, a, &in, err));
    want = pare_alloc(a, (size_t)n + 1, sizeof(*want));
    have = pare_alloc(a, (size_t)n + 1, sizeof(*have));
    if (!want || !have)
        return pare_no_memory(err, "for the outputs");
    PARE_TRY(pare_plan_execute(exact, in, want, err));
    PARE_TRY(pare_plan_execute(bf16, in, have, err));
    for (int i = 0; i < n; i++)
        add_output(&want[i], &have[i], &s);
    bf16->bf16_error = s.difference > 0 ? sqrt(s.difference / s.value) : 0;
    return 0;
}

static int compare_plans(struct pare_plan *exact, struct pare_plan *bf16,
                         const struct pare_tensor *given, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    int rc = a ? compare(exact, bf16, given, a, err) : pare_no_memory(err, "for a comparison");

    pare_arena_free(a);
    return rc;
}

static int build_as(const struct pare_model *model, const struct pare_plan_build *build,
                    enum pare_precision precision, struct pare_plan **plan, struct pare_err *err)
{
    struct pare_plan_opts o = { 0 };
    struct pare_plan_build b = *build;

    if (build->opts)
        o = *build->opts;
    o.precision = precision;
    b.opts = &o;
    return pare_plan_build(model, &b, plan, err);
}

int pare_plan_measure_bf16(struct pare_plan *p, const struct pare_plan_build *build,
                           const struct pare_tensor *in, struct pare_err *err)
{
    struct pare_plan *exact;
    int rc = build_as(p->model, build, PARE_PRECISION_F32, &exact, err);

    if (!rc)
        rc = compare_plans(exact, p, in, err);
    pare_plan_free(exact);
    return rc;
}

int pare_plan_build_auto(const struct pare_model *model, const struct pare_plan_build *build,
                         struct pare_plan **plan, struct pare_err *err)
{
    const struct pare_tensor *in = build->opts->in;
    struct pare_plan *bf16 = NULL;
    struct pare_err why = { 0 };
    int rc;

    PARE_TRY(build_as(model, build, PARE_PRECISION_F32, plan, err));
    if (!(*plan)->backend.has_bf16 || (*plan)->reference)
        return 0;
    rc = build_as(model, build, PARE_PRECISION_BF16, &bf16, err);
    if (!rc)
        rc = compare_plans(*plan, bf16, in, &why);
    if (!rc && bf16->bf16_error <= PARE_BF16_ERROR) {
        pare_plan_free(*plan);
        *plan = bf16;
        return 0;
    }
    if (!rc)
        (*plan)->bf16_error = bf16->bf16_error;
    pare_plan_free(bf16);
    if (why.code && why.code != PARE_ENOMEM)
        return 0; /* it cannot be compared: float32 */
    if (rc) {
        if (why.code)
            *err = why;
        pare_plan_free(*plan);
        *plan = NULL;
    }
    return rc;
}
