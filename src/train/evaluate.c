/* evaluate.c - run a model over a data set: loss, top-1 and top-5 accuracy, accuracy by class. */
#include "train.h"

#include <string.h>

#include "../base/clock.h"
#include "../base/sized.h"
#include "train_options.h"

/* Plans for full batches and for the last one. */
struct runner {
    const struct pare_model *m;
    struct pare_plan *plan[2];
    int64_t batch[2];
    const struct pare_eval_opts *o;
    int64_t fixed;          /* the only batch size that the model accepts; 0: any */
    struct pare_tensor *in; /* inputs; zero-padded if the model's batch size is fixed */
};

static int find_plan(struct runner *r, const struct pare_tensor *x, struct pare_plan **plan,
                     struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = r->o->threads,
                                .in = x,
                                .tune = r->o->tune,
                                .choices = r->o->choices,
                                .cache = r->o->cache };
    struct pare_plan_build b = { .opts = &o,
                                 .microbatch = PARE_MICROBATCH_AUTO,
                                 .logits = r->o->loss->logits };
    int i = r->plan[0] && r->batch[0] != x->dim[0];

    if (r->plan[i] && r->batch[i] != x->dim[0]) {
        pare_plan_free(r->plan[i]);
        r->plan[i] = NULL;
    }
    if (!r->plan[i])
        PARE_TRY(pare_plan_build(r->m, &b, &r->plan[i], err));
    r->batch[i] = x->dim[0];
    *plan = r->plan[i];
    return 0;
}

/* By class, so item by item.  The loss has checked the labels. */
static void count_classes(const struct pare_tensor *out, const struct pare_tensor *y,
                          struct pare_eval *e)
{
    for (int64_t k = 0; k < y->dim[0]; k++) {
        struct pare_tensor row = *out, label = *y;
        struct pare_score one = { 0 };
        int64_t c = pare_i64(y)[k];

        row.dim[0] = label.dim[0] = 1;
        row.data = pare_f32(out) + k * out->dim[1];
        label.data = pare_i64(y) + k;
        pare_score_add(&one, &row, &label);
        e->count[c]++;
        e->right[c] += one.top1;
        e->top1 += one.top1;
        e->top5 += one.top5;
    }
}

/* Pad the last items with zeros for a model of fixed batch size. */
static int fill_up(struct runner *r, const struct pare_batch *b, struct pare_arena *a,
                   struct pare_err *err)
{
    for (int k = 0; k < b->n_in; k++) {
        const struct pare_tensor *x = &b->in[k];
        size_t part = pare_dtype_size(x->dtype), outer = 1;
        int axis = b->axis[k];

        r->in[k] = *x;
        if (axis < 0 || x->dim[axis] >= r->fixed)
            continue;
        r->in[k].dim[axis] = r->fixed;
        r->in[k].data = pare_alloc(a, (size_t)pare_numel(&r->in[k]), pare_dtype_size(x->dtype));
        if (!r->in[k].data)
            return pare_no_memory(err, "for the last batch");
        for (int d = 0; d < x->rank; d++) {
            outer *= d < axis ? (size_t)x->dim[d] : 1;
            part *= d > axis ? (size_t)x->dim[d] : 1;
        }
        for (size_t o = 0; o < outer; o++)
            memcpy((char *)r->in[k].data + o * (size_t)r->fixed * part,
                   (const char *)x->data + o * (size_t)x->dim[axis] * part,
                   (size_t)x->dim[axis] * part);
    }
    return 0;
}

static int one_batch(struct runner *r, const struct pare_batch *b, struct pare_eval *e,
                     struct pare_err *err)
{
    const struct pare_eval_opts *o = r->o;
    struct pare_tensor out[16];
    struct pare_plan *plan;
    double loss, start;

    PARE_TRY(find_plan(r, r->in, &plan, err));
    if (plan->graph->n_out > 16)
        return pare_fail(err, PARE_ELIMIT, "cannot evaluate a model with more than 16 outputs");
    start = pare_now();
    PARE_TRY(pare_plan_execute(plan, r->in, out, err));
    e->seconds += pare_now() - start;
    if (out[0].rank > 0 && out[0].dim[0] == r->in[0].dim[0])
        out[0].dim[0] = b->x.dim[0];
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
    const struct pare_io *io;
    struct runner r = { .m = m, .o = o };
    struct pare_loader_opts lo = { .batch = o->batch,
                                   .rank = pare_dist_rank(o->dist),
                                   .ranks = pare_dist_size(o->dist),
                                   .deal = true };
    struct pare_loader *loader = NULL;
    const struct pare_batch *b = NULL;
    double start = pare_now();
    int64_t done = 0;
    int rc;

    *e = (struct pare_eval){ .classes = data->classes };
    e->right = pare_alloc(a, (size_t)data->classes, sizeof(*e->right));
    e->count = pare_alloc(a, (size_t)data->classes, sizeof(*e->count));
    if (!e->right || !e->count)
        return pare_no_memory(err, "for an evaluation");
    if (!data->y.data)
        return pare_fail(err, PARE_ECONFIG, "'%s' has no labels to compare with", data->name);
    lo.n_inputs = pare_model_inputs(m, &io);
    r.in = pare_alloc(a, PARE_DATA_INPUTS, sizeof(*r.in));
    if (!r.in)
        return pare_no_memory(err, "for an evaluation");
    if (lo.n_inputs > 0) {
        lo.input = io;
        r.fixed = io[0].rank > 0 && io[0].dim[0] > 0 ? io[0].dim[0] : 0;
        lo.batch = r.fixed ? r.fixed : lo.batch;
    }
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
        rc = fill_up(&r, b, a, err);
        if (!rc)
            rc = one_batch(&r, b, e, err);
    }
    if (!rc)
        rc = merge(o->dist, e, err);
    if (e->n)
        e->loss /= (double)e->n;
    pare_loader_free(loader);
    pare_plan_free(r.plan[0]);
    pare_plan_free(r.plan[1]);
    return rc;
}

/* ---- <pare/train.h> ------------------------------------------------------------------------ */

int pare_evaluate(const struct pare_model *m, const struct pare_data *data,
                  const struct pare_evaluate_opts *opts, struct pare_metrics *metrics,
                  struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_evaluate_opts o;
    struct pare_eval_opts eo = { 0 };
    struct pare_train_options *s;
    struct pare_given loss;
    struct pare_eval e;
    int rc = a ? pare_sized_copy(&o, sizeof(o), opts, err) : pare_no_memory(err, "to evaluate");

    *metrics = (struct pare_metrics){ .top1 = -1, .top5 = -1 };
    if (!rc) {
        loss = (struct pare_given){ "loss", o.loss };
        rc = pare_train_options_eval(&loss, o.loss ? 1 : 0, a, &s, err);
    }
    if (!rc)
        rc = pare_model_fits(m, data, err);
    if (!rc) {
        eo = (struct pare_eval_opts){ .threads = o.threads,
                                      .batch = o.batch,
                                      .loss = s->trainer.loss,
                                      .loss_conf = s->trainer.loss_conf,
                                      .progress = o.progress,
                                      .user = o.user };
        rc = pare_evaluate_model(m, data, &eo, a, &e, err);
    }
    if (!rc)
        *metrics = pare_eval_metrics(&e);
    pare_arena_free(a);
    return rc;
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
