/* rnn_steps.c - the steps of LSTM, GRU and RNN with packed weights, on several threads. */
#include "rnn_int8.h"

#include <omp.h>
#include <string.h>

#define GROUP 96 /* rows of a product at a time, if its weights fit in the cache */
#define CACHE_BYTES (640 << 10)
#define LEAST_MACS (256 << 10) /* of a run that starts threads */
#define LEAST_SHARE (64 << 10) /* of a thread between two barriers */
#define MANY_MACS (1 << 20)    /* of a product with W that all threads share */

size_t pare_packed_rnn_work(const struct pare_packed_rnn *c, void *memory, struct pare_rnn_pass *p)
{
    const struct pare_rnn_run *s = &c->s;
    size_t states = (size_t)(s->D * s->B * c->units * c->block);
    struct pare_rnn_pass none, *q = p ? p : &none;
    const struct {
        float **at;
        size_t n;
    } part[] = {
        { &q->sum, (size_t)(s->T * s->B * s->D * c->columns) },
        { &q->r, (size_t)(s->D * s->B * c->columns) },
        { &q->h[0], states },
        { &q->h[1], states },
        { &q->state, s->G == 4 ? states : 0 },
        { &q->update, c->phases > 1 ? states : 0 },
        { &q->reset, c->phases > 1 ? states : 0 },
        { &q->rounded, s->cell->round
                           ? (size_t)(s->B * (s->T * s->I + s->D * s->H) + 2 * s->D * c->columns)
                           : 0 },
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++) {
        if (p)
            *part[i].at = (float *)memory + n;
        n += part[i].n;
    }
    n += n % 2; /* of 8 bytes each */
    if (p)
        p->len = (int64_t *)((float *)memory + n);
    if (p && !s->cell->round)
        p->rounded = NULL;
    return n * sizeof(float) + (size_t)s->B * sizeof(int64_t);
}

/* The share of a thread: sequences [from, to) and blocks of units [first, end) of direction d. */
struct share {
    int64_t d, from, to, first, end;
    bool wait; /* other threads compute other units of the same sequences */
};

static int64_t states_at(const struct pare_packed_rnn *c, int64_t d, int64_t b)
{
    return (d * c->s.B + b) * c->units * c->block;
}

/* ---- one share ------------------------------------------------------------------------------- */

/* x W' and biases of the units of a share, for all of its sequences. */
static void multiply_inputs(const struct pare_rnn_pass *p, const struct share *a)
{
    const struct pare_packed_rnn *c = p->c;
    const struct pare_rnn_run *s = &c->s;
    int64_t first = (a->d * c->units + a->first) * s->G, rows = s->T * s->B, group = rows;
    struct pare_packed_gemm g = pare_packed_gemm_matrix(rows, s->I, s->D * c->columns, c->block);

    if (c->int8) {
        if (a->first < a->end)
            pare_rnn_int8_inputs(p, a->d);
        return;
    }
    g.blocks = (a->end - a->first) * s->G;
    g.w = c->w + first * c->block * s->I;
    g.bias = c->bias + first * c->block;
    if (g.blocks * c->block * s->I * (int64_t)sizeof(float) <= CACHE_BYTES)
        group = GROUP;
    for (int64_t from = 0; from < rows; from += group) {
        g.rows = rows - from < group ? rows - from : group;
        g.x = p->x + from * s->I;
        g.y = p->sum + from * g.y_row + first * c->block;
        pare_packed_gemm_run(&g);
    }
}

const float *pare_packed_rnn_round(const struct pare_rnn_pass *p, const float *x)
{
    const struct pare_rnn_run *s = &p->c->s;
    int64_t n = s->T * s->B * s->I;

    memcpy(p->rounded, x, (size_t)n * sizeof(float));
    s->cell->round(p->rounded, n);
    return p->rounded;
}

/* The states of all sequences of a direction, rounded, (B, H). */
static const float *round_states(const struct pare_rnn_pass *p, int64_t d, const float *h)
{
    const struct pare_packed_rnn *c = p->c;
    const struct pare_rnn_run *s = &c->s;
    float *to = p->rounded + s->B * (s->T * s->I + d * s->H);

    for (int64_t b = 0; b < s->B; b++)
        memcpy(to + b * s->H, h + states_at(c, d, b), (size_t)s->H * sizeof(float));
    s->cell->round(to, s->B * s->H);
    return to;
}

