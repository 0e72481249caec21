/* grad.h - check an operator's backward() against finite differences of its forward().
 *
 *     op_begin(&f, "Gemm", 13);
 *     grad_in(&f, "4,3", -1, 1);
 *     grad_in(&f, "3,2", -1, 1);
 *     grad_check(&f);                          // ends f, too
 *
 * The loss is L = sum over all float32 outputs of gy * y, with random gy, summed in float64.  Every
 * float32 input element is moved by -2h, -h, h and 2h; the four-point formula
 *     dL/dx = (8 (L(x+h) - L(x-h)) - (L(x+2h) - L(x-2h))) / 12h
 * has an error of order h^4, so h can be large enough for float32.  Inputs must be 2h away from
 * kinks.
 *
 * Also checked: a second backward() adds the same gradient again; inputs without a gradient and
 * absent outputs are not written; backward() changes no input and no output.
 */
#ifndef PARE_TESTS_GRAD_H
#define PARE_TESTS_GRAD_H

#include <math.h>

#include "one_op.h"

#include "base/rng.h"

struct grad_opts {
    bool train;        /* pare_ctx.train, with the same random numbers in every run */
    unsigned skip;     /* bit i: input i gets no gradient, ever */
    unsigned skip_out; /* bit i: nothing depends on output i */
    double step;       /* h; 0 means 1e-2 */
    double tol;        /* relative; 0 means 1e-3 */
};

struct grad_run {
    struct one_op *f;
    struct grad_opts o;
    struct pare_rng rng;
    void *saved[ONE_OP_MAX]; /* the inputs' bytes: training may change running statistics */
    double noise;            /* rounding error of differences of float32 outputs */
};

/* ---- inputs ------------------------------------------------------------------ */

static inline int64_t grad_count(const char *shape)
{
    int64_t n = 1;

    for (const char *p = shape; *p; p += *p == ',') {
        char *end;

        n *= strtoll(p, &end, 10);
        p = end;
    }
    return n;
}

/* The next input: uniform in [lo, hi), the same in every run, different for every input. */
static inline void grad_in(struct one_op *f, const char *shape, double lo, double hi)
{
    int64_t n = grad_count(shape);
    double *v = pare_alloc(f->arena, (size_t)n + 1, sizeof(*v));
    struct pare_rng r;

    assert_non_null(v);
    pare_rng_init(&r, 1000 + (uint64_t)f->node.n_in);
    for (int64_t i = 0; i < n; i++)
        v[i] = lo + (hi - lo) * pare_rng_uniform(&r);
    op_in(f, PARE_F32, shape, v);
}

/* The next input: odd multiples of gap / 2 around zero in random order, so that any two elements
 * differ by at least gap and all are at least gap / 2 from zero.  For operators with kinks or
 * comparisons. */
static inline void grad_in_distinct(struct one_op *f, const char *shape, double gap)
{
    int64_t n = grad_count(shape);
    double *v = pare_alloc(f->arena, (size_t)n + 1, sizeof(*v)), t;
    struct pare_rng r;

    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = gap * ((double)(i - n / 2) + 0.5);
    pare_rng_init(&r, 2000 + (uint64_t)f->node.n_in);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)pare_rng_below(&r, (uint64_t)i + 1);

        t = v[i], v[i] = v[k], v[k] = t;
    }
    op_in(f, PARE_F32, shape, v);
}

/* ---- runs --------------------------------------------------------------------- */

static inline size_t grad_bytes(const struct pare_tensor *t)
{
    return (size_t)pare_numel(t) * pare_dtype_size(t->dtype);
}

/* Has in[i] a gradient: is it float32, not skipped, and not the same value as an earlier input? */
static inline bool grad_has_input(const struct grad_run *g, int i)
{
    struct one_op *f = g->f;

    if (!f->in[i] || f->in[i]->t.dtype != PARE_F32 || g->o.skip >> i & 1)
        return false;
    for (int k = 0; k < i; k++)
        if (f->in[k] == f->in[i])
            return false;
    return true;
}

static inline bool grad_has_output(const struct grad_run *g, int i)
{
    struct pare_value *v = g->f->out[i];

    return v && v->t.dtype == PARE_F32 && !(g->o.skip_out >> i & 1);
}

static inline struct pare_ctx grad_ctx(struct grad_run *g)
{
    pare_rng_init(&g->rng, 7);
    return (struct pare_ctx){ .scratch = g->f->scratch,
                              .results = g->f->arena,
                              .threads = 1,
                              .train = g->o.train,
                              .rng = g->o.train ? &g->rng : NULL };
}

