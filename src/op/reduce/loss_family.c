/* loss_family.c - shared by NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. */
#include "loss_family.h"

#include "lanes.h"

enum { X, LABEL, WEIGHT };

#define ABSENT (-0x1p63) /* no class is ignored */

const struct pare_opt pare_loss_attrs[] = {
    PARE_INT("ignore_index", offsetof(struct pare_loss, ignore_index), "class to ignore", ABSENT,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_CHOICE("reduction", offsetof(struct pare_loss, reduction), "how to reduce the losses",
                "mean", "none|sum|mean"),
    PARE_OPT_END
};

int pare_loss_infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_loss *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t, *label = &n->in[LABEL]->t;
    const struct pare_value *weight = n->n_in > WEIGHT ? n->in[WEIGHT] : NULL;
    struct pare_tensor want = { .dtype = x->dtype, .rank = x->rank - 1 };
    char tx[PARE_SHAPE_TEXT], tl[PARE_SHAPE_TEXT];

    pare_shape_text(x, tx, sizeof(tx));
    if (x->rank < 2)
        return pare_fail(err, PARE_ESHAPE, "the input is %s, it has no axis of classes", tx);
    for (int i = 0; i < want.rank; i++)
        want.dim[i] = x->dim[i ? i + 1 : 0];
    if (!pare_same_shape(label, &want))
        return pare_fail(err, PARE_ESHAPE, "the input is %s but the labels are %s", tx,
                         pare_shape_text(label, tl, sizeof(tl)));
    if (weight && (weight->t.rank != 1 || weight->t.dim[0] != x->dim[1]))
        return pare_fail(err, PARE_ESHAPE, "the weights are %s for %lld classes",
                         pare_shape_text(&weight->t, tl, sizeof(tl)), (long long)x->dim[1]);
    if (strcmp(a->reduction, "none"))
        want.rank = 0;
    pare_like(&n->out[0]->t, &want);
    return 0;
}

/* The weight of label i's loss, 0 when it is ignored. */
static double weight_of(const struct pare_node *n, int64_t i, int64_t *label)
{
    const struct pare_loss *a = n->attr;
    const float *w = n->n_in > WEIGHT && n->in[WEIGHT] ? pare_f32(&n->in[WEIGHT]->t) : NULL;

    *label = pare_get_int(&n->in[LABEL]->t, i);
    if (*label == a->ignore_index || *label < 0 || *label >= n->in[X]->t.dim[1])
        return 0;
    return w ? (double)w[*label] : 1;
}

int pare_loss_forward(const struct pare_node *n, const float *log_prob, struct pare_err *err)
{
    const struct pare_loss *a = n->attr;
    struct pare_lanes l = pare_lanes(&n->in[X]->t, 1, 1);
    int64_t count = pare_numel(&n->in[LABEL]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    bool each = !strcmp(a->reduction, "none");
    double sum = 0, total = 0;

    for (int64_t i = 0; i < count; i++) {
        int64_t label;
        double weight = weight_of(n, i, &label), loss = 0;
        bool counts = label != a->ignore_index;

        if (counts && (label < 0 || label >= l.len))
            return pare_fail(err, PARE_ESHAPE, "a label is %lld, there are %lld classes",
                             (long long)label, (long long)l.len);
        if (counts)
            loss = -weight *
                   (double)log_prob[(i / l.inner * l.len + label) * l.inner + i % l.inner];
        if (each)
            y[i] = (float)loss;
        sum += loss;
        total += weight;
    }
    if (!each)
        y[0] = (float)(!strcmp(a->reduction, "mean") ? sum / total : sum);
    return 0;
}

/* With p the logarithms, l the labels and g the gradient of the loss:
 *     loss = -w[l] p[l]             dp[l] = -w[l] g        dw[l] = -p[l] g
 *     mean = sum loss / sum w[l]    dp[l] = -w[l] g / sum w[l]
 *                                   dw[l] = (-p[l] - mean) g / sum w[l]
 */
void pare_loss_backward(const struct pare_node *n, const float *log_prob, float *grad)
{
    const struct pare_loss *a = n->attr;
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gw = n->n_in > WEIGHT && n->in[WEIGHT] ? pare_f32_mut(&n->in[WEIGHT]->grad) : NULL;
    struct pare_lanes l = pare_lanes(&n->in[X]->t, 1, 1);
    int64_t count = pare_numel(&n->in[LABEL]->t), label;
    bool each = !strcmp(a->reduction, "none"), mean = !strcmp(a->reduction, "mean");
    double total = 0, center = mean ? (double)pare_f32(&n->out[0]->t)[0] : 0;

    if (!gy || !l.len)
        return;
    for (int64_t i = 0; mean && i < count; i++)
        total += weight_of(n, i, &label);
    for (int64_t i = 0; i < count; i++) {
        double w = weight_of(n, i, &label), g = (double)gy[each ? i : 0] / (mean ? total : 1);
        int64_t at;

        if (label == a->ignore_index || label < 0 || label >= l.len)
            continue;
        at = (i / l.inner * l.len + label) * l.inner + i % l.inner;
        if (grad)
            grad[at] += (float)(-w * g);
        if (gw)
            gw[label] += (float)((-(double)log_prob[at] - center) * g);
    }
}
