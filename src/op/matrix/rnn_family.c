/* rnn_family.c - shared by RNN, GRU and LSTM: shapes, and the loop over steps. */
#include "rnn_family.h"

#include "matrix.h"

enum { X = PARE_RNN_X, W, R, B, LENS, H0, C0, P }; /* inputs */

/* ---- shapes ------------------------------------------------------------------------------- */

const struct pare_tensor *pare_rnn_input(const struct pare_node *n, int i)
{
    return i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
}

struct pare_rnn_run pare_rnn_sizes(const struct pare_node *n, const struct pare_rnn_cell *cell)
{
    const struct pare_rnn *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t;

    return (struct pare_rnn_run){
        .n = n,
        .cell = cell,
        .T = x->dim[a->layout ? 1 : 0],
        .B = x->dim[a->layout ? 0 : 1],
        .I = x->dim[2],
        .H = n->in[R]->t.dim[2],
        .G = cell->gates,
        .D = !strcmp(a->direction, "bidirectional") ? 2 : 1,
    };
}

/* Check the shape of input i, if present. */
static int expect(const struct pare_node *n, int i, const char *what, int rank, const int64_t *dim,
                  struct pare_err *err)
{
    const struct pare_tensor *t = pare_rnn_input(n, i);
    struct pare_tensor want = { .rank = rank };
    char found[PARE_SHAPE_TEXT], wanted[PARE_SHAPE_TEXT];

    memcpy(want.dim, dim, (size_t)rank * sizeof(*dim));
    if (!t || pare_same_shape(t, &want))
        return 0;
    return pare_fail(err, PARE_ESHAPE, "%s is %s, expected %s", what,
                     pare_shape_text(t, found, sizeof(found)),
                     pare_shape_text(&want, wanted, sizeof(wanted)));
}

static int check_shapes(const struct pare_node *n, const struct pare_rnn_cell *cell,
                        struct pare_rnn_run *s, struct pare_err *err)
{
    const struct pare_rnn *a = n->attr;
    struct pare_tensor sums = { .dtype = PARE_F32, .rank = 4 };

    if (n->in[X]->t.rank != 3 || n->in[W]->t.rank != 3 || n->in[R]->t.rank != 3)
        return pare_fail(err, PARE_ESHAPE, "X, W and R have %d, %d and %d dimensions, not 3",
                         n->in[X]->t.rank, n->in[W]->t.rank, n->in[R]->t.rank);
    *s = pare_rnn_sizes(n, cell);
    if (s->H < 1 || s->H > INT32_MAX || (a->hidden_size && a->hidden_size != s->H))
        return pare_fail(err, PARE_ESHAPE, "R has %lld states but hidden_size is %lld",
                         (long long)s->H, (long long)a->hidden_size);
    PARE_TRY(expect(n, W, "W", 3, (int64_t[]){ s->D, s->G * s->H, s->I }, err));
    PARE_TRY(expect(n, R, "R", 3, (int64_t[]){ s->D, s->G * s->H, s->H }, err));
    PARE_TRY(expect(n, B, "B", 2, (int64_t[]){ s->D, 2 * s->G * s->H }, err));
    PARE_TRY(expect(n, LENS, "sequence_lens", 1, &s->B, err));
    for (int i = H0; i <= C0; i++)
        PARE_TRY(
            expect(n, i, i == H0 ? "initial_h" : "initial_c", 3,
                   a->layout ? (int64_t[]){ s->B, s->D, s->H } : (int64_t[]){ s->D, s->B, s->H },
                   err));
    PARE_TRY(expect(n, P, "P", 2, (int64_t[]){ s->D, 3 * s->H }, err));
    sums.dim[0] = s->T;
    sums.dim[1] = s->B;
    sums.dim[2] = (s->G + 2) * s->H;
    sums.dim[3] = s->D;
    PARE_TRY(pare_tensor_size(&sums, NULL, NULL, err));
    return pare_rnn_acts(a, cell, (int)s->D, s->act, err);
}

