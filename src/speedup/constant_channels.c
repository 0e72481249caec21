/* constant_channels.c - which channels are one number all over, at every position, of every sample.
 *
 * A filter of zeros leaves its bias; from there a batch normalisation, an activation or a sum of
 * two such channels leads to another number.  One pass forward in node order finds them all.
 * Whatever is said here holds for all inputs: nothing is measured.
 */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../op/op.h"
#include "speedup.h"

#define MOST_SCANNED ((int64_t)1 << 22) /* elements of a constant operand that are looked at */

float pare_constant_channel(const struct pare_speedup *s, const struct pare_value *v, int axis,
                            int64_t i)
{
    float **axes = s->even[v->id];

    return axes && axes[axis] ? axes[axis][i] : NAN;
}

static bool same(float a, float b)
{
    return a == b; /* and not NAN */
}

/* The list of an axis, made when it is first needed: NAN everywhere. */
static float *list_of(struct pare_speedup *s, const struct pare_value *v, int axis)
{
    float **axes = s->even[v->id], *list;

    if (!axes)
        axes = s->even[v->id] = pare_alloc(s->arena, PARE_MAX_RANK, sizeof(*axes));
    if (!axes || axes[axis])
        return axes ? axes[axis] : NULL;
    list = axes[axis] = pare_alloc_raw(s->arena, (size_t)v->t.dim[axis] + 1, sizeof(*list));
    for (int64_t i = 0; list && i < v->t.dim[axis]; i++)
        list[i] = NAN;
    return list;
}

static bool is_float(const struct pare_value *v)
{
    return v && v->t.dtype == PARE_F32 && v->t.rank >= 0;
}

/* ---- constants themselves ------------------------------------------------------------------ */

/* A constant operand: which of its slices hold one number. */
static int scan(struct pare_speedup *s, const struct pare_value *v, struct pare_err *err)
{
    const float *x = v->t.data;
    int64_t n = pare_numel(&v->t), inner = 1;

    if (s->even[v->id] || !x || !is_float(v) || n > MOST_SCANNED || !n)
        return 0;
    for (int axis = v->t.rank - 1; axis >= 0; axis--) {
        int64_t dim = v->t.dim[axis];
        float *list = list_of(s, v, axis);

        if (!list)
            return pare_no_memory(err, "for the constants of channels");
        for (int64_t i = 0; i < dim; i++)
            list[i] = x[i * inner];
        for (int64_t i = 0; i < n; i++)
            if (!same(list[i / inner % dim], x[i]))
                list[i / inner % dim] = NAN;
        inner *= dim;
    }
    return 0;
}

/* One number for the whole of a constant; NAN when it is more. */
static float whole(const struct pare_value *v)
{
    const float *x = v->t.data;
    int64_t n = pare_numel(&v->t);

    if (!(v->flags & PARE_V_CONST) || !x || !is_float(v) || n < 1 || n > MOST_SCANNED)
        return NAN;
    for (int64_t i = 1; i < n; i++)
        if (!same(x[0], x[i]))
            return NAN;
    return x[0];
}

/* ---- elementwise operators --------------------------------------------------------------- */

/* What an operand, broadcast to y, has at index i of y's axis. */
static float operand(const struct pare_speedup *s, const struct pare_value *v,
                     const struct pare_value *y, int axis, int64_t i)
{
    int at = axis - (y->t.rank - v->t.rank);
    float all = whole(v);

    if (!isnan(all) || at < 0)
        return all;
    return pare_constant_channel(s, v, at, v->t.dim[at] == 1 ? 0 : i);
}

/* f(a, anything) may be one number: 0 * b is. */
static float with_anything(const struct pare_node *n, float a, float b)
{
    static const float any[] = { -1e30f, -2.5f, -1, -0.3f, 0, 0.7f, 1, 3, 1e30f };
    float y = NAN, first = NAN;

    for (size_t i = 0; i < sizeof(any) / sizeof(*any); i++) {
        const float *pa = isnan(a) ? &any[i] : &a, *pb = isnan(b) ? &any[i] : &b;

        n->op->map2(n, pa, 0, pb, 0, &y, 1);
        if (i && !same(first, y))
            return NAN;
        first = y;
    }
    return y == 0 ? 0 : y;
}

