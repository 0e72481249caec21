/* inner_node.c - a node of another operator, for operators defined in terms of others. */
#include "inner_node.h"

static int set_default(struct pare_inner *p, const struct pare_opt *o, struct pare_err *err)
{
    char *at = (char *)p->attr + o->offset;

    if (o->type == PARE_OPT_INT)
        *(int64_t *)(void *)at = (int64_t)o->def;
    else if (o->type == PARE_OPT_FLOAT)
        *(double *)(void *)at = o->def;
    else if (o->type == PARE_OPT_STR)
        *(const char **)(void *)at = o->str;
    else
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "operator %s has an attribute '%s', which is a "
                         "list",
                         p->node.type, o->name);
    return 0;
}

int pare_inner_init(struct pare_inner *p, const struct pare_op *op, int version,
                    struct pare_err *err)
{
    memset(p, 0, sizeof(*p));
    p->node = (struct pare_node){ .op = op,
                                  .name = "",
                                  .type = op->type,
                                  .domain = "",
                                  .version = version,
                                  .attr = p->attr,
                                  .in = p->in,
                                  .out = p->out };
    if (op->attr_size > sizeof(p->attr))
        return pare_fail(err, PARE_EUNSUPPORTED, "operator %s has too many attributes", op->type);
    for (const struct pare_opt *o = op->attrs; o && o->name; o++)
        PARE_TRY(set_default(p, o, err));
    return 0;
}

int pare_inner_set(struct pare_inner *p, const char *name, double v, struct pare_err *err)
{
    const struct pare_opt *o = p->node.op->attrs;
    char *at;

    while (o && o->name && strcmp(o->name, name))
        o++;
    if (!o || !o->name || (o->type != PARE_OPT_INT && o->type != PARE_OPT_FLOAT))
        return pare_fail(err, PARE_EUNSUPPORTED, "operator %s has no number '%s'", p->node.type,
                         name);
    if (!(v >= o->min && v <= o->max))
        return pare_fail(err, PARE_EUNSUPPORTED, "%s of %s is %g, which is out of range", name,
                         p->node.type, v);
    at = (char *)p->attr + o->offset;
    if (o->type == PARE_OPT_INT)
        *(int64_t *)(void *)at = (int64_t)v;
    else
        *(double *)(void *)at = v;
    return 0;
}

void pare_inner_in(struct pare_inner *p, struct pare_value *v)
{
    p->in[p->node.n_in++] = v;
}

void pare_inner_out(struct pare_inner *p, struct pare_value *v)
{
    p->out[p->node.n_out++] = v;
}

int pare_inner_temp(struct pare_value *t, const struct pare_value *v, bool grad,
                    struct pare_arena *a, struct pare_err *err)
{
    *t = (struct pare_value){ .name = v->name, .t = v->t };
    t->t.dtype = PARE_F32;
    PARE_TRY(pare_tensor_alloc(a, &t->t, err));
    if (!grad)
        return 0;
    t->grad = t->t;
    PARE_TRY(pare_tensor_alloc(a, &t->grad, err));
    if (pare_numel(&t->grad))
        memset(t->grad.data, 0, (size_t)pare_numel(&t->grad) * sizeof(float));
    return 0;
}
