/* eval.c - check a node against its operator and run its reference kernel.
 *
 * The reference path: one node after the other, shapes inferred from the actual tensors.  Plans use
 * it to fold constants and for nodes whose shapes depend on data.
 */
#include "graph.h"

#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"

/* ---- checking ----------------------------------------------------------------------------- */

/* One input of an operator's signature. */
struct letter {
    char type; /* T U A I L B F S V */
    bool optional;
};

/* The letter of the i-th input; false if the operator has no i-th input. */
static bool letter_of(const char *sig, int i, struct letter *l)
{
    char last = 0;

    for (int k = 0; sig && *sig; k++) {
        last = *sig++;
        *l = (struct letter){ last, false };
        if (*sig == '?') {
            l->optional = true;
            sig++;
        } else if (*sig == '*' || *sig == '+') {
            l->optional = *sig == '*' || k < i;
            return i >= k;
        }
        if (k == i)
            return true;
    }
    return false;
}

static bool in_set(uint32_t types, enum pare_dtype d)
{
    bool narrow = d == PARE_F16 || d == PARE_BF16 || d == PARE_F64;

    return !types || types & PARE_T(d) || (narrow && types & PARE_T(PARE_F32));
}

static int check_type(const struct pare_node *n, int i, char letter, enum pare_dtype *main_type,
                      enum pare_dtype *second, struct pare_err *err)
{
    enum pare_dtype d = n->in[i]->t.dtype, *var = letter == 'T' ? main_type : second;
    const char *want = NULL;

    if (letter != 'V' && letter != 'S' && !pare_is_tensor(&n->in[i]->t) &&
        !(n->op->flags & PARE_OP_PASSES))
        return pare_fail(err, PARE_ESHAPE, "input '%s' is %s, %s takes a tensor", n->in[i]->name,
                         pare_dtype_name(d), n->type);
    switch (letter) {
    case 'T':
    case 'U':
        if (letter == 'T' && !in_set(n->op->types, d))
            return pare_fail(err, PARE_EUNSUPPORTED, "input '%s' is %s, which %s does not handle",
                             n->in[i]->name, pare_dtype_name(d), n->type);
        if (*var && *var != d)
            return pare_fail(err, PARE_ESHAPE, "input '%s' is %s but another is %s", n->in[i]->name,
                             pare_dtype_name(d), pare_dtype_name(*var));
        *var = d;
        break;
    case 'I': want = d == PARE_I32 || d == PARE_I64 ? NULL : "int32 or int64"; break;
    case 'L': want = d == PARE_I64 ? NULL : "int64"; break;
    case 'B': want = d == PARE_BOOL ? NULL : "bool"; break;
    case 'F': want = d == PARE_F32 ? NULL : "float32"; break;
    case 'S': want = d == PARE_SEQUENCE ? NULL : "a sequence"; break;
    default: break;
    }
    if (want)
        return pare_fail(err, PARE_ESHAPE, "input '%s' is %s, must be %s", n->in[i]->name,
                         pare_dtype_name(d), want);
    return 0;
}

static int check_arity(const struct pare_node *n, struct pare_err *err)
{
    struct letter l;

    if (n->version < n->op->since)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "%s of opset %d is not supported, only opset %d and later", n->type,
                         n->version, n->op->since);
    for (int i = 0; letter_of(n->op->in, i, &l) && (i < n->n_in || !l.optional); i++)
        if (!l.optional && (i >= n->n_in || !n->in[i]))
            return pare_fail(err, PARE_EFORMAT, "%s needs its input %d", n->type, i);
    if (n->n_in && !letter_of(n->op->in, n->n_in - 1, &l))
        return pare_fail(err, PARE_EFORMAT, "%s has too many inputs: %d", n->type, n->n_in);
    if (n->n_out < n->op->min_out || (n->op->max_out >= 0 && n->n_out > n->op->max_out))
        return pare_fail(err, PARE_EFORMAT, "%s has %d outputs", n->type, n->n_out);
    for (int i = 0; i < n->op->min_out; i++)
        if (!n->out[i])
            return pare_fail(err, PARE_EFORMAT, "%s needs its output %d", n->type, i);
    return 0;
}

int pare_node_check(const struct pare_node *n, struct pare_err *err)
{
    enum pare_dtype main_type = PARE_NONE, second = PARE_NONE;
    struct letter l;

    if (!n->op)
        return pare_fail(err, PARE_EUNSUPPORTED, "%s", n->why ? n->why : "it cannot run");
    PARE_TRY(check_arity(n, err));
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && letter_of(n->op->in, i, &l))
            PARE_TRY(check_type(n, i, l.type, &main_type, &second, err));
    return 0;
}

/* ---- conversion around kernels that support fewer types -------------------------------- */

/* Whether the kernel expects float32 and the tensor has a type that is converted to it. */
static bool widened(const struct pare_op *op, enum pare_dtype d)
{
    return op->types && !(op->types & PARE_T(d)) && op->types & PARE_T(PARE_F32) &&
           (d == PARE_F16 || d == PARE_BF16 || d == PARE_F64);
}

