/* recipe_data.c - the data set of a recipe: its options, its task, and whether its labels fit the
 * model. */
#include <string.h>

#include "recipe.h"
#include "../job/data_inputs.h"
#include "../job/model_intake.h"
#include "../../base/arena.h"
#include "../../onnx/model.h"
#include "../../train/train_options.h"

const struct pare_opt *pare_recipe_data_key(const char *name)
{
    static const struct pare_option_group data = { "data", NULL, pare_data_options, NULL };
    static const struct pare_option_group goal = { "task", NULL, pare_goal_options, NULL };
    const struct pare_opt *o = pare_option_group_find(&data, name);

    return o ? o : pare_option_group_find(&goal, name);
}

const char *pare_recipe_key_hint(const char *typed, char *buf, size_t size)
{
    const struct pare_opt *const tables[] = { pare_recipe_keys, pare_goal_options,
                                              pare_data_options };
    const char *names[64], *near;
    int n = 0;

    for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
        for (const struct pare_opt *o = tables[t]; o->name && n < 64; o++)
            names[n++] = o->name;
    near = pare_nearest(typed, names, n);
    snprintf(buf, size, near ? " (did you mean '%s'?)" : "%s", near ? near : "");
    return buf;
}

int pare_recipe_option(struct pare_arena *a, struct pare_recipe *r, const char *name,
                       const char *text, struct pare_err *err)
{
    const struct pare_opt *o = pare_recipe_data_key(name);
    int i = 0;

    name = o ? o->name : name;
    while (i < r->n_options && strcmp(r->option[i].name, name) != 0)
        i++;
    if (!r->option)
        r->option = pare_alloc(a, PARE_RECIPE_DATA_KEYS, sizeof(*r->option));
    if (!r->option)
        return pare_no_memory(err, "for the recipe");
    r->option[i] = (struct pare_given){ name, text };
    r->n_options += i == r->n_options;
    return 0;
}

int pare_recipe_check_labels(struct pare_cli *c, struct pare_recipe *r, const struct pare_model *m,
                             bool quiet, struct pare_err *err)
{
    struct pare_data_request q = { .spec = r->valid ? r->valid : r->data, .split = "test" };
    struct pare_train_options *s;
    struct pare_data *d;
    int rc;

    PARE_TRY(pare_train_options_eval(r->option, r->n_options, c->arena, &s, err));
    q.n_io = pare_model_inputs(m, &q.io);
    PARE_TRY(pare_cli_data_open(c, &q, &s->data, quiet, &d, err));
    rc = pare_at(err, pare_model_fits_items(m, d, &s->goal, err), "%s", r->model);
    if (!rc)
        rc = pare_at(err, pare_train_options_goal(s, m, d, err), "%s", r->model);
    r->no_labels = !rc && !pare_data_has_labels(d);
    if (!rc)
        rc = pare_at(err, pare_data_item_shapes(c->arena, m, d, &r->shape, err), "%s", r->model);
    if (!rc && !quiet)
        pare_data_note(c, d);
    if (!rc && !quiet)
        pare_image_range_note(c, m, d);
    if (!rc && !quiet)
        pare_task_note(c, s);
    if (r->no_labels && !quiet)
        fprintf(stderr,
                "'%s' has no labels for this model: outputs are compared with those of %s\n",
                d->name, r->model);
    pare_data_free(d);
    return rc;
}
