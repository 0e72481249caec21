/* distill.c - knowledge distillation: loss terms that pull a student toward its teacher. */
#include "distill.h"

#include <string.h>

#include "logits.h"
#include "../base/options.h"
#include "../base/simd.h"
#include "../tensor/tensor.h"
#include "../tensor/vmath.h"

#define SOFT struct pare_distill_soft
#define LAYER struct pare_distill_layer

const struct pare_opt pare_distill_soft_opts[] = {
    PARE_FLOAT("alpha", offsetof(SOFT, alpha), "weight of the loss on the labels", 1, 0, 1e30),
    PARE_FLOAT("beta", offsetof(SOFT, beta), "weight of the teacher's soft labels", 1, 0, 1e30),
    PARE_FLOAT("temperature", offsetof(SOFT, temperature), "divisor of the logits", 4, 1e-3, 1e6),
    PARE_FLAG("t_squared", offsetof(SOFT, t_squared), "multiply by the square of the temperature",
              1),
    PARE_OPT_END
};

const struct pare_opt pare_distill_layer_opts[] = {
    PARE_FLOAT("lambda", offsetof(LAYER, lambda), "weight of this layer", 1, 0, 1e30),
    PARE_CHOICE("method", offsetof(LAYER, method), "distance between layers", "mse", "mse|kl"),
    PARE_FLOAT("temperature", offsetof(LAYER, temperature), "temperature of kl", 2, 1e-3, 1e6),
    PARE_OPT_END
};

static int check(const struct pare_tensor *student, const struct pare_tensor *teacher,
                 struct pare_err *err)
{
    char a[PARE_SHAPE_TEXT], b[PARE_SHAPE_TEXT];

    if (student->dtype != PARE_F32 || teacher->dtype != PARE_F32)
        return pare_fail(err, PARE_ESHAPE,
                         "the student's output is %s and the teacher's %s, both must be "
                         "float32",
                         pare_dtype_name(student->dtype), pare_dtype_name(teacher->dtype));
    if (!pare_same_shape(student, teacher))
        return pare_fail(err, PARE_ESHAPE,
                         "the student's shape is %s and the teacher's %s, they must agree",
                         pare_shape_text(student, a, sizeof(a)),
                         pare_shape_text(teacher, b, sizeof(b)));
    return 0;
}

/* ---- KL divergence of two softmaxes --------------------------------------------- */

/* sum over rows of KL(q || p), p = softmax(scale x), q = softmax(scale t), and
 * grad = keep grad + rate (p - q). */
struct kl {
    const float *x, *t;
    float *grad;
    float scale, keep, rate;
};

/* A run of n elements of one tile; the stride of statistics is `s`: 0 for one row of classes, 1
 * for neighboring rows.  log q - log p = scale (t - x) - (max_t - max_x) - log(sum_t / sum_x). */
struct stats {
    float p_max[PARE_TILE], p_inv[PARE_TILE];
    float q_max[PARE_TILE], q_inv[PARE_TILE], shift[PARE_TILE];
};

static inline double kl_run(const struct kl *k, int64_t at, const struct stats *st, int s,
                            int64_t n)
{
    const float *x = k->x + at, *t = k->t + at;
    float scale = k->scale;
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float a = scale * x[i] - st->p_max[i * s], b = scale * t[i] - st->q_max[i * s];
        float q = pare_expf(b) * st->q_inv[i * s];

        sum += (double)(q > 0 ? q * (b - a - st->shift[i * s]) : q);
    }
    return sum;
}

static inline void kl_fill(const struct kl *k, int64_t at, const struct stats *st, int s, int64_t n)
{
    const float *x = k->x + at, *t = k->t + at;
    float *grad = k->grad + at, scale = k->scale, keep = k->keep, rate = k->rate;

    for (int64_t i = 0; i < n; i++) {
        float p = pare_expf(scale * x[i] - st->p_max[i * s]) * st->p_inv[i * s];
        float q = pare_expf(scale * t[i] - st->q_max[i * s]) * st->q_inv[i * s];

        grad[i] = keep * grad[i] + rate * (p - q);
    }
}

