/* bias_correct.c - empirical bias correction: cancel the mean output error of quantized weights.
 *
 * For each output channel of a layer with quantized weights
 *     b' = b + E[y] - E[y'],    y of the float model, y' of the quantized model
 * over batches of data (Nagel et al. 2019).  A temporary node after each such layer records the
 * means: first in the float model, then in the quantized one.  In the second pass it also adds the
 * difference, so that later layers see corrected inputs, as if the layers had been corrected one
 * after the other.  Two passes are enough for all layers.
 */
#include "bias_correct.h"

#include <string.h>

#include "../base/arena.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

/* State of one layer's corrector node, which is the node's attribute. */
struct corrector {
    struct corrector *self; /* a mutable pointer to itself: node attributes are const */
    struct pare_layer *l;
    int axis;
    int64_t n;      /* channels */
    double *sum;    /* (n) channel means of a batch, then their differences */
    float *mean;    /* (batches, n) channel means of the float model */
    double *all;    /* (n) sum of the differences over batches */
    int64_t at;     /* batches seen in this pass */
    bool second;    /* second pass: the model is quantized */
    int64_t budget; /* batches per pass */
};

/* ---- the node -------------------------------------------------------------------------------- */

/* x is (outer, n, inner): s->sum = the channel means over all processes' parts of the batch. */
static int channel_means(const struct corrector *s, const struct pare_tensor *x, int64_t inner,
                         struct pare_err *err)
{
    int64_t rows = pare_numel(x) / inner;
    const float *v = pare_f32(x);

    memset(s->sum, 0, (size_t)s->n * sizeof(*s->sum));
    for (int64_t i = 0; i < rows; i++, v += inner) {
        double sum = 0;

        for (int64_t k = 0; k < inner; k++)
            sum += (double)v[k];
        s->sum[i % s->n] += sum;
    }
    PARE_TRY(
        pare_compression_merge(s->l->compression, PARE_MERGE_SUM, PARE_F64, s->sum, s->n, err));
    for (int64_t c = 0; c < s->n; c++) {
        int64_t each = pare_numel(x) / s->n;

        s->sum[c] /= (double)each / pare_compression_share(s->l->compression);
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct corrector *s = ((const struct corrector *)n->attr)->self;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t inner = 1;
    float *y = pare_f32(&n->out[0]->t);

    (void)c;
    for (int i = s->axis + 1; i < x->rank; i++)
        inner *= x->dim[i];
    if (s->axis >= x->rank || x->dim[s->axis] != s->n || s->at >= s->budget || !pare_numel(x))
        return pare_fail(err, PARE_ESHAPE,
                         "the output of layer '%s' does not have the channels of its bias",
                         s->l->info.name);
    PARE_TRY(channel_means(s, x, inner, err));
    memcpy(y, x->data, (size_t)pare_numel(x) * sizeof(*y));
    for (int64_t k = 0; k < s->n; k++) {
        float *mean = &s->mean[s->at * s->n + k];

        if (!s->second)
            *mean = (float)s->sum[k];
        s->sum[k] = (double)*mean - s->sum[k];
        if (s->second)
            s->all[k] += s->sum[k];
    }
    s->at++;
    for (int64_t i = 0; s->second && i < pare_numel(x) / inner; i++)
        for (int64_t k = 0; k < inner; k++)
            y[i * inner + k] += (float)s->sum[i % s->n];
    return 0;
}

/* Not in ops.def: it is never written to a file. */
static const struct pare_op corrector_op = {
    .type = "BiasCorrector",
    .doc = "Records the mean of a layer's output during bias correction.",
    .domain = "ai.pare",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_RANDOM,
    .infer = pare_infer_same,
    .forward = forward,
};

/* ---- inserting and removing nodes ------------------------------------------------------------ */

/* The name may exist from an earlier correction. */
static int insert_corrector(struct pare_compression *r, struct corrector *s, struct pare_err *err)
{
    struct pare_graph *g = r->model->graph;
    struct pare_value *from = pare_graph_find(g, s->l->info.out->name), *to;
    const char *name = pare_sprintf(g->arena, "%s:mean", s->l->info.name);
    struct pare_node *n;

    to = from && name ? pare_graph_value(g, name, err) : NULL;
    n = to ? pare_graph_add(g, 1, 1, err) : NULL;
    if (!n)
        return pare_no_memory(err, "for bias correction");
    n->op = &corrector_op;
    n->name = name;
    n->type = corrector_op.type;
    n->domain = corrector_op.domain;
    n->version = 1;
    n->attr = s;
    n->in[0] = from;
    n->out[0] = to;
    to->maker = n;
    pare_graph_redirect(g, from, to);
    return 0;
}

static void remove_correctors(struct pare_graph *g)
{
    int kept = 0;

    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (g->node[i]->op == &corrector_op)
            pare_graph_redirect(g, g->node[i]->out[0], g->node[i]->in[0]);
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i]->op != &corrector_op) {
            g->node[kept] = g->node[i];
            g->node[kept]->id = kept;
            kept++;
        }
    g->n_nodes = kept;
}

/* ---- correcting ------------------------------------------------------------------------------ */

