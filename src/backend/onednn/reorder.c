/* reorder.c - conversion of values and gradients between layouts. */
#include "onednn.h"

struct reorder_prim {
    dnnl_primitive_t prim;
    dnnl_memory_t from, to;
};

struct reorder {
    struct reorder_prim forward, backward; /* backward: the gradient in the other direction */
};

static int sum_attr(dnnl_primitive_attr_t *attr, struct pare_err *err)
{
    dnnl_post_ops_t ops = NULL;
    int rc = pare_dnnl(err, dnnl_primitive_attr_create(attr), "reorder");

    if (!rc)
        rc = pare_dnnl(err, dnnl_post_ops_create(&ops), "reorder");
    if (!rc)
        rc = pare_dnnl(err, dnnl_post_ops_append_sum(ops, 1), "reorder");
    if (!rc)
        rc = pare_dnnl(err, dnnl_primitive_attr_set_post_ops(*attr, ops), "reorder");
    if (ops)
        dnnl_post_ops_destroy(ops);
    return rc;
}

/* Create the primitive from w->from to w->to. */
static int create_reorder(struct reorder_prim *w, bool add, struct pare_backend *b,
                          struct pare_err *err)
{
    const dnnl_memory_desc_t *from, *to;
    dnnl_engine_t e = b->onednn->engine;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int rc = add ? sum_attr(&attr, err) : 0;

    dnnl_memory_get_memory_desc(w->from, &from);
    dnnl_memory_get_memory_desc(w->to, &to);
    if (!rc)
        rc = pare_dnnl(err, dnnl_reorder_primitive_desc_create(&pd, from, e, to, e, attr),
                       "reorder");
    if (!rc)
        rc = pare_dnnl(err, dnnl_primitive_create(&w->prim, pd), "reorder");
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return rc;
}

static int reorder_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct reorder *r = pare_alloc(b->arena, 1, sizeof(*r));
    dnnl_engine_t e = b->onednn->engine;
    dnnl_memory_desc_t from, to;

    if (!r)
        return pare_no_memory(err, "for a reorder");
    s->state = r;
    if (!pare_dnnl_md(&from, &s->in_buf[0]->t, s->in_block[0]) ||
        !pare_dnnl_md(&to, &s->out_buf[0]->t, s->out_block[0]))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "cannot reorder '%s': oneDNN has no descriptor for its shape and layout",
                         s->in[0]->name);
    PARE_TRY(pare_dnnl(err, dnnl_memory_create(&r->forward.from, &from, e, s->in_buf[0]->t.data),
                       "memory"));
    PARE_TRY(pare_dnnl(err, dnnl_memory_create(&r->forward.to, &to, e, s->out_buf[0]->t.data),
                       "memory"));
    PARE_TRY(create_reorder(&r->forward, false, b, err));
    if (!s->in_buf[0]->grad)
        return 0;
    PARE_TRY(pare_dnnl(err,
                       dnnl_memory_create(&r->backward.from, &to, e, s->out_buf[0]->grad->t.data),
                       "memory"));
    PARE_TRY(pare_dnnl(err,
                       dnnl_memory_create(&r->backward.to, &from, e, s->in_buf[0]->grad->t.data),
                       "memory"));
    return create_reorder(&r->backward, !s->grad_assign[0], b, err);
}

static int execute(const struct reorder_prim *w, struct pare_backend *b, struct pare_err *err)
{
    dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, w->from }, { DNNL_ARG_TO, w->to } };

    return pare_dnnl(err, dnnl_primitive_execute(w->prim, b->onednn->stream, 2, args), "reorder");
}

static int reorder_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    return execute(&((struct reorder *)s->state)->forward, b, err);
}

static int reorder_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    return execute(&((struct reorder *)s->state)->backward, b, err);
}

static void destroy_reorder(struct reorder_prim *w)
{
    if (w->prim)
        dnnl_primitive_destroy(w->prim);
    if (w->from)
        dnnl_memory_destroy(w->from);
    if (w->to)
        dnnl_memory_destroy(w->to);
}

static void destroy(struct pare_step *s)
{
    struct reorder *r = s->state;

    destroy_reorder(&r->forward);
    destroy_reorder(&r->backward);
}

const struct pare_kernel pare_kernel_reorder = {
    .name = "reorder",
    .openmp = true,
    .doc = "Conversion between layouts.",
    .init = reorder_init,
    .run = reorder_run,
    .backward = reorder_backward,
    .destroy = destroy,
};
