/* input_grams.c - Gram matrices of the inputs of wrapped layers, in parts that fit in memory. */
#include "input_grams.h"

#include <math.h>
#include <string.h>

#include "../backend/gemm/cholesky.h"
#include "../base/arena.h"
#include "../op/channels.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

#define WAVE_BYTES 768e6 /* Grams of a part of the layers */
#define FLOPS 2e10       /* multiplications per Gram */
#define PASSES 24        /* over the data, with in_order */
#define ENOUGH 10.0      /* positions per input; with fewer, damping grows */
#define CONSTANT 1e-12   /* power of an input that is dead, relative to the largest */

/* ---- layers ---------------------------------------------------------------------------------- */

static bool is_read_once(const struct pare_graph *g, const struct pare_value *weight)
{
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            n += g->node[i]->in[k] && pare_value_root(g->node[i]->in[k]) == weight &&
                 !pare_node_known(g->node[i]);
    return n == 1;
}

/* Does a bias, or a batch normalization that reads nothing else, take a shift of the outputs? */
static bool takes_means(const struct pare_layer *l)
{
    const struct pare_graph *g = l->compression->graph;
    const struct pare_node *next = NULL;
    int n = 0;

    if (l->bias)
        return true;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == l->info.out) {
                n++;
                next = g->node[i];
            }
    for (int i = 0; i < g->n_out; i++)
        n += g->out[i] == l->info.out;
    return n == 1 && next && pare_node_is(next, &pare_op_batch_normalization);
}

bool pare_input_gram_of(struct pare_layer *l, struct pare_input_gram *m)
{
    *m = (struct pare_input_gram){ .l = l };
    if (!l->weight || l->is_second || l->out_axis < 0 || l->in_axis < 0 ||
        !pare_gram_of(&l->info, &m->gram) ||
        pare_numel(&l->w) != m->gram.groups * m->gram.rows * m->gram.k ||
        (l->w.rank > 2 && (l->out_axis != 0 || l->in_axis != 1)))
        return false;
    m->row = l->out_axis == 0 ? m->gram.k : 1;
    m->column = l->out_axis == 0 ? 1 : m->gram.rows;
    m->centered = takes_means(l);
    return true;
}

int pare_input_gram_check(struct pare_layer *l, struct pare_err *err)
{
    const struct pare_compression *c = l->compression;
    struct pare_input_gram m;

    if (l->info.body)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "it is in a body of a node, where inputs are not observed; pruners "
                         "that look at weights only, such as l1, prune it");
    if (!pare_input_gram_of(l, &m))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "it is not a convolution, or product with a matrix, of float32 inputs");
    if (!is_read_once(c->graph, pare_value_root(l->info.weight)))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "several nodes use its weight '%s', and their inputs differ; pruners "
                         "that look at weights only, such as l1, prune it",
                         pare_value_root(l->info.weight)->name);
    return 0;
}

int pare_input_grams_collect(const struct pare_input_grams *s, struct pare_input_gram *m, int n,
                             struct pare_arena *a, struct pare_err *err)
{
    struct pare_compression *c = s->c;
    struct pare_gram *g = pare_alloc(a, (size_t)n + 1, sizeof(*g));
    struct pare_gram_source source = { .model = c->model,
                                       .data = c->data,
                                       .items = s->items,
                                       .flops = FLOPS,
                                       .diagonal = s->diagonal,
                                       .dist = c->dist,
                                       .threads = c->threads,
                                       .progress = c->progress,
                                       .user = c->progress_user };

    if (!g)
        return pare_no_memory(err, "for statistics of inputs");
    if (!c->data)
        return pare_fail(err, PARE_ECONFIG,
                         "pruner %s needs data for statistics of inputs: use --data",
                         c->algorithm[c->current]->name);
    for (int i = 0; i < n; i++)
        g[i] = m[i].gram;
    PARE_TRY(pare_grams_collect(&source, a, g, n, err));
    for (int i = 0; i < n; i++)
        m[i].gram = g[i];
    return 0;
}

static int each_of_wave(const struct pare_input_grams *s, struct pare_input_gram *m, int n,
                        struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 20);
    int rc = a ? pare_input_grams_collect(s, m, n, a, err)
               : pare_no_memory(err, "for statistics of inputs");

    for (int i = 0; i < n && !rc; i++)
        rc = pare_at(err, s->each(&m[i], s->user, err), "layer '%s'", m[i].l->info.name);
    pare_arena_free(a);
    return rc;
}

int pare_input_grams(const struct pare_input_grams *s, struct pare_err *err)
{
    struct pare_compression *c = s->c;
    int all = pare_compression_layers(c), n = 0, most;
    struct pare_input_gram *m = pare_alloc(c->scratch, (size_t)all + 1, sizeof(*m));

    if (!m)
        return pare_no_memory(err, "for statistics of inputs");
    for (int i = 0; i < all; i++)
        if ((!s->due || c->layer[i].prune->due) && pare_input_gram_of(&c->layer[i], &m[n]))
            n++;
    most = s->in_order ? (n + PASSES - 1) / PASSES : n;
    for (int from = 0, to; from < n; from = to) {
        double bytes = 0;

        for (to = from; to < n && to - from < most; to++) {
            bytes += s->diagonal ? 0 : (double)pare_gram_bytes(&m[to].gram, false);
            if (to > from && bytes > WAVE_BYTES)
                break;
        }
        PARE_TRY(each_of_wave(s, m + from, to - from, err));
        if (s->in_order)
            PARE_TRY(pare_compression_write_weights(c, err));
    }
    return 0;
}

/* ---- one group of a layer -------------------------------------------------------------------- */

