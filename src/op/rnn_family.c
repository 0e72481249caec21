/* rnn_family.c - what RNN, GRU and LSTM share: shapes, activations, and the loop over steps. */
#include "rnn_family.h"

#include <strings.h>

#include "../tensor/vmath.h"
#include "matrix.h"

enum { X, W, R, B, LENS, H0, C0, P };           /* inputs */
enum { MAX_ACT = 6 };                           /* three of an LSTM, in two directions */

/* ---- activations --------------------------------------------------------------- */

#define ACT(name, expr)                                                                        \
    PARE_SIMD static void name(float *v, int64_t n, float alpha, float beta)                   \
    {                                                                                          \
        (void)alpha, (void)beta;                                                               \
        for (int64_t i = 0; i < n; i++) {                                                      \
            float x = v[i];                                                                    \
                                                                                               \
            v[i] = (expr);                                                                     \
        }                                                                                      \
    }
ACT(act_relu, x > 0 ? x : 0)
ACT(act_tanh, pare_tanhf(x))
ACT(act_sigmoid, pare_sigmoidf(x))
ACT(act_affine, alpha * x + beta)
ACT(act_leaky_relu, x >= 0 ? x : alpha * x)
ACT(act_thresholded_relu, x >= alpha ? x : 0)
ACT(act_scaled_tanh, alpha * pare_tanhf(beta * x))
ACT(act_hard_sigmoid, alpha * x + beta < 0 ? 0 : alpha * x + beta > 1 ? 1 : alpha * x + beta)
ACT(act_elu, x >= 0 ? x : alpha * pare_expm1f(x))
ACT(act_softsign, x / (1 + fabsf(x)))
ACT(act_softplus, pare_softplusf(x))

static const struct {
    const char *name;
    int params;                 /* how many of alpha, beta it takes */
    struct pare_rnn_act act;    /* with their defaults */
} acts[] = {
    { "Relu", 0, { act_relu, 0, 0 } },
    { "Tanh", 0, { act_tanh, 0, 0 } },
    { "Sigmoid", 0, { act_sigmoid, 0, 0 } },
    { "Affine", 2, { act_affine, 1, 0 } },
    { "LeakyRelu", 1, { act_leaky_relu, 0.01f, 0 } },
    { "ThresholdedRelu", 1, { act_thresholded_relu, 1, 0 } },
    { "ScaledTanh", 2, { act_scaled_tanh, 1, 1 } },
    { "HardSigmoid", 2, { act_hard_sigmoid, 0.2f, 0.5f } },
    { "Elu", 1, { act_elu, 1, 0 } },
    { "Softsign", 0, { act_softsign, 0, 0 } },
    { "Softplus", 0, { act_softplus, 0, 0 } },
};

static int find_act(const char *name, int *at, struct pare_err *err)
{
    int count = (int)(sizeof(acts) / sizeof(*acts));

    for (*at = 0; *at < count; (*at)++)
        if (!strcasecmp(acts[*at].name, name))
            return 0;
    return pare_fail(err, PARE_EUNSUPPORTED, "activation '%s' is not known", name);
}

/* The lists of alphas and betas hold only what the activations in question take. */
static int read_acts(const struct pare_rnn *a, const struct pare_rnn_cell *cell, int dirs,
                     struct pare_rnn_act *out, struct pare_err *err)
{
    int given = a->activations.n, alpha = 0, beta = 0, at;

    if (given && given != cell->n_act && given != cell->n_act * dirs)
        return pare_fail(err, PARE_ESHAPE, "%d activations are given, %d are expected", given,
                         cell->n_act * dirs);
    for (int i = 0; i < cell->n_act * dirs; i++) {
        if (i == given && given) {          /* one direction's serve both */
            memcpy(out + i, out, (size_t)cell->n_act * sizeof(*out));
            break;
        }
        PARE_TRY(find_act(given ? a->activations.v[i] : cell->act[i % cell->n_act], &at, err));
        out[i] = acts[at].act;
        if (acts[at].params > 0 && alpha < a->activation_alpha.n)
            out[i].alpha = (float)a->activation_alpha.v[alpha++];
        if (acts[at].params > 1 && beta < a->activation_beta.n)
            out[i].beta = (float)a->activation_beta.v[beta++];
    }
    return 0;
}

