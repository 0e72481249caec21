/* model_intake.c - load the model of a command and report what intake changed. */
#include <string.h>

#include "model_intake.h"

#include <jansson.h>

#include "../../dist/dist.h"
#include "../../graph/output_logits.h"
#include "../../onnx/model.h"
#include "../../train/train_options.h"
#include "../print/screen.h"

int pare_cli_load(struct pare_cli *c, const char *path, struct pare_model **m, struct pare_err *err)
{
    struct pare_load_opts opts = { .keep_training_mode = c->keep_training_mode, .widen = c->widen };
    const struct pare_intake_count *list;
    int n;

    PARE_TRY(pare_model_load_with(path, &opts, m, err));
    n = pare_dist_rank(c->dist) ? 0 : pare_model_intake(*m, &list);
    for (int i = 0; i < n; i++)
        if (list[i].count && list[i].note) {
            pare_put_clean(stderr, path);
            fprintf(stderr, ": %s\n", list[i].note);
        }
    return 0;
}

void pare_data_note(const struct pare_cli *c, const struct pare_data *d)
{
    const char *s = d ? d->note : NULL;

    if (!s || c->in_recipe || pare_dist_rank(c->dist))
        return;
    for (; *s; s += strcspn(s, "\n"), s += *s == '\n') {
        char line[512];

        snprintf(line, sizeof(line), "%.*s", (int)strcspn(s, "\n"), s);
        pare_put_paragraph(stderr, line);
    }
}

void pare_logits_note(struct pare_cli *c, const struct pare_model *m, const struct pare_loss *loss)
{
    const struct pare_node *n;
    const struct pare_value *v = pare_graph_logits(m->graph, loss->logits, &n);

    if (!v || pare_dist_rank(c->dist))
        return;
    pare_put_clean(stderr, m->path);
    fprintf(stderr, ": %s uses '", loss->name);
    pare_put_clean(stderr, v->name);
    fprintf(stderr, "', the logits before the last %s\n", n->type);
}

void pare_task_note(const struct pare_cli *c, const struct pare_train_options *s)
{
    const struct pare_task_goal *g = &s->found;
    char text[512];
    size_t n;

    if (!g->task || !g->why || g->task->bit == PARE_TASK_CLASS || c->in_recipe ||
        pare_dist_rank(c->dist))
        return;
    n = (size_t)snprintf(text, sizeof(text), "task: %s (%s), loss %s%s", g->task->name, g->why,
                         s->trainer.loss->name, g->n_metrics ? ", metrics" : "");
    for (int i = 0; i < g->n_metrics && n < sizeof(text); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? ", " : " ",
                              g->metric[i]->name);
    if (n < sizeof(text))
        snprintf(text + n, sizeof(text) - n, "; --task selects another");
    pare_put_paragraph(stderr, text);
}

void pare_intake_print(const struct pare_model *m, FILE *f)
{
    const struct pare_intake_count *list;
    int n = pare_model_intake(m, &list);

    for (int i = 0; i < n; i++)
        if (list[i].count)
            fprintf(f, "intake %s: %lld %s\n", list[i].name, (long long)list[i].count,
                    list[i].what);
}

json_t *pare_intake_json(const struct pare_model *m)
{
    const struct pare_intake_count *list;
    int n = pare_model_intake(m, &list);
    json_t *j = json_object();

    for (int i = 0; i < n; i++)
        json_object_set_new(j, list[i].name, json_integer(list[i].count));
    return j;
}