/* Replace *v by a float32 copy in scratch. */
static int widen(struct pare_value **v, bool copy, struct pare_arena *scratch, struct pare_err *err)
{
    struct pare_value *w = pare_alloc(scratch, 1, sizeof(*w));

    if (!w)
        return pare_no_memory(err, "to convert '%s'", (*v)->name);
    *w = **v;
    w->t.dtype = PARE_F32;
    PARE_TRY(pare_tensor_alloc(scratch, &w->t, err));
    if (copy)
        PARE_TRY(
            pare_convert(PARE_F32, w->t.data, (*v)->t.dtype, (*v)->t.data, pare_numel(&w->t), err));
    *v = w;
    return 0;
}

static struct pare_value **copy_list(struct pare_arena *a, struct pare_value **list, int n)
{
    struct pare_value **c = pare_alloc(a, (size_t)n, sizeof(*c));

    if (c && n)
        memcpy(c, list, (size_t)n * sizeof(*c));
    return c;
}

static int forward_widened(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_node w = *n;
    struct letter l;

    w.in = copy_list(c->scratch, n->in, n->n_in);
    w.out = copy_list(c->scratch, n->out, n->n_out);
    if (!w.in || !w.out)
        return pare_no_memory(err, "to convert %s", n->type);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && letter_of(n->op->in, i, &l) && (l.type == 'T' || l.type == 'U') &&
            widened(n->op, n->in[i]->t.dtype))
            PARE_TRY(widen(&w.in[i], true, c->scratch, err));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && widened(n->op, n->out[i]->t.dtype))
            PARE_TRY(widen(&w.out[i], false, c->scratch, err));
    PARE_TRY(n->op->forward(&w, c, err));
    for (int i = 0; i < n->n_out; i++)
        if (w.out[i] != n->out[i])
            PARE_TRY(pare_convert(n->out[i]->t.dtype, n->out[i]->t.data, PARE_F32, w.out[i]->t.data,
                                  pare_numel(&w.out[i]->t), err));
    return 0;
}

static bool any_widened(const struct pare_node *n)
{
    struct letter l;

    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && letter_of(n->op->in, i, &l) && (l.type == 'T' || l.type == 'U') &&
            widened(n->op, n->in[i]->t.dtype))
            return true;
    return false;
}

int pare_node_forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_mark m = pare_mark(c->scratch);
    int rc = any_widened(n) ? forward_widened(n, c, err) : n->op->forward(n, c, err);

    pare_rewind(c->scratch, m);
    return rc;
}

int pare_node_infer(struct pare_node *n, struct pare_err *err)
{
    PARE_TRY(pare_node_check(n, err));
    if (n->op->flags & PARE_OP_ALLOCS)
        return 0;
    PARE_TRY(n->op->infer(n, err));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            PARE_TRY(pare_tensor_size(&n->out[i]->t, NULL, NULL, err));
    return 0;
}

/* Identity of a sequence or an optional; its elements are in c->results, or live longer. */
static bool passes(const struct pare_node *n)
{
    return n->op && n->op->flags & PARE_OP_PASSES && n->n_in && n->in[0] && n->n_out && n->out[0] &&
           !pare_is_tensor(&n->in[0]->t);
}

int pare_node_eval(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    if (passes(n)) {
        n->out[0]->t = n->in[0]->t;
        return 0;
    }
    PARE_TRY(pare_node_infer(n, err));
    if (!(n->op->flags & PARE_OP_ALLOCS))
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i])
                PARE_TRY(pare_tensor_alloc(c->results, &n->out[i]->t, err));
    return pare_node_forward(n, c, err);
}

/* ---- graphs ------------------------------------------------------------------------------- */

/* A lazy constant, which inference left to be computed on first use. */
static int make_late(struct pare_arena *a, struct pare_value *v, struct pare_err *err)
{
    struct pare_arena *scratch = pare_arena_new(1 << 16);
    struct pare_ctx c = { .scratch = scratch, .results = a, .threads = 1 };
    int rc = scratch ? 0 : pare_no_memory(err, "for '%s'", v->name);

    for (int i = 0; i < v->maker->n_in && !rc; i++)
        if (v->maker->in[i])
            rc = pare_value_load(a, v->maker->in[i], err);
    if (!rc)
        rc = pare_node_eval(v->maker, &c, err);
    pare_arena_free(scratch);
    return rc;
}

int pare_value_load(struct pare_arena *a, struct pare_value *v, struct pare_err *err)
{
    if (!v->t.data && !v->raw && v->flags & PARE_V_CONST && v->maker && v->maker->op)
        return make_late(a, v, err);
    if (v->t.data || !v->raw)
        return 0;
    PARE_TRY(pare_tensor_alloc(a, &v->t, err));
    pare_unpack(&v->t, v->raw);
    return 0;
}

bool pare_node_known(const struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && !n->out[i]->t.data && !n->out[i]->raw &&
            !(n->out[i]->flags & PARE_V_CONST))
            return false;
    return true;
}

int pare_graph_eval(struct pare_graph *g, struct pare_ctx *c, struct pare_err *err)
{
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];
        int rc = 0;

        if (pare_node_known(n))
            continue;
        for (int k = 0; k < n->n_in && !rc; k++)
            if (n->in[k])
                rc = pare_value_load(g->arena, n->in[k], err);
        if (!rc)
            rc = pare_node_eval(n, c, err);
        if (rc)
            return pare_at(err, rc, "node '%s' (%s)", n->name, n->type);
    }
    return 0;
}
