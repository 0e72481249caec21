/* agreement.c - how closely the outputs of two models agree on a data set; needs no labels. */
#include <math.h>

#include "batch_runner.h"
#include "train_options.h"
#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/sized.h"
#include "../tensor/tensor.h"

/* Sums over all items. */
struct sums {
    double signal, noise;  /* squares of the reference's outputs, of the differences */
    double cosine;         /* cosines of the items' outputs */
    int64_t items;         /* with a cosine */
    int64_t ranked, same;  /* items whose first output is a row of scores; same largest one */
    double kl;             /* divergences of these items */
    double largest;        /* largest difference */
    int64_t values;        /* elements that were compared */
    int64_t runs, unequal; /* runs; those with an output of other rows */
    int64_t rows[PARE_DATA_OUTPUTS][2]; /* by output: rows of both models */
    int differs;                        /* 1 + the first output that had other rows; 0: none */
    bool unranked;                      /* the first output does not have a row for each item */
};

/* Values from i on, of one item. */
static void add_item(struct sums *s, const struct pare_tensor *a, const struct pare_tensor *b,
                     int64_t at, int64_t n)
{
    double aa = 0, bb = 0, ab = 0;

    for (int64_t i = at; i < at + n; i++) {
        double x = pare_get(a, i), y = pare_get(b, i), d = fabs(x - y);

        aa += x * x;
        bb += y * y;
        ab += x * y;
        s->noise += d * d;
        s->largest = d > s->largest || isnan(d) ? d : s->largest;
    }
    s->signal += aa;
    if (aa > 0 && bb > 0 && isfinite(aa) && isfinite(bb)) /* else outputs are infinite */
        s->cosine += ab / sqrt(aa * bb);
    s->cosine += aa == 0 && bb == 0; /* both are 0 */
    s->items++;
}

/* Are the scores of a row probabilities?  If not, their logarithms are the scores - *shift. */
static bool is_softmax(const struct pare_tensor *t, int64_t at, int64_t n, double *shift)
{
    double sum = 0, most = -INFINITY, e = 0;
    bool positive = true;

    for (int64_t i = at; i < at + n; i++) {
        double v = pare_get(t, i);

        sum += v;
        positive &= v >= 0;
        most = v > most ? v : most;
    }
    for (int64_t i = at; i < at + n; i++)
        e += exp(pare_get(t, i) - most);
    *shift = most + log(e);
    return positive && fabs(sum - 1) < 1e-2;
}

/* sum p log(p / q) of the reference's probabilities p and the model's q; a p of 0 adds nothing,
 * even if its score is infinite.  NaN: scores that are not numbers. */
static double divergence(const struct pare_tensor *a, const struct pare_tensor *b, int64_t at,
                         int64_t n)
{
    double shift[2], sum = 0;
    bool done[2] = { is_softmax(a, at, n, &shift[0]), is_softmax(b, at, n, &shift[1]) };

    for (int64_t i = at; i < at + n; i++) {
        double p = done[0] ? log(fmax(pare_get(a, i), 1e-30)) : pare_get(a, i) - shift[0];
        double q = done[1] ? log(fmax(pare_get(b, i), 1e-30)) : pare_get(b, i) - shift[1];

        sum += exp(p) == 0 && !isnan(q) ? 0 : exp(p) * (p - q);
    }
    return sum < 0 ? 0 : sum;
}

/* Is the largest score of the item at the same position?  Without numbers there is none. */
static void add_rank(struct sums *s, const struct pare_tensor *a, const struct pare_tensor *b,
                     int64_t item)
{
    int64_t n = a->dim[1], x = 0, y = 0;
    bool numbers = true;

    for (int64_t i = 0; i < n; i++) {
        numbers &= !isnan(pare_get(a, item * n + i)) && !isnan(pare_get(b, item * n + i));
        x = pare_get(a, item * n + i) > pare_get(a, item * n + x) ? i : x;
        y = pare_get(b, item * n + i) > pare_get(b, item * n + y) ? i : y;
    }
    s->ranked++;
    s->same += numbers && x == y;
    s->kl += divergence(a, b, item * n, n);
}

/* Whether they differ only in the number of rows: of objects that were found, for example. */
static bool other_rows(const struct pare_tensor *a, const struct pare_tensor *b)
{
    struct pare_tensor like = *b;

    if (a->rank < 1 || a->rank != b->rank || a->dim[0] == b->dim[0])
        return false;
    like.dim[0] = a->dim[0];
    return pare_same_shape(a, &like);
}

static int add_output(struct sums *s, const struct pare_tensor *a, const struct pare_tensor *b,
                      int64_t items, bool first, struct pare_err *err)
{
    char one[PARE_SHAPE_TEXT], other[PARE_SHAPE_TEXT];
    int64_t rows;

    if (pare_numel(a) != pare_numel(b) || a->rank != b->rank)
        return pare_fail(err, PARE_ESHAPE, "outputs are %s and %s",
                         pare_shape_text(a, one, sizeof(one)),
                         pare_shape_text(b, other, sizeof(other)));
    rows = a->rank > 0 && a->dim[0] == items ? items : 1;
    s->unranked |= first && a->rank > 0 && a->dim[0] != items;
    s->values += pare_numel(a);
    if (!pare_numel(a))
        return 0;
    for (int64_t i = 0; i < rows; i++)
        add_item(s, a, b, i * (pare_numel(a) / rows), pare_numel(a) / rows);
    for (int64_t i = 0; i < rows && first && a->rank == 2 && a->dim[1] > 1; i++)
        add_rank(s, a, b, i);
    return 0;
}

