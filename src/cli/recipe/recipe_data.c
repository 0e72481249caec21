/* recipe_data.c - the data set of a recipe: its options, and whether its labels fit the model. */
#include <string.h>

#include "recipe.h"
#include "../job/model_intake.h"
#include "../../base/arena.h"
#include "../../onnx/model.h"
#include "../../train/train_options.h"

const struct pare_opt *pare_recipe_data_key(const char *name)
{
    static const struct pare_option_group data = { "data", NULL, pare_data_options, NULL };

    return pare_option_group_find(&data, name);
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
    struct pare_data_opts opts = { 0 };
    struct pare_option_group part = { "data", NULL, pare_data_options, &opts };
    struct pare_data *d;
    int rc;

    PARE_TRY(pare_option_group_fill(&part, r->option, r->n_options, c->arena, err));
    q.n_io = pare_model_inputs(m, &q.io);
    PARE_TRY(pare_data_open_for(&q, &opts, &d, err));
    rc = pare_at(err, pare_model_fits_items(m, d, err), "%s", r->model);
    r->no_labels = !rc && !pare_data_has_labels(d);
    if (!rc && !quiet)
        pare_data_note(c, d);
    if (r->no_labels && !quiet)
        fprintf(stderr,
                "'%s' has no labels for this model: outputs are compared with those of %s\n",
                d->name, r->model);
    pare_data_free(d);
    return rc;
}