void pare_rnn_activate(const struct pare_rnn_row *row, int act, float *v, int64_t n)
{
    const struct pare_rnn_act *f = &row->act[act];
    float clip = (float)row->attr->clip;

    for (int64_t i = 0; clip > 0 && i < n; i++)
        v[i] = v[i] > clip ? clip : v[i] < -clip ? -clip : v[i];
    f->f(v, n, f->alpha, f->beta);
}

/* ---- shapes -------------------------------------------------------------------- */

struct sizes {
    int64_t T, B, I, H, G, D;
};

static const struct pare_tensor *input(const struct pare_node *n, int i)
{
    return i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
}

static struct sizes sizes_of(const struct pare_node *n, const struct pare_rnn_cell *cell)
{
    const struct pare_rnn *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t;

    return (struct sizes){
        .T = x->dim[a->layout ? 1 : 0],
        .B = x->dim[a->layout ? 0 : 1],
        .I = x->dim[2],
        .H = n->in[R]->t.dim[2],
        .G = cell->gates,
        .D = !strcmp(a->direction, "bidirectional") ? 2 : 1,
    };
}

/* Input i, when it is there, has this shape. */
static int expect(const struct pare_node *n, int i, const char *what, int rank,
                  const int64_t *dim, struct pare_err *err)
{
    const struct pare_tensor *t = input(n, i);
    struct pare_tensor want = { .rank = rank };
    char found[PARE_SHAPE_TEXT], wanted[PARE_SHAPE_TEXT];

    memcpy(want.dim, dim, (size_t)rank * sizeof(*dim));
    if (!t || pare_same_shape(t, &want))
        return 0;
    return pare_fail(err, PARE_ESHAPE, "%s is %s, must be %s", what,
                     pare_shape_text(t, found, sizeof(found)),
                     pare_shape_text(&want, wanted, sizeof(wanted)));
}

static int check_shapes(const struct pare_node *n, const struct pare_rnn_cell *cell,
                        struct sizes *s, struct pare_err *err)
{
    const struct pare_rnn *a = n->attr;
    struct pare_rnn_act act[MAX_ACT];
    struct pare_tensor sums = { .dtype = PARE_F32, .rank = 3 };

    if (n->in[X]->t.rank != 3 || n->in[W]->t.rank != 3 || n->in[R]->t.rank != 3)
        return pare_fail(err, PARE_ESHAPE, "X, W and R have %d, %d and %d dimensions, not 3",
                         n->in[X]->t.rank, n->in[W]->t.rank, n->in[R]->t.rank);
    *s = sizes_of(n, cell);
    if (s->H < 1 || s->H > INT32_MAX || (a->hidden_size && a->hidden_size != s->H))
        return pare_fail(err, PARE_ESHAPE, "R is for %lld states, hidden_size is %lld",
                         (long long)s->H, (long long)a->hidden_size);
    PARE_TRY(expect(n, W, "W", 3, (int64_t[]){ s->D, s->G * s->H, s->I }, err));
    PARE_TRY(expect(n, R, "R", 3, (int64_t[]){ s->D, s->G * s->H, s->H }, err));
    PARE_TRY(expect(n, B, "B", 2, (int64_t[]){ s->D, 2 * s->G * s->H }, err));
    PARE_TRY(expect(n, LENS, "sequence_lens", 1, &s->B, err));
    for (int i = H0; i <= C0; i++)
        PARE_TRY(expect(n, i, i == H0 ? "initial_h" : "initial_c", 3,
                        a->layout ? (int64_t[]){ s->B, s->D, s->H }
                                  : (int64_t[]){ s->D, s->B, s->H }, err));
    PARE_TRY(expect(n, P, "P", 2, (int64_t[]){ s->D, 3 * s->H }, err));
    sums.dim[0] = s->T;
    sums.dim[1] = s->B;
    sums.dim[2] = s->G * s->H;
    PARE_TRY(pare_tensor_size(&sums, NULL, NULL, err));
    return read_acts(a, cell, (int)s->D, act, err);
}