static int map_pair(struct pare_speedup *s, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_value *a = n->in[0], *b = n->in[1], *y = n->out[0];

    for (int k = 0; k < 2; k++)
        if (n->in[k]->flags & PARE_V_CONST)
            PARE_TRY(scan(s, n->in[k], err));
    for (int axis = 0; axis < y->t.rank; axis++)
        for (int64_t i = 0; i < y->t.dim[axis]; i++) {
            float pa = operand(s, a, y, axis, i), pb = operand(s, b, y, axis, i), v;
            float *list;

            if (isnan(pa) && isnan(pb))
                continue;
            if (isnan(pa) || isnan(pb))
                v = with_anything(n, pa, pb);
            else
                n->op->map2(n, &pa, 0, &pb, 0, &v, 1);
            list = isnan(v) ? NULL : list_of(s, y, axis);
            if (!isnan(v) && !list)
                return pare_no_memory(err, "for the constants of channels");
            if (list)
                list[i] = v;
        }
    return 0;
}

static int map_one(struct pare_speedup *s, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_value *x = n->in[0], *y = n->out[0];

    for (int axis = 0; s->even[x->id] && axis < x->t.rank; axis++) {
        const float *from = s->even[x->id][axis];
        float *to = from ? list_of(s, y, axis) : NULL;

        if (!from)
            continue;
        if (!to)
            return pare_no_memory(err, "for the constants of channels");
        for (int64_t i = 0; i < x->t.dim[axis]; i++)
            if (!isnan(from[i]))
                n->op->map(n, &from[i], &to[i], 1);
    }
    return 0;
}

/* ---- operators that carry channels along ---------------------------------------------------- */

/* An output's axis while inputs are looked at: what was found, and whether anything was. */
struct landing {
    const struct pare_value *y;
    int axis;
    float *found;
    uint8_t *set;
};

static void land(const struct pare_node *n, struct landing *to, int64_t i, float v)
{
    v = isnan(v) ? v : n->op->constant_channel(n, to->axis, i, v);
    to->found[i] = to->set[i] && !same(to->found[i], v) ? NAN : v;
    to->set[i] = 1;
}

/* The digits of number p. */
static void digits_of(const struct pare_tied *t, int64_t p, int64_t *digit)
{
    for (int d = t->n_digits - 1; d >= 0; d--) {
        digit[d] = p % t->digit[d].size;
        p /= t->digit[d].size;
    }
}

static void carry_digits(const struct pare_speedup *s, const struct pare_tied *t,
                         const struct pare_value *x, struct landing *to)
{
    int64_t digit[2 * PARE_MAX_RANK];

    if (t->n_digits > 2 * PARE_MAX_RANK)
        return;
    for (int64_t p = 0; p < t->a->t.dim[t->ax]; p++) {
        float v = t->a == x ? pare_constant_channel(s, x, t->ax, p) : NAN;

        digits_of(t, p, digit);
        for (int d = 0; d < t->n_digits; d++) {
            if (t->a == to->y && t->digit[d].v == x && isnan(v))
                v = pare_constant_channel(s, x, t->digit[d].axis, digit[d]);
            if (t->a == x && t->digit[d].v == to->y && t->digit[d].axis == to->axis)
                land(t->node, to, digit[d], v);
        }
        if (t->a == to->y && t->ax == to->axis)
            land(t->node, to, p, v);
    }
}

static bool speaks_of(const struct pare_tied *t, const struct pare_value *v, int axis)
{
    bool found = (t->a == v && (axis < 0 || t->ax == axis)) ||
                 (t->b == v && (axis < 0 || t->bx == axis));

    for (int d = 0; d < t->n_digits && !found; d++)
        found = t->digit[d].v == v && (axis < 0 || t->digit[d].axis == axis);
    return found;
}

/* From x to the output's axis, as one tie connects them. */
static void carry(const struct pare_speedup *s, const struct pare_tied *t,
                  const struct pare_value *x, struct landing *to)
{
    bool forth = t->a == x && t->b == to->y && t->bx == to->axis;
    bool back = t->b == x && t->a == to->y && t->ax == to->axis;

    if (!speaks_of(t, x, -1) || !speaks_of(t, to->y, to->axis))
        return;
    switch (t->kind) {
    case PARE_TIE_SAME:
        for (int64_t i = 0; (forth || back) && i < to->y->t.dim[to->axis]; i++)
            land(t->node, to, i, pare_constant_channel(s, x, forth ? t->ax : t->bx, i));
        break;
    case PARE_TIE_PART:
        for (int64_t i = 0; i < t->b->t.dim[t->bx]; i++)
            if (forth)
                land(t->node, to, i, pare_constant_channel(s, x, t->ax, t->from + i));
            else if (back)
                land(t->node, to, t->from + i, pare_constant_channel(s, x, t->bx, i));
        break;
    case PARE_TIE_PICK:
        for (int64_t i = 0; forth && i < t->b->t.dim[t->bx]; i++)
            land(t->node, to, i, pare_constant_channel(s, x, t->ax, t->index[i]));
        break;
    case PARE_TIE_DIGITS: carry_digits(s, t, x, to); break;
    case PARE_TIE_GROUPS:
    case PARE_TIE_SUM:
    case PARE_TIE_FREEZE: break;
    }
}

