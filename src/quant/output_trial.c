/* output_trial.c - compare the outputs of the quantized model with those of the float model on
 * calibration data: recorder nodes, error and cosine. */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "quant_check.h"

#define MOST 4194304 /* elements of an output that are kept */

/* State of a recorder node, which is the node's attribute. */
struct recorder {
    struct recorder *self; /* a mutable pointer to itself: node attributes are const */
    struct pare_arena *a;
    float *kept; /* (n of room) elements of the float model's output */
    int64_t n, at, room;
    bool second;                     /* compares instead of recording */
    double signal, noise, dot, norm; /* of float x and quantized y: x^2, (x - y)^2, x y, y^2 */
};

struct pare_output_trial {
    struct pare_compression *c;
    struct pare_arena *a;
    struct recorder *r;
    int n;
};

/* ---- the node -------------------------------------------------------------------------------- */

static int keep(struct recorder *r, const float *x, int64_t n, struct pare_err *err)
{
    if (n < 1)
        return 0;
    if (r->n + n > r->room) { /* the length of an output may depend on the data */
        int64_t room = 2 * r->room > r->n + n ? 2 * r->room : r->n + n;
        float *more = pare_alloc_raw(r->a, (size_t)room, sizeof(*more));

        if (!more)
            return pare_no_memory(err, "to keep outputs");
        if (r->n)
            memcpy(more, r->kept, (size_t)r->n * sizeof(*more));
        r->kept = more;
        r->room = room;
    }
    memcpy(r->kept + r->n, x, (size_t)n * sizeof(*x));
    r->n += n;
    return 0;
}

static void compare(struct recorder *r, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double u = (double)r->kept[r->at + i], v = (double)y[i];

        if (!isfinite(u) || !isfinite(v))
            continue;
        r->signal += u * u;
        r->noise += (u - v) * (u - v);
        r->dot += u * v;
        r->norm += v * v;
    }
    r->at += n;
}

static int record(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct recorder *r = ((const struct recorder *)n->attr)->self;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t all = pare_numel(x), left = r->second ? r->n - r->at : MOST - r->n;
    int64_t part = all < left ? all : left;

    (void)c;
    memcpy(n->out[0]->t.data, x->data, (size_t)all * sizeof(float));
    if (r->second)
        compare(r, pare_f32(x), part);
    return r->second ? 0 : keep(r, pare_f32(x), part, err);
}

/* Not in ops.def: it is never written to a file. */
static const struct pare_op recorder_op = {
    .type = "OutputRecorder",
    .doc = "Records an output of the model to compare it.",
    .domain = "ai.pare",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_RANDOM,
    .infer = pare_infer_same,
    .forward = record,
};

/* ---- inserting and removing nodes ------------------------------------------------------------ */

/* The name may exist from an earlier trial. */
static int insert(struct pare_graph *g, struct recorder *r, struct pare_value *from,
                  struct pare_err *err)
{
    const char *name = pare_sprintf(g->arena, "%s:recorded", from->name);
    struct pare_value *to = name ? pare_graph_value(g, name, err) : NULL;
    struct pare_node *n = to ? pare_graph_add(g, 1, 1, err) : NULL;

    if (!n)
        return pare_no_memory(err, "to compare outputs");
    n->op = &recorder_op;
    n->name = name;
    n->type = recorder_op.type;
    n->domain = recorder_op.domain;
    n->version = 1;
    n->attr = r;
    n->in[0] = from;
    n->out[0] = to;
    to->maker = n;
    pare_graph_redirect(g, from, to);
    return 0;
}

static void remove_recorders(struct pare_graph *g)
{
    int kept = 0;

    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i]->op == &recorder_op)
            pare_graph_redirect(g, g->node[i]->out[0], g->node[i]->in[0]);
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i]->op != &recorder_op) {
            g->node[kept] = g->node[i];
            g->node[kept]->id = kept;
            kept++;
        }
    g->n_nodes = kept;
}

