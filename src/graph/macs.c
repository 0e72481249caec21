/* macs.c - parameters and multiply-accumulates, as NNI's counter reports them. */
#include "macs.h"

#include "../tensor/tensor.h"

static bool is_plain(const struct pare_layer_info *l)
{
    return l->weight && l->node->op &&
           (pare_layer_is_product(l) || l->node->op->layer.kind == PARE_LAYER_RECURRENT);
}

/* Operations that the descriptor adds; -1: none, or unknown. */
static double more_ops(const struct pare_layer_info *l)
{
    bool known = l->in && l->out && l->in->t.dtype != PARE_NONE && l->out->t.dtype != PARE_NONE;

    return known && l->node->op && l->node->op->nni_ops ? l->node->op->nni_ops(l->node) : -1;
}

static double products(const struct pare_layer_info *l, bool full)
{
    double more = full && l->bias && l->out ? (double)pare_numel(&l->out->t) : 0;

    if (l->macs >= 0 && l->node->op->layer.kind == PARE_LAYER_RECURRENT)
        more = more_ops(l);
    return l->macs < 0 || more < 0 ? -1 : l->macs + more;
}

int pare_count(struct pare_arena *a, const struct pare_graph *g, int64_t batch, bool full,
               struct pare_count *c, struct pare_err *err)
{
    struct pare_layer_info *list;
    int n;

    *c = (struct pare_count){ 0 };
    PARE_TRY((full ? pare_layers_all : pare_layers)(a, g, &list, &n, err));
    c->row = pare_alloc(a, (size_t)n + 1, sizeof(*c->row));
    if (!c->row)
        return pare_no_memory(err, "to count");
    for (int i = 0; i < n; i++) {
        bool plain = is_plain(&list[i]);
        double flops = plain ? products(&list[i], full) : full ? more_ops(&list[i]) : -1;

        if (!plain && flops < 0)
            continue;
        flops = flops < 0 ? -1 : flops / (double)(batch > 0 ? batch : 1);
        c->row[c->n++] = (struct pare_counted){ &list[i], flops, list[i].params };
        c->flops += flops > 0 ? flops : 0;
        c->params += list[i].params;
        c->unknown += flops < 0;
    }
    return 0;
}
