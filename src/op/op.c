/* op.c - the operator table, and functions shared by operators. */
#include <math.h>

#include "op.h"

const struct pare_op *const pare_ops[] = {
#define OP(name) &pare_op_##name,
#include "ops.def"
#undef OP
    NULL
};

const struct pare_op *pare_find_op(const char *domain, const char *type)
{
    if (!strcmp(domain, "ai.onnx"))
        domain = "";
    for (const struct pare_op *const *op = pare_ops; *op; op++)
        if (!strcmp((*op)->type, type) && !strcmp((*op)->domain ? (*op)->domain : "", domain))
            return *op;
    return NULL;
}

bool pare_op_is_torch(const struct pare_op *op, const char *name)
{
    const char *mark = op->torch ? strchr(op->torch, '#') : NULL;
    size_t n = mark ? (size_t)(mark - op->torch) : 0;

    if (!op->torch || !mark)
        return op->torch && !strcmp(op->torch, name);
    return !strncmp(op->torch, name, n) && name[n] >= '1' && name[n] <= '3' &&
           !strcmp(mark + 1, name + n + 1);
}

bool pare_is_true(const struct pare_value *v)
{
    return v->flags & PARE_V_CONST && v->t.data && v->t.dtype == PARE_BOOL &&
           pare_numel(&v->t) == 1 && *(const uint8_t *)v->t.data;
}

int pare_need(const struct pare_node *n, int i, struct pare_err *err)
{
    if (i >= n->n_in || !n->in[i] || n->in[i]->t.data)
        return 0;
    return pare_fail(err, PARE_EDYNAMIC, "its shape depends on the contents of '%s'",
                     n->in[i]->name);
}

void pare_like(struct pare_tensor *y, const struct pare_tensor *x)
{
    void *keep = y->data;

    *y = *x;
    y->data = keep;
}

int pare_shape_set(struct pare_tensor *y, enum pare_dtype dtype, int rank, const int64_t *dim,
                   struct pare_err *err)
{
    if (rank < 0 || rank > PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "the result has %d dimensions, at most %d are handled",
                         rank, PARE_MAX_RANK);
    y->dtype = dtype;
    y->rank = rank;
    for (int i = 0; i < rank; i++)
        y->dim[i] = dim[i];
    return 0;
}

