/* evaluate.c - run a model over a data set: loss, the metrics of its task, accuracy by class. */
#include "train.h"

#include <math.h>

#include "../base/clock.h"
#include "../base/sized.h"
#include "batch_runner.h"
#include "train_options.h"

/* By class, so item by item.  The loss has checked the labels. */
static void count_classes(const struct pare_tensor *out, const struct pare_tensor *y,
                          struct pare_eval *e)
{
    for (int64_t k = 0; k < y->dim[0]; k++) {
        struct pare_tensor row = *out, label = *y;
        struct pare_score one = { 0 };
        int64_t c = pare_i64(y)[k];

        row.dim[0] = label.dim[0] = 1;
        row.data = pare_f32_mut(out) + k * out->dim[1];
        label.data = pare_i64_mut(y) + k;
        pare_score_add(&one, &row, &label);
        e->count[c]++;
        e->right[c] += one.top1;
        e->top1 += one.top1;
        e->top5 += one.top5;
    }
}

static int one_batch(struct pare_batch_runner *r, const struct pare_eval_opts *o,
                     const struct pare_batch *b, struct pare_goal_sums *s, struct pare_eval *e,
                     struct pare_err *err)
{
    struct pare_tensor out[PARE_DATA_OUTPUTS];
    double loss;
    int n;

    PARE_TRY(pare_batch_runner_run(r, b, out, &n, err));
    PARE_TRY(o->loss->run(o->loss_conf, &out[0], &b->y, NULL, &loss, err));
    e->loss += loss * (double)pare_batch_items(b);
    e->n += pare_batch_items(b);
    pare_goal_add(s, &out[0], &b->y);
    if (e->classes && out[0].rank == 2)
        count_classes(&out[0], &b->y, e);
    return 0;
}

/* Sum over all processes; the time is that of the slowest. */
static int merge(struct pare_dist *d, struct pare_eval *e, struct pare_goal_sums *s,
                 struct pare_err *err)
{
    int64_t count[] = { e->n, e->top1, e->top5 };

    if (!d)
        return 0;
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, &e->loss, 1, err));
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_MAX, PARE_F64, &e->seconds, 1, err));
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_SUM, PARE_I64, count, 3, err));
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, s->sum, s->n, err));
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_SUM, PARE_I64, e->right, e->classes, err));
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_SUM, PARE_I64, e->count, e->classes, err));
    e->n = count[0];
    e->top1 = count[1];
    e->top5 = count[2];
    return 0;
}

static int prepare(const struct pare_model *m, const struct pare_data *data,
                   const struct pare_eval_opts *o, struct pare_arena *a, struct pare_task_goal *g,
                   struct pare_goal_sums *s, struct pare_eval *e, struct pare_err *err)
{
    struct pare_goal_opts go = { o->task, o->metric, o->loss };

    *e = (struct pare_eval){ 0 };
    if (!data->y.data)
        return pare_fail(err, PARE_ECONFIG,
                         "'%s' has no labels to compare with; compare with another model instead "
                         "(--against)",
                         data->name);
    PARE_TRY(pare_goal_find(m, data, &go, g, err));
    PARE_TRY(pare_goal_sums_new(g, a, s, err));
    e->classes = g->task->bit == PARE_TASK_CLASS && data->y.rank == 1 ? data->classes : 0;
    e->right = pare_alloc(a, (size_t)e->classes, sizeof(*e->right));
    e->count = pare_alloc(a, (size_t)e->classes, sizeof(*e->count));
    return e->right && e->count ? 0 : pare_no_memory(err, "for an evaluation");
}

/* Positions of a segmentation by class. */
static int keep_areas(const struct pare_goal_sums *s, struct pare_arena *a, struct pare_eval *e,
                      struct pare_err *err)
{
    const double *sum = pare_goal_by_class(s, &e->areas);

    e->areas = sum ? e->areas / 2 : 0;
    e->hit = pare_alloc(a, (size_t)e->areas, sizeof(*e->hit));
    e->either = pare_alloc(a, (size_t)e->areas, sizeof(*e->either));
    if (!e->hit || !e->either)
        return pare_no_memory(err, "for an evaluation");
    for (int64_t i = 0; i < e->areas; i++) {
        e->hit[i] = (int64_t)sum[i];
        e->either[i] = (int64_t)sum[e->areas + i];
    }
    return 0;
}

int pare_evaluate_model(const struct pare_model *m, const struct pare_data *data,
                        const struct pare_eval_opts *o, struct pare_arena *a, struct pare_eval *e,
                        struct pare_err *err)
{
    struct pare_batch_runner r = { .threads = o->threads,
                                   .tune = o->tune,
                                   .choices = o->choices,
                                   .cache = o->cache,
                                   .precision = o->precision,
                                   .logits = o->loss->logits };
    struct pare_loader_opts lo = { .batch = o->batch,
                                   .rank = pare_dist_rank(o->dist),
                                   .ranks = pare_dist_size(o->dist),
                                   .float_y = o->loss->labels != PARE_LABELS_CLASS,
                                   .deal = true };
    struct pare_loader *loader = NULL;
    const struct pare_batch *b = NULL;
    struct pare_goal_sums sums;
    struct pare_task_goal goal;
    double start = pare_now();
    int64_t done = 0;
    int rc;

