/* qoperator.c - fuse DequantizeLinear - operator - QuantizeLinear into one int8 operator.
 *
 * ONNX has QLinearConv and QLinearMatMul; Gemm, Add, means and Concat have int8 operators of ONNX
 * Runtime in the domain com.microsoft.  Reshapes and MaxPool accept int8, so DequantizeLinear is
 * first moved after them, where it may cancel out with a QuantizeLinear.
 */
#include <math.h>
#include <string.h>

#include "../op/op.h"
#include "edit_internal.h"

static bool is(const struct pare_edit_slot *s, const char *type)
{
    return s && s->p && !strcmp(s->p->op_type, type) && (!s->p->domain || !*s->p->domain);
}

static const Onnx__TensorProto *constant(const struct pare_edit *e, const char *name)
{
    return pare_map_get(&e->constants, name);
}

static int64_t axis_of(const Onnx__NodeProto *p)
{
    for (size_t i = 0; i < p->n_attribute; i++)
        if (!strcmp(p->attribute[i]->name, "axis"))
            return p->attribute[i]->i;
    return 1;
}

/* ---- consumers ------------------------------------------------------------------------------- */

/* The only consumer of a value; NULL: none, several, or it is an output of the graph. */
static struct pare_edit_slot *only_consumer(const struct pare_edit *e, const char *value)
{
    struct pare_edit_slot *found = NULL;

    for (size_t i = 0; i < e->graph.n_output; i++)
        if (!strcmp(e->graph.output[i]->name, value))
            return NULL;
    for (int i = 0; i < e->n; i++)
        for (size_t k = 0; e->slot[i].p && k < e->slot[i].p->n_input; k++)
            if (!strcmp(e->slot[i].p->input[k], value)) {
                if (found)
                    return NULL;
                found = &e->slot[i];
            }
    return found;
}

/* Subgraphs may capture any value, so models with subgraphs are not changed. */
static bool has_subgraphs(const struct pare_edit *e)
{
    for (int i = 0; i < e->n_file; i++)
        for (size_t k = 0; e->slot[i].p && k < e->slot[i].p->n_attribute; k++)
            if (e->slot[i].p->attribute[k]->g || e->slot[i].p->attribute[k]->n_graphs)
                return true;
    return false;
}

static bool is_used(const struct pare_edit *e, const char *value)
{
    for (size_t i = 0; i < e->graph.n_output; i++)
        if (!strcmp(e->graph.output[i]->name, value))
            return true;
    for (int i = 0; i < e->n; i++)
        for (size_t k = 0; e->slot[i].p && k < e->slot[i].p->n_input; k++)
            if (!strcmp(e->slot[i].p->input[k], value))
                return true;
    return false;
}

/* The slot's operator; NULL: unknown. */
static const struct pare_op *op_of(const struct pare_edit_slot *s)
{
    return s && s->p ? pare_find_op(s->p->domain ? s->p->domain : "", s->p->op_type) : NULL;
}

/* ---- matching -------------------------------------------------------------------------------- */

#define MICROSOFT "com.microsoft"

struct match {
    struct pare_edit_slot *op, *x, *w, *bias, *act, *q; /* bias and act may be NULL */
};

/* One scale for the tensor, or, for weights, one for each index of the output channel axis. */
static bool good_scale(const struct pare_edit *e, const struct pare_edit_slot *s, int64_t axis)
{
    const Onnx__TensorProto *t = constant(e, s->p->input[1]);

    return s->p->n_input == 3 && t && (t->n_dims == 0 || (axis >= 0 && axis_of(s->p) == axis));
}

/* Is the type, that of the zero point, int8 or uint8? */
static bool is_8bit(const struct pare_edit *e, const struct pare_edit_slot *s)
{
    const Onnx__TensorProto *z = constant(e, s->p->input[2]);

    return z && (z->data_type == PARE_I8 || z->data_type == PARE_U8) && z->raw_data.len > 0;
}

/* Read a float scalar: an initializer or a Constant. */
static bool number(const struct pare_edit *e, const char *name, double *v)
{
    const struct pare_edit_slot *s = pare_edit_maker(e, name);
    const Onnx__TensorProto *t = constant(e, name);
    float f;

    for (size_t i = 0; !t && is(s, "Constant") && i < s->p->n_attribute; i++)
        if (!strcmp(s->p->attribute[i]->name, "value"))
            t = s->p->attribute[i]->t;
    if (!t || t->data_type != PARE_F32)
        return false;
    if (t->has_raw_data && t->raw_data.len == sizeof(f))
        memcpy(&f, t->raw_data.data, sizeof(f));
    else if (t->n_float_data == 1)
        f = t->float_data[0];
    else
        return false;
    *v = (double)f;
    return true;
}

