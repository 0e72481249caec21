/* int8_function.c - match float values that are a 256-entry function of one int8 tensor. */
#include "int8_function.h"

#include <math.h>

#include "../../op/matrix/matrix.h"
#include "../../op/shape/movement.h"
#include "../../op/op.h"

#define MOST 48 /* nodes to evaluate; a value that is used twice counts twice */

static bool is_lazy(const struct pare_match *v, const struct pare_value *x)
{
    return x->maker && !pare_is_fixed(x) && v->lazy[x->maker->id];
}

/* A float32 constant of one element. */
static bool is_scalar(const struct pare_value *x)
{
    return x && pare_is_const(x) && pare_is_f32(x) && x->t.data && pare_numel(&x->t) == 1;
}

/* ---- match ------------------------------------------------------------------------------ */

static bool is_map(const struct pare_node *n)
{
    if (!n->op->map || n->n_in < 1 || !n->in[0])
        return false;
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (!pare_is_const(n->in[i]) || !n->in[i]->t.data))
            return false;
    return true;
}

static bool is_map2(const struct pare_node *n)
{
    return n->op->map2 && n->n_in == 2 && n->in[0] && n->in[1] &&
           (n->version >= 7 || n->op->domain);
}

int pare_int8_transpose(const struct pare_node *n)
{
    int rank = n->n_in ? n->in[0]->t.rank : 0, perm[PARE_MAX_RANK];
    bool out = true, back = true;

    if (!pare_node_is(n, &pare_op_transpose) || rank < 4 || rank > 5)
        return 0;
    pare_transpose_perm(n, perm);
    for (int i = 1; i < rank; i++) {
        out &= perm[i] == (i == rank - 1 ? 1 : i + 1);
        back &= perm[i] == (i == 1 ? rank - 1 : i - 1);
    }
    return perm[0] ? 0 : out ? 1 : back ? -1 : 0;
}

/* Do layers read this dequantized value as rows (1), or as images or in an unknown way (-1)?  0:
 * elementwise operators, to which the order is the same. */
static int read_as(const struct pare_match *v, const struct pare_value *f32)
{
    const struct pare_consumers *u = &v->consumers[f32->id];
    int rows = 0;
    bool transposed;

    for (int i = 0; i < u->n; i++) {
        const struct pare_node *n = u->node[i];

        if (pare_int8_transpose(n) < 0 ||
            (n->in[0] == f32 && pare_is_plain_product(n, &transposed)))
            rows = 1;
        else if (!n->op || (!n->op->map && !n->op->map2))
            return -1;
    }
    return rows;
}

int pare_int8_result_layout(const struct pare_match *v, const struct pare_value *q)
{
    const struct pare_consumers *u = &v->consumers[q->id];
    int usual = pare_int8_layout(&q->t);
    bool rows = false;

    for (int i = 0; i < u->n; i++) {
        int as = pare_node_is(u->node[i], &pare_op_dequantize_linear)
                     ? read_as(v, u->node[i]->out[0])
                     : -1;

        if (as < 0)
            return usual;
        rows |= as;
    }
    return rows ? 1 : usual;
}

static bool one_scale(const struct pare_node *n, struct pare_value *q, struct pare_int8 *read)
{
    return pare_attr(n, "block_size") == 0 && pare_int8_operand(read, q, n, 1);
}

/* Are all inputs of n lazy functions or constant scalars? */
static bool reads_lazy(const struct pare_match *v, const struct pare_node *n)
{
    bool some = false;

    if (is_map(n))
        return is_lazy(v, n->in[0]) && pare_same_shape(&n->in[0]->t, &n->out[0]->t);
    if (!is_map2(n))
        return pare_int8_transpose(n) && is_lazy(v, n->in[0]);
    for (int i = 0; i < 2; i++) {
        bool late = is_lazy(v, n->in[i]) && pare_same_shape(&n->in[i]->t, &n->out[0]->t);

        if (!late && !is_scalar(n->in[i]))
            return false;
        some |= late;
    }
    return some;
}

/* ---- evaluate --------------------------------------------------------------------------- */

struct eval {
    const struct pare_match *v;
    struct pare_int8_func *f;
    bool found; /* f->x is known */
    int left;   /* nodes that may still be evaluated */
};

struct result {
    float y[256];
    int transpose;
};

static bool eval(struct eval *e, const struct pare_value *x, struct result *r);

static bool eval_quantize(struct eval *e, const struct pare_node *n, struct result *r)
{
    struct pare_int8_end end = { .lo = -INFINITY, .hi = INFINITY };
    uint8_t q[256];

    if (!one_scale(n, n->out[0], &end.q) || !eval(e, n->in[0], r))
        return false;
    pare_int8_quantize(&end, r->y, q, 0, 256);
    for (int i = 0; i < 256; i++)
        r->y[i] = n->out[0]->t.dtype == PARE_U8 ? (float)q[i] : (float)(int8_t)q[i];
    return true;
}

