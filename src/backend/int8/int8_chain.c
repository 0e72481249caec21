/* int8_chain.c - a chain of elementwise operators with several int8 operands, in one pass.
 *
 * Operands are functions of int8 tensors (int8_function.h) and constants; the result is quantized.
 * Rows are C contiguous elements: the channels if these are last, else the last axis.  An operand
 * is
 *     FULL      an int8 tensor of the size of the result
 *     CHANNEL   a constant with one element per index of a row
 *     IMAGE     an int8 tensor with one element per index of a row and image: (N, C, 1, 1)
 *     SINGLE    a constant scalar
 * Some rows at a time are dequantized into a buffer that stays in the L1 cache.
 */
#include "../fuse/int8_function.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/nn/norm.h"
#include "../../op/op.h"
#include "../../base/team.h"

#define CHUNK 2048
#define MAX_LINKS 8
#define MAX_OPERANDS 6

enum kind { FULL, CHANNEL, IMAGE, SINGLE };

struct operand {
    enum kind kind;
    const struct pare_value *f32;
    struct pare_int8_func *f; /* of FULL and IMAGE */
    float *data;              /* CHANNEL: repeated to the length of a chunk; SINGLE: the scalar */
    int in;                   /* FULL and IMAGE: index of the step's input */
};

struct link {
    struct pare_node *node;
    int a, b; /* operands; -1: the running value; BatchNormalization: scale and shift */
    bool norm;
};

struct int8_chain {
    struct link link[MAX_LINKS];
    struct operand op[MAX_OPERANDS];
    int n_links, n_ops, layout;
    struct pare_int8_end end;
    int64_t images, rows, C, per; /* rows of an image; rows of a chunk, or 0 for parts of a row */
};

/* ---- match ------------------------------------------------------------------------------ */

static bool is_norm(const struct pare_node *n)
{
    if (!pare_node_is(n, &pare_op_batch_normalization) || n->n_in < 5 || pare_bn_trains(n) ||
        !pare_bn_per_channel(n) || n->in[0]->t.rank < 2)
        return false;
    for (int i = 1; i < 5; i++)
        if (!pare_is_const(n->in[i]) || !pare_is_f32(n->in[i]) || !n->in[i]->t.data)
            return false;
    return true;
}

/* Dimension i of x, broadcast to the rank of y. */
static int64_t dim_of(const struct pare_tensor *x, const struct pare_tensor *y, int i)
{
    int k = i - (y->rank - x->rank);

    return k < 0 ? 1 : x->dim[k];
}

/* Has x the size of y along one axis (and perhaps the first), and 1 along the others? */
static bool along(const struct pare_tensor *x, const struct pare_tensor *y, int axis, bool images)
{
    if (x->rank > y->rank)
        return false;
    for (int i = 0; i < y->rank; i++) {
        int64_t d = dim_of(x, y, i);

        if (i == axis ? d != y->dim[i] : d != 1 && !(images && i == 0 && d == y->dim[0]))
            return false;
    }
    return true;
}

static int inner_axis(const struct int8_chain *c, const struct pare_tensor *y)
{
    return c->layout == PARE_CHANNELS_LAST ? 1 : y->rank - 1;
}

static bool constant(const struct pare_match *v, struct int8_chain *c, const struct pare_value *x,
                     const struct pare_tensor *y, struct operand *o)
{
    int64_t n = pare_numel(&x->t);

    if (!x->t.data || !pare_is_f32(x))
        return false;
    o->kind = n == 1 ? SINGLE : CHANNEL;
    if (n != 1 && !along(&x->t, y, inner_axis(c, y), false))
        return false;
    o->data = pare_alloc(v->backend->arena, (size_t)n, sizeof(*o->data));
    for (int64_t i = 0; o->data && i < n; i++)
        o->data[i] = (float)pare_get(&x->t, i);
    return o->data;
}

/* The index of operand x; -1 if it is not supported. */
static int add_operand(const struct pare_match *v, struct int8_chain *c, const struct pare_value *x,
                       const struct pare_tensor *y)
{
    struct operand *o = &c->op[c->n_ops];

    for (int i = 0; i < c->n_ops; i++)
        if (c->op[i].f32 == x)
            return i;
    if (c->n_ops == MAX_OPERANDS)
        return -1;
    *o = (struct operand){ .f32 = x };
    if (pare_is_const(x))
        return constant(v, c, x, y, o) ? c->n_ops++ : -1;
    o->f = pare_alloc(v->backend->arena, 1, sizeof(*o->f));
    if (!o->f || !pare_is_computed(v, x) || !pare_int8_func(v, x, o->f))
        return -1;
    if (pare_same_shape(&x->t, y))
        o->kind = FULL;
    else if (along(&x->t, y, 1, true) && c->layout == PARE_CHANNELS_LAST && x->t.rank == y->rank &&
             x->t.dim[0] == y->dim[0] && !o->f->transpose)
        o->kind = IMAGE;
    else
        return -1;
    return o->kind == IMAGE || pare_int8_func_layout(o->f, c->layout) ? c->n_ops++ : -1;
}