int pare_axis(int64_t axis, int rank, int *out, struct pare_err *err)
{
    if (axis < -rank || axis >= rank)
        return pare_fail(err, PARE_ESHAPE, "axis %lld is outside a tensor of %d dimensions",
                         (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return 0;
}

int pare_broadcast(struct pare_tensor *y, const struct pare_tensor *a, const struct pare_tensor *b,
                   struct pare_err *err)
{
    int rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t dim[PARE_MAX_RANK] = { 0 };
    char ta[PARE_SHAPE_TEXT], tb[PARE_SHAPE_TEXT];

    for (int i = 0; i < rank; i++) {
        int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];

        if (da != db && da != 1 && db != 1)
            return pare_fail(err, PARE_ESHAPE, "shapes %s and %s cannot be broadcast together",
                             pare_shape_text(a, ta, sizeof(ta)),
                             pare_shape_text(b, tb, sizeof(tb)));
        dim[i] = da == 1 ? db : da;
    }
    y->rank = rank;
    memcpy(y->dim, dim, sizeof(dim));
    return 0;
}

int pare_int_list(const struct pare_tensor *t, int64_t *v, int max, int *n, struct pare_err *err)
{
    int64_t count = pare_numel(t);

    if (t->dtype != PARE_I32 && t->dtype != PARE_I64)
        return pare_fail(err, PARE_ESHAPE, "a list of int64 is expected, found %s",
                         pare_dtype_name(t->dtype));
    if (count > max)
        return pare_fail(err, PARE_ELIMIT, "a list of %lld numbers, at most %d are handled",
                         (long long)count, max);
    for (int64_t i = 0; i < count; i++)
        v[i] = pare_get_int(t, i);
    *n = (int)count;
    return 0;
}

static const void *find_attr(const struct pare_node *n, const char *name, enum pare_opt_type *type)
{
    const struct pare_opt *o = n->op->attrs;

    while (o && o->name && strcmp(o->name, name))
        o++;
    if (!o || !o->name || !n->attr)
        return NULL;
    *type = o->type;
    return (const char *)n->attr + o->offset;
}

double pare_attr(const struct pare_node *n, const char *name)
{
    enum pare_opt_type type = PARE_OPT_STR;
    const void *p = find_attr(n, name, &type);

    switch (type) {
    case PARE_OPT_BOOL: return *(const bool *)p;
    case PARE_OPT_INT: return (double)*(const int64_t *)p;
    case PARE_OPT_FLOAT: return *(const double *)p;
    default: return 0;
    }
}

const char *pare_attr_text(const struct pare_node *n, const char *name)
{
    enum pare_opt_type type = PARE_OPT_INT;
    const void *p = find_attr(n, name, &type);

    return type == PARE_OPT_STR && *(const char *const *)p ? *(const char *const *)p : "";
}

bool pare_index_map(const struct pare_node *n, int k, struct pare_index_map *m)
{
    *m = (struct pare_index_map){ .offset = 0 };
    for (int i = 0; i < PARE_MAX_RANK; i++) {
        m->axis[i] = i;
        m->step[i] = 1;
    }
    return n->op && n->op->index_map && n->op->index_map(n, k, m);
}

int pare_infer_same(struct pare_node *n, struct pare_err *err)
{
    (void)err;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            pare_like(&n->out[i]->t, &n->in[0]->t);
    return 0;
}

int pare_infer_broadcast(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor y = n->in[0]->t;

    for (int i = 1; i < n->n_in; i++)
        if (n->in[i])
            PARE_TRY(pare_broadcast(&y, &y, &n->in[i]->t, err));
    pare_like(&n->out[0]->t, &y);
    return 0;
}

int pare_infer_compare(struct pare_node *n, struct pare_err *err)
{
    PARE_TRY(pare_infer_broadcast(n, err));
    n->out[0]->t.dtype = PARE_BOOL;
    return 0;
}

void pare_strides(const struct pare_tensor *t, int64_t *stride)
{
    int64_t s = 1;

    for (int i = t->rank - 1; i >= 0; i--) {
        stride[i] = s;
        s *= t->dim[i];
    }
}

void pare_walk_start(struct pare_walk *w, const struct pare_tensor *y,
                     const struct pare_tensor *const *in, int n)
{
    memset(w, 0, sizeof(*w));
    w->rank = y->rank;
    w->n = n;
    memcpy(w->dim, y->dim, sizeof(w->dim));
    for (int k = 0; k < n; k++) {
        int64_t own[PARE_MAX_RANK] = { 0 };
        int shift = y->rank - in[k]->rank;

        pare_strides(in[k], own);
        for (int i = shift; i < y->rank; i++)
            w->stride[k][i] = in[k]->dim[i - shift] == 1 ? 0 : own[i - shift];
    }
}

void pare_walk_next(struct pare_walk *w)
{
    for (int i = w->rank - 1; i >= 0; i--) {
        for (int k = 0; k < w->n; k++)
            w->at[k] += w->stride[k][i];
        if (++w->idx[i] < w->dim[i])
            return;
        for (int k = 0; k < w->n; k++)
            w->at[k] -= w->stride[k][i] * w->dim[i];
        w->idx[i] = 0;
    }
}

int pare_forward_map(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    n->op->map(n, pare_f32(&n->in[0]->t), pare_f32_mut(&n->out[0]->t), pare_numel(&n->out[0]->t));
    return 0;
}

int pare_forward_copy(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    size_t bytes;

    (void)c;
    PARE_TRY(pare_tensor_size(&n->out[0]->t, NULL, &bytes, err));
    if (n->out[0]->t.data != n->in[0]->t.data && bytes)
        memcpy(n->out[0]->t.data, n->in[0]->t.data, bytes);
    return 0;
}

void pare_ties_elementwise(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_tensor *y = &n->out[0]->t;

    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = n->in[k];
        int shift = v ? y->rank - v->t.rank : 0;

        for (int i = 0; v && shift >= 0 && i < v->t.rank; i++)
            if (v->t.dim[i] == y->dim[i + shift])
                pare_tie(t, v, i, n->out[0], i + shift);
    }
}

float pare_constant_channel_same(const struct pare_node *n, int axis, int64_t channel, float x)
{
    (void)n, (void)axis, (void)channel;
    return x;
}

float pare_constant_channel_zero(const struct pare_node *n, int axis, int64_t channel, float x)
{
    (void)n, (void)axis, (void)channel;
    return x == 0 ? 0 : NAN;
}

void pare_ties_except(const struct pare_node *n, unsigned but, struct pare_ties *t)
{
    for (int k = 0; k < n->n_out; k++)
        for (int i = 0; n->out[k] && i < n->in[0]->t.rank && i < n->out[k]->t.rank; i++)
            if (!(but >> i & 1))
                pare_tie(t, n->in[0], i, n->out[k], i);
}
