/* loss_cross_entropy.c - softmax cross-entropy with class indices.
 *
 * With p = softmax(x), K classes and smoothing e, a position with label y costs
 *     -sum_c q_c log p_c,  q_c = (1 - e) [c == y] + e / K,
 * and the gradient is p - q.  The loss is the mean over all positions whose label is not
 * ignore_index (PyTorch's "mean"); 0 when there are none.
 */
#include "loss.h"

#include <string.h>

#include "logits.h"
#include "../base/options.h"
#include "../op/operator.h"
#include "../base/simd.h"
#include "../tensor/tensor.h"
#include "../tensor/vmath.h"

struct conf {
    double label_smoothing;
    int64_t ignore_index;
};

static const struct pare_opt opts[] = {
    PARE_FLOAT("label_smoothing", offsetof(struct conf, label_smoothing),
               "probability to spread over all classes", 0, 0, 1),
    PARE_INT("ignore_index", offsetof(struct conf, ignore_index), "label of positions to ignore",
             -100, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static int check(const struct pare_tensor *out, const struct pare_tensor *label,
                 struct pare_err *err)
{
    char a[PARE_SHAPE_TEXT], b[PARE_SHAPE_TEXT];
    struct pare_tensor want = *out; /* without the classes */

    if (out->dtype != PARE_F32)
        return pare_fail(err, PARE_ESHAPE, "the model's output is %s, cross_entropy needs float32",
                         pare_dtype_name(out->dtype));
    if (label->dtype != PARE_I64)
        return pare_fail(err, PARE_ESHAPE, "the labels are %s, cross_entropy needs int64",
                         pare_dtype_name(label->dtype));
    if (out->rank >= 2) {
        want.rank--;
        memmove(want.dim + 1, want.dim + 2, sizeof(*want.dim) * (size_t)(want.rank - 1));
    }
    if (out->rank < 2 || !label->rank || label->dim[0] != out->dim[0] ||
        !pare_loss_same_shape(&want, label))
        return pare_fail(err, PARE_ESHAPE,
                         "the model's output is %s and the labels are %s, cross_entropy needs "
                         "(N, C, ...) and (N, ...)",
                         pare_shape_text(out, a, sizeof(a)), pare_shape_text(label, b, sizeof(b)));
    return 0;
}

/* Check all labels before computing; *used counts those that are not ignored. */
static int check_labels(const struct conf *conf, const struct pare_tensor *label, int64_t C,
                        int64_t *used, struct pare_err *err)
{
    const int64_t *y = pare_i64(label);
    int64_t n = pare_numel(label);

    *used = 0;
    for (int64_t i = 0; i < n; i++) {
        if (y[i] == conf->ignore_index)
            continue;
        if (y[i] < 0 || y[i] >= C)
            return pare_fail(err, PARE_ESHAPE,
                             "label %lld at index %lld is not one of the model's %lld classes",
                             (long long)y[i], (long long)i, (long long)C);
        ++*used;
    }
    return 0;
}

/* Factors of a position's gradient p rate - share; both 0 if it is ignored. */
struct weights {
    float rate[PARE_TILE], share[PARE_TILE];
};

PARE_SIMD static void fill(const float *x, float *grad, int64_t C, int64_t stride, int width,
                           const struct pare_softmax *s, const struct weights *w)
{
    if (stride == 1) {
        float max = s->max[0], rate = w->rate[0], share = w->share[0];

        for (int64_t c = 0; c < C; c++)
            grad[c] = pare_expf(x[c] - max) * rate - share;
        return;
    }
    for (int64_t c = 0; c < C; c++)
        for (int j = 0; j < width; j++)
            grad[c * stride + j] = pare_expf(x[c * stride + j] - s->max[j]) * w->rate[j] -
                                   w->share[j];
}

static double mean_of(const float *x, int64_t C, int64_t stride)
{
    double sum = 0;

    for (int64_t c = 0; c < C; c++)
        sum += (double)x[c * stride];
    return sum / (double)C;
}

/* The sum of the costs of a tile's positions; `of` is the number of positions in the mean. */
static double tile(const struct conf *conf, const float *x, const int64_t *y,
                   const struct pare_logits *l, int width, double of, float *grad)
{
    double e = conf->label_smoothing, loss = 0;
    struct pare_softmax s;
    struct weights w;

    pare_softmax_tile(x, l->C, l->inner, width, 1, &s);
    for (int j = 0; j < width; j++) {
        bool used = y[j] != conf->ignore_index;
        double log_sum = (double)s.max[j] + log(s.sum[j]);

        w.rate[j] = used ? (float)(1 / (s.sum[j] * of)) : 0;
        w.share[j] = used ? (float)(e / ((double)l->C * of)) : 0;
        if (!used)
            continue;
        loss += (1 - e) * (log_sum - (double)x[y[j] * l->inner + j]);
        if (e > 0)
            loss += e * (log_sum - mean_of(x + j, l->C, l->inner));
    }
    if (!grad)
        return loss;
    fill(x, grad, l->C, l->inner, width, &s, &w);
    for (int j = 0; j < width; j++)
        if (y[j] != conf->ignore_index)
            grad[y[j] * l->inner + j] -= (float)((1 - e) / of);
    return loss;
}

static int run(const void *conf, const struct pare_tensor *out, const struct pare_tensor *target,
               float *grad, double *loss, struct pare_err *err)
{
    const int64_t *y = pare_i64(target);
    const float *x = pare_f32(out);
    struct pare_logits l;
    double sum = 0;
    int64_t used;

    PARE_TRY(check(out, target, err));
    l = pare_logits(out, 1);
    PARE_TRY(check_labels(conf, target, l.C, &used, err));
    for (int64_t n = 0; n < l.N; n++)
        for (int64_t i = 0; i < l.inner; i += PARE_TILE) {
            int width = l.inner - i < PARE_TILE ? (int)(l.inner - i) : PARE_TILE;
            int64_t at = n * l.C * l.inner + i;

            sum += tile(conf, x + at, y + n * l.inner + i, &l, width, (double)used,
                        grad ? grad + at : NULL);
        }
    *loss = used ? sum / (double)used : 0;
    return 0;
}

const struct pare_loss pare_loss_cross_entropy = {
    .abi = PARE_ABI,
    .name = "cross_entropy",
    .doc = "Softmax cross-entropy with class labels: the mean over all labels.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .labels = PARE_LABELS_CLASS,
    .logits = PARE_OP_SOFTMAX,
    .run = run,
};