static inline void grad_forward(struct grad_run *g)
{
    struct pare_ctx c = grad_ctx(g);
    struct one_op *f = g->f;

    if (pare_node_forward(&f->node, &c, &f->err))
        fail_msg("%s: %s", f->node.type, f->err.msg);
}

static inline void grad_backward(struct grad_run *g)
{
    struct pare_mark m = pare_mark(g->f->scratch);
    struct pare_ctx c = grad_ctx(g);
    struct one_op *f = g->f;

    if (!f->node.op->backward)
        fail_msg("%s has no backward()", f->node.type);
    if (f->node.op->backward(&f->node, &c, &f->err))
        fail_msg("%s: %s", f->node.type, f->err.msg);
    pare_reset(f->scratch, m);
}

/* Restores all inputs: the moved element, and running statistics that training changed. */
static inline void grad_restore(struct grad_run *g)
{
    for (int i = 0; i < g->f->node.n_in; i++)
        if (g->f->in[i])
            memcpy(g->f->in[i]->t.data, g->saved[i], grad_bytes(&g->f->in[i]->t));
}

static inline double grad_loss(struct grad_run *g)
{
    double sum = 0;

    grad_forward(g);
    for (int i = 0; i < g->f->node.n_out; i++)
        for (int64_t k = 0; grad_has_output(g, i) && k < pare_numel(&g->f->out[i]->t); k++)
            sum += (double)pare_f32(&g->f->out[i]->grad)[k] * (double)pare_f32(&g->f->out[i]->t)[k];
    return sum;
}

/* dL/dx of one element. */
static inline double grad_slope(struct grad_run *g, int input, int64_t at)
{
    static const int steps[4] = { 1, -1, 2, -2 };
    double h = g->o.step, l[4], width = 0;
    float was = pare_f32(&g->f->in[input]->t)[at];

    for (int i = 0; i < 4; i++) {
        float x = was + (float)(steps[i] * h);

        pare_f32_mut(&g->f->in[input]->t)[at] = x;
        width += i < 2 ? steps[i] * ((double)x - (double)was) / 2 : 0;
        l[i] = grad_loss(g);
        grad_restore(g);
    }
    return (8 * (l[0] - l[1]) - (l[2] - l[3])) / (12 * width);
}

/* ---- the checks ----------------------------------------------------------------- */

static inline void grad_attach(struct grad_run *g, struct pare_value *v)
{
    struct one_op *f = g->f;

    assert_int_equal(pare_tensor_new(f->arena, &v->grad, PARE_F32, v->t.rank, v->t.dim, &f->err),
                     0);
}

/* Runs once to infer shapes; allocates the gradients of inputs and outputs. */
static inline void grad_begin(struct grad_run *g, struct one_op *f, const struct grad_opts *o)
{
    struct pare_rng r;
    double square = 0;

    memset(g, 0, sizeof(*g));
    g->f = f;
    if (o)
        g->o = *o;
    g->o.step = g->o.step > 0 ? g->o.step : 1e-2;
    g->o.tol = g->o.tol > 0 ? g->o.tol : 1e-3;
    for (int i = 0; i < f->node.n_in; i++)
        if (f->in[i]) {
            g->saved[i] = pare_alloc(f->arena, grad_bytes(&f->in[i]->t) + 1, 1);
            assert_non_null(g->saved[i]);
            memcpy(g->saved[i], f->in[i]->t.data, grad_bytes(&f->in[i]->t));
        }
    if (op_run(f))
        fail_msg("%s: %s", f->node.type, f->err.msg);
    if (f->node.op->save)
        f->node.save = pare_alloc(f->arena, f->node.op->save(&f->node) + 1, 1);
    grad_forward(g);
    grad_restore(g);
    pare_rng_init(&r, 3);
    for (int i = 0; i < f->node.n_out; i++)
        if (grad_has_output(g, i)) {
            grad_attach(g, f->out[i]);
            for (int64_t k = 0; k < pare_numel(&f->out[i]->t); k++) {
                float gy = (float)(2 * pare_rng_uniform(&r) - 1);
                double term = (double)gy * (double)pare_f32(&f->out[i]->t)[k];

                pare_f32_mut(&f->out[i]->grad)[k] = gy;
                square += term * term;
            }
        }
    g->noise = 3e-7 * sqrt(square) / g->o.step + 1e-7;
    for (int i = 0; i < f->node.n_in; i++)
        if (grad_has_input(g, i))
            grad_attach(g, f->in[i]);
}