/* y = s x + t. */
static bool add_norm(const struct pare_match *v, struct int8_chain *c, struct link *l)
{
    const struct pare_node *n = l->node;
    int64_t C = n->in[1]->t.dim[0];
    float *s = pare_alloc(v->backend->arena, (size_t)C, sizeof(*s));
    float *t = pare_alloc(v->backend->arena, (size_t)C, sizeof(*t));

    if (!s || !t || c->n_ops + 2 > MAX_OPERANDS || inner_axis(c, &n->out[0]->t) != 1)
        return false;
    for (int64_t i = 0; i < C; i++) {
        double by = pare_get(&n->in[1]->t, i) /
                    sqrt(pare_get(&n->in[4]->t, i) + pare_bn_epsilon(n));

        s[i] = (float)by;
        t[i] = (float)(pare_get(&n->in[2]->t, i) - by * pare_get(&n->in[3]->t, i));
    }
    l->b = c->n_ops;
    c->op[c->n_ops++] = (struct operand){ .kind = CHANNEL, .data = s };
    c->op[c->n_ops++] = (struct operand){ .kind = CHANNEL, .data = t };
    return true;
}

static bool add_link(const struct pare_match *v, struct int8_chain *c, struct pare_node *n,
                     const struct pare_value *run)
{
    const struct pare_tensor *y = &n->out[0]->t;
    struct link l = { .node = n, .a = -1, .b = -1, .norm = is_norm(n) };

    if (c->n_links == MAX_LINKS || (!l.norm && !n->op->map && !n->op->map2) ||
        (n->op->map2 && (n->n_in != 2 || (n->version < 7 && !n->op->domain))))
        return false;
    for (int i = 1; i < n->n_in && n->op->map && !n->op->map2; i++)
        if (n->in[i] && (!pare_is_const(n->in[i]) || !n->in[i]->t.data))
            return false;
    for (int i = 0; i < (n->op->map2 ? 2 : 1); i++) {
        int k = n->in[i] == run ? -1 : add_operand(v, c, n->in[i], y);

        if (k < 0 && n->in[i] != run)
            return false;
        *(i ? &l.b : &l.a) = k;
    }
    if (l.norm && !add_norm(v, c, &l))
        return false;
    c->link[c->n_links++] = l;
    return true;
}

/* Collect the links from n on, up to a QuantizeLinear. */
static bool collect_links(const struct pare_match *v, struct pare_node *n, struct int8_chain *c)
{
    const struct pare_value *run = NULL;
    int full = 0;

    while (n && n->n_out == 1 && pare_is_f32(n->out[0]) && !v->lazy[n->id] &&
           (!run || pare_same_shape(&run->t, &n->out[0]->t)) && add_link(v, c, n, run)) {
        run = n->out[0];
        if (pare_int8_end(v, n->out[0], &c->end))
            break;
        n = pare_only_consumer(v, n->out[0]);
    }
    for (int i = 0; i < c->n_ops; i++)
        full += c->op[i].kind == FULL;
    return c->n_links && c->end.n && full;
}

/* The layout of the first int8 operand that has the shape of the result. */
static int layout_of(const struct pare_match *v, const struct pare_node *n,
                     struct pare_int8_func *f)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !pare_is_const(n->in[i]) && pare_is_f32(n->in[i]) &&
            pare_same_shape(&n->in[i]->t, &n->out[0]->t) && pare_int8_func(v, n->in[i], f))
            return pare_int8_func_keep(v, f);
    return 0;
}

static bool int8_chain_fill_step(const struct pare_match *v, struct int8_chain *c,
                                 struct pare_step *s)
{
    int at = 0;

    if (!pare_step_lists(s, v, c->n_ops, 1, c->n_links - 1 + c->end.n))
        return false;
    for (int i = 0; i < c->n_ops; i++) {
        struct operand *o = &c->op[i];

        if (!o->f)
            continue;
        s->in[at] = o->f->x.v;
        s->in_block[at] = o->kind == FULL ? pare_int8_func_layout(o->f, c->layout) : 1;
        o->in = at++;
    }
    s->n_in = at;
    s->out[0] = c->end.q.v;
    s->out_block[0] = c->layout;
    for (int i = 1; i < c->n_links; i++)
        s->fused[i - 1] = c->link[i].node;
    for (int i = 0; i < c->end.n; i++)
        s->fused[c->n_links - 1 + i] = c->end.node[i];
    s->state = c;
    return true;
}

static bool int8_chain_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct pare_int8_func *f = pare_alloc(v->backend->scratch, 1, sizeof(*f));
    const struct pare_tensor *y;
    struct int8_chain *c;

    if (!f || v->lazy[n->id] || n->n_in < 1 || n->n_out != 1 || !n->in[0] ||
        (!n->op->map && !n->op->map2 && !is_norm(n)) || !pare_is_f32(n->out[0]) ||
        n->out[0]->t.rank < 1 || !pare_numel(&n->out[0]->t))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c)
        return false;
    c->layout = layout_of(v, n, f);
    y = &n->out[0]->t;
    if (!c->layout || (c->layout == PARE_CHANNELS_LAST && y->rank < 3) || !collect_links(v, n, c))
        return false;
    c->C = y->dim[inner_axis(c, y)];
    c->images = y->rank > 1 ? y->dim[0] : 1;
    c->rows = pare_numel(y) / c->images / c->C;
    c->per = CHUNK / c->C;
    return int8_chain_fill_step(v, c, s);
}