static bool is_number(const struct pare_tensor *t)
{
    return t->dtype == PARE_F32 || t->dtype == PARE_F64 || t->dtype == PARE_F16 ||
           t->dtype == PARE_BF16;
}

static int add_batch(struct pare_batch_runner r[2], const struct pare_batch *b, struct sums *s,
                     struct pare_err *err)
{
    struct pare_tensor out[2][PARE_DATA_OUTPUTS];
    bool unequal = false;
    int n[2];

    for (int i = 0; i < 2; i++)
        PARE_TRY(pare_batch_runner_run(&r[i], b, out[i], &n[i], err));
    if (n[0] != n[1])
        return pare_fail(err, PARE_ESHAPE, "the models have %d and %d outputs", n[0], n[1]);
    for (int k = 0; k < n[0]; k++) {
        for (int i = 0; i < 2; i++)
            s->rows[k][i] += out[i][k].rank > 0 ? out[i][k].dim[0] : 1;
        if (other_rows(&out[1][k], &out[0][k])) {
            s->differs = s->differs ? s->differs : k + 1;
            unequal = true;
        } else if (is_number(&out[0][k]) && is_number(&out[1][k])) {
            PARE_TRY(pare_at(err,
                             add_output(s, &out[1][k], &out[0][k], pare_batch_items(b), !k, err),
                             "output %d", k));
        }
    }
    s->unranked |= b->axis[0] < 0;
    s->runs++;
    s->unequal += unequal;
    return 0;
}

static int run_all(struct pare_batch_runner r[2], struct pare_loader *l,
                   const struct pare_agreement_opts *o, struct sums *s, int64_t *items,
                   struct pare_err *err)
{
    const struct pare_batch *b;
    double start = pare_now();

    for (int64_t done = 0;; done++) {
        struct pare_progress at = { "compare", done, pare_loader_batches(l), pare_now() - start };

        PARE_TRY(pare_loader_next(l, &b, err));
        if (!b)
            return 0;
        if (o->progress && !o->progress(o->user, &at))
            return pare_fail(err, PARE_ECANCEL, "the comparison was canceled");
        PARE_TRY(add_batch(r, b, s, err));
        *items += pare_batch_items(b);
    }
}

static struct pare_agreement result(const struct sums *s, int64_t items)
{
    struct pare_agreement g = { .n = items,
                                .snr = s->noise == 0 ? INFINITY : 10 * log10(s->signal / s->noise),
                                .cosine = s->items ? s->cosine / (double)s->items : 1,
                                .max_difference = s->largest,
                                .same_top1 = -1,
                                .kl = NAN,
                                .unequal = s->unequal,
                                .runs = s->runs };

    if (!s->values)
        g.snr = g.cosine = NAN;
    if (s->differs) {
        g.rows = s->rows[s->differs - 1][0];
        g.reference_rows = s->rows[s->differs - 1][1];
    }
    if (s->ranked && !s->unranked) {
        g.same_top1 = (double)s->same / (double)s->ranked;
        g.kl = s->kl / (double)s->ranked;
    }
    return g;
}

int pare_compare(const struct pare_model *m, const struct pare_model *reference,
                 const struct pare_data *data, const struct pare_agreement_opts *opts,
                 struct pare_agreement *agreement, struct pare_err *err)
{
    PARE_ERR(err);
    const struct pare_model *model[2] = { m, reference };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_batch_runner r[2] = { { 0 }, { 0 } };
    struct pare_loader_opts lo = { 0 };
    struct pare_loader *l = NULL;
    struct pare_agreement_opts o;
    struct sums s = { 0 };
    int64_t items = 0;
    int rc = a ? pare_sized_copy(&o, sizeof(o), opts, err) : pare_no_memory(err, "to compare");

    *agreement = (struct pare_agreement){ .same_top1 = -1 };
    for (int i = 0; i < 2 && !rc; i++) {
        r[i].threads = o.threads;
        r[i].precision = i ? PARE_PRECISION_F32 : o.precision;
        lo.batch = i ? lo.batch : o.batch;
        rc = pare_batch_runner_init(&r[i], model[i], &lo, a, err);
    }
    if (!rc)
        rc = pare_loader_new(data, &lo, &l, err);
    if (!rc)
        rc = run_all(r, l, &o, &s, &items, err);
    if (!rc)
        *agreement = result(&s, items);
    pare_loader_free(l);
    pare_batch_runner_free(&r[0]);
    pare_batch_runner_free(&r[1]);
    pare_arena_free(a);
    return rc;
}
