/* chain_ops.c - chains of elementwise operators, applied chunk by chunk. */
#include "chain_ops.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/nn/norm.h"

#define CHUNK 2048

/* ---- match -------------------------------------------------------------------------- */

static bool is_bn(const struct pare_node *n)
{
    if (!pare_node_is(n, &pare_op_batch_normalization) || pare_bn_trains(n) ||
        !pare_bn_per_channel(n) || n->in[0]->t.rank < 2)
        return false;
    for (int i = 1; i < 5; i++)
        if (!pare_is_const(n->in[i]) || !pare_is_f32(n->in[i]))
            return false;
    return true;
}

bool pare_is_link(const struct pare_node *n)
{
    if (n->n_out < 1 || !pare_is_f32(n->out[0]) || !pare_numel(&n->out[0]->t))
        return false;
    if (n->op->map2) /* before opset 7, slopes and other operands broadcast differently */
        return n->n_in == 2 && pare_is_f32(n->in[0]) && pare_is_f32(n->in[1]) &&
               (n->version >= 7 || n->op->domain);
    if (n->n_in < 1 || !pare_is_f32(n->in[0]) || !pare_same_shape(&n->in[0]->t, &n->out[0]->t))
        return false;
    for (int i = 1; i < n->n_in && n->op->map; i++)
        if (n->in[i] && (!pare_is_const(n->in[i]) || !n->in[i]->t.data))
            return false;
    return n->op->map || is_bn(n);
}

/* Does the operand fit the split after k axes?  Leading axes are 1, then equal; the axes after the
 * split are all equal or all 1. */
static bool fits_split(struct pare_operand *o, const struct pare_tensor *y, int k)
{
    int64_t rows = 1, inner = 1, length = 1;
    int i = 0;

    while (i < k && o->shape.dim[i] == 1)
        i++;
    for (; i < k; i++) {
        if (o->shape.dim[i] != y->dim[i])
            return false;
        rows *= y->dim[i];
    }
    for (i = k; i < y->rank; i++) {
        inner *= o->shape.dim[i];
        length *= y->dim[i];
    }
    if (inner != 1 && inner != length)
        return false;
    o->rows = rows;
    o->row_size = inner;
    o->stride = inner == length ? 1 : 0;
    return true;
}

static bool fits_block(struct pare_operand *o, const struct pare_tensor *y, int block)
{
    o->full = o->value && pare_same_shape(&o->value->t, y); /* same rank, too: see fill_step() */
    o->scalar = pare_numel(&o->shape) == 1;
    o->channel = !o->full && !o->scalar && o->shape.dim[1] == y->dim[1] &&
                 (o->shape.dim[0] == 1 || o->shape.dim[0] == y->dim[0]) &&
                 pare_numel(&o->shape) == o->shape.dim[0] * y->dim[1];
    o->stride = !o->scalar;
    return block > 1 && (o->full || o->scalar || o->channel);
}

/* Choose the split so that all operands fit. */
static bool choose_split(struct pare_chain *c, const struct pare_tensor *y)
{
    int k, i;

    if (c->block > 1) {
        for (i = 0; i < c->n_ops; i++)
            if (!fits_block(&c->op[i], y, c->block))
                return false;
        c->channels = y->dim[1];
        c->rows = y->dim[0] * ((y->dim[1] + c->block - 1) / c->block);
        c->length = pare_block_numel(y, c->block) / c->rows;
        return true;
    }
    for (k = 0; k <= y->rank; k++) {
        for (i = 0; i < c->n_ops && fits_split(&c->op[i], y, k); i++)
            ;
        if (i == c->n_ops)
            break;
    }
    if (k > y->rank)
        return false;
    c->rows = c->length = 1;
    for (i = 0; i < y->rank; i++)
        *(i < k ? &c->rows : &c->length) *= y->dim[i];
    return true;
}

static int add_operand(struct pare_chain *c, struct pare_value *v, const struct pare_tensor *shape,
                       int rank)
{
    struct pare_operand *o = &c->op[c->n_ops];

    for (int i = 0; i < c->n_ops && v; i++)
        if (c->op[i].value == v)
            return i;
    if (c->n_ops == PARE_MAX_OPERANDS || shape->rank > rank)
        return -3;
    *o = (struct pare_operand){ .value = v, .shape = *shape };
    for (int i = rank - 1, k = shape->rank - 1; i >= 0; i--, k--)
        o->shape.dim[i] = k >= 0 ? shape->dim[k] : 1;
    o->shape.rank = rank;
    return c->n_ops++;
}

