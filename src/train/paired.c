/* paired.c - accuracy that a model loses against the original, counted item by item. */
#include <math.h>
#include <string.h>

#include "batch_runner.h"
#include "paired_bound.h"
#include "train_options.h"
#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/sha256.h"
#include "../base/sized.h"
#include "../tensor/tensor.h"

#define SEED 1 /* of the order of items, if it is random */

struct count {
    struct pare_paired_opts o;
    struct pare_pairs all, *by; /* of all items; by class, (classes) */
    int64_t classes, right;
    struct pare_sha256 hash;
    struct pare_looks looks;
    int decided;
};

/* Bytes of one item of a tensor whose items are on this axis; -1: the value is for all items. */
static void hash_item(struct pare_sha256 *h, const struct pare_tensor *t, int axis, int64_t item)
{
    size_t inner = pare_dtype_size(t->dtype), outer = 1,
           items = axis < 0 ? 1 : (size_t)t->dim[axis];

    for (int d = 0; d < t->rank; d++) {
        outer *= d < axis ? (size_t)t->dim[d] : 1;
        inner *= d > axis ? (size_t)t->dim[d] : 1;
    }
    item = axis < 0 ? 0 : item;
    for (size_t o = 0; o < outer; o++)
        pare_sha256_add(h, (const char *)t->data + (o * items + (size_t)item) * inner, inner);
}

/* Item by item, so that the hash does not depend on the batch size. */
static void hash_batch(struct pare_sha256 *h, const struct pare_batch *b)
{
    for (int64_t i = 0; i < pare_batch_items(b); i++) {
        for (int k = 0; k < b->n_in; k++)
            hash_item(h, &b->in[k], b->axis[k], i);
        hash_item(h, &b->y, 0, i);
    }
}

static int check_output(const struct pare_tensor *out, int n, int64_t items, struct pare_err *err)
{
    char text[PARE_SHAPE_TEXT];

    if (n > 0 && out->dtype == PARE_F32 && out->rank == 2 && out->dim[0] == items &&
        out->dim[1] > 1)
        return 0;
    return pare_fail(err, PARE_ESHAPE,
                     "the first output must be float32 (items, classes) to count right answers, "
                     "but is %s",
                     n > 0 ? pare_shape_text(out, text, sizeof(text)) : "missing");
}

static bool is_right(const struct pare_tensor *out, int64_t item, int64_t label)
{
    return label >= 0 && label < out->dim[1] && pare_metric_rank(out, item, label) == 0;
}

static int add_batch(struct pare_batch_runner r[2], const struct pare_batch *b, struct count *c,
                     struct pare_err *err)
{
    struct pare_tensor out[2][PARE_DATA_OUTPUTS];
    int64_t items = pare_batch_items(b);
    int n;

    for (int i = r[0].m == r[1].m; i < 2; i++) {
        PARE_TRY(pare_batch_runner_run(&r[i], b, out[i], &n, err));
        PARE_TRY(check_output(&out[i][0], n, items, err));
    }
    if (r[0].m == r[1].m)
        out[0][0] = out[1][0];
    if (!c->o.early)
        hash_batch(&c->hash, b);
    for (int64_t k = 0; k < items; k++) {
        int64_t label = pare_i64(&b->y)[k];
        bool was = is_right(&out[0][0], k, label), is = is_right(&out[1][0], k, label);
        struct pare_pairs *of[] = { &c->all,
                                    label >= 0 && label < c->classes ? &c->by[label] : NULL };

        c->right += is;
        for (int i = 0; i < 2 && of[i]; i++) {
            of[i]->n++;
            of[i]->b += was && !is;
            of[i]->d += is && !was;
        }
    }
    return 0;
}

static int run_all(struct pare_batch_runner r[2], struct pare_loader *l, struct count *c,
                   struct pare_err *err)
{
    const struct pare_batch *b;
    double start = pare_now();

