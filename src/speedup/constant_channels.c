/* constant_channels.c - find channels that are constant at every position and for every input.
 *
 * A filter of zeros outputs its bias.  A batch normalization, an activation or a sum of constant
 * channels is another constant.  One forward pass in node order finds them all.  The result is
 * proved from the weights, not measured on samples.
 */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../graph/tie_carry.h"
#include "../op/op.h"
#include "speedup.h"

#define MAX_SCANNED ((int64_t)1 << 22) /* larger constant operands are not scanned */

float pare_constant_channel(const struct pare_speedup *s, const struct pare_value *v, int axis,
                            int64_t i)
{
    float **axes = s->constant[v->id];

    return axes && axes[axis] ? axes[axis][i] : NAN;
}

static bool same(float a, float b)
{
    return a == b; /* and not NAN */
}

/* The list of constants of an axis; created on first use, filled with NAN. */
static float *list_of(struct pare_speedup *s, const struct pare_value *v, int axis)
{
    float **axes = s->constant[v->id], *list;

    if (!axes)
        axes = s->constant[v->id] = pare_alloc(s->arena, PARE_MAX_RANK, sizeof(*axes));
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

/* ---- constants themselves -------------------------------------------------------------------- */

/* Find the slices of an initializer whose elements are all equal. */
static int scan(struct pare_speedup *s, const struct pare_value *v, struct pare_err *err)
{
    const float *x = v->t.data;
    int64_t n = pare_numel(&v->t), inner = 1;

    if (s->constant[v->id] || !x || !is_float(v) || n > MAX_SCANNED || !n)
        return 0;
    for (int axis = v->t.rank - 1; axis >= 0; axis--) {
        int64_t dim = v->t.dim[axis];
        float *list = list_of(s, v, axis);

        if (!list)
            return pare_no_memory(err, "for constant channels");
        for (int64_t i = 0; i < dim; i++)
            list[i] = x[i * inner];
        for (int64_t i = 0; i < n; i++)
            if (!same(list[i / inner % dim], x[i]))
                list[i / inner % dim] = NAN;
        inner *= dim;
    }
    return 0;
}

/* The element that all elements of a constant equal; NAN: they differ. */
static float uniform_element(const struct pare_value *v)
{
    const float *x = v->t.data;
    int64_t n = pare_numel(&v->t);

    if (!(v->flags & PARE_V_CONST) || !x || !is_float(v) || n < 1 || n > MAX_SCANNED)
        return NAN;
    for (int64_t i = 1; i < n; i++)
        if (!same(x[0], x[i]))
            return NAN;
    return x[0];
}

/* ---- elementwise operators ------------------------------------------------------------------- */

/* The constant of an operand, broadcast to y, at index i of y's axis; NAN: none. */
static float operand(const struct pare_speedup *s, const struct pare_value *v,
                     const struct pare_value *y, int axis, int64_t i)
{
    int at = axis - (y->t.rank - v->t.rank);
    float all = uniform_element(v);

    if (!isnan(all) || at < 0)
        return all;
    return pare_constant_channel(s, v, at, v->t.dim[at] == 1 ? 0 : i);
}

/* f(a, b) may be constant although only one operand is (NAN: the other), as 0 * b.  Tested with
 * samples. */
static float absorbed_constant(const struct pare_node *n, float a, float b)
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
                v = absorbed_constant(n, pa, pb);
            else
                n->op->map2(n, &pa, 0, &pb, 0, &v, 1);
            list = isnan(v) ? NULL : list_of(s, y, axis);
            if (!isnan(v) && !list)
                return pare_no_memory(err, "for constant channels");
            if (list)
                list[i] = v;
        }
    return 0;
}

static int map_one(struct pare_speedup *s, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_value *x = n->in[0], *y = n->out[0];

    for (int axis = 0; s->constant[x->id] && axis < x->t.rank; axis++) {
        const float *from = s->constant[x->id][axis];
        float *to = from ? list_of(s, y, axis) : NULL;

        if (!from)
            continue;
        if (!to)
            return pare_no_memory(err, "for constant channels");
        for (int64_t i = 0; i < x->t.dim[axis]; i++)
            if (!isnan(from[i]))
                n->op->map(n, &from[i], &to[i], 1);
    }
    return 0;
}

/* ---- operators that move channels ------------------------------------------------------------ */

/* An axis of an output, and the constants that inputs contribute to it. */
struct target {
    const struct pare_value *y;
    int axis;
    float *found; /* NAN: contributions differ */
    uint8_t *set; /* found[i] is set */
};

static void contribute(const struct pare_node *n, struct target *to, int64_t i, float v)
{
    v = isnan(v) ? v : n->op->constant_channel(n, to->axis, i, v);
    to->found[i] = to->set[i] && !same(to->found[i], v) ? NAN : v;
    to->set[i] = 1;
}

/* One relation of a node, from an input to an output. */
struct carried {
    const struct pare_speedup *s;
    const struct pare_node *n;
    const struct pare_value *x;
    struct target *to;
};

static void carry(void *user, int64_t to, const struct pare_channel *from, int n)
{
    const struct carried *c = user;
    float v = NAN;

    for (int k = 0; k < n && isnan(v); k++)
        v = pare_constant_channel(c->s, c->x, from[k].axis, from[k].i);
    contribute(c->n, c->to, to, v);
}

/* Is input k data that reaches the outputs, not a scale or a shape?  An input that occurs twice
 * counts once. */
static bool carries(const struct pare_node *n, int k)
{
    for (int i = 0; i < k; i++)
        if (n->in[i] == n->in[k])
            return false;
    return is_float(n->in[k]) && (!k || n->op->constant_channel == pare_constant_channel_same);
}