/* Does the output have the channels of the bias? */
static bool is_correctable(const struct pare_layer *l, int *axis)
{
    const struct pare_tensor *y = l->info.out ? &l->info.out->t : NULL;

    if (!y || !l->quant->quantized[PARE_WEIGHT] || !l->bias || y->dtype != PARE_F32 || y->rank < 2)
        return false;
    *axis = pare_layer_output_axis(l, y->rank);
    return pare_numel(&l->b) == y->dim[*axis];
}

static int list_correctors(struct pare_compression *r, struct pare_arena *a, int64_t batches,
                           struct corrector **list, int *n, struct pare_err *err)
{
    *n = 0;
    *list = pare_alloc(a, (size_t)r->n_layers + 1, sizeof(**list));
    for (int i = 0; i < r->n_layers && *list; i++) {
        struct corrector *s = *list + *n;

        if (!is_correctable(&r->layer[i], &s->axis))
            continue;
        s->self = s;
        s->l = &r->layer[i];
        s->n = pare_numel(&s->l->b);
        s->budget = batches;
        s->sum = pare_alloc(a, (size_t)s->n, sizeof(*s->sum));
        s->all = pare_alloc(a, (size_t)s->n, sizeof(*s->all));
        s->mean = pare_alloc(a, (size_t)s->n * (size_t)batches, sizeof(*s->mean));
        if (!s->sum || !s->all || !s->mean)
            return pare_no_memory(err, "for bias correction");
        ++*n;
    }
    return *list ? 0 : pare_no_memory(err, "for bias correction");
}

/* The first pass, with all quantization points disabled. */
static int pass_float(struct pare_compression *r, struct pare_arena *a, int64_t batches,
                      struct pare_err *err)
{
    bool(*was)[PARE_QUANT_SITES] = pare_alloc(a, (size_t)r->n_layers, sizeof(*was));
    int rc;

    if (!was)
        return pare_no_memory(err, "for bias correction");
    for (int i = 0; i < r->n_layers; i++) {
        memcpy(was[i], r->layer[i].quant->quantized, PARE_QUANT_SITES * sizeof(bool));
        memset(r->layer[i].quant->quantized, 0, PARE_QUANT_SITES * sizeof(bool));
    }
    rc = pare_compression_write_weights(r, err);
    if (!rc)
        rc = pare_compression_forward(r, batches, err);
    for (int i = 0; i < r->n_layers; i++)
        memcpy(r->layer[i].quant->quantized, was[i], PARE_QUANT_SITES * sizeof(bool));
    return rc;
}

static int run_passes(struct pare_compression *r, struct pare_arena *a, struct corrector *list,
                      int n, struct pare_err *err)
{
    int64_t batches = list[0].budget;

    for (int i = 0; i < n; i++)
        PARE_TRY(insert_corrector(r, &list[i], err));
    PARE_TRY(pare_graph_order(r->model->graph, err));
    PARE_TRY(pass_float(r, a, batches, err));
    for (int i = 0; i < n; i++) {
        list[i].at = 0;
        list[i].second = true;
    }
    PARE_TRY(pare_compression_write_weights(r, err));
    return pare_compression_forward(r, batches, err);
}

static int write_biases(struct pare_compression *r, const struct corrector *list, int n,
                        struct pare_err *err)
{
    for (int i = 0; i < n; i++) {
        const struct corrector *s = &list[i];
        struct pare_layer *l = s->l;
        double seen = (double)s->at;

        PARE_TRY(pare_dist_merge(r->dist, PARE_MERGE_SUM, PARE_F64, s->all, s->n, err));
        PARE_TRY(pare_dist_merge(r->dist, PARE_MERGE_SUM, PARE_F64, &seen, 1, err));
        if (!l->quant->b_before.data) {
            PARE_TRY(
                pare_tensor_new(r->arena, &l->quant->b_before, PARE_F32, l->b.rank, l->b.dim, err));
            memcpy(l->quant->b_before.data, l->b.data, (size_t)s->n * sizeof(float));
        }
        for (int64_t c = 0; c < s->n && seen > 0; c++)
            pare_f32(&l->b)[c] += (float)(s->all[c] / seen);
    }
    return 0;
}

void pare_bias_restore(struct pare_compression *r)
{
    for (int i = 0; i < r->n_layers; i++) {
        struct pare_layer *l = &r->layer[i];

        if (l->quant->b_before.data)
            memcpy(l->b.data, l->quant->b_before.data, (size_t)pare_numel(&l->b) * sizeof(float));
    }
}

int pare_bias_correct(struct pare_compression *r, int64_t batches, struct pare_err *err)
{
    struct pare_arena *a;
    struct corrector *list;
    int n, rc;

    if (!r->data)
        return pare_fail(err, PARE_ECONFIG,
                         "bias_correction needs data: use --data, or call "
                         "pare_compression_follow()");
    a = pare_arena_new(1 << 16);
    if (!a)
        return pare_no_memory(err, "for bias correction");
    pare_bias_restore(r);
    rc = list_correctors(r, a, batches, &list, &n, err);
    if (!rc && n) {
        rc = run_passes(r, a, list, n, err);
        remove_correctors(r->model->graph);
    }
    if (!rc)
        rc = write_biases(r, list, n, err);
    pare_arena_free(a);
    return rc ? pare_at(err, rc, "bias_correction") : pare_compression_write_weights(r, err);
}