static inline void *grad_copy(struct grad_run *g, const void *data, size_t bytes)
{
    void *c = pare_alloc(g->f->arena, bytes + 1, 1);

    assert_non_null(c);
    memcpy(c, data, bytes);
    return c;
}

/* A second backward() doubles all gradients and changes nothing else. */
static inline void grad_check_twice(struct grad_run *g)
{
    struct one_op *f = g->f;
    float *first[ONE_OP_MAX] = { 0 };
    void *y[ONE_OP_MAX] = { 0 };

    for (int i = 0; i < f->node.n_in; i++)
        if (grad_has_input(g, i))
            first[i] = grad_copy(g, f->in[i]->grad.data, grad_bytes(&f->in[i]->grad));
    for (int i = 0; i < f->node.n_out; i++)
        if (f->out[i])
            y[i] = grad_copy(g, f->out[i]->t.data, grad_bytes(&f->out[i]->t));
    grad_backward(g);
    for (int i = 0; i < f->node.n_in; i++) {
        for (int64_t k = 0; first[i] && k < pare_numel(&f->in[i]->t); k++) {
            double want = 2 * (double)first[i][k], got = (double)pare_f32(&f->in[i]->grad)[k];

            if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want))))
                fail_msg("%s: input %d, element %lld: %g after two backward passes, expected %g",
                         f->node.type, i, (long long)k, got, want);
        }
        if (f->in[i])
            assert_memory_equal(f->in[i]->t.data, g->saved[i], grad_bytes(&f->in[i]->t));
    }
    for (int i = 0; i < f->node.n_out; i++)
        if (f->out[i])
            assert_memory_equal(f->out[i]->t.data, y[i], grad_bytes(&f->out[i]->t));
}

/* Each input's gradient, requested alone, equals the one computed with all others. */
static inline void grad_check_alone(struct grad_run *g, float **want)
{
    struct one_op *f = g->f;

    for (int i = 0; i < f->node.n_in; i++) {
        void *saved[ONE_OP_MAX] = { 0 };

        if (!grad_has_input(g, i))
            continue;
        for (int k = 0; k < f->node.n_in; k++)
            if (f->in[k] && f->in[k] != f->in[i]) {
                saved[k] = f->in[k]->grad.data;
                f->in[k]->grad.data = NULL;
            }
        memset(f->in[i]->grad.data, 0, grad_bytes(&f->in[i]->grad));
        grad_backward(g);
        for (int k = 0; k < f->node.n_in; k++)
            if (saved[k])
                f->in[k]->grad.data = saved[k];
        for (int64_t k = 0; k < pare_numel(&f->in[i]->t); k++) {
            double got = (double)pare_f32(&f->in[i]->grad)[k];

            if (!(fabs(got - (double)want[i][k]) <= 1e-5 * (1 + fabs(got))))
                fail_msg("%s: input %d, element %lld: %g when requested alone, expected %g",
                         f->node.type, i, (long long)k, got, (double)want[i][k]);
        }
    }
}

static inline void grad_check_with(struct one_op *f, const struct grad_opts *o)
{
    float *got[ONE_OP_MAX] = { 0 };
    struct grad_run g;

    grad_begin(&g, f, o);
    grad_forward(&g);
    grad_restore(&g);
    grad_backward(&g);
    for (int i = 0; i < f->node.n_in; i++)
        if (grad_has_input(&g, i))
            got[i] = grad_copy(&g, f->in[i]->grad.data, grad_bytes(&f->in[i]->grad));
    grad_check_twice(&g);
    grad_check_alone(&g, got);
    for (int i = 0; i < f->node.n_in; i++)
        for (int64_t k = 0; got[i] && k < pare_numel(&f->in[i]->t); k++) {
            double want = grad_slope(&g, i, k);

            if (!(fabs((double)got[i][k] - want) <= g.o.tol * fabs(want) + g.noise))
                fail_msg("%s: input %d, element %lld: gradient %g, expected %g (+- %g)",
                         f->node.type, i, (long long)k, (double)got[i][k], want, g.noise);
        }
    op_end(f);
}

static inline void grad_check(struct one_op *f)
{
    grad_check_with(f, NULL);
}

#endif
