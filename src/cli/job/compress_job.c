/* compress_job.c - shared by prune and quantize: option groups, evaluation, training. */
#include "compress_job.h"

#include <string.h>

#include <jansson.h>

#include "../../base/arena.h"

/* ---- evaluation ----------------------------------------------------------------------------- */

int pare_evaluate_job(const struct pare_train_job *t, const struct pare_model *m,
                      struct pare_evaluation *to, struct pare_err *err)
{
    const struct pare_train_options *s = t->setup;
    struct pare_eval_opts o = { 0 };
    struct pare_arena *a;
    struct pare_eval e;
    int rc;

    if (!t->data[1])
        return 0;
    o.dist = s->trainer.dist;
    o.threads = (int)s->c.threads;
    o.loss = s->trainer.loss;
    o.loss_conf = s->trainer.loss_conf;
    a = pare_arena_new(1 << 16);
    if (!a)
        return pare_no_memory(err, "to evaluate the model");
    rc = pare_evaluate_model(m, t->data[1], &o, a, &e, err);
    if (!rc)
        *to = (struct pare_evaluation){ true, e.loss, e.n ? (double)e.top1 / (double)e.n : 0 };
    pare_arena_free(a);
    return rc;
}

void pare_evaluation_print(const char *when, const struct pare_evaluation *j)
{
    if (j->done)
        printf("%-18s accuracy %.2f%%, loss %.4f\n", when, 100 * j->top1, j->loss);
}

json_t *pare_evaluation_json(const struct pare_evaluation *j)
{
    return j->done ? json_pack("{s:o, s:o}", "accuracy", pare_json_real(j->top1), "loss",
                               pare_json_real(j->loss))
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
                       struct pare_train_job *t, const char **settings, struct pare_err *err)
{
    struct pare_given *train = pare_alloc(c->arena, (size_t)c->n_given + 1, sizeof(*train));
    struct pare_option_group *other;
    int n_other;

    PARE_TRY(pare_train_option_groups(c->arena, &other, &n_other, err));
    *settings = own->set ? own->set : "";
    if (!train)
        return pare_no_memory(err, "for the options");
    for (int i = 0; i < c->n_given; i++) {
        const struct pare_given *g = &c->given[i];

        if (!groups_have(own->part, own->n, g->name, false))
            train[t->n_given++] = *g;
        else if (groups_have(own->part, own->n, g->name, true) &&
                 groups_have(other, n_other, g->name, true))
            return pare_misuse(c, err,
                               "option '%s' is ambiguous: use '%s-%s' or for example 'data-%s'",
                               g->name, own->kind, g->name, g->name);
        else if (!(*settings = pare_sprintf(c->arena, "%s %s=%s", *settings, g->name, g->text)))
            return pare_no_memory(err, "for the options");
    }
    t->given = train;
    if (t->n_given && !t->data_name)
        return pare_misuse(c, err, "option '%s' is a training option, which needs --data",
                           train[0].name);
    return 0;
}

const char *pare_given_text(const struct pare_cli *c, const char *name)
{
    const char *text = NULL;

    for (int i = 0; i < c->n_given; i++)
        if (!strcmp(c->given[i].name, name))
            text = c->given[i].text;
    return text;
}

/* ---- training ------------------------------------------------------------------------------- */

/* Number of steps in an epoch. */
static int64_t steps_per_epoch(const struct pare_train_job *t)
{
    const struct pare_train_options *s = t->setup;
    int64_t batch = s->train.batch ? s->train.batch : s->data.batch;
    int64_t n = t->data[0]->n, each = s->data.drop_last ? n / batch : (n + batch - 1) / batch;

    return each > 0 ? each : 1;
}

int pare_compress_train(struct pare_cli *c, struct pare_train_job *t, struct pare_compression *r,
                        bool *trained, struct pare_err *err)
{
    struct pare_train_conf *k = &t->setup->train;
    int64_t each = steps_per_epoch(t), epochs, steps;

    PARE_TRY(pare_compression_length(r, &epochs, &steps, err));
    k->epochs = epochs + (pare_given_text(c, "epochs") ? k->epochs : 0);
    if (steps > epochs * each) { /* the algorithm's steps, then whole epochs */
        k->max_steps = steps + (k->epochs - epochs) * each;
        k->epochs = (k->max_steps + each - 1) / each;
    }
    if (!k->epochs)
        return 0;
    /* The best epoch is chosen among those with final masks. */
    k->best_from = k->max_steps ? steps / each : epochs;
    k->best_from = k->best_from < k->epochs ? k->best_from : k->epochs - 1;
    PARE_TRY(pare_train_job_train(c, t, err));
    pare_train_progress_end(&t->progress);
    *trained = true;
    return pare_train_job_stopped(t, err);
}