/* ---- run -------------------------------------------------------------------------------- */

static int int8_chain_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct int8_chain *c = s->state;

    for (int i = 0; i < c->n_ops; i++) {
        struct operand *o = &c->op[i];
        float *tile;

        if (o->kind != CHANNEL || !c->per)
            continue;
        tile = pare_alloc_raw(b->arena, (size_t)(c->per * c->C), sizeof(*tile));
        if (!tile)
            return pare_no_memory(err, "for a chain");
        for (int64_t k = 0; k < c->per; k++)
            memcpy(tile + k * c->C, o->data, (size_t)c->C * sizeof(*tile));
        o->data = tile;
    }
    return 0;
}

/* A part of an image: n elements from `at` on, the first at index k of its row. */
struct part {
    int64_t image, at, k, n;
};

static void dequantize(const struct operand *o, const uint8_t *x, float *y, int64_t n)
{
    if (o->f->plain)
        pare_int8_dequantize(&o->f->x, x, 0, y, n);
    else
        pare_int8_floats(&o->f->table, x, y, n);
}

static const float *locate(const struct int8_chain *c, const struct operand *o, struct pare_step *s,
                           const struct part *p, float *room)
{
    const uint8_t *x;
    int64_t n;

    if (o->kind == SINGLE)
        return o->data;
    if (o->kind == CHANNEL)
        return o->data + p->k;
    x = s->in_buf[o->in]->t.data;
    if (o->kind == FULL) {
        dequantize(o, x + p->image * c->rows * c->C + p->at, room, p->n);
        return room;
    }
    n = p->n < c->C ? p->n : c->C;
    dequantize(o, x + p->image * c->C + p->k, room, n);
    for (; n < p->n; n += c->C)
        memcpy(room + n, room, (size_t)c->C * sizeof(*room));
    return room;
}

PARE_SIMD static void affine(const float *x, const float *s, const float *t, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * s[i] + t[i];
}

static void run_part(const struct int8_chain *c, struct pare_step *s, const struct part *p)
{
    float run[CHUNK], a[CHUNK], b[CHUNK];
    uint8_t *y = s->out_buf[0]->t.data;

    for (int i = 0; i < c->n_links; i++) {
        const struct link *l = &c->link[i];
        const struct operand *oa = l->a < 0 ? NULL : &c->op[l->a];
        const struct operand *ob = l->b < 0 ? NULL : &c->op[l->b];
        const float *x = oa ? locate(c, oa, s, p, a) : run;

        if (l->norm) {
            affine(x, ob->data + p->k, ob[1].data + p->k, run, p->n);
        } else if (l->node->op->map2) {
            const float *z = ob ? locate(c, ob, s, p, b) : run;

            l->node->op->map2(l->node, x, !oa || oa->kind != SINGLE, z, !ob || ob->kind != SINGLE,
                              run, p->n);
        } else {
            l->node->op->map(l->node, x, run, p->n);
        }
    }
    pare_int8_quantize(&c->end, run, y, p->image * c->rows * c->C + p->at, p->n);
}

/* Parts of a row, or 1 if a part has several rows. */
static int64_t cuts_of(const struct int8_chain *c)
{
    return c->per ? 1 : (c->C + CHUNK - 1) / CHUNK;
}

/* Parts of an image. */
static int64_t parts_of(const struct int8_chain *c)
{
    return c->per ? (c->rows + c->per - 1) / c->per : c->rows * cuts_of(c);
}

static void run_parts(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct int8_chain *c = s->state;
    const int64_t size = c->rows * c->C, cuts = cuts_of(c), parts = parts_of(c);

    (void)thread;
    for (int64_t k = from; k < to; k++) {
        struct part p = { .image = k / parts };
        int64_t i = k % parts, left;

        p.k = c->per ? 0 : i % cuts * CHUNK;
        p.at = c->per ? i * c->per * c->C : i / cuts * c->C + p.k;
        left = c->per ? size - p.at : c->C - p.k;
        p.n = c->per ? c->per * c->C : CHUNK;
        p.n = p.n < left ? p.n : left;
        run_part(c, s, &p);
    }
}

static int int8_chain_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct int8_chain *c = s->state;

    (void)err;
    pare_parallel(c->images * c->rows * c->C > 16384 ? b->threads : 1, c->images * parts_of(c),
                  run_parts, s);
    return 0;
}

const struct pare_kernel pare_kernel_int8_chain = {
    .name = "int8_chain",
    .doc = "Int8 chains of elementwise operators with several operands.",
    .match = int8_chain_match,
    .init = int8_chain_init,
    .run = int8_chain_run,
};