    PARE_TRY(prepare(m, data, o, a, &goal, &sums, e, err));
    PARE_TRY(pare_batch_runner_init(&r, m, &lo, a, err));
    rc = pare_loader_new(data, &lo, &loader, err);
    while (!rc && !(o->stop && *o->stop)) {
        rc = pare_loader_next(loader, &b, err);
        if (rc || !b)
            break;
        if (o->progress &&
            !o->progress(o->user,
                         &(struct pare_progress){ "evaluate", done++, pare_loader_batches(loader),
                                                  pare_now() - start })) {
            rc = pare_fail(err, PARE_ECANCEL, "evaluation was canceled");
            break;
        }
        rc = one_batch(&r, o, b, &sums, e, err);
    }
    e->seconds = r.seconds;
    if (!rc)
        rc = merge(o->dist, e, &sums, err);
    if (!rc)
        rc = keep_areas(&sums, a, e, err);
    if (e->n)
        e->loss /= (double)e->n;
    pare_goal_values(&sums, e->loss, &e->by);
    pare_loader_free(loader);
    pare_batch_runner_free(&r);
    return rc;
}

/* ---- <pare/train.h> ------------------------------------------------------------------------ */

/* Options as `pare eval` reads them; then the loss that fits model and data. */
static int read_options(const struct pare_model *m, const struct pare_data *data,
                        const struct pare_evaluate_opts *o, struct pare_dist *dist,
                        struct pare_arena *a, struct pare_eval_opts *to, struct pare_err *err)
{
    struct pare_given *given = pare_alloc(a, (size_t)o->n_given + 3, sizeof(*given));
    struct pare_train_options *s;
    int n = 0;

    if (!given)
        return pare_no_memory(err, "to evaluate");
    while (n < o->n_given) {
        given[n] = o->given[n];
        n++;
    }
    if (o->loss)
        given[n++] = (struct pare_given){ "loss", o->loss };
    if (o->task)
        given[n++] = (struct pare_given){ "task", o->task };
    if (o->metric)
        given[n++] = (struct pare_given){ "metric", o->metric };
    PARE_TRY(pare_train_options_eval(given, n, a, &s, err));
    PARE_TRY(pare_train_options_goal(s, m, data, err));
    *to = (struct pare_eval_opts){ .threads = o->threads ? o->threads : s->trainer.threads,
                                   .batch = o->batch,
                                   .loss = s->trainer.loss,
                                   .loss_conf = s->trainer.loss_conf,
                                   .task = s->goal.task,
                                   .metric = s->goal.metric,
                                   .dist = dist,
                                   .tune = o->tune,
                                   .choices = o->choices,
                                   .cache = o->cache,
                                   .precision = o->precision,
                                   .progress = o->progress,
                                   .user = o->user };
    to->threads = to->threads ? to->threads : pare_dist_threads(dist);
    return 0;
}

int pare_evaluate_shared(const struct pare_model *m, const struct pare_data *data,
                         const struct pare_evaluate_opts *opts, struct pare_dist *dist,
                         struct pare_metrics *metrics, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_evaluate_opts o;
    struct pare_eval_opts eo;
    struct pare_eval e;
    int rc = a ? pare_sized_copy(&o, sizeof(o), opts, err) : pare_no_memory(err, "to evaluate");

    *metrics = (struct pare_metrics){ .top1 = -1, .top5 = -1 };
    if (!rc && o.classes && !o.arena)
        rc = pare_fail(err, PARE_ECONFIG, "results by class need an arena");
    if (!rc)
        rc = read_options(m, data, &o, dist, a, &eo, err);
    if (!rc)
        rc = pare_evaluate_model(m, data, &eo, o.classes ? o.arena : a, &e, err);
    if (!rc)
        *metrics = pare_eval_metrics(&e);
    if (!rc && o.classes)
        *o.classes = (struct pare_class_metrics){ .n = e.classes,
                                                  .items = e.count,
                                                  .right = e.right,
                                                  .name = data->class_name };
    if (!rc && o.classes && e.areas)
        *o.classes = (struct pare_class_metrics){ .n = e.areas,
                                                  .items = e.either,
                                                  .right = e.hit,
                                                  .areas = true };
    pare_arena_free(a);
    return rc;
}

int pare_evaluate(const struct pare_model *m, const struct pare_data *data,
                  const struct pare_evaluate_opts *opts, struct pare_metrics *metrics,
                  struct pare_err *err)
{
    PARE_ERR(err);

    return pare_evaluate_shared(m, data, opts, NULL, metrics, err);
}

struct pare_metrics pare_eval_metrics(const struct pare_eval *e)
{
    bool counted = e->classes > 0 && e->n > 0;
    struct pare_metrics m = e->by;

    m.n = e->n;
    m.loss = e->loss;
    m.top1 = counted ? (double)e->top1 / (double)e->n : -1;
    m.top5 = counted ? (double)e->top5 / (double)e->n : -1;
    m.seconds = e->seconds;
    return m;
}

struct pare_metric_value pare_metrics_main(const struct pare_metrics *m)
{
    if (m->n_values && !isnan(m->value[0].value))
        return m->value[0];
    return (struct pare_metric_value){ "loss", m->loss, false, true };
}

double pare_metrics_share(const struct pare_metrics *m)
{
    if (m->top1 >= 0)
        return m->top1;
    for (int i = 0; i < m->n_values; i++)
        if (m->value[i].percent && !m->value[i].lower_is_better)
            return m->value[i].value;
    return -1;
}