/* Evaluate DequantizeLinear of the root itself, or of int8 values that are a function of it. */
static bool eval_dequantize(struct eval *e, const struct pare_node *n, struct result *r)
{
    const struct pare_node *from = n->in[0]->maker;
    struct pare_int8 q;
    uint8_t all[256];

    if (!one_scale(n, n->in[0], &q))
        return false;
    if (from && e->v->lazy[from->id] && pare_node_is(from, &pare_op_quantize_linear)) {
        if (!eval_quantize(e, from, r))
            return false;
        for (int i = 0; i < 256; i++)
            r->y[i] = (float)((int)r->y[i] - q.zero) * q.scale;
        return true;
    }
    if (e->found && e->f->x.v != q.v)
        return false;
    e->found = true;
    e->f->x = q;
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    pare_int8_dequantize(&q, all, 0, r->y, 256);
    r->transpose = 0;
    return true;
}

static bool eval_map2(struct eval *e, const struct pare_node *n, struct result *r)
{
    struct result b = { .transpose = 0 };
    float one[2] = { 0, 0 };
    bool single[2];

    for (int i = 0; i < 2; i++) {
        single[i] = is_scalar(n->in[i]);
        if (single[i])
            one[i] = (float)pare_get(&n->in[i]->t, 0);
        else if (!eval(e, n->in[i], i ? &b : r))
            return false;
    }
    if (single[0] && single[1])
        return false;
    if (!single[0] && !single[1] && r->transpose != b.transpose)
        return false;
    n->op->map2(n, single[0] ? one : r->y, !single[0], single[1] ? one + 1 : b.y, !single[1], r->y,
                256);
    r->transpose = single[0] ? b.transpose : r->transpose;
    return true;
}

static bool eval_node(struct eval *e, const struct pare_node *n, struct result *r)
{
    int transpose = pare_int8_transpose(n);

    if (pare_node_is(n, &pare_op_dequantize_linear))
        return eval_dequantize(e, n, r);
    e->f->plain &= transpose != 0;
    if (transpose) {
        if (!eval(e, n->in[0], r) || r->transpose == transpose)
            return false;
        r->transpose += transpose;
        return true;
    }
    if (is_map2(n))
        return eval_map2(e, n, r);
    if (!is_map(n) || !eval(e, n->in[0], r))
        return false;
    n->op->map(n, r->y, r->y, 256);
    return true;
}

static bool eval(struct eval *e, const struct pare_value *x, struct result *r)
{
    return is_lazy(e->v, x) && x->maker->op && --e->left >= 0 && eval_node(e, x->maker, r);
}

bool pare_int8_func(const struct pare_match *v, const struct pare_value *f32,
                    struct pare_int8_func *f)
{
    struct eval e = { .v = v, .f = f, .left = MOST };
    struct result r;

    f->plain = true;
    if (!pare_is_f32(f32) || !eval(&e, f32, &r))
        return false;
    memcpy(f->table.f32, r.y, sizeof(r.y));
    pare_int8_table_set(&f->table);
    f->transpose = r.transpose;
    return true;
}

/* Do all consumers of these int8 values, each through one DequantizeLinear, combine them only with
 * the tensor they are computed from? */
static bool only_combined_with(const struct pare_match *v, const struct pare_node *q,
                               const struct pare_value *root)
{
    const struct pare_consumers *u = &v->consumers[q->out[0]->id];
    const struct pare_value *f32;

    if (u->n != 1 || q->out[0]->flags & PARE_V_OUTPUT ||
        !pare_node_is(u->node[0], &pare_op_dequantize_linear))
        return false;
    f32 = u->node[0]->out[0];
    u = &v->consumers[f32->id];
    if (!u->n || f32->flags & PARE_V_OUTPUT)
        return false;
    for (int i = 0; i < u->n; i++) {
        const struct pare_node *n = u->node[i];
        const struct pare_value *other;
        struct pare_int8_func f;

        if (is_map(n) || (is_map2(n) && n->in[0] == n->in[1]))
            continue;
        if (!is_map2(n))
            return false;
        other = n->in[n->in[0] == f32];
        if (!is_scalar(other) && (!pare_same_shape(&other->t, &f32->t) ||
                                  !pare_int8_func(v, other, &f) || f.x.v != root || f.transpose))
            return false;
    }
    return true;
}

bool pare_int8_func_lazy(const struct pare_match *v, const struct pare_node *n)
{
    struct pare_int8_func f = { .plain = true };
    struct eval e = { .v = v, .f = &f, .left = MOST };
    struct result r;
    struct pare_int8 q;

    if (!n->op || n->n_out != 1 || !n->out[0] || n->n_in < 1 || !n->in[0] ||
        n->out[0]->t.rank < 0 || !pare_numel(&n->out[0]->t))
        return false;
    if (pare_node_is(n, &pare_op_quantize_linear))
        return pare_is_f32(n->in[0]) && one_scale(n, n->out[0], &q) &&
               pare_int8_func(v, n->in[0], &f) && !f.transpose && only_combined_with(v, n, f.x.v);
    return pare_is_f32(n->out[0]) && reads_lazy(v, n) && eval_node(&e, n, &r);
}

int pare_int8_func_layout(const struct pare_int8_func *f, int layout)
{
    if (!f->transpose)
        return layout == 1 || layout == PARE_CHANNELS_LAST ? layout : 0;
    if (f->transpose > 0)
        return layout == 1 ? PARE_CHANNELS_LAST : 0;
    return layout == PARE_CHANNELS_LAST ? 1 : 0;
}

int pare_int8_func_keep(const struct pare_match *v, const struct pare_int8_func *f)
{
    if (f->transpose)
        return f->transpose > 0 ? 1 : PARE_CHANNELS_LAST;
    return pare_int8_keep(v, &f->x);
}
