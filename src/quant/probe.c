/* probe.c - probes: temporary nodes that see a value of the graph, and forward passes of the
 * float model for comparison. */
#include "probe.h"

#include <string.h>

#include "../base/arena.h"
#include "../graph/passing_node.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

/* ---- the node -------------------------------------------------------------------------------- */

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_probe *p = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    float *y = pare_f32_mut(&n->out[0]->t);

    (void)c;
    memcpy(y, x->data, (size_t)pare_numel(x) * sizeof(*y));
    return p->see(p->user, x, y, err);
}

/* Not in ops.def: it is never written to a file. */
static const struct pare_op probe_op = {
    .type = "Probe",
    .doc = "Sees a value while a model is quantized.",
    .domain = "ai.pare",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_RANDOM, /* not folded, not shared, not run in parts */
    .infer = pare_infer_same,
    .forward = forward,
};

int pare_probe_insert(struct pare_graph *g, struct pare_probe *p, struct pare_value *from,
                      struct pare_err *err)
{
    return pare_passing_node_insert(g, &probe_op, p, from, p->name, err);
}

void pare_probes_remove(struct pare_graph *g)
{
    pare_passing_nodes_remove(g, &probe_op);
}

/* ---- the float model ------------------------------------------------------------------------- */

/* Exchanges the biases before and after their correction, unless they were trained since. */
static void swap_biases(struct pare_compression *r)
{
    for (int i = 0; i < r->n_layers && pare_compression_steps(r) == 0; i++) {
        struct pare_tensor *now = &r->layer[i].b, *before = &r->layer[i].quant->b_before;

        for (int64_t c = 0; before->data && c < pare_numel(now); c++) {
            float v = pare_f32(now)[c];

            pare_f32_mut(now)[c] = pare_f32(before)[c];
            pare_f32_mut(before)[c] = v;
        }
    }
}

void pare_quant_disable(struct pare_compression *r, bool (*was)[PARE_QUANT_SITES])
{
    for (int i = 0; i < r->n_layers; i++) {
        memcpy(was[i], r->layer[i].quant->quantized, sizeof(r->layer[i].quant->quantized));
        memset(r->layer[i].quant->quantized, 0, sizeof(r->layer[i].quant->quantized));
    }
}

void pare_quant_enable(struct pare_compression *r, bool (*was)[PARE_QUANT_SITES])
{
    for (int i = 0; i < r->n_layers; i++)
        memcpy(r->layer[i].quant->quantized, was[i], sizeof(r->layer[i].quant->quantized));
}

int pare_float_pass(struct pare_compression *r, int64_t batches, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    bool(*was)[PARE_QUANT_SITES] = a ? pare_alloc(a, (size_t)r->n_layers + 1, sizeof(*was)) : NULL;
    int rc;

    if (!was) {
        pare_arena_free(a);
        return pare_no_memory(err, "to compare values");
    }
    pare_quant_disable(r, was);
    swap_biases(r);
    rc = pare_compression_write_weights(r, err);
    if (!rc)
        rc = pare_compression_forward_once(r, batches, err);
    swap_biases(r);
    pare_quant_enable(r, was);
    pare_arena_free(a);
    return rc ? rc : pare_compression_write_weights(r, err);
}