static void take_weight(const struct pare_input_gram *m, int64_t g, struct pare_hessian *h)
{
    const float *w = pare_f32(&m->l->w);
    const uint8_t *mask = m->l->mask.data;

    for (int64_t r = 0; r < h->rows; r++)
        for (int64_t c = 0; c < h->k; c++) {
            int64_t at = (g * h->rows + r) * m->row + c * m->column;

            h->w[r * h->k + c] = (mask && !mask[at]) || h->dead[c] ? 0 : (double)w[at];
        }
}

/* G, centered; dead inputs; the mean of the diagonal, or 0 if it is not finite. */
static double take_gram(const struct pare_input_gram *m, int64_t g, struct pare_hessian *h)
{
    const int64_t k = h->k;
    const double *x = m->gram.g + g * k * k, *mean = m->gram.mean + g * k;
    double most = 0, sum = 0;

    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++)
            h->h[i * k + j] = x[i * k + j] - (m->centered ? mean[i] * mean[j] : 0);
    for (int64_t i = 0; i < k; i++)
        most = fmax(most, x[i * k + i]);
    for (int64_t i = 0; i < k; i++) {
        h->dead[i] = !(h->h[i * k + i] > CONSTANT * most);
        sum += h->dead[i] ? 0 : h->h[i * k + i];
        for (int64_t j = 0; j < k && h->dead[i]; j++)
            h->h[i * k + j] = h->h[j * k + i] = 0;
    }
    return sum / (double)k;
}

static void measure_outputs(struct pare_hessian *h)
{
    for (int64_t r = 0; r < h->rows; r++) {
        const double *w = h->w + r * h->k;

        h->output[r] = 0;
        for (int64_t i = 0; i < h->k; i++) {
            double sum = 0;

            for (int64_t j = 0; j < h->k; j++)
                sum += h->h[i * h->k + j] * w[j];
            h->output[r] += w[i] * sum;
        }
    }
}

int pare_hessian(const struct pare_input_gram *m, int64_t g, double damping, struct pare_arena *a,
                 struct pare_hessian *h, struct pare_err *err)
{
    const int64_t rows = m->gram.rows, k = m->gram.k;
    double scarce = m->gram.n > 0 ? ENOUGH * (double)k / m->gram.n : 1, mean;
    bool conv = m->l->info.node->op->layer.kind == PARE_LAYER_CONV;

    *h = (struct pare_hessian){ .rows = rows, .k = k };
    h->w = pare_alloc_raw(a, (size_t)(rows * k) + 1, sizeof(*h->w));
    h->h = pare_alloc_raw(a, (size_t)(k * k) + 1, sizeof(*h->h));
    h->dead = pare_alloc(a, (size_t)k + 1, sizeof(*h->dead));
    h->output = pare_alloc(a, (size_t)rows + 1, sizeof(*h->output));
    if (!h->w || !h->h || !h->dead || !h->output)
        return pare_no_memory(err, "for statistics of inputs");
    mean = take_gram(m, g, h);
    if (!(mean >= 0 && mean < 1e300))
        return pare_fail(err, PARE_EFORMAT,
                         "its inputs are not finite for the data: check the model with pare eval");
    take_weight(m, g, h);
    measure_outputs(h);
    damping = damping >= 0 ? damping : conv ? 1e-3 : 1e-2;
    damping *= scarce > 1 ? scarce * scarce : 1;
    for (int64_t i = 0; i < k; i++)
        h->h[i * k + i] += h->dead[i] ? (mean > 0 ? mean : 1) : damping * mean;
    return 0;
}

/* to = inverse(l l'); to is (k, k), room too. */
static void inverse_of(const double *l, int64_t k, double *room, double *to, int threads)
{
    pare_lower_inverse(l, k, room, threads);
    memset(to, 0, (size_t)(k * k) * sizeof(*to));
    pare_dgemm(&(struct pare_dgemm){ .a = { room, NULL, k, 1 },
                                     .b = { room, NULL, 1, k },
                                     .c = to,
                                     .m = k,
                                     .n = k,
                                     .k = k,
                                     .ldc = k,
                                     .sign = 1,
                                     .lower = true,
                                     .threads = threads });
    pare_mirror_lower(to, k);
}

int pare_hessian_invert(struct pare_hessian *h, double *u, int threads, int *raised,
                        struct pare_arena *a, struct pare_err *err)
{
    const int64_t k = h->k;
    struct pare_mark mark = pare_mark(a);
    double *room[2] = { pare_alloc_raw(a, (size_t)(k * k) + 1, sizeof(double)),
                        pare_alloc_raw(a, (size_t)(k * k) + 1, sizeof(double)) };
    double mean = 0, more = 1e-4;
    bool done = false;

    if (!room[0] || !room[1])
        return pare_no_memory(err, "for statistics of inputs");
    for (int64_t i = 0; i < k; i++)
        mean += h->h[i * k + i] / (double)k;
    for (; more <= 1.5 && !done; more *= 10) {
        memcpy(room[0], h->h, (size_t)(k * k) * sizeof(double));
        done = u ? pare_inverse_factor(room[0], k, u, threads) : pare_cholesky(room[0], k, threads);
        for (int64_t i = 0; i < k && !done; i++)
            h->h[i * k + i] += more * mean;
        *raised += !done;
    }
    if (done && !u)
        inverse_of(room[0], k, room[1], h->h, threads);
    pare_rewind(a, mark);
    return done
               ? 0
               : pare_fail(err, PARE_EFORMAT,
                           "the second moments of its inputs are not finite, so its weights cannot "
                           "be ranked");
}