PARE_SIMD static double kl_apply(const struct kl *k, int64_t at, const struct pare_logits *l,
                                 const struct stats *st, int width)
{
    double sum = 0;

    if (l->inner == 1) {
        sum = kl_run(k, at, st, 0, l->C);
        if (k->grad)
            kl_fill(k, at, st, 0, l->C);
        return sum;
    }
    for (int64_t c = 0; c < l->C; c++) {
        sum += kl_run(k, at + c * l->inner, st, 1, width);
        if (k->grad)
            kl_fill(k, at + c * l->inner, st, 1, width);
    }
    return sum;
}

static double kl_tile(const struct kl *k, int64_t at, const struct pare_logits *l, int width)
{
    struct pare_softmax p, q;
    struct stats st;

    pare_softmax_tile(k->x + at, l->C, l->inner, width, k->scale, &p);
    pare_softmax_tile(k->t + at, l->C, l->inner, width, k->scale, &q);
    for (int j = 0; j < width; j++) {
        st.p_max[j] = p.max[j];
        st.q_max[j] = q.max[j];
        st.p_inv[j] = (float)(1 / p.sum[j]);
        st.q_inv[j] = (float)(1 / q.sum[j]);
        st.shift[j] = (float)(log(q.sum[j]) - log(p.sum[j]));
    }
    return kl_apply(k, at, l, &st, width);
}

static double kl_all(const struct kl *k, const struct pare_logits *l)
{
    double sum = 0;

    if (!l->C)
        return 0;
    for (int64_t n = 0; n < l->N; n++)
        for (int64_t i = 0; i < l->inner; i += PARE_TILE) {
            int width = l->inner - i < PARE_TILE ? (int)(l->inner - i) : PARE_TILE;

            sum += kl_tile(k, n * l->C * l->inner + i, l, width);
        }
    return sum;
}

/* ---- the terms ---------------------------------------------------------------- */

int pare_distill_soft(const struct pare_distill_soft *conf, const struct pare_tensor *student,
                      const struct pare_tensor *teacher, float *grad, double *loss,
                      struct pare_err *err)
{
    char a[PARE_SHAPE_TEXT];
    struct pare_logits l;
    double T = conf->temperature, weight;
    struct kl k;

    if (conf->beta <= 0) { /* the teacher's output is not used */
        for (int64_t i = 0; i < pare_numel(student) && grad; i++)
            grad[i] *= (float)conf->alpha;
        *loss *= conf->alpha;
        return 0;
    }
    PARE_TRY(check(student, teacher, err));
    if (student->rank < 2)
        return pare_fail(err, PARE_ESHAPE,
                         "soft labels need logits (N, C, ...), the student's output is %s",
                         pare_shape_text(student, a, sizeof(a)));
    l = pare_logits(student, 1);
    weight = l.N ? conf->beta * (conf->t_squared ? T * T : 1) / (double)l.N : 0;
    k = (struct kl){ .x = pare_f32(student),
                     .t = pare_f32(teacher),
                     .grad = grad,
                     .scale = (float)(1 / T),
                     .keep = (float)conf->alpha,
                     .rate = (float)(weight / T) };
    *loss = conf->alpha * *loss + weight * kl_all(&k, &l);
    return 0;
}

PARE_SIMD static double mse_cost(const float *x, const float *t, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double d = (double)(x[i] - t[i]);

        sum += d * d;
    }
    return sum;
}

PARE_SIMD static void mse_fill(const float *x, const float *t, float *grad, float rate, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        grad[i] += rate * (x[i] - t[i]);
}

int pare_distill_layer(const struct pare_distill_layer *conf, const struct pare_tensor *student,
                       const struct pare_tensor *teacher, float *grad, double *loss,
                       struct pare_err *err)
{
    const float *x = pare_f32(student), *t = pare_f32(teacher);
    int64_t n = pare_numel(student);
    double T = conf->temperature, weight;
    struct pare_logits l;
    struct kl k;

    PARE_TRY(check(student, teacher, err));
    if (!n)
        return 0;
    if (strcmp(conf->method, "kl")) {
        *loss += conf->lambda * mse_cost(x, t, n) / (double)n;
        if (grad)
            mse_fill(x, t, grad, (float)(2 * conf->lambda / (double)n), n);
        return 0;
    }
    if (!student->rank)
        return pare_fail(err, PARE_ESHAPE, "kl needs a layer with at least one axis");
    l = pare_logits(student, student->rank - 1);
    weight = conf->lambda * T * T / (double)student->dim[0];
    k = (struct kl){ x, t, grad, (float)(1 / T), 1, (float)(weight / T) };
    *loss += weight * kl_all(&k, &l);
    return 0;
}