/* Input k goes to the outputs: not a scale or a list of sizes.  One that is there twice counts
 * once. */
static bool carries(const struct pare_node *n, int k)
{
    for (int i = 0; i < k; i++)
        if (n->in[i] == n->in[k])
            return false;
    return is_float(n->in[k]) && (!k || n->op->constant_channel == pare_constant_channel_same);
}

static int carry_axis(struct pare_speedup *s, const struct pare_node *n, struct landing *to,
                      struct pare_err *err)
{
    const struct pare_tied *t = pare_keep_sets_ties(s->kept)->tie;
    size_t size = (size_t)to->y->t.dim[to->axis] + 1;
    float *list;
    bool any = false;

    to->found = pare_alloc(s->arena, size, sizeof(*to->found));
    to->set = pare_alloc(s->arena, size, 1);
    if (!to->found || !to->set)
        return pare_no_memory(err, "for the constants of channels");
    for (int k = 0; k < n->n_in; k++)
        for (int i = s->first_tie[n->id]; n->in[k] && i < s->first_tie[n->id + 1]; i++)
            if (carries(n, k))
                carry(s, &t[i], n->in[k], to);
    for (int64_t i = 0; i + 1 < (int64_t)size; i++)
        any |= to->set[i] && !isnan(to->found[i]);
    if (!any)
        return 0;
    list = list_of(s, to->y, to->axis);
    if (!list)
        return pare_no_memory(err, "for the constants of channels");
    for (int64_t i = 0; i + 1 < (int64_t)size; i++)
        list[i] = to->set[i] ? to->found[i] : NAN;
    return 0;
}

/* Anything known of its inputs? */
static bool any_known(const struct pare_speedup *s, const struct pare_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && s->even[n->in[i]->id])
            return true;
    return false;
}

static int carry_all(struct pare_speedup *s, const struct pare_node *n, struct pare_err *err)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->flags & PARE_V_CONST && carries(n, k))
            PARE_TRY(scan(s, n->in[k], err));
    if (!any_known(s, n))
        return 0;
    for (int k = 0; k < n->n_out; k++)
        for (int axis = 0; is_float(n->out[k]) && axis < n->out[k]->t.rank; axis++) {
            struct landing to = { .y = n->out[k], .axis = axis };

            PARE_TRY(carry_axis(s, n, &to, err));
        }
    return 0;
}

/* ---- sums --------------------------------------------------------------------------------- */

/* y[o] is one number when every x[i] that it has a weight for is, and no border changes that. */
static float sum_of(const struct pare_speedup *s, const struct pare_sum *m, int64_t o, float bias)
{
    int64_t first = o / m->Og * m->Ig;
    double sum = 0;

    for (int64_t i = first; i < first + m->Ig; i++) {
        float c = pare_constant_channel(s, m->x, m->l.x_axis, i);

        if (c == 0 || pare_sum_zero(m, o, i))
            continue;
        if (isnan(c) || m->l.borders)
            return NAN;
        sum += (double)c * pare_sum_total(m, o, i);
    }
    return (float)((double)bias + (double)m->l.scale * sum);
}

/* The bias of output o; NAN when it is not known. */
static float bias_of(const struct pare_sum *m, int64_t o)
{
    const struct pare_value *b = m->l.bias >= 0 && m->l.bias < m->n->n_in ? m->n->in[m->l.bias]
                                                                          : NULL;
    int64_t n = b ? pare_numel(&b->t) : 0;

    if (!b)
        return 0;
    if (!(b->flags & PARE_V_CONST) || !b->t.data || !is_float(b) || (n != 1 && n != m->O) ||
        (n > 1 && b->t.dim[b->t.rank - 1] != n))
        return NAN;
    return pare_f32(&b->t)[n == 1 ? 0 : o];
}