/* Relu and Clip are redundant if saturation to the quantized type clamps at least as tightly:
 * round(bound / scale) + zero is the end of the type's range, or outside of it. */
static bool is_redundant(const struct pare_edit *e, const struct match *m)
{
    const Onnx__TensorProto *z = constant(e, m->q->p->input[2]);
    double lo = z->data_type == PARE_I8 ? -128 : 0, hi = lo + 255, scale,
           bound[2] = { 0, INFINITY };
    double zero = z->data_type == PARE_I8 ? (double)(int8_t)z->raw_data.data[0]
                                          : (double)z->raw_data.data[0];

    if (!number(e, m->q->p->input[1], &scale) || !(scale > 0))
        return false;
    if (is(m->act, "Clip"))
        for (size_t k = 0; k < 2; k++)
            if (m->act->p->n_input <= k + 1 || !number(e, m->act->p->input[k + 1], &bound[k]))
                return false;
    return rint(bound[0] / scale) + zero <= lo && rint(bound[1] / scale) + zero >= hi;
}

static bool find_end(const struct pare_edit *e, struct match *m)
{
    const struct pare_op *next;

    m->q = only_consumer(e, m->op->p->output[0]);
    next = op_of(m->q);
    if (next && next->clamp) {
        m->act = m->q;
        m->q = only_consumer(e, m->act->p->output[0]);
    }
    return is(m->q, "QuantizeLinear") && good_scale(e, m->q, -1) && is_8bit(e, m->q) &&
           (!m->act || is_redundant(e, m));
}

static double attr(const Onnx__NodeProto *p, const char *name, double none)
{
    for (size_t i = 0; i < p->n_attribute; i++)
        if (!strcmp(p->attribute[i]->name, name))
            return p->attribute[i]->has_f ? (double)p->attribute[i]->f : (double)p->attribute[i]->i;
    return none;
}

/* The output channel axis of the weight; -1: this node has no int8 operator. */
static int channel_axis(const struct pare_edit_slot *s)
{
    if (is(s, "Conv"))
        return 0;
    if (is(s, "Gemm"))
        return attr(s->p, "alpha", 1) != 1 || attr(s->p, "beta", 1) != 1 ? -1
               : attr(s->p, "transB", 0) != 0                            ? 0
                                                                         : 1;
    return is(s, "MatMul") ? 1 : -1;
}