int pare_rnn_infer(struct pare_node *n, const struct pare_rnn_cell *cell, struct pare_err *err)
{
    const struct pare_rnn *a = n->attr;
    enum pare_dtype d = n->in[X]->t.dtype;
    struct pare_rnn_run s;

    PARE_TRY(check_shapes(n, cell, &s, err));
    if (n->n_out > 0 && n->out[0])
        PARE_TRY(pare_shape_set(&n->out[0]->t, d, 4,
                                a->layout ? (int64_t[]){ s.B, s.T, s.D, s.H }
                                          : (int64_t[]){ s.T, s.D, s.B, s.H },
                                err));
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i])
            PARE_TRY(pare_shape_set(&n->out[i]->t, d, 3,
                                    a->layout ? (int64_t[]){ s.B, s.D, s.H }
                                              : (int64_t[]){ s.D, s.B, s.H },
                                    err));
    return 0;
}

double pare_rnn_macs(const struct pare_node *n, const struct pare_rnn_cell *cell)
{
    struct pare_rnn_run s = pare_rnn_sizes(n, cell);

    return (double)s.G * (double)(s.I + s.H) * (double)s.H * (double)s.T * (double)s.B *
           (double)s.D;
}

/* Each gate adds its two halves, and the states are mixed in a few more steps. */
double pare_rnn_nni_ops(const struct pare_node *n, const struct pare_rnn_cell *cell)
{
    struct pare_rnn_run s = pare_rnn_sizes(n, cell);

    return (double)(s.G + cell->mixes) * (double)s.H * (double)s.T * (double)s.B * (double)s.D;
}

size_t pare_rnn_save(const struct pare_node *n, const struct pare_rnn_cell *cell)
{
    struct pare_rnn_run s = pare_rnn_sizes(n, cell);

    return (size_t)(s.D * s.T * s.B) * (size_t)((s.G + 2) * s.H) * sizeof(float);
}

/* ---- running ------------------------------------------------------------------------------ */

bool pare_rnn_gives_nothing(const struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && pare_numel(&n->out[i]->t))
            return false;
    return true;
}

int pare_rnn_lengths(const struct pare_tensor *t, int64_t steps, int64_t n, int64_t *len,
                     struct pare_err *err)
{
    for (int64_t b = 0; b < n; b++) {
        len[b] = t ? pare_get_int(t, b) : steps;
        if (len[b] < 0 || len[b] > steps)
            return pare_fail(err, PARE_ESHAPE,
                             "a sequence length is %lld, but there are %lld steps",
                             (long long)len[b], (long long)steps);
    }
    return 0;
}

int pare_rnn_start(struct pare_rnn_run *run, const struct pare_node *n,
                   const struct pare_rnn_cell *cell, struct pare_ctx *c, struct pare_err *err)
{
    *run = pare_rnn_sizes(n, cell);
    run->save = n->save;
    run->len = pare_alloc_raw(c->scratch, (size_t)run->B, sizeof(*run->len));
    if (!run->len)
        return pare_no_memory(err, "for %lld lengths", (long long)run->B);
    PARE_TRY(pare_rnn_lengths(pare_rnn_input(n, LENS), run->T, run->B, run->len, err));
    return pare_rnn_acts(n->attr, cell, (int)run->D, run->act, err);
}

bool pare_rnn_reversed(const struct pare_node *n, int64_t d)
{
    return d || !strcmp(((const struct pare_rnn *)n->attr)->direction, "reverse");
}

static bool batch_first(const struct pare_rnn_run *run)
{
    return ((const struct pare_rnn *)run->n->attr)->layout != 0;
}

int64_t pare_rnn_row_at(const struct pare_rnn_run *run, int64_t t, int64_t b)
{
    return batch_first(run) ? b * run->T + t : t * run->B + b;
}

int64_t pare_rnn_state_at(const struct pare_rnn_run *run, int64_t d, int64_t b)
{
    return (batch_first(run) ? b * run->D + d : d * run->B + b) * run->H;
}

int64_t pare_rnn_step_at(const struct pare_rnn_run *run, int64_t d, int64_t t, int64_t b)
{
    return (batch_first(run) ? (b * run->T + t) * run->D + d : (t * run->D + d) * run->B + b) *
           run->H;
}

