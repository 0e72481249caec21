/* qoperator.c - Conv and MatMul between DequantizeLinear and QuantizeLinear become one node of
 * integers. */
#include <math.h>
#include <string.h>

#include "insert_parts.h"

static int no_memory(struct pare_err *err)
{
    return pare_fail(err, PARE_ENOMEM, "no memory to change the model");
}

static bool is(const struct pare_edit_slot *s, const char *type)
{
    return s && s->p && !strcmp(s->p->op_type, type) && (!s->p->domain || !*s->p->domain);
}

static const Onnx__TensorProto *constant(const struct pare_edit *e, const char *name)
{
    for (size_t i = e->graph.n_initializer; i-- > 0;) /* ours are the last */
        if (e->graph.initializer[i]->name && !strcmp(e->graph.initializer[i]->name, name))
            return e->graph.initializer[i];
    return NULL;
}

static int64_t axis_of(const Onnx__NodeProto *p)
{
    for (size_t i = 0; i < p->n_attribute; i++)
        if (!strcmp(p->attribute[i]->name, "axis"))
            return p->attribute[i]->i;
    return 1;
}

/* ---- who uses what ------------------------------------------------------------------------- */

/* The only node that uses a value; NULL: several, none, or somebody outside does too. */
static struct pare_edit_slot *only_user(const struct pare_edit *e, const char *value)
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

/* Subgraphs may use any value; files with them stay as they are. */
static bool has_subgraphs(const struct pare_edit *e)
{
    for (int i = 0; i < e->n_old; i++)
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

/* ---- the pattern --------------------------------------------------------------------------- */

struct match {
    struct pare_edit_slot *op, *x, *w, *bias, *act, *q; /* bias and act may be NULL */
};

/* Integers with one scale, or, of weights, one along the axis of output channels. */
static bool good_scale(const struct pare_edit *e, const struct pare_edit_slot *s, int64_t axis)
{
    const Onnx__TensorProto *t = constant(e, s->p->input[1]);

    return s->p->n_input == 3 && t && (t->n_dims == 0 || (axis >= 0 && axis_of(s->p) == axis));
}

/* int8 or uint8, by its zero point. */
static bool small_type(const struct pare_edit *e, const struct pare_edit_slot *s)
{
    const Onnx__TensorProto *z = constant(e, s->p->input[2]);

    return z && (z->data_type == PARE_I8 || z->data_type == PARE_U8) && z->raw_data.len > 0;
}

/* A float of one element: an initializer, or a Constant. */
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

/* Relu and Clip are what the ends of the type do, when the numbers that it holds do not reach
 * beyond theirs: round(end / scale) + zero is the type's end, or behind it. */
static bool is_end(const struct pare_edit *e, const struct match *m)
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
    m->q = only_user(e, m->op->p->output[0]);
    if (is(m->q, "Relu") || is(m->q, "Clip")) {
        m->act = m->q;
        m->q = only_user(e, m->act->p->output[0]);
    }
    return is(m->q, "QuantizeLinear") && good_scale(e, m->q, -1) && small_type(e, m->q) &&
           (!m->act || is_end(e, m));
}

static bool find(const struct pare_edit *e, struct pare_edit_slot *s, struct match *m)
{
    bool conv = is(s, "Conv");
    const Onnx__TensorProto *w;

    if ((!conv && !is(s, "MatMul")) || s->p->n_input < 2)
        return false;
    *m = (struct match){ .op = s };
    m->x = pare_edit_maker(e, s->p->input[0]);
    m->w = pare_edit_maker(e, s->p->input[1]);
    if (!is(m->x, "DequantizeLinear") || !is(m->w, "DequantizeLinear") ||
        !good_scale(e, m->x, -1) || !small_type(e, m->x))
        return false;
    w = constant(e, m->w->p->input[0]);
    if (!w || !small_type(e, m->w) || (!conv && w->n_dims != 2) ||
        !good_scale(e, m->w, conv ? 0 : 1))
        return false;
    if (conv && s->p->n_input > 2 && *s->p->input[2]) {
        const Onnx__TensorProto *b;

        m->bias = pare_edit_maker(e, s->p->input[2]);
        b = is(m->bias, "DequantizeLinear") ? constant(e, m->bias->p->input[0]) : NULL;
        if (!b || b->data_type != PARE_I32)
            return false;
    }
    return find_end(e, m);
}

/* ---- the change ---------------------------------------------------------------------------- */

/* In the place of the Conv, making what the QuantizeLinear made. */
static int fuse(struct pare_edit *e, const struct match *m, struct pare_err *err)
{
    Onnx__NodeProto *p = pare_alloc(e->a, 1, sizeof(*p));
    char **io = pare_alloc(e->a, PARE_EDIT_INPUTS + 1, sizeof(*io));
    bool conv = is(m->op, "Conv");

    if (!p || !io)
        return no_memory(err);
    *p = *m->op->p;
    p->op_type = (char *)(uintptr_t)(conv ? "QLinearConv" : "QLinearMatMul");
    memcpy(io, m->x->p->input, 3 * sizeof(*io));
    memcpy(io + 3, m->w->p->input, 3 * sizeof(*io));
    io[6] = m->q->p->input[1];
    io[7] = m->q->p->input[2];
    p->n_input = m->bias ? 9 : 8;
    if (m->bias)
        io[8] = m->bias->p->input[0];
    p->input = io;
    p->output = io + PARE_EDIT_INPUTS;
    p->output[0] = m->q->p->output[0];
    p->n_output = 1;
    m->op->p = p;
    m->op->own = true;
    m->q->p = NULL;
    if (m->act)
        m->act->p = NULL;
    return pare_map_set(&e->maker, e->a, p->output[0], (void *)(uintptr_t)(m->op - e->slot + 1),
                        err);
}

/* Constants that nobody uses any more, and DequantizeLinear nodes of which that is true. */
static void sweep(struct pare_edit *e)
{
    size_t kept = 0;

    for (int i = e->n_old; i < e->n; i++)
        if (is(&e->slot[i], "DequantizeLinear") && !is_used(e, e->slot[i].p->output[0]))
            e->slot[i].p = NULL;
    for (size_t i = 0; i < e->graph.n_initializer; i++) {
        const char *name = e->graph.initializer[i]->name;
        size_t len = name ? strlen(name) : 0;
        bool ours = len > 6 && (!strcmp(name + len - 6, "_scale") ||
                                (len > 11 && !strcmp(name + len - 11, "_zero_point")));

        if (!ours || is_used(e, name))
            e->graph.initializer[kept++] = e->graph.initializer[i];
    }
    e->graph.n_initializer = kept;
}

int pare_edit_qoperator(struct pare_edit *e, int *n, struct pare_err *err)
{
    struct match m;

    *n = 0;
    if (has_subgraphs(e))
        return 0;
    for (int i = 0; i < e->n_old; i++)
        if (find(e, &e->slot[i], &m)) {
            PARE_TRY(fuse(e, &m, err));
            ++*n;
        }
    sweep(e);
    return 0;
}
