/* recipe_max_drop.c - accuracy that a whole recipe loses: a warning, or the limit max_drop. */
#include <string.h>

#include <jansson.h>

#include "run_record.h"
#include "../print/screen.h"
#include "../../train/accuracy_drop.h"

/* n is 0: the model was not evaluated, or there are no classes. */
static struct pare_metrics metrics(const json_t *facts)
{
    const json_t *v = json_object_get(facts, "accuracy");

    return (struct pare_metrics){ .n = json_is_number(v), .top1 = json_number_value(v) };
}

static bool is_within(const struct pare_recipe *r, const struct pare_metrics *before,
                      const json_t *model)
{
    struct pare_metrics m = metrics(model);
    struct pare_err ignored;

    return m.n && !pare_accuracy_drop_check(r->max_drop, before, &m, &ignored);
}

int pare_record_check_drop(const struct pare_recipe *r, const json_t *run, const char *folder,
                           struct pare_err *err)
{
    struct pare_metrics before = metrics(json_object_get(run, "input")), after = { 0 };
    const json_t *step, *model, *good = NULL;
    const char *path;
    size_t i;
    double drop;

    if (r->max_drop >= 0 && !before.n)
        return pare_fail(err, PARE_ECONFIG,
                         "max-drop needs a data set with class labels to measure the accuracy");
    json_array_foreach(json_object_get(run, "steps"), i, step)
    {
        model = json_object_get(step, "model");
        if (!model)
            continue;
        after = metrics(model);
        good = is_within(r, &before, model) ? model : good;
    }
    if (json_object_get(run, "kept"))
        after = metrics(json_object_get(run, "kept"));
    drop = pare_accuracy_drop(&before, &after);
    if (r->max_drop < 0 && drop > PARE_DROP_WARNING) {
        pare_put_warning();
        fprintf(stderr,
                "accuracy dropped by %.2f points, from %.2f%% to %.2f%%: more epochs or a lower "
                "sparsity keep more of it; --max-drop makes this an error\n",
                drop, 100 * before.top1, 100 * after.top1);
    }
    if (!pare_accuracy_drop_check(r->max_drop, &before, &after, err))
        return 0;
    path = json_string_value(json_object_get(good, "path"));
    return pare_at(err, err->code, "%s: not written, the models of the steps are in %s; %s%s",
                   r->output, folder,
                   path ? "the last one within the limit is " : "none is within the limit",
                   path ? path : "");
}