static void multiply_states(const struct pare_rnn_pass *p, const struct share *a, int k,
                            const float *h)
{
    const struct pare_packed_rnn *c = p->c;
    int64_t first = a->first * c->phase[k].gates * c->block;
    struct pare_packed_gemm g = pare_packed_gemm_matrix(a->to - a->from, c->s.H, c->columns,
                                                        c->block);

    if (c->int8) {
        if (a->first < a->end)
            pare_rnn_int8_states(p, a->d, h);
        return;
    }
    g.x = h + states_at(c, a->d, a->from);
    g.x_row = c->units * c->block;
    if (p->rounded) {
        g.x = round_states(p, a->d, h);
        g.x_row = c->s.H;
    }
    g.w = c->phase[k].r[a->d] + first * c->s.H;
    g.bias = c->r_bias ? c->r_bias + a->d * c->columns + first : NULL;
    g.y = p->r + (a->d * c->s.B + a->from) * c->columns + first;
    g.blocks = (a->end - a->first) * c->phase[k].gates;
    pare_packed_gemm_run(&g);
}

/* Units of the share in one state of H floats: from the first on, n of them. */
static int64_t first_unit(const struct pare_packed_rnn *c, const struct share *a, int64_t *n)
{
    int64_t first = a->first * c->block, end = a->end * c->block;

    *n = (end < c->s.H ? end : c->s.H) - first;
    return first;
}

static void load_states(const struct pare_rnn_pass *p, const struct share *a)
{
    const struct pare_packed_rnn *c = p->c;
    int64_t n, first = first_unit(c, a, &n);

    for (int64_t b = a->from; b < a->to; b++)
        for (int i = 0; i < 2; i++) {
            const float *from = i ? p->c0 : p->h0;
            float *to = (i ? p->state : p->h[0]) + states_at(c, a->d, b) + first;

            if (i && c->s.G != 4)
                continue;
            memset(to, 0, (size_t)((a->end - a->first) * c->block) * sizeof(float));
            if (from)
                memcpy(to, from + pare_rnn_state_at(&c->s, a->d, b) + first,
                       (size_t)n * sizeof(float));
        }
}

static void store_states(const struct pare_rnn_pass *p, const struct share *a)
{
    const struct pare_packed_rnn *c = p->c;
    int64_t n, first = first_unit(c, a, &n);

    for (int64_t b = a->from; b < a->to; b++)
        for (int i = 1; i < 3; i++)
            if (p->y[i])
                memcpy(p->y[i] + pare_rnn_state_at(&c->s, a->d, b) + first,
                       (i == 1 ? p->h[c->s.T & 1] : p->state) + states_at(c, a->d, b) + first,
                       (size_t)n * sizeof(float));
}

/* Write h, or zeros after the end of a short sequence, to Y. */
static void store_step(const struct pare_rnn_pass *p, const struct share *a, int64_t t, int64_t b,
                       const float *h)
{
    int64_t n, first = first_unit(p->c, a, &n);
    float *y = p->y[0];

    if (!y)
        return;
    y += pare_rnn_step_at(&p->c->s, a->d, t, b) + first;
    if (h)
        memcpy(y, h, (size_t)n * sizeof(float));
    else
        memset(y, 0, (size_t)n * sizeof(float));
}

/* The cell of phase k for one sequence; the last phase stores the new state. */
static void one_cell(const struct pare_rnn_pass *p, const struct share *a, int k, int64_t step,
                     int64_t b)
{
    const struct pare_packed_rnn *c = p->c;
    const bool done = step >= p->len[b];
    int64_t t = !done && pare_rnn_reversed(c->s.n, a->d) ? p->len[b] - 1 - step : step;
    int64_t at = states_at(c, a->d, b) + a->first * c->block;
    struct pare_rnn_units u = {
        .x = p->sum + (pare_rnn_row_at(&c->s, t, b) * c->s.D + a->d) * c->columns +
             a->first * c->s.G * c->block,
        .r = p->r + (a->d * c->s.B + b) * c->columns + a->first * c->phase[k].gates * c->block,
        .h = p->h[step & 1] + at,
        .next = p->h[!(step & 1)] + at,
        .c = p->state + at,
        .update = p->update + at,
        .reset = p->reset + at,
        .p = c->peepholes ? c->peepholes + (a->d * c->units + a->first) * 3 * c->block : NULL,
        .blocks = a->end - a->first,
        .block = c->block,
        .act = c->s.act + a->d * c->s.cell->n_act,
    };

    u.clip = u.act[0].clip > 0 ? u.act[0].clip : INFINITY;
    u.tied = ((const struct pare_rnn *)c->s.n->attr)->input_forget != 0;
    if (!done)
        c->phase[k].cell(&u);
    else
        memcpy(u.next, u.h, (size_t)(u.blocks * c->block) * sizeof(float));
    if (k == c->phases - 1)
        store_step(p, a, t, b, done ? NULL : u.next);
}

