/* int8_concat.c - int8 Concat; operands with another scale are requantized by a table.
 *
 * The result is `outer` rows, each a concatenation of one part per operand: row-major, the axes
 * before the concatenation axis; with channels last, every pixel of every image.
 */
#include "../fuse/int8_operands.h"

#include <math.h>

#include "../../op/shape/movement.h"
#include "../../base/team.h"

struct part {
    int64_t at, len; /* of a row */
    bool same;
    uint8_t table[256];
};

struct int8_concat {
    struct pare_int8_end end;
    int64_t outer, row;
    struct part *part;
};

static void fill_table(struct part *p, const struct pare_int8 *x, const struct pare_int8_end *end)
{
    uint8_t all[256];
    float f32[256];

    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    pare_int8_dequantize(x, all, 0, f32, 256);
    pare_int8_quantize(end, f32, p->table, 0, 256);
    p->same = !memcmp(p->table, all, sizeof(all));
}

/* Inputs of QLinearConcat: scale and zero point of the result, then three inputs per operand. */
enum { Y_SCALE, Y_ZERO, FIRST };

static int count(const struct pare_node *n)
{
    return n->op->domain ? (n->n_in - FIRST) / 3 : n->n_in;
}

/* The int8 tensor of operand k: the source of its DequantizeLinear, or the operand itself. */
static bool operand(const struct pare_match *v, const struct pare_node *n, int k, bool f32,
                    struct pare_int8 *q)
{
    if (n->op->domain)
        return pare_int8_operand(q, n->in[FIRST + 3 * k], n, FIRST + 3 * k + 1);
    if (f32)
        return pare_int8_source(v, n->in[k], q) && !q->viewed;
    *q = (struct pare_int8){ .v = n->in[k] };
    return n->in[k]->t.dtype == n->out[0]->t.dtype;
}

static bool read_parts(const struct pare_match *v, struct pare_node *n, struct pare_step *s,
                       struct int8_concat *c, bool f32)
{
    int axis = n->op->domain ? (int)pare_attr(n, "axis") : pare_concat_axis(n), layout = 1;
    struct pare_int8 q;

    axis += axis < 0 ? n->out[0]->t.rank : 0;
    for (int k = 0; k < count(n); k++) {
        if (!operand(v, n, k, f32, &q))
            return false;
        s->in[k] = q.v;
        if (f32 || n->op->domain)
            fill_table(&c->part[k], &q, &c->end);
        else
            c->part[k].same = true;
        if (axis == 1 && !pare_is_const(q.v) && pare_layout_of(v, q.v) == PARE_CHANNELS_LAST)
            layout = PARE_CHANNELS_LAST;
    }
    for (int k = 0; k < count(n); k++) {
        const struct pare_tensor *t = &s->in[k]->t;

        c->part[k].at = c->row;
        c->part[k].len = layout == PARE_CHANNELS_LAST ? t->dim[1] : pare_span(t, axis, t->rank);
        c->row += c->part[k].len;
        s->in_block[k] = layout;
    }
    s->out_block[0] = layout;
    c->outer = pare_numel(&n->out[0]->t) / c->row;
    return true;
}

static bool int8_concat_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    bool f32, qlinear = pare_node_is(n, &pare_op_qlinear_concat);
    struct int8_concat *c;

    if ((!qlinear && !pare_node_is(n, &pare_op_concat)) || !pare_numel(&n->out[0]->t))
        return false;
    f32 = pare_is_f32(n->out[0]);
    if (!f32 && n->out[0]->t.dtype != PARE_U8 && n->out[0]->t.dtype != PARE_I8)
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || (f32 && !pare_int8_end(v, n->out[0], &c->end)) ||
        (n->op->domain && !pare_int8_end_at(&c->end, n, Y_SCALE)))
        return false;
    c->part = pare_alloc(v->backend->arena, (size_t)count(n), sizeof(*c->part));
    if (!c->part || !pare_step_lists(s, v, count(n), 1, f32 ? c->end.n : 0) ||
        !read_parts(v, n, s, c, f32))
        return false;
    s->state = c;
    s->out[0] = f32 ? c->end.q.v : n->out[0];
    for (int i = 0; i < s->n_fused; i++)
        s->fused[i] = c->end.node[i];
    return true;
}

static void copy_rows(void *arg, int64_t first, int64_t end, int thread)
{
    struct pare_step *s = arg;
    const struct int8_concat *c = s->state;
    uint8_t *y = s->out_buf[0]->t.data;

    (void)thread;
    for (int64_t o = first; o < end; o++)
        for (int k = 0; k < s->n_in; k++) {
            const struct part *p = &c->part[k];
            const uint8_t *from = (const uint8_t *)s->in_buf[k]->t.data + o * p->len;
            uint8_t *to = y + o * c->row + p->at;

            if (p->same)
                memcpy(to, from, (size_t)p->len);
            else
                pare_int8_bytes(p->table, from, to, p->len);
        }
}

static int int8_concat_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct int8_concat *c = s->state;

    (void)err;
    pare_parallel(c->outer * c->row > 65536 ? b->threads : 1, c->outer, copy_rows, s);
    return 0;
}

const struct pare_kernel pare_kernel_int8_concat = {
    .name = "int8_concat",
    .doc = "Int8 Concat.",
    .match = int8_concat_match,
    .run = int8_concat_run,
};
