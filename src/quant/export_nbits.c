/* export_nbits.c - export linear layers as MatMulNBits of com.microsoft.
 *
 *     Y (.., N) = A (.., K) W,   W[k][n] = scale[n][k / block] * (B[n][k] - zero[n][k / block])
 *
 * B is (N, blocks, block * bits / 8) bytes of unsigned values; 4-bit values are packed two per
 * byte, the first in the low half.  Scales are (N, blocks).  Zero points are packed like B in rows
 * of whole bytes, and omitted if all are 2^(bits - 1).
 */
#include "export_nbits.h"

#include <string.h>

#include "../base/arena.h"
#include "../onnx/edit_internal.h"
#include "../op/matrix/matrix.h"

struct nbits {
    struct pare_edit *e;
    struct pare_arena *a;
    struct pare_edit *at; /* of the graph that has the layer's node: a body's, or e */
    const struct pare_layer *l;
    const struct pare_qscale *g;
    const struct pare_tensor *q;
    int bits, shift; /* q + shift is unsigned */
    int64_t K, N, blocks;
    bool turned; /* the weight is (K, N) */
};

/* ---- conditions ------------------------------------------------------------------------------ */

static bool plain_product(const struct pare_node *n)
{
    bool tb;

    return n->n_in >= 2 && n->in[0] && n->in[0]->t.rank >= 2 && pare_is_plain_product(n, &tb);
}

static bool is_supported(const struct nbits *b)
{
    const struct pare_layer *l = b->l;
    const struct pare_node *n = l->info.node;
    const struct pare_graph *all = l->compression->model->graph;
    int64_t size = b->g->by.size;

    return size >= 16 && !(size & (size - 1)) && b->g->offset == 0 &&
           !l->quant->quantized[PARE_INPUT] && !l->quant->quantized[PARE_OUTPUT] &&
           plain_product(n) && !strcmp(n->in[1]->name, l->weight->name) &&
           pare_graph_count_uses(all, pare_graph_find(all, l->weight->name)) == 1;
}

/* ---- packing ------------------------------------------------------------------------------- */

/* Stores value i of a packed row. */
static void pack_value(uint8_t *row, int bits, int64_t i, int64_t v)
{
    if (bits == 8)
        row[i] = (uint8_t)v;
    else
        row[i / 2] = (uint8_t)(row[i / 2] | (v & 15) << (i & 1 ? 4 : 0));
}

static int64_t scale_at(const struct nbits *b, int64_t n, int64_t block)
{
    return b->turned ? block * b->N + n : n * b->blocks + block;
}

static int pack_weight(const struct nbits *b, struct pare_tensor *t, struct pare_err *err)
{
    int64_t size = b->g->by.size, dim[3] = { b->N, b->blocks, size * b->bits / 8 };
    const uint8_t *q = b->q->data;
    bool sign = b->shift > 0;

    PARE_TRY(pare_tensor_new(b->a, t, PARE_U8, 3, dim, err));
    for (int64_t n = 0; n < b->N; n++) {
        uint8_t *row = (uint8_t *)t->data + n * dim[1] * dim[2];

        for (int64_t k = 0; k < b->blocks * size; k++) {
            int64_t zero = b->g->zero[scale_at(b, n, k / size)]; /* padding dequantizes to 0 */
            int64_t at = b->turned ? k * b->N + n : n * b->K + k;
            int64_t v = k >= b->K ? zero : sign ? (int64_t)(int8_t)q[at] : (int64_t)q[at];

            pack_value(row, b->bits, k, v + b->shift);
        }
    }
    return 0;
}

static int pack_scales(const struct nbits *b, struct pare_tensor *t, struct pare_err *err)
{
    int64_t dim[2] = { b->N, b->blocks };

    PARE_TRY(pare_tensor_new(b->a, t, PARE_F32, 2, dim, err));
    for (int64_t n = 0; n < b->N; n++)
        for (int64_t k = 0; k < b->blocks; k++)
            pare_f32_mut(t)[n * b->blocks + k] = b->g->scale[scale_at(b, n, k)];
    return 0;
}

