/* rnn_back.c - backpropagation through time for RNN, GRU and LSTM.
 *
 * From the last step to the first.  At each step, a cell turns the gradient of the state after it
 * into dx and dr, the gradients of x W' and h R' in its gates, and into the direct part of the
 * gradient of the state before; dr R is the other part.  After all steps, four products remain:
 *     gX += dx W     gW += dx' X     gR += dr' h     gB += the sums of dx and dr
 */
#include "rnn_family.h"

#include "matrix.h"

enum { X = PARE_RNN_X, W, R, B, LENS, H0, C0, P }; /* inputs */

struct back {
    struct pare_rnn_run s;
    int64_t linear;       /* gates whose part of h R' is a product with h itself */
    float *dx, *dr;       /* (T B, G H); usually the same memory */
    float *step;          /* dr of this step, (B, G H) */
    float *dh, *dc, *tmp; /* (B, H), (B, H), ((G + 2) H) */
    double *sum;          /* (G H) */
};

static float *grad_in(const struct pare_node *n, int i)
{
    return i < n->n_in && n->in[i] ? pare_f32_mut(&n->in[i]->grad) : NULL;
}

static const float *grad_out(const struct pare_node *n, int i)
{
    return i < n->n_out && n->out[i] ? pare_f32(&n->out[i]->grad) : NULL;
}

static int start(struct back *k, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_rnn_run *s = &k->s;
    const struct pare_rnn *a = s->n->attr;
    size_t gh = (size_t)(s->G * s->H), bh = (size_t)(s->B * s->H), all = (size_t)(s->T * s->B) * gh;
    bool after = s->cell->resets && a->linear_before_reset;

    k->linear = s->cell->resets && !after ? s->G - 1 : s->G;
    k->dx = pare_alloc_raw(c->scratch, all, sizeof(float));
    k->dr = after ? pare_alloc_raw(c->scratch, all, sizeof(float)) : k->dx;
    k->step = pare_alloc_raw(c->scratch, (size_t)s->B * gh, sizeof(float));
    k->dh = pare_alloc_raw(c->scratch, bh, sizeof(float));
    k->dc = pare_alloc_raw(c->scratch, bh, sizeof(float));
    k->tmp = pare_alloc_raw(c->scratch, gh + 2 * (size_t)s->H, sizeof(float));
    k->sum = pare_alloc_raw(c->scratch, gh, sizeof(double));
    if (!k->dx || !k->dr || !k->step || !k->dh || !k->dc || !k->tmp || !k->sum)
        return pare_no_memory(err, "for the gradients of %lld sequences", (long long)s->B);
    return 0;
}

/* Start the backward pass from the gradients of the last states. */
static void load_states(const struct back *k, int64_t d)
{
    size_t bytes = (size_t)k->s.H * sizeof(float);

    for (int i = 1; i <= 2; i++)
        for (int64_t b = 0; b < k->s.B; b++) {
            const float *from = grad_out(k->s.n, i);
            float *to = (i == 1 ? k->dh : k->dc) + b * k->s.H;

            if (from)
                memcpy(to, from + pare_rnn_state_at(&k->s, d, b), bytes);
            else
                memset(to, 0, bytes);
        }
}

static void store_states(const struct back *k, int64_t d)
{
    for (int i = H0; i <= C0; i++)
        for (int64_t b = 0; grad_in(k->s.n, i) && b < k->s.B; b++) {
            const float *from = (i == H0 ? k->dh : k->dc) + b * k->s.H;
            float *to = grad_in(k->s.n, i) + pare_rnn_state_at(&k->s, d, b);

            for (int64_t j = 0; j < k->s.H; j++)
                to[j] += from[j];
        }
}

static void one_row(const struct back *k, struct pare_rnn_back *row, int64_t d, int64_t step,
                    int64_t b)
{
    const struct pare_rnn_run *s = &k->s;
    const float *gy = grad_out(s->n, 0);
    int64_t t = pare_rnn_reversed(s->n, d) ? s->len[b] - 1 - step : step, gh = s->G * s->H;
    int64_t at = pare_rnn_row_at(s, t, b);

    row->pre = s->save + (d * s->T * s->B + at) * (s->G + 2) * s->H;
    row->h = row->pre + gh;
    row->extra = row->h + s->H;
    row->dx = k->dx + at * gh;
    row->dr = k->dr + at * gh;
    row->dh = k->dh + b * s->H;
    row->dc = k->dc + b * s->H;
    for (int64_t j = 0; gy && j < s->H; j++)
        row->dh[j] += gy[pare_rnn_step_at(s, d, t, b) + j];
    s->cell->back(row);
    memcpy(k->step + b * gh, row->dr, (size_t)gh * sizeof(float));
}

/* A sequence that has ended keeps its state: the gates have no gradient, dh and dc are unchanged.
 */
