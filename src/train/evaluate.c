/* evaluate.c - run a model over a data set: loss, top-1 and top-5 accuracy, accuracy by class. */
#include "train.h"

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
                     const struct pare_batch *b, struct pare_eval *e, struct pare_err *err)
{
    struct pare_tensor out[PARE_RUNNER_OUTPUTS];
    double loss;
    int n;

    PARE_TRY(pare_batch_runner_run(r, b, out, &n, err));
    PARE_TRY(o->loss->run(o->loss_conf, &out[0], &b->y, NULL, &loss, err));
    e->loss += loss * (double)b->x.dim[0];
    e->n += b->x.dim[0];
    if (out[0].rank == 2 && b->y.dtype == PARE_I64 && b->y.rank == 1)
        count_classes(&out[0], &b->y, e);
    return 0;
}

/* Sum over all processes; the time is that of the slowest. */
static int merge(struct pare_dist *d, struct pare_eval *e, struct pare_err *err)
{
    int64_t count[] = { e->n, e->top1, e->top5 };

    if (!d)
        return 0;
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, &e->loss, 1, err));
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_MAX, PARE_F64, &e->seconds, 1, err));
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_SUM, PARE_I64, count, 3, err));
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_SUM, PARE_I64, e->right, e->classes, err));
    PARE_TRY(pare_dist_merge(d, PARE_MERGE_SUM, PARE_I64, e->count, e->classes, err));
    e->n = count[0];
    e->top1 = count[1];
    e->top5 = count[2];
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
                                   .logits = o->loss->logits };
    struct pare_loader_opts lo = { .batch = o->batch,
                                   .rank = pare_dist_rank(o->dist),
                                   .ranks = pare_dist_size(o->dist),
                                   .deal = true };
    struct pare_loader *loader = NULL;
    const struct pare_batch *b = NULL;
    double start = pare_now();
    int64_t done = 0;
    int rc;

    *e = (struct pare_eval){ .classes = data->y.rank == 1 ? data->classes : 0 };
    e->right = pare_alloc(a, (size_t)e->classes, sizeof(*e->right));
    e->count = pare_alloc(a, (size_t)e->classes, sizeof(*e->count));
    if (!e->right || !e->count)
        return pare_no_memory(err, "for an evaluation");
    if (!data->y.data)
        return pare_fail(err, PARE_ECONFIG,
                         "'%s' has no labels to compare with; compare with another model instead "
                         "(--against)",
                         data->name);
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
        rc = one_batch(&r, o, b, e, err);
    }
    e->seconds = r.seconds;
    if (!rc)
        rc = merge(o->dist, e, err);
    if (e->n)
        e->loss /= (double)e->n;
    pare_loader_free(loader);
    pare_batch_runner_free(&r);
    return rc;
}

/* ---- <pare/train.h> ------------------------------------------------------------------------ */

static int read_options(const struct pare_evaluate_opts *o, struct pare_dist *dist,
                        struct pare_arena *a, struct pare_eval_opts *to, struct pare_err *err)
{
    struct pare_given *given = pare_alloc(a, (size_t)o->n_given + 1, sizeof(*given));
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
    PARE_TRY(pare_train_options_eval(given, n, a, &s, err));
    *to = (struct pare_eval_opts){ .threads = o->threads ? o->threads : s->trainer.threads,
                                   .batch = o->batch,
                                   .loss = s->trainer.loss,
                                   .loss_conf = s->trainer.loss_conf,
                                   .dist = dist,
                                   .tune = o->tune,
                                   .choices = o->choices,
                                   .cache = o->cache,
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
        rc = read_options(&o, dist, a, &eo, err);
    if (!rc)
        rc = pare_model_fits(m, data, err);
    if (!rc)
        rc = pare_evaluate_model(m, data, &eo, o.classes ? o.arena : a, &e, err);
    if (!rc)
        *metrics = pare_eval_metrics(&e);
    if (!rc && o.classes)
        *o.classes = (struct pare_class_metrics){ .n = e.classes,
                                                  .items = e.count,
                                                  .right = e.right,
                                                  .name = data->class_name };
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

    return (struct pare_metrics){ .n = e->n,
                                  .loss = e->loss,
                                  .top1 = counted ? (double)e->top1 / (double)e->n : -1,
                                  .top5 = counted ? (double)e->top5 / (double)e->n : -1,
                                  .seconds = e->seconds };
}