static int insert_all(struct pare_output_trial *t, struct pare_err *err)
{
    struct pare_graph *g = t->c->model->graph;
    const struct pare_io *io;
    int n = pare_model_outputs(t->c->model, &io);

    t->r = pare_alloc(t->a, (size_t)n + 1, sizeof(*t->r));
    if (!t->r)
        return pare_no_memory(err, "to compare outputs");
    for (int i = 0; i < n && i < g->n_out; i++) {
        struct recorder *r = &t->r[t->n];

        if (io[i].dtype != PARE_F32 || !g->out[i]->maker || g->out[i]->maker->op == &recorder_op)
            continue;
        *r = (struct recorder){ .self = r, .a = t->a };
        PARE_TRY(insert(g, r, g->out[i], err));
        t->n++;
    }
    return pare_graph_order(g, err);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* A forward pass with all quantization points disabled. */
static int run_float(struct pare_output_trial *t, bool own_weights, struct pare_err *err)
{
    struct pare_compression *c = t->c;
    bool(*was)[PARE_QUANT_SITES] = pare_alloc(t->a, (size_t)c->n_layers, sizeof(*was));
    int rc = 0;

    if (!was)
        return pare_no_memory(err, "to compare outputs");
    for (int i = 0; i < c->n_layers; i++) {
        memcpy(was[i], c->layer[i].quant->quantized, PARE_QUANT_SITES * sizeof(bool));
        memset(c->layer[i].quant->quantized, 0, PARE_QUANT_SITES * sizeof(bool));
    }
    if (own_weights)
        rc = pare_compression_write_weights(c, err);
    if (!rc)
        rc = pare_compression_forward(c, PARE_CHECK_BATCHES, err);
    for (int i = 0; i < c->n_layers; i++)
        memcpy(c->layer[i].quant->quantized, was[i], PARE_QUANT_SITES * sizeof(bool));
    return !rc && own_weights ? pare_compression_write_weights(c, err) : rc;
}

int pare_output_trial_begin(struct pare_compression *c, bool own_weights,
                            struct pare_output_trial **trial, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_output_trial *t = a ? pare_alloc(a, 1, sizeof(*t)) : NULL;
    int rc;

    *trial = NULL;
    if (!t) {
        pare_arena_free(a);
        return pare_no_memory(err, "to compare outputs");
    }
    *t = (struct pare_output_trial){ .c = c, .a = a };
    rc = insert_all(t, err);
    if (!rc && t->n)
        rc = run_float(t, own_weights, err);
    if (rc || !t->n)
        pare_output_trial_end(t);
    else
        *trial = t;
    return rc;
}

int pare_output_trial_run(struct pare_output_trial *t, struct pare_output_error *e,
                          struct pare_err *err)
{
    double noise = 0, cosine = 0;

    for (int i = 0; i < t->n; i++) {
        struct recorder *r = &t->r[i];

        r->second = true;
        r->at = 0;
        r->signal = r->noise = r->dot = r->norm = 0;
    }
    PARE_TRY(pare_compression_forward(t->c, PARE_CHECK_BATCHES, err));
    for (int i = 0; i < t->n; i++) {
        const struct recorder *r = &t->r[i];
        double v[] = { r->signal, r->noise, r->dot, r->norm };

        PARE_TRY(pare_dist_merge(t->c->dist, PARE_MERGE_SUM, PARE_F64, v, 4, err));
        noise += v[0] > 0 ? v[1] / v[0] : v[1] > 0;
        cosine += v[0] > 0 && v[3] > 0 ? v[2] / sqrt(v[0] * v[3]) : v[0] == v[3];
    }
    *e = (struct pare_output_error){ noise / t->n, cosine / t->n };
    return 0;
}

void pare_output_trial_end(struct pare_output_trial *t)
{
    if (!t)
        return;
    remove_recorders(t->c->model->graph);
    pare_arena_free(t->a);
}
