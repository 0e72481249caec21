/* norm.c - shared by normalization operators. */
#include <math.h>

#include "norm.h"

/* ---- sums over rows, in several partial sums ---------------------------------------------- */

PARE_SIMD static double add_up(const float *x, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

PARE_SIMD static double add_squares(const float *x, int64_t n, double mean)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - mean;

        sum += d * d;
    }
    return sum;
}

PARE_SIMD static double add_products(const float *x, const float *g, int64_t n, double mean)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)g[i] * ((double)x[i] - mean);
    return sum;
}

PARE_SIMD static void add_row(const float *x, const float *g, float *gx, int64_t n, const float *f)
{
    float a = f[0], b = f[1], mean = f[2], c = f[3];

    for (int64_t i = 0; i < n; i++)
        gx[i] += a * g[i] + b * (x[i] - mean) + c;
}

double pare_row_sum(const float *x, int64_t n)
{
    return add_up(x, n);
}

double pare_row_squares(const float *x, int64_t n, double mean)
{
    return add_squares(x, n, mean);
}

void pare_moments(const float *x, int64_t n, double *mean, double *var)
{
    *mean = add_up(x, n) / (double)n;
    *var = add_squares(x, n, *mean) / (double)n;
}

/* ---- gradients ---------------------------------------------------------------------------- */

void pare_norm_sums(const float *x, const float *g, int64_t n, const double m[2], double sum[2])
{
    sum[0] += add_up(g, n);
    sum[1] += add_products(x, g, n, m[0]) * m[1];
}

void pare_norm_add(const float *x, const float *g, float *gx, int64_t n, const float f[4])
{
    add_row(x, g, gx, n, f);
}

void pare_norm_group_back(const struct pare_norm_group *g)
{
    double count = (double)g->channels * (double)g->inner, m[2], sum[2] = { 0, 0 };

    pare_moments(g->x, g->channels * g->inner, &m[0], &m[1]);
    m[1] = 1 / sqrt(m[1] + g->epsilon);
    for (int64_t c = 0; c < g->channels; c++) {
        double own[2] = { 0, 0 }, scale = (double)g->scale[c * g->step];

        pare_norm_sums(g->x + c * g->inner, g->gy + c * g->inner, g->inner, m, own);
        sum[0] += own[0] * scale;
        sum[1] += own[1] * scale;
        if (g->gbias)
            g->gbias[c * g->step] += (float)own[0];
        if (g->gscale)
            g->gscale[c * g->step] += (float)own[1];
    }
    for (int64_t c = 0; c < g->channels && g->gx; c++) {
        float f[4] = { g->scale[c * g->step] * (float)m[1], (float)(-m[1] * m[1] * sum[1] / count),
                       (float)m[0], (float)(-m[1] * sum[0] / count) };

        pare_norm_add(g->x + c * g->inner, g->gy + c * g->inner, g->gx + c * g->inner, g->inner, f);
    }
}

double pare_norm_slope(float x, double y, double p)
{
    double size = fabs((double)x) / y;

    if (!(y > 0))
        return 0;
    if (p != 2)
        size = p == 1 ? x != 0 : pow(size, p - 1);
    return x < 0 ? -size : size;
}

/* ---- checks ------------------------------------------------------------------------------- */

int pare_norm_float(const struct pare_node *n, int i, const char *name, struct pare_err *err)
{
    enum pare_dtype d = n->in[i]->t.dtype;

    if (d == PARE_F32 || d == PARE_F64 || d == PARE_F16 || d == PARE_BF16)
        return 0;
    return pare_fail(err, PARE_ESHAPE, "%s is %s, expected floating-point numbers", name,
                     pare_dtype_name(d));
}

int pare_norm_param(const struct pare_node *n, int i, const char *name, int64_t count,
                    struct pare_err *err)
{
    const struct pare_tensor *t = &n->in[i]->t, *x = &n->in[0]->t;
    char bt[PARE_SHAPE_TEXT], bx[PARE_SHAPE_TEXT];

    PARE_TRY(pare_norm_float(n, i, name, err));
    if (t->rank != 1 || t->dim[0] != count)
        return pare_fail(err, PARE_ESHAPE, "X is %s but %s is %s, expected (%lld)",
                         pare_shape_text(x, bx, sizeof(bx)), name,
                         pare_shape_text(t, bt, sizeof(bt)), (long long)count);
    return 0;
}

int pare_norm_inner(const struct pare_tensor *x, int from, int64_t *inner, struct pare_err *err)
{
    int64_t all = 1;
    char buf[PARE_SHAPE_TEXT];

    if (x->rank < from)
        return pare_fail(err, PARE_ESHAPE, "X is %s, expected at least %d dimensions",
                         pare_shape_text(x, buf, sizeof(buf)), from);
    *inner = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        if (x->dim[i] && all > INT64_MAX / x->dim[i])
            return pare_fail(err, PARE_ELIMIT, "X is %s, which is too large",
                             pare_shape_text(x, buf, sizeof(buf)));
        all *= x->dim[i] ? x->dim[i] : 1;
        if (i >= from)
            *inner *= x->dim[i];
    }
    return 0;
}

int pare_infer_global_pool(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor *y = &n->out[0]->t;
    int64_t inner;

    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    pare_like(y, &n->in[0]->t);
    for (int i = 2; i < y->rank; i++)
        y->dim[i] = 1;
    return 0;
}

/* The results need not keep the channels of the input: their axis is virtual axis 0 of the node. */
void pare_norm_row_ties(const struct pare_node *n, int axis, struct pare_ties *t)
{
    const struct pare_value *x = n->in[0], *y = n->out[0];
    int last = x->t.rank - 1;
    const struct pare_digit own = { NULL, 0, x->t.dim[last < 0 ? 0 : last] };

    pare_ties_except(n, ~0u << axis, t);
    if (axis != last)
        return;
    pare_tie_restored(t, x, last);
    pare_tie_digits(t, y, last, &own, 1);
    pare_tie_together(t, x, last, y, last);
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->t.rank && n->in[i]->t.dim[n->in[i]->t.rank - 1] == own.size)
            pare_tie_together(t, n->in[i], n->in[i]->t.rank - 1, y, last);
}

void pare_norm_row_shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    (void)n;
    pare_shrunk_rows(s);
}

/* Element i of a constant list of `count`; `absent` without a list; NAN: not known. */
static float list_at(const struct pare_node *n, int input, int64_t count, int64_t i, float absent)
{
    const struct pare_value *v = input < n->n_in ? n->in[input] : NULL;

    if (!v)
        return absent;
    if (!(v->flags & PARE_V_CONST) || !v->t.data || v->t.dtype != PARE_F32 ||
        pare_numel(&v->t) != count || !v->t.rank || v->t.dim[v->t.rank - 1] != count)
        return NAN;
    return pare_f32(&v->t)[i];
}

float pare_norm_row_constant(const struct pare_node *n, const struct pare_needed *s, int k,
                             int axis, int64_t i)
{
    int64_t count;

    (void)s;
    if (k || n->in[0]->t.rank < 1 || axis != n->in[0]->t.rank - 1)
        return NAN;
    count = n->in[0]->t.dim[axis];
    return list_at(n, 1, count, i, 1) == 0 ? list_at(n, 2, count, i, 0) : NAN;
}
