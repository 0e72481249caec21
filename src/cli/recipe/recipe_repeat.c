/* recipe_repeat.c - {"repeat": N, ...} in a recipe: rounds of steps with a rising sparsity.
 *
 * A repeat becomes N times its steps when the recipe is parsed, so that checks, estimates, the run
 * record and --resume know nothing of it.  Its prune step gets the sparsity of the round.  After a
 * speedup, the fraction c of the channels is gone already, and the aim t of the round is
 * (t - c) / (1 - c) of those that are left.
 */
#include <string.h>

#include <jansson.h>

#include "recipe.h"
#include "../../base/arena.h"
#include "../../base/options.h"
#include "../../prune/sparsity_schedule.h"

struct repeat {
    int64_t rounds;
    const char *schedule, *keep;
    double sparsity;
};

#define AT(field) offsetof(struct repeat, field)

static const struct pare_opt repeat_keys[] = {
    { "repeat", "number of rounds", PARE_OPT_INT, AT(rounds), 0, 1, 99, NULL, NULL, true, NULL },
    PARE_CHOICE("schedule", AT(schedule), "how the sparsity rises", "agp", "agp|linear|lottery"),
    { "sparsity", "of the last round", PARE_OPT_FLOAT, AT(sparsity), 0, 1e-9, 0.999999999, NULL,
      NULL, true, NULL },
    PARE_CHOICE("keep", AT(keep), "the model of which round the next step reads", "last",
                "last|best"),
    PARE_OPT_END
};

static double sparsity_of(const char *schedule, double goal, int64_t i, int64_t n)
{
    if (!strcmp(schedule, "lottery"))
        return pare_sparsity_rounds(goal, i, n);
    return pare_sparsity_times(strcmp(schedule, "linear") ? pare_sparsity_cubic
                                                          : pare_sparsity_linear,
                               goal, i, n);
}

/* ---- parsing --------------------------------------------------------------------------------- */

static int read_keys(struct pare_arena *a, const struct pare_json *j, struct repeat *o,
                     struct pare_err *err)
{
    struct pare_setting *set = pare_alloc(a, (size_t)j->n + 1, sizeof(*set));
    char hint[PARE_HINT_TEXT];
    int n = 0;

    if (!set)
        return pare_no_memory(err, "for the recipe");
    for (int i = 0; i < j->n; i++) {
        const struct pare_json *v = &j->item[i];
        const struct pare_opt *k = pare_opt_find(repeat_keys, v->key);
        const char *text = v->kind == PARE_JSON_STR ? v->str : pare_json_write(a, v);

        if (!strcmp(v->key, "steps"))
            continue;
        if (!k)
            return pare_fail(err, PARE_ECONFIG, "line %d: unknown key '%s' of a repeat%s", v->line,
                             v->key, pare_opt_hint(repeat_keys, v->key, hint, sizeof(hint)));
        if (!text)
            return pare_no_memory(err, "for the recipe");
        PARE_TRY(pare_at(err, pare_opt_parse(k, text, &set[n++], a, err), "line %d", v->line));
    }
    return pare_at(err, pare_opts_apply(repeat_keys, set, n, o, a, err), "line %d", j->line);
}

static bool has_text(const struct pare_recipe_step *s, const char *name, const char *text)
{
    for (int i = 0; i < s->n_given; i++)
        if (!strcmp(s->given[i].name, name) && (!text || !strcmp(s->given[i].text, text)))
            return true;
    return false;
}

/* The one step of a round that prunes; *shrinks: its channels are removed in the same round. */
static int find_prune(const struct pare_json *j, const struct pare_recipe_step *s, int n, int *at,
                      bool *shrinks, struct pare_err *err)
{
    *at = -1;
    *shrinks = false;
    for (int i = 0; i < n; i++) {
        bool prunes = !strcmp(s[i].cmd->name, "prune");

        if (!strcmp(s[i].cmd->name, "quantize"))
            return pare_fail(err, PARE_ECONFIG, "line %d: a repeat cannot quantize: do it after it",
                             s[i].line);
        *shrinks |= !strcmp(s[i].cmd->name, "speedup") ||
                    (prunes && has_text(&s[i], "speedup", "true"));
        if (!prunes)
            continue;
        if (*at >= 0 || has_text(&s[i], "sparsity", NULL) || has_text(&s[i], "config", NULL))
            return pare_fail(err, PARE_ECONFIG,
                             "line %d: a repeat has one step prune, without a sparsity or config: "
                             "each round has its own sparsity",
                             s[i].line);
        *at = i;
    }
    return *at >= 0 ? 0
                    : pare_fail(err, PARE_ECONFIG, "line %d: a repeat needs a step prune", j->line);
}