struct forward {
    struct pare_rnn_run s;
    float *x, *r;       /* X W', (T B, G H); h R', (B, G H) */
    float *h, *c, *tmp; /* (B, H), (B, H), (H) */
    float *zero;        /* (G H) */
    float *round;       /* rounded operand of a product, (T B, I) or (B, H); NULL: not rounded */
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The operand of a product, rounded if the cell requires it. */
static const float *operand(const struct forward *f, const float *v, int64_t n)
{
    if (!f->round)
        return v;
    memcpy(f->round, v, (size_t)n * sizeof(float));
    f->s.cell->round(f->round, n);
    return f->round;
}

static int start(struct forward *f, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_rnn_run *s = &f->s;
    size_t gh = (size_t)(s->G * s->H), bh = (size_t)(s->B * s->H);

    f->x = pare_alloc_raw(c->scratch, (size_t)(s->T * s->B) * gh, sizeof(float));
    f->r = pare_alloc_raw(c->scratch, (size_t)s->B * gh, sizeof(float));
    f->h = pare_alloc_raw(c->scratch, bh, sizeof(float));
    f->c = pare_alloc_raw(c->scratch, bh, sizeof(float));
    f->tmp = pare_alloc_raw(c->scratch, (size_t)s->H, sizeof(float));
    f->zero = pare_alloc(c->scratch, gh, sizeof(float));
    f->round = s->cell->round ? pare_alloc_raw(c->scratch, larger(bh, (size_t)(s->T * s->B * s->I)),
                                               sizeof(float))
                              : NULL;
    if ((s->cell->round && !f->round) || !f->x || !f->r || !f->h || !f->c || !f->tmp || !f->zero)
        return pare_no_memory(err, "for the states of %lld sequences", (long long)s->B);
    return 0;
}

static void load_states(const struct forward *f, int64_t d)
{
    size_t bytes = (size_t)f->s.H * sizeof(float);

    for (int i = H0; i <= C0; i++)
        for (int64_t b = 0; b < f->s.B; b++) {
            const struct pare_tensor *t = pare_rnn_input(f->s.n, i);
            float *to = (i == H0 ? f->h : f->c) + b * f->s.H;

            if (t)
                memcpy(to, pare_f32(t) + pare_rnn_state_at(&f->s, d, b), bytes);
            else
                memset(to, 0, bytes);
        }
}

static void store_states(const struct forward *f, int64_t d)
{
    const struct pare_node *n = f->s.n;

    for (int i = 1; i < n->n_out; i++)
        for (int64_t b = 0; n->out[i] && b < f->s.B; b++)
            memcpy(pare_f32_mut(&n->out[i]->t) + pare_rnn_state_at(&f->s, d, b),
                   (i == 1 ? f->h : f->c) + b * f->s.H, (size_t)f->s.H * sizeof(float));
}

/* The state after step t, or zeros after the end of a short sequence. */
static void store_step(const struct forward *f, int64_t d, int64_t t, int64_t b, const float *h)
{
    const struct pare_node *n = f->s.n;

    if (n->n_out > 0 && n->out[0])
        memcpy(pare_f32_mut(&n->out[0]->t) + pare_rnn_step_at(&f->s, d, t, b), h,
               (size_t)f->s.H * sizeof(float));
}

/* Memory for what this step saves for backward(). */
static void save_step(const struct forward *f, struct pare_rnn_row *row, int64_t d, int64_t at)
{
    const struct pare_rnn_run *s = &f->s;

    if (!s->save)
        return;
    row->pre = s->save + (d * s->T * s->B + at) * (s->G + 2) * s->H;
    row->extra = row->pre + (s->G + 1) * s->H;
}

static void one_step(const struct forward *f, struct pare_rnn_row *row, int64_t d, int64_t step)
{
    const struct pare_rnn_run *s = &f->s;
    int64_t gh = s->G * s->H;
    struct pare_mm m = {
        .M = s->B,
        .N = gh,
        .K = s->H,
        .ai = s->H,
        .ak = 1,
        .bk = 1,
        .bj = s->H,
        .ys = gh,
        .a = operand(f, f->h, s->B * s->H),
        .b = row->R,
        .y = f->r,
    };

    memset(f->r, 0, (size_t)(s->B * gh) * sizeof(float));
    pare_mm(PARE_F32, &m);
    for (int64_t b = 0; b < s->B; b++) {
        bool done = step >= s->len[b];
        int64_t t = !done && pare_rnn_reversed(s->n, d) ? s->len[b] - 1 - step : step;
        int64_t at = pare_rnn_row_at(s, t, b);

        save_step(f, row, d, at);
        if (done && s->save)
            memset(row->pre, 0, (size_t)(gh + 2 * s->H) * sizeof(float));
        if (done) {
            store_step(f, d, t, b, f->zero);
            continue;
        }
        row->x = f->x + at * gh;
        row->r = f->r + b * gh;
        row->h = f->h + b * s->H;
        row->c = f->c + b * s->H;
        if (s->save)
            memcpy(row->pre + gh, row->h, (size_t)s->H * sizeof(float));
        s->cell->step(row);
        store_step(f, d, t, b, row->h);
    }
}

static void one_direction(const struct forward *f, int64_t d)
{
    const struct pare_rnn_run *s = &f->s;
    const struct pare_tensor *bias = pare_rnn_input(s->n, B), *p = pare_rnn_input(s->n, P);
    int64_t gh = s->G * s->H;
    struct pare_rnn_row row = {
        .attr = s->n->attr,
        .H = s->H,
        .tmp = f->tmp,
        .act = s->act + d * s->cell->n_act,
        .R = pare_f32(&s->n->in[R]->t) + d * gh * s->H,
        .wb = bias ? pare_f32(bias) + d * 2 * gh : f->zero,
        .rb = bias ? pare_f32(bias) + (d * 2 + 1) * gh : f->zero,
        .p = p ? pare_f32(p) + d * 3 * s->H : NULL,
    };
    struct pare_mm m = {
        .M = s->T * s->B,
        .N = gh,
        .K = s->I,
        .ai = s->I,
        .ak = 1,
        .bk = 1,
        .bj = s->I,
        .ys = gh,
        .a = operand(f, pare_f32(&s->n->in[X]->t), s->T * s->B * s->I),
        .b = pare_f32(&s->n->in[W]->t) + d * gh * s->I,
        .y = f->x,
    };

    memset(f->x, 0, (size_t)(m.M * gh) * sizeof(float));
    pare_mm(PARE_F32, &m);
    load_states(f, d);
    for (int64_t step = 0; step < s->T; step++)
        one_step(f, &row, d, step);
    store_states(f, d);
}

int pare_rnn_forward(const struct pare_node *n, const struct pare_rnn_cell *cell,
                     struct pare_ctx *c, struct pare_err *err)
{
    struct forward f;

