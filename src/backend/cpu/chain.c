/* chain.c - runs of elementwise operators in one pass over memory.
 *
 * Each link applies its operator's map or map2 to a chunk that stays in the first-level cache, so
 * a chain of any length reads its operands once and writes its result once.  Inference-mode
 * BatchNormalization is a link too: y = s x + t per channel.
 *
 * The result is seen as rows of equal length, chosen so that along a row every operand either
 * moves with it or stands still:
 *     row-major   split after k axes: rows = d0..dk-1, length = dk..
 *     blocked     rows = N * C / b, length = spatial * b
 * In the blocked layout a per-channel operand is repeated b by b into a chunk of its own.
 */
#include "../backend.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/norm.h"

#define CHUNK 2048
#define MAX_LINKS 12
#define MAX_OPERANDS 8

/* How an operand moves along the rows. */
struct operand {
    struct pare_value *value; /* NULL: `table` */
    struct pare_tensor shape; /* its shape, with ones in front to the result's rank */
    const float *data;
    float *table; /* BatchNormalization's scale or shift, (C) */
    bool full, scalar, channel;
    int64_t rows, row_size; /* starts at (row % rows) * row_size ... */
    int stride;             /* ... and moves by 0 or 1 */
};

struct link {
    const struct pare_node *node;
    int a, b, c; /* operands; -1: the running value; -2: none */
};

struct chain {
    struct link link[MAX_LINKS];
    struct operand op[MAX_OPERANDS];
    int n_links, n_ops;
    int block;
    int64_t rows, length, channels;
};

/* ---- which nodes, which operands ---------------------------------------------------- */

static bool is_bn(const struct pare_node *n)
{
    if (strcmp(n->type, "BatchNormalization") || n->op->domain || pare_bn_trains(n) ||
        !pare_bn_per_channel(n) || n->in[0]->t.rank < 2)
        return false;
    for (int i = 1; i < 5; i++)
        if (!pare_is_const(n->in[i]) || !pare_is_f32(n->in[i]))
            return false;
    return true;
}

static bool is_link(const struct pare_node *n)
{
    if (n->n_out < 1 || !pare_is_f32(n->out[0]) || !pare_numel(&n->out[0]->t))
        return false;
    if (n->op->map2) /* before operator set 7, slopes and the like were aligned otherwise */
        return n->n_in == 2 && pare_is_f32(n->in[0]) && pare_is_f32(n->in[1]) &&
               (n->version >= 7 || n->op->domain);
    if (n->n_in < 1 || !pare_is_f32(n->in[0]) || !pare_same_shape(&n->in[0]->t, &n->out[0]->t))
        return false;
    for (int i = 1; i < n->n_in && n->op->map; i++)
        if (n->in[i] && (!pare_is_const(n->in[i]) || !n->in[i]->t.data))
            return false;
    return n->op->map || is_bn(n);
}

/* Seen from the split after k axes: leading axes are ones, then equal; those behind are all equal
 * or all one. */
static bool fits_split(struct operand *o, const struct pare_tensor *y, int k)
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

static bool fits_block(struct operand *o, const struct pare_tensor *y, int block)
{
    o->full = o->value && pare_same_shape(&o->value->t, y); /* the rank, too: see fill_step */
    o->scalar = pare_numel(&o->shape) == 1;
    o->channel = !o->full && !o->scalar && o->shape.dim[1] == y->dim[1] &&
                 (o->shape.dim[0] == 1 || o->shape.dim[0] == y->dim[0]) &&
                 pare_numel(&o->shape) == o->shape.dim[0] * y->dim[1];
    o->stride = !o->scalar;
    return block > 1 && (o->full || o->scalar || o->channel);
}

/* Choose rows and length so that all operands fit. */
static bool arrange(struct chain *c, const struct pare_tensor *y)
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

