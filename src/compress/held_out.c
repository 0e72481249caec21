/* held_out.c - outputs of a compressed model and of the original on held-out items: noise. */
#include "held_out.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../tensor/tensor.h"
#include "../train/batch_runner.h"

#define BATCH 32
#define MOST 256
#define MANY 1024
#define FEW 10

struct sums {
    double signal[PARE_DATA_OUTPUTS], noise[PARE_DATA_OUTPUTS];
    double divergence, rows; /* of output 0 */
    double loss, labels;     /* the same: sum of losses, number of labels */
    double others;           /* rows of output 0 that are not class scores */
};

/* Two models on the same batches. */
struct pair {
    const struct pare_held_out *h;
    struct pare_arena *a;
    struct pare_batch_runner runner[2]; /* the original, the compressed model */
    struct sums *sums;
    int n_out;
};

void pare_held_out_divide(struct pare_held_out *h, int64_t most)
{
    int64_t n = h->data->n;

    h->items = n / 5 < MOST ? n / 5 : MOST;
    h->fitted = n - h->items < most ? n - h->items : most;
    if (n < FEW)
        h->items = h->fitted = n;
}

void pare_held_out_divide_batches(struct pare_held_out *h, int64_t most)
{
    int64_t n = h->data->n;

    pare_held_out_divide(h, most);
    if (h->fitted >= n)
        return;
    if (h->fitted > BATCH)
        h->fitted -= h->fitted % BATCH;
    h->items = n - h->fitted < MANY ? n - h->fitted : MANY;
}

double pare_output_cost(const struct pare_output_distance *d)
{
    return !isnan(d->loss) ? d->loss : isnan(d->divergence) ? d->noise : d->divergence;
}

double pare_output_change(const struct pare_output_distance *d)
{
    return isnan(d->divergence) ? d->noise : d->divergence;
}

double pare_held_out_db(double noise)
{
    return noise > 1e-20 ? -10 * log10(noise) : noise <= 1e-20 ? 200 : NAN;
}

const char *pare_held_out_text(struct pare_arena *a, const char *so_far, const char *name,
                               const struct pare_output_distance *d)
{
    const char *text = pare_sprintf(a, "%s%s%s %.1f dB", so_far ? so_far : "", so_far ? ", " : "",
                                    name, pare_held_out_db(d->noise));

    if (text && !isnan(d->loss))
        return pare_sprintf(a, "%s (loss %.3g)", text, d->loss);
    return text && !isnan(d->divergence) ? pare_sprintf(a, "%s (KL %.3g)", text, d->divergence)
                                         : text;
}

/* ---- one batch ------------------------------------------------------------------------------- */

static void compare_floats(const float *x, const float *y, int64_t n, double *signal, double *noise)
{
    for (int64_t i = 0; i < n; i++) {
        double u = (double)x[i], v = (double)y[i];

        if (!isfinite(u))
            continue;
        *signal += u * u;
        *noise += isfinite(v) ? (u - v) * (u - v) : INFINITY;
    }
}

static void compare(struct pair *p, int i, const struct pare_tensor *x, const struct pare_tensor *y)
{
    double *signal = &p->sums->signal[i], *noise = &p->sums->noise[i];
    int64_t n = pare_numel(x), other = pare_numel(y);
    size_t each = pare_dtype_size(x->dtype);

    if (x->dtype == PARE_F32 && y->dtype == PARE_F32 && pare_same_shape(x, y)) {
        compare_floats(pare_f32(x), pare_f32(y), n, signal, noise);
        return;
    }
    *signal += (double)n;
    if (x->dtype != y->dtype || n != other || !each) { /* their number may depend on the data */
        *noise += (double)n;
        return;
    }
    for (int64_t k = 0; k < n; k++)
        *noise += memcmp((const char *)x->data + (size_t)k * each,
                         (const char *)y->data + (size_t)k * each, each) != 0;
}

/* ---- classes --------------------------------------------------------------------------------- */

static bool is_probability(const float *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!(x[i] >= 0))
            return false;
        sum += (double)x[i];
    }
    return fabs(sum - 1) < 1e-3;
}