    if (pare_rnn_gives_nothing(n))
        return 0;
    PARE_TRY(pare_rnn_start(&f.s, n, cell, c, err));
    if (!f.s.B)
        return 0;
    PARE_TRY(start(&f, c, err));
    for (int64_t d = 0; d < f.s.D; d++)
        one_direction(&f, d);
    return 0;
}

/* v's axis is (gate, state). */
static void tie_gates(const struct pare_value *v, int axis, int64_t gates, int64_t H,
                      struct pare_ties *t)
{
    const struct pare_digit digit[2] = { { NULL, -1, gates }, { NULL, 0, H } };

    pare_tie_digits(t, v, axis, digit, 2);
}

/* States are virtual axis 0 of the node, inputs are axes of X and W.  Directions are frozen, and
 * steps, since each depends on the one before. */
void pare_rnn_ties(const struct pare_node *n, const struct pare_rnn_cell *cell, struct pare_ties *t)
{
    const struct pare_rnn *a = n->attr;
    const struct pare_value *x = n->in[0], *w = n->in[1], *r = n->in[2];
    int64_t H = r->t.dim[2], G = cell->gates;
    int batch = a->layout ? 0 : 1; /* of X, and of states without steps */

    pare_tie(t, x, 2, w, 2);
    tie_gates(w, 1, G, H, t);
    tie_gates(r, 1, G, H, t);
    tie_gates(r, 2, 1, H, t);
    if (n->n_in > 3)
        tie_gates(n->in[3], 1, 2 * G, H, t);
    if (n->n_in > 4)
        pare_tie(t, n->in[4], 0, x, batch);
    for (int i = 5; i < n->n_in && i < 7; i++) {
        pare_tie(t, n->in[i], batch, x, batch);
        tie_gates(n->in[i], 2, 1, H, t);
    }
    if (n->n_in > 7 && n->in[7])
        tie_gates(n->in[7], 1, n->in[7]->t.dim[1] / H, H, t);
    pare_tie(t, n->out[0], a->layout ? 0 : 2, x, batch);
    tie_gates(n->out[0], 3, 1, H, t);
    for (int i = 1; i < n->n_out; i++) {
        pare_tie(t, n->out[i], batch, x, batch);
        tie_gates(n->out[i], 2, 1, H, t);
    }
}
