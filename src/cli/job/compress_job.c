/* compress_job.c - shared by prune and quantize: option groups, evaluation, training. */
#include "compress_job.h"

#include <string.h>

#include <jansson.h>

#include "../print/metric_print.h"
#include "../print/screen.h"
#include "../../base/arena.h"
#include "plugins.h"

/* ---- evaluation ----------------------------------------------------------------------------- */

/* Top-1 accuracy, or the metrics of another task. */
void pare_metrics_print(const char *when, const struct pare_metrics *m)
{
    char text[PARE_NUM_TEXT];

    if (!m->n)
        return;
    printf("%-18s ", when);
    if (m->top1 >= 0)
        printf("accuracy %.2f%%, ", 100 * m->top1);
    for (int i = 0; i < m->n_values && m->top1 < 0; i++)
        printf("%s %s, ", m->value[i].name, pare_metric_text(&m->value[i], text, sizeof(text)));
    printf("loss %.4f\n", m->loss);
}

json_t *pare_metrics_json(const struct pare_metrics *m)
{
    return m->n ? json_pack("{s:o, s:o, s:o}", "accuracy",
                            m->top1 >= 0 ? pare_json_real(m->top1) : json_null(), "loss",
                            pare_json_real(m->loss), "metrics", pare_metric_list_json(m))
                : json_null();
}

/* ---- option groups -------------------------------------------------------------------------- */

int pare_compress_option_groups(struct pare_arena *a, const struct pare_algorithm_options *own,
                                struct pare_option_group **part, int *n, struct pare_err *err)
{
    struct pare_option_group *train;
    int n_train;

    PARE_TRY(pare_train_option_groups(a, &train, &n_train, err));
    *n = own->n + n_train;
    *part = pare_alloc(a, (size_t)*n, sizeof(**part));
    if (!*part)
        return pare_no_memory(err, "for the options");
    memcpy(*part, own->part, (size_t)own->n * sizeof(*own->part));
    memcpy(*part + own->n, train, (size_t)n_train * sizeof(*train));
    return 0;
}

/* With `plain`, names with a group prefix such as "training-epochs" do not count. */
static bool groups_have(const struct pare_option_group *p, int n, const char *name, bool plain)
{
    for (int i = 0; i < n; i++) {
        const struct pare_opt *o = pare_option_group_find(&p[i], name);

        if (o && (!plain || strlen(o->name) == strlen(name)))
            return true;
    }
    return false;
}

int pare_split_options(struct pare_cli *c, const struct pare_algorithm_options *own,
                       struct pare_finetune *tune, struct pare_given **given, int *n,
                       struct pare_err *err)
{
    struct pare_given *train = pare_alloc(c->arena, (size_t)c->n_given + 1, sizeof(*train));
    struct pare_option_group *other;
    int n_other;

    *given = pare_alloc(c->arena, (size_t)c->n_given + 2, sizeof(**given));
    *n = 0;
    PARE_TRY(pare_train_option_groups(c->arena, &other, &n_other, err));
    if (!train || !*given)
        return pare_no_memory(err, "for the options");
    for (int i = 0; i < c->n_given; i++) {
        const struct pare_given *g = &c->given[i];

        if (!groups_have(own->part, own->n, g->name, false))
            train[tune->n_given++] = *g;
        else if (groups_have(own->part, own->n, g->name, true) &&
                 groups_have(other, n_other, g->name, true))
            return pare_misuse(c, err,
                               "option '%s' is ambiguous: use '%s-%s' or for example 'data-%s'",
                               g->name, own->kind, g->name, g->name);
        else
            (*given)[(*n)++] = *g;
    }
    tune->given = train;
    if (tune->n_given && !tune->data_name)
        return pare_misuse(c, err, "option '%s' is a training option, which needs --data",
                           train[0].name);
    return 0;
}

/* How long an algorithm trains by itself may be a surprise. */
static void print_own_training(const struct pare_finetune *f)
{
    const char *then = pare_finetune_given(f, "epochs");
    long long n = (long long)(f->own_steps ? f->own_steps : f->own_epochs);
    char text[256];

    if (!n)
        return;
    snprintf(text, sizeof(text),
             "%s trains for %lld %s%s by itself%s%s (its settings: 'pare help %s')", f->algorithm,
             n, f->own_steps ? "step" : "epoch", n == 1 ? "" : "s",
             then ? ", then for --epochs " : "", then ? then : "", f->algorithm);
    pare_put_paragraph(stderr, text);
}

int pare_compress_train(void *user, struct pare_finetune *tune, struct pare_err *err)
{
    struct pare_compress_job *j = user;

    pare_progress_line_end(&j->line);
    if (!j->train.quiet && !j->c->in_recipe)
        print_own_training(tune);
    PARE_TRY(pare_train_job_train(j->c, &j->train, err));
    pare_train_progress_end(&j->train.progress);
    return pare_train_job_stopped(&j->train, err);
}

/* ---- the command ---------------------------------------------------------------------------- */

int pare_compress_job_plugins(struct pare_compress_job *j, const struct pare_strs *plugin,
                              struct pare_err *err)
{
    j->registry = pare_registry_new(err);
    if (!j->registry)
        return err->code;
    return pare_plugins_load(j->c, j->registry, plugin, err);
}

static void close_job(const struct pare_compress_steps *s, struct pare_compress_job *j)
{
    s->close(j);
    pare_train_job_close(&j->train);
    pare_registry_free(j->registry);
}

int pare_compress_job_check(struct pare_cli *c, const struct pare_compress_steps *s,
                            struct pare_compress_job *j, struct pare_err *err)
{
    int rc;

    j->c = c;
    rc = s->open(j, err);
    if (!rc)
        rc = s->wrap(j, err);
    close_job(s, j);
    return rc;
}

int pare_compress_job_run(struct pare_cli *c, const struct pare_compress_steps *s,
                          struct pare_compress_job *j, struct pare_err *err)
{
    bool first = !pare_dist_rank(c->dist);
    int rc;

    j->c = c;
    pare_progress_line_start(&j->line, j->train.quiet || !first);
    j->train.tune->progress = pare_progress_line_show;
    j->train.tune->user = &j->line;
    rc = s->open(j, err);
    if (!rc)
        rc = s->work(j, err);
    if (!rc && first && s->finish)
        rc = s->finish(j, err);
    pare_train_progress_end(&j->train.progress);
    pare_progress_line_end(&j->line);
    if (!rc && first)
        rc = s->print(j, err);
    if (!rc)
        rc = pare_train_job_over(&j->train, err);
    close_job(s, j);
    return rc;
}