/* The logarithm of the sum of exponentials, or of probabilities, and the logarithm of element i. */
static double log_sum(const float *x, int64_t n, bool probability)
{
    double most = -INFINITY, sum = 0;

    if (probability)
        return 0;
    for (int64_t i = 0; i < n; i++)
        most = (double)x[i] > most ? (double)x[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

static double log_of(float x, double sum, bool probability)
{
    return probability ? log(fmax((double)x, 1e-12)) : (double)x - sum;
}

static double divergence_of(const float *x, const float *y, int64_t n, bool probability)
{
    double all[2] = { log_sum(x, n, probability), log_sum(y, n, probability) }, sum = 0;

    for (int64_t i = 0; i < n; i++) {
        double p = log_of(x[i], all[0], probability), q = log_of(y[i], all[1], probability);

        sum += exp(p) * (p - q);
    }
    return isfinite(sum) ? sum : INFINITY;
}

static void add_loss(struct pair *p, const struct pare_tensor *label, int64_t i, const float *y,
                     int64_t n)
{
    bool probability = is_probability(y, n);
    int64_t at = label->data && label->dtype == PARE_I64 && label->rank == 1 && i < label->dim[0]
                     ? pare_i64(label)[i]
                     : -1;
    double loss;

    if (at < 0 || at >= n)
        return;
    loss = -log_of(y[at], log_sum(y, n, probability), probability);
    p->sums->loss += isfinite(loss) ? loss : INFINITY;
    p->sums->labels++;
}

static void compare_classes(struct pair *p, const struct pare_tensor *label,
                            const struct pare_tensor *x, const struct pare_tensor *y)
{
    int64_t n = x->rank == 2 ? x->dim[1] : 0, known = p->h->data->y.data ? p->h->data->classes : 0;

    if (x->dtype != PARE_F32 || !pare_same_shape(x, y) || y->dtype != PARE_F32 || n < 2) {
        p->sums->others++;
        return;
    }
    for (int64_t i = 0; i < x->dim[0]; i++) {
        const float *u = pare_f32(x) + i * n, *v = pare_f32(y) + i * n;
        bool probability = is_probability(u, n);

        if (!probability && known != n) {
            p->sums->others++;
            continue;
        }
        p->sums->divergence += divergence_of(u, v, n, probability);
        p->sums->rows++;
        add_loss(p, label, i, v, n);
    }
}

/* ---- all outputs ----------------------------------------------------------------------------- */

static int run_batch(struct pair *p, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_tensor out[2][PARE_DATA_OUTPUTS];
    int n[2] = { 0, 0 };

    if (b->own < 1)
        return 0;
    for (int i = 0; i < 2; i++)
        PARE_TRY(pare_batch_runner_run(&p->runner[i], b, out[i], &n[i], err));
    p->n_out = n[0] < n[1] ? n[0] : n[1];
    for (int i = 0; i < p->n_out; i++)
        compare(p, i, &out[0][i], &out[1][i]);
    if (p->n_out > 0)
        compare_classes(p, &b->y, &out[0][0], &out[1][0]);
    return 0;
}

/* ---- all batches ----------------------------------------------------------------------------- */

static int run_all(struct pair *p, struct pare_loader *l, struct pare_err *err)
{
    const struct pare_held_out *h = p->h;
    struct pare_loader_pos pos = pare_loader_tell(l);
    double start = pare_now();
    int64_t all = pare_loader_batches(l), seen = 0, each = pos.batch;

    pos.at = h->fitted + h->items <= h->data->n ? (h->fitted + each - 1) / each : 0;
    if (pos.at >= all) /* large batches: the last one, of which a part was fitted to */
        pos.at = all > 1 ? all - 1 : 0;
    PARE_TRY(pare_loader_seek(l, &pos, err));
    while (seen < h->items) {
        struct pare_progress now = { "compare", seen, h->items, pare_now() - start };
        const struct pare_batch *b;

        if (h->progress && !h->progress(h->user, &now))
            return pare_fail(err, PARE_ECANCEL, "the comparison with the original was canceled");
        PARE_TRY(pare_loader_next(l, &b, err));
        if (!b)
            break;
        PARE_TRY(run_batch(p, b, err));
        seen += b->whole;
    }
    return 0;
}

/* Several processes have the same number of outputs; one without items has 0. */
static int finish(struct pair *p, struct pare_output_distance *d, struct pare_err *err)
{
    struct sums *s = p->sums;
    struct pare_dist *all = p->h->dist;
    double n = p->n_out, sum = 0, v[] = { s->divergence, s->rows, s->others, s->loss, s->labels };

    PARE_TRY(pare_dist_merge(all, PARE_MERGE_MAX, PARE_F64, &n, 1, err));
    PARE_TRY(pare_dist_merge(all, PARE_MERGE_SUM, PARE_F64, v, 5, err));
    PARE_TRY(pare_dist_merge(all, PARE_MERGE_SUM, PARE_F64, s->signal, PARE_DATA_OUTPUTS, err));
    PARE_TRY(pare_dist_merge(all, PARE_MERGE_SUM, PARE_F64, s->noise, PARE_DATA_OUTPUTS, err));
    for (int i = 0; i < (int)n; i++)
        sum += s->signal[i] > 0 ? s->noise[i] / s->signal[i] : s->noise[i] > 0;
    d->noise = n > 0 ? sum / n : INFINITY;
    d->divergence = v[1] > 0 && v[2] == 0 ? v[0] / v[1] : NAN;
    d->loss = v[1] > 0 && v[2] == 0 && v[4] == v[1] ? v[3] / v[4] : NAN;
    return 0;
}

static int compare_models(struct pair *p, const struct pare_model *m,
                          struct pare_output_distance *d, struct pare_err *err)
{
    const struct pare_held_out *h = p->h;
    const struct pare_model *model[2] = { h->dense, m };
    struct pare_loader_opts lo = { .train = true,
                                   .batch = BATCH,
                                   .seed = 1,
                                   .rank = pare_dist_rank(h->dist),
                                   .ranks = pare_dist_size(h->dist) };
    struct pare_loader *l = NULL;
    int rc = 0;

    p->sums = pare_alloc(p->a, 1, sizeof(*p->sums));
    if (!p->sums)
        return pare_no_memory(err, "to compare outputs");
    for (int i = 0; i < 2 && !rc; i++) {
        p->runner[i].threads = h->threads;
        rc = pare_batch_runner_init(&p->runner[i], model[i], &lo, p->a, err);
    }
    if (!rc)
        rc = pare_loader_new(h->data, &lo, &l, err);
    if (!rc)
        rc = run_all(p, l, err);
    pare_loader_free(l);
    for (int i = 0; i < 2; i++)
        pare_batch_runner_free(&p->runner[i]);
    return rc ? rc : finish(p, d, err);
}

int pare_held_out_compare(const struct pare_held_out *h, const struct pare_model *m,
                          struct pare_output_distance *d, struct pare_err *err)
{
    struct pair p = { .h = h, .a = pare_arena_new(1 << 16) };
    int rc;

    *d = (struct pare_output_distance){ INFINITY, NAN, NAN };
    if (!p.a)
        return pare_no_memory(err, "to compare outputs");
    rc = compare_models(&p, m, d, err);
    pare_arena_free(p.a);
    return pare_at(err, rc, "comparison with the original");
}