/* Append a link; `run` is the running value, NULL for the first link.  If it does not fit, the
 * chain is unchanged. */
static bool add_link(struct pare_chain *c, struct pare_node *n, const struct pare_value *run)
{
    const struct pare_tensor *y = &n->out[0]->t;
    struct pare_chain keep = *c;
    struct pare_chain_link l = { n, -2, -2, -2 };

    if (c->n_links == PARE_MAX_CHAIN || !pare_is_link(n))
        return false;
    l.a = n->in[0] == run ? -1 : add_operand(c, n->in[0], &n->in[0]->t, y->rank);
    if (n->op->map2) {
        l.b = n->in[1] == run ? -1 : add_operand(c, n->in[1], &n->in[1]->t, y->rank);
    } else if (!n->op->map) {
        struct pare_tensor per_channel = { .rank = y->rank };

        for (int i = 0; i < y->rank; i++)
            per_channel.dim[i] = i == 1 ? y->dim[1] : 1;
        l.b = add_operand(c, NULL, &per_channel, y->rank);
        l.c = add_operand(c, NULL, &per_channel, y->rank);
    }
    if (l.a == -3 || l.b == -3 || l.c == -3 || !choose_split(c, y)) {
        *c = keep;
        return false;
    }
    c->link[c->n_links++] = l;
    return true;
}

static bool operands_computed(const struct pare_match *v, const struct pare_node *n,
                              const struct pare_value *run, const struct pare_value *made)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i] != run && n->in[i] != made && !pare_is_computed(v, n->in[i]))
            return false;
    return true;
}

static bool append_links(const struct pare_match *v, struct pare_node *n,
                         const struct pare_value *made, struct pare_chain *c)
{
    if (!pare_is_link(n) || !add_link(c, n, NULL))
        return false;
    for (;;) {
        struct pare_value *run = pare_chain_out(c);
        struct pare_node *next = v->lazy_layout ? NULL : pare_only_consumer(v, run);

        if (!next || v->lazy[next->id] || !pare_is_f32(next->out[0]) ||
            !pare_same_shape(&next->out[0]->t, &run->t) || !operands_computed(v, next, run, made) ||
            (next->n_in > 1 && next->in[0] == next->in[1]) || c->n_links == PARE_MAX_CHAIN ||
            !add_link(c, next, run))
            return true;
    }
}

bool pare_chain_from(const struct pare_match *v, struct pare_node *n, struct pare_chain *c)
{
    return append_links(v, n, NULL, c);
}

bool pare_chain_after(const struct pare_match *v, const struct pare_value *x, struct pare_chain *c)
{
    const struct pare_consumers *use = &v->consumers[x->id];
    struct pare_node *n = use->n && !(x->flags & PARE_V_OUTPUT) ? use->node[0] : NULL;
    int uses = 0;

    *c = (struct pare_chain){ .block = 1 };
    if (!n || !n->op || n->n_out < 1 || !pare_is_f32(n->out[0]) ||
        !pare_same_shape(&n->out[0]->t, &x->t) || !operands_computed(v, n, NULL, x) ||
        !append_links(v, n, x, c))
        return false;
    for (int i = 0; i < c->n_links; i++)
        for (int k = 0; k < c->link[i].node->n_in; k++)
            uses += c->link[i].node->in[k] == x;
    return uses == use->n;
}

struct pare_value *pare_chain_out(const struct pare_chain *c)
{
    return c->link[c->n_links - 1].node->out[0];
}

/* ---- run --------------------------------------------------------------------------- */

static int init_bn(struct pare_chain *c, const struct pare_chain_link *l, struct pare_backend *b,
                   struct pare_err *err)
{
    struct pare_operand *scale = &c->op[l->b], *shift = &c->op[l->c];
    int64_t C = l->node->in[1]->t.dim[0];
    const float *p[4];

    scale->table = pare_alloc(b->arena, (size_t)C, sizeof(float));
    shift->table = pare_alloc(b->arena, (size_t)C, sizeof(float));
    if (!scale->table || !shift->table)
        return pare_no_memory(err, "for BatchNormalization");
    for (int i = 0; i < 4; i++) {
        p[i] = pare_const_f32(b, l->node->in[i + 1], err);
        if (!p[i])
            return err->code;
    }
    for (int64_t k = 0; k < C; k++) {
        double s = (double)p[0][k] / sqrt((double)p[3][k] + pare_bn_epsilon(l->node));

        scale->table[k] = (float)s;
        shift->table[k] = (float)((double)p[1][k] - s * (double)p[2][k]);
    }
    scale->data = scale->table;
    shift->data = shift->table;
    return 0;
}