/* t->data stays NULL if all zero points have the default value. */
static int pack_zeros(const struct nbits *b, struct pare_tensor *t, struct pare_err *err)
{
    int64_t bytes = b->bits == 8 ? b->blocks : (b->blocks + 1) / 2, dim[2] = { b->N, bytes };
    bool usual = true;

    *t = (struct pare_tensor){ .data = NULL };
    for (int64_t i = 0; i < b->g->n; i++)
        usual &= b->g->zero[i] + b->shift == 1 << (b->bits - 1);
    if (usual)
        return 0;
    PARE_TRY(pare_tensor_new(b->a, t, PARE_U8, 2, dim, err));
    for (int64_t n = 0; n < b->N; n++)
        for (int64_t k = 0; k < b->blocks; k++)
            pack_value((uint8_t *)t->data + n * bytes, b->bits, k,
                       b->g->zero[scale_at(b, n, k)] + b->shift);
    return 0;
}

/* ---- the nodes ----------------------------------------------------------------------------- */

static int add_constant(const struct nbits *b, const char *ending, const struct pare_tensor *t,
                        const char **name, struct pare_err *err)
{
    *name = t->data ? pare_edit_name(b->e, b->l->weight->name, ending) : NULL;
    if (t->data && !*name)
        return pare_no_memory(err, "to export a quantized model");
    return t->data ? pare_edit_constant(b->e, *name, t, err) : 0;
}

static int add_nodes(const struct nbits *b, const Onnx__NodeProto *p, struct pare_err *err)
{
    const char *out = p->output[0];
    const char *c = p->n_input > 2 && *p->input[2] ? p->input[2] : NULL;
    struct pare_edit_node n = {
        .type = "MatMulNBits",
        .domain = "com.microsoft",
        .out = c ? pare_edit_name(b->e, out, "_product") : out,
        .axis = -1,
        .attr = { { "K", b->K },
                  { "N", b->N },
                  { "bits", b->bits },
                  { "block_size", b->g->by.size } },
    };
    struct pare_edit_node add = { .type = "Add", .in = { n.out, c }, .out = out, .axis = -1 };
    struct pare_tensor w, s, z;

    PARE_TRY(pack_weight(b, &w, err));
    PARE_TRY(pack_scales(b, &s, err));
    PARE_TRY(pack_zeros(b, &z, err));
    n.in[0] = p->input[0];
    PARE_TRY(add_constant(b, "_quantized", &w, &n.in[1], err));
    PARE_TRY(add_constant(b, "_scale", &s, &n.in[2], err));
    PARE_TRY(add_constant(b, "_zero_point", &z, &n.in[3], err));
    n.name = pare_edit_name(b->e, out, "_MatMulNBits");
    add.name = c ? pare_edit_name(b->e, out, "_Add") : NULL;
    if (!n.out || !n.name || (c && !add.name))
        return pare_no_memory(err, "to export a quantized model");
    PARE_TRY(pare_edit_remove(b->at, out, err));
    PARE_TRY(pare_edit_insert(b->at, &n, err));
    return c ? pare_edit_insert(b->at, &add, err) : 0;
}

int pare_nbits_export(struct pare_edit *e, struct pare_arena *a, const struct pare_layer *l,
                      const struct pare_qscale *g, const struct pare_tensor *q, bool *done,
                      struct pare_err *err)
{
    bool four = pare_is_4bit(q->dtype), sign = q->dtype == PARE_I4 || q->dtype == PARE_I8;
    struct nbits b = { .e = e, .a = a, .l = l, .g = g, .q = q, .bits = four ? 4 : 8 };
    const struct pare_edit_slot *s;

    *done = false;
    if (!g->by.size || !is_supported(&b))
        return 0;
    b.shift = sign ? 1 << (b.bits - 1) : 0;
    b.turned = g->by.axis == 0;
    b.K = q->dim[g->by.axis];
    b.N = q->dim[!g->by.axis];
    b.blocks = g->by.dim[g->by.axis];
    PARE_TRY(pare_edit_of_node(e, l->compression->graph, l->info.node, &b.at, err));
    s = b.at ? pare_edit_maker(b.at, l->info.node->out[0]->name) : NULL;
    if (!s || strcmp(s->p->op_type, l->info.node->type) || s->p->n_input < 2)
        return 0;
    *done = true;
    PARE_TRY(pare_edit_import(e, "com.microsoft", 1, err));
    PARE_TRY(pare_edit_drop_constant(e, l->weight->name, err));
    return add_nodes(&b, s->p, err);
}