static void all_steps(const struct pare_rnn_pass *p, const struct share *a)
{
    const struct pare_packed_rnn *c = p->c;

    load_states(p, a);
    for (int64_t step = 0; step < c->s.T; step++)
        for (int k = 0; k < c->phases; k++) {
            if (a->wait) {
#pragma omp barrier
            }
            multiply_states(p, a, k, k ? p->reset : p->h[step & 1]);
            for (int64_t b = a->from; b < a->to; b++)
                one_cell(p, a, k, step, b);
        }
    store_states(p, a);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Threads of one direction divide its sequences if each gets two or more, else its units. */
static bool by_sequences(const struct pare_packed_rnn *c, int64_t threads)
{
    return c->s.B >= 2 * threads;
}

/* Threads for the steps. */
static int team(const struct pare_packed_rnn *c, int threads)
{
    const struct pare_rnn_run *s = &c->s;
    int64_t macs = s->B * s->H * c->columns; /* of a step of one direction */
    int64_t each = threads / s->D;

    if (threads < 2 || macs * s->T * s->D < LEAST_MACS)
        return 1;
    if (s->cell->round) /* by the range of all states of a direction */
        return (int)s->D;
    if (each > 1 && !by_sequences(c, each)) {
        int64_t most = macs / LEAST_SHARE;

        most = most < c->units / 2 ? most : c->units / 2;
        each = each < most ? each : most;
    }
    return (int)((each < 1 ? 1 : each) * s->D);
}

/* The share of thread i, of which `each` run one direction; with each 0, one thread runs all.
 * Shares begin at panels of two blocks.  Threads beyond the last direction only wait. */
static struct share share_of(const struct pare_packed_rnn *c, int64_t i, int64_t each)
{
    const int64_t B = c->s.B, pairs = (c->units + 1) / 2, k = each > 1 ? i % each : 0;
    struct share a = { .d = each > 1 ? i / each : i, .to = B, .end = c->units };

    if (each > 1 && by_sequences(c, each)) {
        a.from = B * k / each;
        a.to = B * (k + 1) / each;
    } else if (each > 1) {
        a.first = pairs * k / each * 2;
        a.end = k + 1 < each ? pairs * (k + 1) / each * 2 : c->units;
        a.wait = true;
    }
    if (a.d >= c->s.D)
        a = (struct share){ .wait = a.wait };
    return a;
}

/* The steps, with `inputs` also the product with W. */
static void run_shares(const struct pare_rnn_pass *p, int threads, bool inputs)
{
    const int64_t D = p->c->s.D;

#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        int64_t n = omp_get_num_threads(), i = omp_get_thread_num();

        for (int64_t d = i; d < (n < D ? D : i + 1); d += n) {
            struct share a = share_of(p->c, d, n / D);

            if (inputs)
                multiply_inputs(p, &a);
            all_steps(p, &a);
        }
    }
}

void pare_packed_rnn_run(const struct pare_rnn_pass *p, struct pare_backend *b)
{
    const struct pare_packed_rnn *c = p->c;
    const struct pare_rnn_run *s = &c->s;
    const int threads = team(c, b->threads);
    const bool divided = threads > s->D && by_sequences(c, threads / s->D);
    struct pare_packed_gemm g = pare_packed_gemm_matrix(s->T * s->B, s->I, s->D * c->columns,
                                                        c->block);

    if (c->int8 || (!divided && g.rows * s->I * g.y_row <= MANY_MACS)) {
        run_shares(p, threads, true);
        return;
    }
    g.x = p->x;
    g.w = c->w;
    g.bias = c->bias;
    g.y = p->sum;
    pare_packed_gemm_multiply(b, &g, NULL, NULL);
    run_shares(p, threads, false);
}