static int add_operand(struct chain *c, struct pare_value *v, const struct pare_tensor *shape,
                       int rank)
{
    struct operand *o = &c->op[c->n_ops];

    for (int i = 0; i < c->n_ops && v; i++)
        if (c->op[i].value == v)
            return i;
    if (c->n_ops == MAX_OPERANDS || shape->rank > rank)
        return -3;
    *o = (struct operand){ .value = v, .shape = *shape };
    for (int i = rank - 1, k = shape->rank - 1; i >= 0; i--, k--)
        o->shape.dim[i] = k >= 0 ? shape->dim[k] : 1;
    o->shape.rank = rank;
    return c->n_ops++;
}

/* One more link; `run` is the running value, NULL for the first.  The chain is unchanged when it
 * does not fit. */
static bool add_link(struct chain *c, struct pare_node *n, const struct pare_value *run)
{
    const struct pare_tensor *y = &n->out[0]->t;
    struct chain keep = *c;
    struct link l = { n, -2, -2, -2 };

    if (c->n_links == MAX_LINKS || !is_link(n))
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
    if (l.a == -3 || l.b == -3 || l.c == -3 || !arrange(c, y)) {
        *c = keep;
        return false;
    }
    c->link[c->n_links++] = l;
    return true;
}

static bool operands_made(const struct pare_view *v, const struct pare_node *n,
                          const struct pare_value *run)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i] != run && !pare_is_made(v, n->in[i]))
            return false;
    return true;
}

/* The layout in which the most of the chain's memory already is. */
static int prefer_block(const struct pare_view *v, const struct pare_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !pare_is_const(n->in[i]) && pare_same_shape(&n->in[i]->t, &n->out[0]->t) &&
            pare_block_of(v, n->in[i]) > 1)
            return pare_block_of(v, n->in[i]);
    return 1;
}

static bool fill_step(const struct pare_view *v, struct chain *c, struct pare_node **list,
                      struct pare_step *s)
{
    int at = 0;

    if (!pare_step_lists(s, v, c->n_ops, 1, c->n_links - 1))
        return false;
    for (int i = 1; i < c->n_links; i++)
        s->fused[i - 1] = list[i];
    for (int i = 0; i < c->n_ops; i++) {
        struct operand *o = &c->op[i];
        bool full = o->value && pare_same_shape(&o->value->t, &list[0]->out[0]->t);

        if (!o->value)
            continue;
        s->in[at] = o->value;
        s->in_block[at] = full ? c->block : 1;
        if (full && !s->inplace && !pare_is_const(o->value))
            s->inplace = at + 1;
        at++;
    }
    s->n_in = at;
    s->out[0] = list[c->n_links - 1]->out[0];
    s->out_block[0] = c->block;
    s->state = c;
    return true;
}

static bool match(const struct pare_view *v, struct pare_node *n, struct pare_step *s)
{
    struct pare_node *list[MAX_LINKS];
    struct pare_node *next;
    struct chain *c;

    if (!is_link(n))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c)
        return false;
    c->block = prefer_block(v, n);
    if (!add_link(c, n, NULL)) {
        if (c->block == 1)
            return false;
        c->block = 1;
        if (!add_link(c, n, NULL))
            return false;
    }
    list[0] = n;
    for (;;) {
        struct pare_value *run = list[c->n_links - 1]->out[0];

        next = pare_only_use(v, run);
        if (!next || !pare_is_f32(next->out[0]) || !pare_same_shape(&next->out[0]->t, &run->t) ||
            !operands_made(v, next, run) || (next->n_in > 1 && next->in[0] == next->in[1]) ||
            c->n_links == MAX_LINKS || !add_link(c, next, run))
            break;
        list[c->n_links - 1] = next;
    }
    return fill_step(v, c, list, s);
}

/* ---- running ----------------------------------------------------------------------- */

static int init_bn(struct chain *c, const struct link *l, struct pare_backend *b,
                   struct pare_err *err)
{
    struct operand *scale = &c->op[l->b], *shift = &c->op[l->c];
    int64_t C = l->node->in[1]->t.dim[0];
    const float *p[4];