static int carry_axis(struct pare_speedup *s, const struct pare_node *n, struct target *to,
                      struct pare_err *err)
{
    const struct pare_tied *t = pare_keep_sets_ties(s->kept)->tie;
    size_t size = (size_t)to->y->t.dim[to->axis] + 1;
    float *list;
    bool any = false;

    to->found = pare_alloc(s->arena, size, sizeof(*to->found));
    to->set = pare_alloc(s->arena, size, 1);
    if (!to->found || !to->set)
        return pare_no_memory(err, "for constant channels");
    for (int k = 0; k < n->n_in; k++)
        for (int i = s->first_tie[n->id]; n->in[k] && i < s->first_tie[n->id + 1]; i++)
            if (carries(n, k))
                pare_tie_carry(&t[i], n->in[k], to->y, to->axis, carry,
                               &(struct carried){ s, n, n->in[k], to });
    for (int64_t i = 0; i + 1 < (int64_t)size; i++)
        any |= to->set[i] && !isnan(to->found[i]);
    if (!any)
        return 0;
    list = list_of(s, to->y, to->axis);
    if (!list)
        return pare_no_memory(err, "for constant channels");
    for (int64_t i = 0; i + 1 < (int64_t)size; i++)
        list[i] = to->set[i] ? to->found[i] : NAN;
    return 0;
}

/* Does any input have a constant channel? */
static bool any_known(const struct pare_speedup *s, const struct pare_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && s->constant[n->in[i]->id])
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
            struct target to = { .y = n->out[k], .axis = axis };

            PARE_TRY(carry_axis(s, n, &to, err));
        }
    return 0;
}

/* ---- linear nodes ---------------------------------------------------------------------------- */

/* y[o] is constant if every x[i] with a nonzero weight is constant, and there is no padding. */
static float sum_of(const struct pare_speedup *s, const struct pare_linear_node *m, int64_t o,
                    float bias)
{
    int64_t first = o / m->Og * m->Ig;
    double sum = 0;

    for (int64_t i = first; i < first + m->Ig; i++) {
        float c = pare_constant_channel(s, m->x, m->l.x_axis, i);

        if (c == 0 || pare_linear_node_is_zero(m, o, i))
            continue;
        if (isnan(c) || m->l.borders)
            return NAN;
        sum += (double)c * pare_linear_node_sum(m, o, i);
    }
    return (float)((double)bias + (double)m->l.scale * sum);
}

/* The bias of output channel o; NAN: not a constant. */
static float bias_of(const struct pare_linear_node *m, int64_t o)
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
    struct pare_linear_node m;

    if (!pare_linear_node_open(n, &m) || m.l.adds)
        return 0;
    for (int64_t o = 0; o < m.O; o++) {
        float b = bias_of(&m, o), v = isnan(b) ? b : sum_of(s, &m, o, b) * m.l.outer, *list;

        if (m.l.after && !isnan(v))
            v = m.l.after(n, v);
        if (isnan(v))
            continue;
        list = list_of(s, m.y, m.l.y_axis);
        if (!list)
            return pare_no_memory(err, "for constant channels");
        list[o] = v;
    }
    return 0;
}

/* A product of two computed operands: a channel that is 0 in one operand is 0 in the product, along
 * axes that the operand shares with the result. */
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
                return pare_no_memory(err, "for constant channels");
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
            return pare_no_memory(err, "for constant channels");
        if (list)
            list[i] = v;
    }
    return 0;
}

/* Operators with a callback made(), for example LSTM, compute the constants themselves. */
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

/* ---- all nodes ------------------------------------------------------------------------------- */

static int find_in_node(struct pare_speedup *s, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_op *op = n->op;
    const struct pare_value *y = n->n_out ? n->out[0] : NULL;

    if (op && op->constant_output && pare_keep_sets_asked(s->kept, n))
        return made_all(s, n, err);
    if (!op || !y || !is_float(y) || y->flags & PARE_V_CONST || !n->n_in || !is_float(n->in[0]))
        return 0;
    if (op->linear) {
        struct pare_linear_node m;

        return pare_linear_node_open(n, &m) ? sum_all(s, n, err) : product_zeros(s, n, err);
    }
    if (op->map && !op->constant_channel)
        return map_one(s, n, err);
    if (op->map2 && n->n_in == 2 && is_float(n->in[1]) && n->version >= 7)
        return map_pair(s, n, err);
    if (op->constant_channel && pare_keep_sets_ties(s->kept)->n)
        return carry_all(s, n, err);
    return 0;
}

/* Along an axis that follows a free dimension, what is constant is so for one size only. */
static void forget_free(const struct pare_speedup *s, const struct pare_node *n)
{
    const struct pare_node *at;

    for (int k = 0; k < n->n_out; k++) {
        const struct pare_value *y = n->out[k];

        for (int axis = 0; y && s->constant[y->id] && axis < y->t.rank; axis++)
            if (pare_axis_is_free(s->g, y, axis) && pare_keep_sets_why(s->kept, y, axis, &at))
                s->constant[y->id][axis] = NULL;
    }
}

int pare_speedup_find_constants(struct pare_speedup *s, struct pare_err *err)
{
    s->constant = pare_alloc(s->arena, (size_t)s->g->n_values + 1, sizeof(*s->constant));
    if (!s->constant)
        return pare_no_memory(err, "for constant channels");
    for (int i = 0; i < s->g->n_nodes; i++)
        if (s->live[i]) {
            PARE_TRY(find_in_node(s, s->g->node[i], err));
            forget_free(s, s->g->node[i]);
        }
    return 0;
}