int pare_chain_init(struct pare_chain *c, struct pare_backend *b, struct pare_buf **in_buf,
                    const struct pare_value *made, const float *y, struct pare_err *err)
{
    for (int i = 0; i < c->n_links; i++)
        if (!c->link[i].node->op->map && !c->link[i].node->op->map2)
            PARE_TRY(init_bn(c, &c->link[i], b, err));
    for (int i = 0; i < c->n_ops; i++) {
        struct pare_operand *o = &c->op[i];

        if (o->value && o->value == made)
            o->data = y;
        else if (o->value)
            o->data = pare_f32(&(*in_buf++)->t);
    }
    return 0;
}

PARE_SIMD static void affine(const float *x, const float *s, int ss, const float *t, int st,
                             float *y, int64_t n)
{
    if (ss && st)
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * s[i] + t[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * s[0] + t[0];
}

/* A channel operand in the blocked layout: repeat its b lanes. */
static void repeat_lanes(const struct pare_chain *c, const struct pare_operand *o, int64_t row,
                         int64_t n, float *tile)
{
    int64_t blocks = (c->channels + c->block - 1) / c->block, b = c->block;
    int64_t image = o->shape.dim[0] == 1 ? 0 : row / blocks, first = row % blocks * b;
    int64_t lanes = c->channels - first < b ? c->channels - first : b;

    for (int64_t i = 0; i < b; i++)
        tile[i] = i < lanes ? o->data[image * c->channels + first + i] : 0;
    for (int64_t i = b; i < n; i += b)
        memcpy(tile + i, tile, (size_t)b * sizeof(*tile));
}

/* The data of operand k for n elements of a row from `at` on. */
static const float *locate_operand(const struct pare_chain *c, int k, int64_t row, int64_t at,
                                   int64_t n, float *tile)
{
    const struct pare_operand *o = &c->op[k];

    if (c->block == 1)
        return o->data + row % o->rows * o->row_size + (o->stride ? at : 0);
    if (o->scalar)
        return o->data;
    if (o->full)
        return o->data + row * c->length + at;
    repeat_lanes(c, o, row, n, tile);
    return tile;
}

static void clear_padding(const struct pare_chain *c, int64_t row, float *y, int64_t n)
{
    int64_t b = c->block, blocks = (c->channels + b - 1) / b, used = c->channels % b;

    if (b == 1 || !used || row % blocks != blocks - 1)
        return;
    for (int64_t i = 0; i < n; i += b)
        memset(y + i + used, 0, (size_t)(b - used) * sizeof(*y));
}

static void run_chunk(const struct pare_chain *c, int64_t row, int64_t at, int64_t n, float *y)
{
    float tmp[CHUNK], tile[3][CHUNK];

    for (int i = 0; i < c->n_links; i++) {
        const struct pare_chain_link *l = &c->link[i];
        float *dst = i == c->n_links - 1 ? y : tmp;
        const float *a = l->a < 0 ? tmp : locate_operand(c, l->a, row, at, n, tile[0]);
        const float *b = l->b >= 0 ? locate_operand(c, l->b, row, at, n, tile[1]) : tmp;
        int sa = l->a < 0 ? 1 : c->op[l->a].stride, sb = l->b < 0 ? 1 : c->op[l->b].stride;

        if (l->node->op->map2)
            l->node->op->map2(l->node, a, sa, b, sb, dst, n);
        else if (l->node->op->map)
            l->node->op->map(l->node, a, dst, n);
        else
            affine(a, b, sb, locate_operand(c, l->c, row, at, n, tile[2]), sb, dst, n);
    }
    clear_padding(c, row, y, n);
}

void pare_chain_run(const struct pare_chain *c, int64_t from, int64_t to, float *y)
{
    while (from < to) {
        int64_t row = from / c->length, at = from % c->length, n = c->length - at;

        n = n < CHUNK ? n : CHUNK;
        n = n < to - from ? n : to - from;
        run_chunk(c, row, at, n, y + from);
        from += n;
    }
}