static void one_step(const struct back *k, struct pare_rnn_back *row, int64_t d, int64_t step)
{
    const struct pare_rnn_run *s = &k->s;
    int64_t gh = s->G * s->H;
    struct pare_mm m = {
        .M = s->B,
        .N = s->H,
        .K = k->linear * s->H,
        .ai = gh,
        .ak = 1,
        .bk = s->H,
        .bj = 1,
        .ys = s->H,
        .a = k->step,
        .b = row->R,
        .y = k->dh,
    };

    for (int64_t b = 0; b < s->B; b++)
        if (step < s->len[b])
            one_row(k, row, d, step, b);
        else
            memset(k->step + b * gh, 0, (size_t)gh * sizeof(float));
    pare_mm(PARE_F32, &m);
}

/* gX and gW of one direction. */
static void weights_of_x(const struct back *k, int64_t d)
{
    const struct pare_rnn_run *s = &k->s;
    int64_t gh = s->G * s->H, rows = s->T * s->B;
    float *gx = grad_in(s->n, X), *gw = grad_in(s->n, W);
    struct pare_mm x = {
        .M = rows,
        .N = s->I,
        .K = gh,
        .ai = gh,
        .ak = 1,
        .bk = s->I,
        .bj = 1,
        .ys = s->I,
        .a = k->dx,
        .b = pare_f32(&s->n->in[W]->t) + d * gh * s->I,
        .y = gx,
    };
    struct pare_mm w = {
        .M = gh,
        .N = s->I,
        .K = rows,
        .ai = 1,
        .ak = gh,
        .bk = s->I,
        .bj = 1,
        .ys = s->I,
        .a = k->dx,
        .b = s->n->in[X]->t.data,
    };

    if (gx)
        pare_mm(PARE_F32, &x);
    if (gw) {
        w.y = gw + d * gh * s->I;
        pare_mm(PARE_F32, &w);
    }
}

/* gR of one direction: most gates multiply h, the others multiply `extra`. */
static void weights_of_h(const struct back *k, int64_t d)
{
    const struct pare_rnn_run *s = &k->s;
    int64_t gh = s->G * s->H, kept = gh + 2 * s->H, rows = s->T * s->B;
    float *gr = grad_in(s->n, R);
    const float *h = s->save + d * rows * kept + gh;
    struct pare_mm m = {
        .M = k->linear * s->H,
        .N = s->H,
        .K = rows,
        .ai = 1,
        .ak = gh,
        .bk = kept,
        .bj = 1,
        .ys = s->H,
        .a = k->dr,
        .b = h,
    };

    if (!gr)
        return;
    m.y = gr + d * gh * s->H;
    pare_mm(PARE_F32, &m);
    m.a = k->dr + m.M;
    m.b = h + s->H;
    m.y = gr + (d * gh + m.M) * s->H;
    m.M = gh - m.M;
    pare_mm(PARE_F32, &m);
}

static void biases(const struct back *k, int64_t d)
{
    const struct pare_rnn_run *s = &k->s;
    int64_t gh = s->G * s->H;
    float *gb = grad_in(s->n, B);

    for (int which = 0; gb && which < 2; which++) {
        const float *from = which ? k->dr : k->dx;

        memset(k->sum, 0, (size_t)gh * sizeof(double));
        for (int64_t i = 0; i < s->T * s->B; i++)
            for (int64_t j = 0; j < gh; j++)
                k->sum[j] += (double)from[i * gh + j];
        for (int64_t j = 0; j < gh; j++)
            gb[(d * 2 + which) * gh + j] += (float)k->sum[j];
    }
}

static void one_direction(const struct back *k, int64_t d)
{
    const struct pare_rnn_run *s = &k->s;
    const struct pare_tensor *p = pare_rnn_input(s->n, P);
    int64_t gh = s->G * s->H;
    size_t all = (size_t)(s->T * s->B * gh) * sizeof(float);
    float *gp = grad_in(s->n, P);
    struct pare_rnn_back row = {
        .attr = s->n->attr,
        .H = s->H,
        .tmp = k->tmp,
        .act = s->act + d * s->cell->n_act,
        .R = pare_f32(&s->n->in[R]->t) + d * gh * s->H,
        .p = p ? pare_f32(p) + d * 3 * s->H : NULL,
        .gp = gp ? gp + d * 3 * s->H : NULL,
    };

    memset(k->dx, 0, all);
    if (k->dr != k->dx)
        memset(k->dr, 0, all);
    load_states(k, d);
    for (int64_t step = s->T - 1; step >= 0; step--)
        one_step(k, &row, d, step);
    store_states(k, d);
    weights_of_x(k, d);
    weights_of_h(k, d);
    biases(k, d);
}

int pare_rnn_backward(const struct pare_node *n, const struct pare_rnn_cell *cell,
                      struct pare_ctx *c, struct pare_err *err)
{
    struct back k;

    if (pare_rnn_gives_nothing(n) || (!grad_out(n, 0) && !grad_out(n, 1) && !grad_out(n, 2)))
        return 0;
    PARE_TRY(pare_rnn_start(&k.s, n, cell, c, err));
    if (!k.s.B)
        return 0;
    if (!k.s.save)
        return pare_fail(err, PARE_EUNSUPPORTED, "forward() saved nothing for the gradients");
    PARE_TRY(start(&k, c, err));
    for (int64_t d = 0; d < k.s.D; d++)
        one_direction(&k, d);
    return 0;
}