    scale->table = pare_alloc(b->arena, (size_t)C, sizeof(float));
    shift->table = pare_alloc(b->arena, (size_t)C, sizeof(float));
    if (!scale->table || !shift->table)
        return pare_fail(err, PARE_ENOMEM, "no memory for a normalisation");
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

static int init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct chain *c = s->state;
    int at = 0;

    for (int i = 0; i < c->n_links; i++)
        if (!c->link[i].node->op->map && !c->link[i].node->op->map2)
            PARE_TRY(init_bn(c, &c->link[i], b, err));
    for (int i = 0; i < c->n_ops; i++)
        if (c->op[i].value)
            c->op[i].data = pare_f32(&s->in_buf[at++]->t);
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

/* A channel operand of the blocked layout: its b lanes, over and over. */
static void repeat(const struct chain *c, const struct operand *o, int64_t row, int64_t n,
                   float *tile)
{
    int64_t blocks = (c->channels + c->block - 1) / c->block, b = c->block;
    int64_t image = o->shape.dim[0] == 1 ? 0 : row / blocks, first = row % blocks * b;
    int64_t lanes = c->channels - first < b ? c->channels - first : b;

    for (int64_t i = 0; i < b; i++)
        tile[i] = i < lanes ? o->data[image * c->channels + first + i] : 0;
    for (int64_t i = b; i < n; i += b)
        memcpy(tile + i, tile, (size_t)b * sizeof(*tile));
}

/* Where operand k is for n elements of a row from `at` on. */
static const float *locate(const struct chain *c, int k, int64_t row, int64_t at, int64_t n,
                           float *tile)
{
    const struct operand *o = &c->op[k];

    if (c->block == 1)
        return o->data + row % o->rows * o->row_size + (o->stride ? at : 0);
    if (o->scalar)
        return o->data;
    if (o->full)
        return o->data + row * c->length + at;
    repeat(c, o, row, n, tile);
    return tile;
}

static void clear_padding(const struct chain *c, int64_t row, float *y, int64_t n)
{
    int64_t b = c->block, blocks = (c->channels + b - 1) / b, used = c->channels % b;

    if (b == 1 || !used || row % blocks != blocks - 1)
        return;
    for (int64_t i = 0; i < n; i += b)
        memset(y + i + used, 0, (size_t)(b - used) * sizeof(*y));
}

static void run_chunk(const struct chain *c, int64_t row, int64_t at, int64_t n, float *y)
{
    float tmp[CHUNK], tile[3][CHUNK];

    for (int i = 0; i < c->n_links; i++) {
        const struct link *l = &c->link[i];
        float *dst = i == c->n_links - 1 ? y : tmp;
        const float *a = l->a < 0 ? tmp : locate(c, l->a, row, at, n, tile[0]);
        const float *b = l->b >= 0 ? locate(c, l->b, row, at, n, tile[1]) : tmp;
        int sa = l->a < 0 ? 1 : c->op[l->a].stride, sb = l->b < 0 ? 1 : c->op[l->b].stride;

        if (l->node->op->map2)
            l->node->op->map2(l->node, a, sa, b, sb, dst, n);
        else if (l->node->op->map)
            l->node->op->map(l->node, a, dst, n);
        else
            affine(a, b, sb, locate(c, l->c, row, at, n, tile[2]), sb, dst, n);
    }
    clear_padding(c, row, y, n);
}

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct chain *c = s->state;
    float *y = pare_f32(&s->out_buf[0]->t);
    int64_t per_row = (c->length + CHUNK - 1) / CHUNK, items = c->rows * per_row;

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (c->rows * c->length > 16384)
    for (int64_t i = 0; i < items; i++) {
        int64_t row = i / per_row, at = i % per_row * CHUNK;
        int64_t n = c->length - at < CHUNK ? c->length - at : CHUNK;

        run_chunk(c, row, at, n, y + row * c->length + at);
    }
    return 0;
}

const struct pare_kernel pare_kernel_chain = {
    .name = "chain",
    .doc = "Elementwise operators in one pass over memory.",
    .match = match,
    .init = init,
    .run = run,
};