int pare_rnn_infer(struct pare_node *n, const struct pare_rnn_cell *cell, struct pare_err *err)
{
    const struct pare_rnn *a = n->attr;
    enum pare_dtype d = n->in[X]->t.dtype;
    struct sizes s;

    PARE_TRY(check_shapes(n, cell, &s, err));
    if (n->n_out > 0 && n->out[0])
        PARE_TRY(pare_shape_set(&n->out[0]->t, d, 4,
                                a->layout ? (int64_t[]){ s.B, s.T, s.D, s.H }
                                          : (int64_t[]){ s.T, s.D, s.B, s.H }, err));
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i])
            PARE_TRY(pare_shape_set(&n->out[i]->t, d, 3,
                                    a->layout ? (int64_t[]){ s.B, s.D, s.H }
                                              : (int64_t[]){ s.D, s.B, s.H }, err));
    return 0;
}

double pare_rnn_macs(const struct pare_node *n, const struct pare_rnn_cell *cell)
{
    struct sizes s = sizes_of(n, cell);

    return (double)s.G * (double)(s.I + s.H) * (double)s.H * (double)s.T * (double)s.B *
           (double)s.D;
}

/* ---- running ------------------------------------------------------------------- */

struct run {
    const struct pare_node *n;
    const struct pare_rnn_cell *cell;
    struct sizes s;
    bool batch_first;
    float *x, *r;           /* X W', (T B, G H) in X's order; h R', (B, G H) */
    float *h, *c, *tmp;     /* (B, H), (B, H), (H) */
    float *zero;            /* (G H) */
    int64_t *len;           /* (B) */
};

static int start(struct run *run, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *lens = input(run->n, LENS);
    struct sizes *s = &run->s;
    size_t gh = (size_t)(s->G * s->H), bh = (size_t)(s->B * s->H);

    run->x = pare_alloc_raw(c->scratch, (size_t)(s->T * s->B) * gh, sizeof(float));
    run->r = pare_alloc_raw(c->scratch, (size_t)s->B * gh, sizeof(float));
    run->h = pare_alloc_raw(c->scratch, bh, sizeof(float));
    run->c = pare_alloc_raw(c->scratch, bh, sizeof(float));
    run->tmp = pare_alloc_raw(c->scratch, (size_t)s->H, sizeof(float));
    run->zero = pare_alloc(c->scratch, gh, sizeof(float));
    run->len = pare_alloc_raw(c->scratch, (size_t)s->B, sizeof(*run->len));
    if (!run->x || !run->r || !run->h || !run->c || !run->tmp || !run->zero || !run->len)
        return pare_fail(err, PARE_ENOMEM, "no memory for the states of %lld sequences",
                         (long long)s->B);
    for (int64_t b = 0; b < s->B; b++) {
        run->len[b] = lens ? pare_get_int(lens, b) : s->T;
        if (run->len[b] < 0 || run->len[b] > s->T)
            return pare_fail(err, PARE_ESHAPE, "sequence_lens has %lld, there are %lld steps",
                             (long long)run->len[b], (long long)s->T);
    }
    return 0;
}

/* Where the states of sequence b are in (D, B, H), or (B, D, H). */
static int64_t state_at(const struct run *run, int64_t d, int64_t b)
{
    const struct sizes *s = &run->s;

    return (run->batch_first ? b * s->D + d : d * s->B + b) * s->H;
}

static void load_states(const struct run *run, int64_t d)
{
    size_t bytes = (size_t)run->s.H * sizeof(float);

    for (int i = H0; i <= C0; i++)
        for (int64_t b = 0; b < run->s.B; b++) {
            const struct pare_tensor *t = input(run->n, i);
            float *to = (i == H0 ? run->h : run->c) + b * run->s.H;

            if (t)
                memcpy(to, pare_f32(t) + state_at(run, d, b), bytes);
            else
                memset(to, 0, bytes);
        }
}