static int sum_all(struct pare_speedup *s, const struct pare_node *n, struct pare_err *err)
{
    struct pare_sum m;

    if (!pare_sum_open(n, &m))
        return 0;
    for (int64_t o = 0; o < m.O; o++) {
        float b = bias_of(&m, o), v = isnan(b) ? b : sum_of(s, &m, o, b);
        float *list = isnan(v) ? NULL : list_of(s, m.y, m.l.y_axis);

        if (isnan(v))
            continue;
        if (!list)
            return pare_no_memory(err, "for the constants of channels");
        list[o] = v * m.l.outer;
    }
    return 0;
}

/* Two operands that both change: what is 0 in one is 0 in the product, along the axes that lead
 * from the operand to the result. */
static int product_zeros(struct pare_speedup *s, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_ties *ties = pare_keep_sets_ties(s->kept);

    if (!(n->op->flags & PARE_OP_PRODUCT) || n->n_in != 2)
        return 0;
    for (int k = 0; k < 2; k++)
        if (n->in[k]->flags & PARE_V_CONST)
            PARE_TRY(scan(s, n->in[k], err));
    for (int i = s->first_tie[n->id]; i < s->first_tie[n->id + 1]; i++) {
        const struct pare_tied *t = &ties->tie[i];
        const struct pare_value *x = t->b == n->out[0] ? t->a : t->b;
        int xa = t->b == n->out[0] ? t->ax : t->bx, ya = t->b == n->out[0] ? t->bx : t->ax;

        if (t->kind != PARE_TIE_SAME || (t->a != n->out[0] && t->b != n->out[0]) ||
            (x != n->in[0] && x != n->in[1]))
            continue;
        for (int64_t c = 0; c < x->t.dim[xa]; c++) {
            float *list;

            if (pare_constant_channel(s, x, xa, c) != 0)
                continue;
            list = list_of(s, n->out[0], ya);
            if (!list)
                return pare_no_memory(err, "for the constants of channels");
            list[c] = 0;
        }
    }
    return 0;
}

static int made_axis(struct pare_speedup *s, const struct pare_node *n, int k, int axis,
                     struct pare_err *err)
{
    const struct pare_value *y = n->out[k];
    struct pare_needed about = { .s = s };

    for (int64_t i = 0; i < y->t.dim[axis]; i++) {
        float v = n->op->constant_output(n, &about, k, axis, i);
        float *list = isnan(v) ? NULL : list_of(s, y, axis);

        if (!isnan(v) && !list)
            return pare_no_memory(err, "for the constants of channels");
        if (list)
            list[i] = v;
    }
    return 0;
}

/* What a node's own weights make of it. */
static int made_all(struct pare_speedup *s, const struct pare_node *n, struct pare_err *err)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->flags & PARE_V_CONST)
            PARE_TRY(scan(s, n->in[k], err));
    for (int k = 0; k < n->n_out; k++) {
        const struct pare_value *y = n->out[k];

        for (int axis = 0; is_float(y) && axis < y->t.rank; axis++)
            PARE_TRY(made_axis(s, n, k, axis, err));
    }
    return 0;
}

/* ---- all ----------------------------------------------------------------------------------- */

static int look(struct pare_speedup *s, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_op *op = n->op;
    const struct pare_value *y = n->n_out ? n->out[0] : NULL;

    if (op && op->constant_output && pare_keep_sets_asked(s->kept, n))
        return made_all(s, n, err);
    if (!op || !y || !is_float(y) || y->flags & PARE_V_CONST || !n->n_in || !is_float(n->in[0]))
        return 0;
    if (op->linear) {
        struct pare_sum m;

        return pare_sum_open(n, &m) ? sum_all(s, n, err) : product_zeros(s, n, err);
    }
    if (op->map && !op->constant_channel)
        return map_one(s, n, err);
    if (op->map2 && n->n_in == 2 && is_float(n->in[1]) && n->version >= 7)
        return map_pair(s, n, err);
    if (op->constant_channel && pare_keep_sets_ties(s->kept)->n)
        return carry_all(s, n, err);
    return 0;
}

int pare_speedup_constants(struct pare_speedup *s, struct pare_err *err)
{
    s->even = pare_alloc(s->arena, (size_t)s->g->n_values + 1, sizeof(*s->even));
    if (!s->even)
        return pare_no_memory(err, "for the constants of channels");
    for (int i = 0; i < s->g->n_nodes; i++)
        if (s->live[i])
            PARE_TRY(look(s, s->g->node[i], err));
    return 0;
}