/* A copy of the step with one more key. */
static int set_sparsity(struct pare_arena *a, struct pare_recipe_step *s, double sparsity,
                        struct pare_err *err)
{
    struct pare_given *g = pare_alloc(a, (size_t)s->n_given + 1, sizeof(*g));
    const char *text = pare_sprintf(a, "%.9g", sparsity);

    if (!g || !text)
        return pare_no_memory(err, "for the recipe");
    if (s->n_given)
        memcpy(g, s->given, (size_t)s->n_given * sizeof(*g));
    g[s->n_given] = (struct pare_given){ "sparsity", text };
    s->given = g;
    s->n_given++;
    return 0;
}

int pare_recipe_repeat(struct pare_arena *a, const struct pare_json *j, const struct pare_recipe *r,
                       struct pare_recipe_steps *list, struct pare_err *err)
{
    const struct pare_json *steps = pare_json_get(j, "steps");
    struct pare_recipe_step *inner;
    struct repeat o = { 0 };
    int n = steps && steps->kind == PARE_JSON_LIST ? steps->n : 0, at;
    double gone = 0;
    bool shrinks;

    PARE_TRY(read_keys(a, j, &o, err));
    if (!n)
        return pare_fail(err, PARE_ECONFIG, "line %d: a repeat needs a list of \"steps\"", j->line);
    if (!strcmp(o.keep, "best") && !r->valid)
        return pare_fail(err, PARE_ECONFIG,
                         "line %d: \"keep\": \"best\" chooses a round by its evaluation, which the "
                         "test part must not: set \"valid\"",
                         j->line);
    inner = pare_alloc(a, (size_t)n, sizeof(*inner));
    if (!inner)
        return pare_no_memory(err, "for the recipe");
    for (int i = 0; i < n; i++)
        PARE_TRY(pare_recipe_step_parse(a, &steps->item[i], &inner[i], err));
    PARE_TRY(find_prune(j, inner, n, &at, &shrinks, err));
    for (int64_t k = 1; k <= o.rounds; k++) {
        double t = sparsity_of(o.schedule, o.sparsity, k, o.rounds);

        for (int i = 0; i < n; i++) {
            struct pare_recipe_step s = inner[i];

            if (i == at)
                PARE_TRY(set_sparsity(a, &s, shrinks ? pare_sparsity_of_rest(t, gone) : t, err));
            if (i == n - 1 && k == o.rounds && !strcmp(o.keep, "best")) {
                s.rounds = (int)o.rounds;
                s.round_steps = n;
            }
            PARE_TRY(pare_recipe_step_add(a, list, &s, err));
        }
        gone = t;
    }
    return 0;
}

/* ---- the best round -------------------------------------------------------------------------- */

/* The model of the last step, of `n` from `first`, that wrote one. */
static json_t *last_model(const json_t *steps, int first, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        json_t *m = json_object_get(json_array_get(steps, (size_t)(first + i)), "model");

        if (m)
            return m;
    }
    return NULL;
}

static double accuracy(const json_t *model)
{
    const json_t *v = json_object_get(model, "accuracy"), *loss = json_object_get(model, "loss");

    return json_is_number(v) ? json_number_value(v) : -json_number_value(loss);
}

json_t *pare_recipe_next(const struct pare_recipe *r, int i, json_t *run)
{
    const struct pare_recipe_step *s = &r->step[i];
    const json_t *steps = json_object_get(run, "steps");
    json_t *best = NULL;

    if (!s->rounds) {
        json_t *m = json_object_get(json_array_get(steps, (size_t)i), "model");

        if (m)
            json_object_del(run, "kept");
        return m;
    }
    for (int k = 0; k < s->rounds; k++) {
        json_t *m = last_model(steps, i + 1 - (s->rounds - k) * s->round_steps, s->round_steps);

        if (m && (!best || accuracy(m) >= accuracy(best)))
            best = m;
    }
    json_object_set(run, "kept", best);
    return best;
}