static void store_states(const struct run *run, int64_t d)
{
    for (int i = 1; i < run->n->n_out; i++)
        for (int64_t b = 0; run->n->out[i] && b < run->s.B; b++)
            memcpy(pare_f32(&run->n->out[i]->t) + state_at(run, d, b),
                   (i == 1 ? run->h : run->c) + b * run->s.H, (size_t)run->s.H * sizeof(float));
}

/* The state after step t, or zeros after the end of a short sequence. */
static void store_step(const struct run *run, int64_t d, int64_t t, int64_t b, const float *h)
{
    const struct sizes *s = &run->s;
    float *y;

    if (run->n->n_out < 1 || !run->n->out[0])
        return;
    y = pare_f32(&run->n->out[0]->t);
    y += run->batch_first ? ((b * s->T + t) * s->D + d) * s->H : ((t * s->D + d) * s->B + b) * s->H;
    memcpy(y, h, (size_t)s->H * sizeof(float));
}

static void one_step(const struct run *run, struct pare_rnn_row *row, int64_t d, int64_t step,
                     bool back)
{
    const struct sizes *s = &run->s;
    int64_t gh = s->G * s->H;
    struct pare_mm m = {
        .M = s->B, .N = gh, .K = s->H, .ai = s->H, .ak = 1, .bk = 1, .bj = s->H, .ys = gh,
        .a = run->h, .b = row->R, .y = run->r,
    };

    memset(run->r, 0, (size_t)(s->B * gh) * sizeof(float));
    pare_mm(PARE_F32, &m);
    for (int64_t b = 0; b < s->B; b++) {
        int64_t t = step < run->len[b] && back ? run->len[b] - 1 - step : step;

        if (step >= run->len[b]) {
            store_step(run, d, t, b, run->zero);
            continue;
        }
        row->x = run->x + (run->batch_first ? b * s->T + t : t * s->B + b) * gh;
        row->r = run->r + b * gh;
        row->h = run->h + b * s->H;
        row->c = run->c + b * s->H;
        run->cell->step(row);
        store_step(run, d, t, b, row->h);
    }
}

static void one_direction(const struct run *run, const struct pare_rnn_act *act, int64_t d)
{
    const struct pare_rnn *a = run->n->attr;
    const struct sizes *s = &run->s;
    const struct pare_tensor *bias = input(run->n, B), *p = input(run->n, P);
    int64_t gh = s->G * s->H;
    bool back = d || !strcmp(a->direction, "reverse");
    struct pare_rnn_row row = {
        .attr = a, .H = s->H, .tmp = run->tmp, .act = act + d * run->cell->n_act,
        .R = pare_f32(&run->n->in[R]->t) + d * gh * s->H,
        .wb = bias ? pare_f32(bias) + d * 2 * gh : run->zero,
        .rb = bias ? pare_f32(bias) + (d * 2 + 1) * gh : run->zero,
        .p = p ? pare_f32(p) + d * 3 * s->H : NULL,
    };
    struct pare_mm m = {
        .M = s->T * s->B, .N = gh, .K = s->I, .ai = s->I, .ak = 1, .bk = 1, .bj = s->I, .ys = gh,
        .a = run->n->in[X]->t.data, .b = pare_f32(&run->n->in[W]->t) + d * gh * s->I, .y = run->x,
    };

    memset(run->x, 0, (size_t)(m.M * gh) * sizeof(float));
    pare_mm(PARE_F32, &m);
    load_states(run, d);
    for (int64_t step = 0; step < s->T; step++)
        one_step(run, &row, d, step, back);
    store_states(run, d);
}

int pare_rnn_forward(const struct pare_node *n, const struct pare_rnn_cell *cell,
                     struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_rnn *a = n->attr;
    struct run run = {
        .n = n, .cell = cell, .s = sizes_of(n, cell), .batch_first = a->layout != 0
    };
    struct pare_rnn_act act[MAX_ACT];

    if (!run.s.B)
        return 0;
    PARE_TRY(read_acts(a, cell, (int)run.s.D, act, err));
    PARE_TRY(start(&run, c, err));
    for (int64_t d = 0; d < run.s.D; d++)
        one_direction(&run, act, d);
    return 0;
}