    for (int64_t done = 0; !c->decided; done++) {
        struct pare_progress at = { "compare", done, pare_loader_batches(l), pare_now() - start };

        PARE_TRY(pare_loader_next(l, &b, err));
        if (!b)
            return 0;
        if (c->o.progress && !c->o.progress(c->o.user, &at))
            return pare_fail(err, PARE_ECANCEL, "the comparison was canceled");
        PARE_TRY(add_batch(r, b, c, err));
        if (c->o.early)
            c->decided = pare_looks_decide(&c->looks, &c->all, c->o.max_drop);
    }
    return 0;
}

static void finish(struct count *c, struct pare_paired *p)
{
    double alpha = c->o.early ? c->looks.spent : 1 - c->o.confidence;

    *p = (struct pare_paired){ .n = c->all.n,
                               .right = c->right,
                               .b = c->all.b,
                               .d = c->all.d,
                               .drop = pare_pairs_drop(&c->all),
                               .error = pare_pairs_error(&c->all),
                               .bound = pare_pairs_upper(&c->all, alpha),
                               .worst = -1,
                               .worst_drop = -2,
                               .class_bound = -1,
                               .decided = c->decided };
    for (int64_t i = 0; i < c->classes; i++)
        p->classes += c->by[i].n > 0;
    for (int64_t i = 0; i < c->classes; i++) {
        double drop = pare_pairs_drop(&c->by[i]);

        if (!c->by[i].n)
            continue;
        /* All bounds hold together if each has its part of alpha. */
        p->class_bound = fmax(p->class_bound,
                              pare_pairs_upper(&c->by[i], alpha / (double)p->classes));
        p->worst = drop > p->worst_drop ? i : p->worst;
        p->worst_drop = fmax(p->worst_drop, drop);
    }
    if (!c->o.early)
        pare_sha256_text(&c->hash, p->data_sha256);
}

static int start(const struct pare_data *data, const struct pare_paired_opts *opts,
                 struct pare_arena *a, struct count *c, struct pare_err *err)
{
    PARE_TRY(pare_sized_copy(&c->o, sizeof(c->o), opts, err));
    c->o.confidence = c->o.confidence == 0 ? 0.95 : c->o.confidence;
    if (!(c->o.confidence > 0 && c->o.confidence < 1))
        return pare_fail(err, PARE_ECONFIG, "a confidence must be between 0 and 1, but is %g",
                         c->o.confidence);
    if (!data->y.data || data->y.rank != 1 || data->y.dtype != PARE_I64)
        return pare_fail(err, PARE_ECONFIG,
                         "'%s' has no class labels, so right answers cannot be counted",
                         data->name);
    c->classes = data->classes;
    c->by = pare_alloc(a, (size_t)c->classes, sizeof(*c->by));
    c->looks = pare_looks_start(data->n, 1 - c->o.confidence);
    pare_sha256_init(&c->hash);
    return c->by ? 0 : pare_no_memory(err, "to compare");
}

int pare_compare_paired(const struct pare_model *m, const struct pare_model *original,
                        const struct pare_data *data, const struct pare_paired_opts *opts,
                        struct pare_paired *paired, struct pare_err *err)
{
    PARE_ERR(err);
    /* The model is last, since the loader makes batches for the last one: the hash of the data
     * does not depend on the original. */
    const struct pare_model *model[2] = { original, m };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_batch_runner r[2] = { { 0 }, { 0 } };
    struct pare_loader_opts lo = { .seed = SEED };
    struct pare_loader *l = NULL;
    struct count c = { 0 };
    int rc = a ? start(data, opts, a, &c, err) : pare_no_memory(err, "to compare");

    *paired = (struct pare_paired){ .worst = -1 };
    lo.batch = c.o.batch;
    lo.random = c.o.early;
    for (int i = 0; i < 2 && !rc; i++) {
        r[i].threads = c.o.threads;
        rc = pare_batch_runner_init(&r[i], model[i], &lo, a, err);
    }
    if (!rc)
        rc = pare_loader_new(data, &lo, &l, err);
    if (!rc)
        rc = run_all(r, l, &c, err);
    if (!rc)
        finish(&c, paired);
    pare_loader_free(l);
    pare_batch_runner_free(&r[0]);
    pare_batch_runner_free(&r[1]);
    pare_arena_free(a);
    return rc;
}