static bool find(const struct pare_edit *e, struct pare_edit_slot *s, struct match *m)
{
    bool conv = is(s, "Conv");
    int axis = channel_axis(s);
    const Onnx__TensorProto *w;

    if (axis < 0 || s->p->n_input < 2)
        return false;
    *m = (struct match){ .op = s };
    m->x = pare_edit_maker(e, s->p->input[0]);
    m->w = pare_edit_maker(e, s->p->input[1]);
    if (!is(m->x, "DequantizeLinear") || !is(m->w, "DequantizeLinear") ||
        !good_scale(e, m->x, -1) || !is_8bit(e, m->x))
        return false;
    w = constant(e, m->w->p->input[0]);
    if (!w || !is_8bit(e, m->w) || (!conv && w->n_dims != 2) || !good_scale(e, m->w, axis))
        return false;
    if (s->p->n_input > 2 && *s->p->input[2]) {
        const Onnx__TensorProto *b;

        m->bias = pare_edit_maker(e, s->p->input[2]);
        b = is(m->bias, "DequantizeLinear") ? constant(e, m->bias->p->input[0]) : NULL;
        if (!b || b->data_type != PARE_I32)
            return false;
    }
    return find_end(e, m);
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* Replace the matched operator by a node of another type with n inputs, to be set by the caller.
 * It has the operator's attributes and the QuantizeLinear's output. */
static Onnx__NodeProto *replace_match(struct pare_edit *e, const struct match *m, const char *type,
                                      size_t n)
{
    Onnx__NodeProto *p = pare_alloc(e->a, 1, sizeof(*p));
    char **io = pare_alloc(e->a, n + 1, sizeof(*io));
    struct pare_err err;

    if (!p || !io)
        return NULL;
    *p = *m->op->p;
    p->op_type = pare_edit_text(type);
    p->input = io;
    p->n_input = n;
    p->output = io + n;
    p->output[0] = m->q->p->output[0];
    p->n_output = 1;
    m->op->p = p;
    m->op->own = true;
    m->q->p = NULL;
    if (m->act)
        m->act->p = NULL;
    return pare_edit_set_maker(e, p->output[0], (int)(m->op - e->slot), &err) ? NULL : p;
}

/* QGemm has no beta. */
static int gemm_attrs(struct pare_edit *e, Onnx__NodeProto *p, struct pare_err *err)
{
    PARE_TRY(pare_edit_drop_attr(e, p, "beta", err));
    PARE_TRY(pare_edit_drop_attr(e, p, "broadcast", err));
    p->domain = pare_edit_text(MICROSOFT);
    return pare_edit_import(e, MICROSOFT, 1, err);
}

static int fuse(struct pare_edit *e, const struct match *m, struct pare_err *err)
{
    bool gemm = is(m->op, "Gemm");
    char **q = m->q->p->input;
    Onnx__NodeProto *p = replace_match(e, m, op_of(m->op)->qlinear_type, m->bias || gemm ? 9 : 8);
    char *bias = m->bias ? m->bias->p->input[0] : pare_edit_text("");

    if (!p)
        return pare_edit_no_memory(err);
    memcpy(p->input, m->x->p->input, 3 * sizeof(*q));
    memcpy(p->input + 3, m->w->p->input, 3 * sizeof(*q));
    memcpy(p->input + (gemm ? 7 : 6), q + 1, 2 * sizeof(*q));
    if (p->n_input == 9)
        p->input[gemm ? 6 : 8] = bias;
    return gemm ? gemm_attrs(e, p, err) : 0;
}

/* ---- Add, pools and Concat ------------------------------------------------------------------- */

/* All operands are dequantized from the type of the result. */
static bool find_join(const struct pare_edit *e, struct pare_edit_slot *s, struct match *m,
                      const struct pare_op **to)
{
    const struct pare_op *op = op_of(s);
    const Onnx__TensorProto *z, *zero;

    *to = op && op->flags & PARE_OP_INT8_JOIN ? pare_find_op(MICROSOFT, op->qlinear_type) : NULL;
    *m = (struct match){ .op = s };
    if (!*to || attr(s->p, "dilations", -1) >= 0 || !find_end(e, m))
        return false;
    zero = constant(e, m->q->p->input[2]);
    for (size_t i = 0; i < s->p->n_input; i++) {
        const struct pare_edit_slot *x = pare_edit_maker(e, s->p->input[i]);

        if (!is(x, "DequantizeLinear") || !good_scale(e, x, -1) || !is_8bit(e, x))
            return false;
        z = constant(e, x->p->input[2]);
        if (z->data_type != zero->data_type)
            return false;
    }
    return true;
}

static int fuse_join(struct pare_edit *e, const struct match *m, const struct pare_op *to,
                     struct pare_err *err)
{
    const Onnx__NodeProto *old = m->op->p;
    char **q = m->q->p->input;
    bool y_first = to->scales.y < to->scales.x;
    size_t at = y_first ? 2 : 0;
    Onnx__NodeProto *p = replace_match(e, m, to->type, 3 * old->n_input + 2);

    if (!p)
        return pare_edit_no_memory(err);
    for (size_t i = 0; i < old->n_input; i++, at += 3)
        memcpy(p->input + at, pare_edit_maker(e, old->input[i])->p->input, 3 * sizeof(*q));
    memcpy(p->input + (y_first ? 0 : at), q + 1, 2 * sizeof(*q));
    p->domain = pare_edit_text(MICROSOFT);
    return pare_edit_import(e, MICROSOFT, 1, err);
}

/* ---- operators that only move data ----------------------------------------------------------- */

static bool only_moves_data(const struct pare_edit *e, const struct pare_edit_slot *s)
{
    const struct pare_op *op = op_of(s);

    return op && s->p->n_output == 1 && pare_moves_int8(op, (int)pare_edit_version(e));
}

/* Move the node that was inserted last before its consumers. */
static int move_up(struct pare_edit *e, struct pare_err *err)
{
    struct pare_edit_slot last = e->slot[e->n - 1];
    int to = e->n_file;

    while (to < e->n - 1) {
        const Onnx__NodeProto *p = e->slot[to].p;
        bool uses = false;

        for (size_t k = 0; p && k < p->n_input; k++)
            uses |= !strcmp(p->input[k], last.p->output[0]);
        if (uses)
            break;
        to++;
    }
    memmove(&e->slot[to + 1], &e->slot[to], (size_t)(e->n - 1 - to) * sizeof(last));
    e->slot[to] = last;
    for (int i = to; i < e->n; i++)
        for (size_t k = 0; e->slot[i].p && k < e->slot[i].p->n_output; k++)
            PARE_TRY(pare_edit_set_maker(e, e->slot[i].p->output[k], i, err));
    return 0;
}

/* Rewrite DequantizeLinear - s to s - DequantizeLinear. */
static int sink_dequantize(struct pare_edit *e, int i, struct pare_err *err)
{
    struct pare_edit_slot *s = &e->slot[i], *d = NULL;
    const char *name, *between;
    struct pare_edit_node n = { .type = "DequantizeLinear", .axis = -1 };

    if (!s->p || !s->p->n_input || !only_moves_data(e, s))
        return 0;
    d = pare_edit_maker(e, s->p->input[0]);
    if (!is(d, "DequantizeLinear") || !good_scale(e, d, -1) || !is_8bit(e, d))
        return 0;
    name = s->p->output[0];
    between = pare_edit_name(e, name, "_integers");
    n.name = pare_edit_name(e, name, "_DequantizeLinear");
    if (!between || !n.name)
        return pare_edit_no_memory(err);
    n.in[0] = between;
    n.in[1] = d->p->input[1];
    n.in[2] = d->p->input[2];
    n.out = name;
    PARE_TRY(pare_edit_rewire(e, name, 0, d->p->input[0], err));
    PARE_TRY(pare_edit_rename(e, name, between, err));
    PARE_TRY(pare_edit_insert(e, &n, err));
    return move_up(e, err);
}

static bool same_bytes(const struct pare_edit *e, const char *a, const char *b)
{
    const Onnx__TensorProto *p = constant(e, a), *q = constant(e, b);

    return p && q && p->data_type == q->data_type && p->has_raw_data && q->has_raw_data &&
           p->raw_data.len == q->raw_data.len &&
           !memcmp(p->raw_data.data, q->raw_data.data, p->raw_data.len);
}

/* Remove a QuantizeLinear that follows a DequantizeLinear of the same scale. */
static int cancel(struct pare_edit *e, struct pare_edit_slot *q, struct pare_err *err)
{
    struct pare_edit_slot *d;
    const char *name;

    if (!is(q, "QuantizeLinear") || q->p->n_input < 3)
        return 0;
    d = pare_edit_maker(e, q->p->input[0]);
    name = q->p->output[0];
    if (!is(d, "DequantizeLinear") || d->p->n_input < 3 || axis_of(q->p) != axis_of(d->p) ||
        !same_bytes(e, q->p->input[1], d->p->input[1]) ||
        !same_bytes(e, q->p->input[2], d->p->input[2]))
        return 0;
    for (size_t i = 0; i < e->graph.n_output; i++)
        if (!strcmp(e->graph.output[i]->name, name))
            return 0;
    for (int i = 0; i < e->n; i++)
        for (size_t k = 0; e->slot[i].p && k < e->slot[i].p->n_input; k++)
            if (!strcmp(e->slot[i].p->input[k], name))
                PARE_TRY(pare_edit_rewire(e, e->slot[i].p->output[0], (int)k, d->p->input[0], err));
    q->p = NULL;
    return 0;
}

/* Remove inserted DequantizeLinear nodes, scales and zero points without a consumer. */
static void remove_unused(struct pare_edit *e)
{
    size_t kept = 0;

    for (int i = e->n_file; i < e->n; i++)
        if (is(&e->slot[i], "DequantizeLinear") && !is_used(e, e->slot[i].p->output[0]))
            e->slot[i].p = NULL;
    for (size_t i = 0; i < e->graph.n_initializer; i++) {
        const char *name = e->graph.initializer[i]->name;
        size_t len = name ? strlen(name) : 0;
        bool parameter = len > 6 && (!strcmp(name + len - 6, "_scale") ||
                                     (len > 11 && !strcmp(name + len - 11, "_zero_point")));

        if (!parameter || is_used(e, name))
            e->graph.initializer[kept++] = e->graph.initializer[i];
    }
    e->graph.n_initializer = kept;
}

int pare_edit_qoperator(struct pare_edit *e, int *n, struct pare_err *err)
{
    const struct pare_op *to;
    struct match m;

    *n = 0;
    if (has_subgraphs(e))
        return 0;
    for (int i = 0; i < e->n_file; i++)
        PARE_TRY(sink_dequantize(e, i, err));
    for (int i = e->n_file; i < e->n; i++)
        PARE_TRY(cancel(e, &e->slot[i], err));
    for (int i = 0; i < e->n_file; i++)
        if (find(e, &e->slot[i], &m)) {
            PARE_TRY(fuse(e, &m, err));
            ++*n;
        } else if (find_join(e, &e->slot[i], &m, &to)) {
            PARE_TRY(fuse_join(e, &m, to, err));
            ++*n;
        }
    remove_unused(e);
    return 0;
}
