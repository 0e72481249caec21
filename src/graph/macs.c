/* macs.c - parameters and multiply-accumulates, as NNI's counter reports them. */
#include "macs.h"

#include <string.h>

#include "../base/options.h"

/* ---- attributes by name ------------------------------------------------------------------- */

static const void *attr(const struct pare_node *n, const char *name, enum pare_opt_type type)
{
    const struct pare_opt *o = n->op && n->attr ? pare_opt_find(n->op->attrs, name) : NULL;

    return o && o->type == type ? (const char *)n->attr + o->offset : NULL;
}

static const char *attr_text(const struct pare_node *n, const char *name)
{
    const char *const *s = attr(n, name, PARE_OPT_STR);

    return s && *s ? *s : "";
}

/* ---- kinds -------------------------------------------------------------------------------- */

static bool starts(const char *s, const char *with)
{
    return !strncmp(s, with, strlen(with));
}

static bool is_recurrent(const struct pare_layer_info *l)
{
    return !strcmp(l->type, "LSTM") || !strcmp(l->type, "GRU") || !strcmp(l->type, "RNN");
}

static bool is_plain(const struct pare_layer_info *l)
{
    return l->weight &&
           (starts(l->torch, "Conv") || !strcmp(l->torch, "Linear") || is_recurrent(l));
}

static double numel(const struct pare_value *v)
{
    return v && v->t.dtype != PARE_NONE ? (double)pare_numel(&v->t) : -1;
}

/* Operations of recurrent cells in addition to their products: each gate adds its two halves, and a
 * GRU and an LSTM mix their states in 4 more steps.  (directions, gates * H, ...) is the weight's
 * shape. */
static double cell_extras(const struct pare_layer_info *l)
{
    double steps = (double)l->in->t.dim[0] * (double)l->in->t.dim[1];
    double rows = (double)l->weight->t.dim[0] * (double)l->weight->t.dim[1];

    if (!strcmp(l->type, "RNN"))
        return steps * rows;
    return steps * (rows + 4 * rows / (strcmp(l->type, "GRU") ? 4 : 3));
}

static double products(const struct pare_layer_info *l, bool full)
{
    double macs = l->macs;

    if (macs < 0)
        return -1;
    if (is_recurrent(l))
        return l->in && l->in->t.rank == 3 ? macs + cell_extras(l) : -1;
    return full && l->bias ? macs + numel(l->out) : macs;
}

/* The number of elements of a pooling window. */
static double window(const struct pare_layer_info *l)
{
    const struct pare_ints *k = attr(l->node, "kernel_shape", PARE_OPT_INTS);
    double n = 1;

    if (!strcmp(l->type, "GlobalAveragePool")) {
        for (int i = 2; i < l->in->t.rank; i++)
            n *= (double)l->in->t.dim[i];
        return n;
    }
    for (int i = 0; k && i < k->n; i++)
        n *= (double)k->v[i];
    return n;
}

/* Operations per output element of Resize: linear along one, two or three axes, or cubic. */
static double resize_each(const struct pare_layer_info *l)
{
    const char *mode = attr_text(l->node, "mode");
    static const double linear[] = { 5, 11, 31 };
    int axes = l->out->t.rank - 2;

    if (!strcmp(mode, "cubic"))
        return 259;
    return !strcmp(mode, "linear") && axes >= 1 && axes <= 3 ? linear[axes - 1] : 0;
}

/* Operations that only the full count includes; -1: none, or unknown. */
static double others(const struct pare_layer_info *l)
{
    if (!l->out || !l->in || l->out->t.dtype == PARE_NONE || l->in->t.dtype == PARE_NONE)
        return -1;
    if (starts(l->torch, "BatchNorm"))
        return 2 * numel(l->in);
    if (!strcmp(l->type, "LeakyRelu"))
        return numel(l->in);
    if (!strcmp(l->type, "AveragePool") || !strcmp(l->type, "GlobalAveragePool"))
        return (window(l) + 1) * numel(l->out);
    if (!strcmp(l->type, "Resize") || !strcmp(l->type, "Upsample"))
        return resize_each(l) * numel(l->out);
    return -1;
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
        double flops = plain ? products(&list[i], full) : full ? others(&list[i]) : -1;

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
