/* reorder.c - from one layout to another. */
#include "onednn.h"

struct reorder {
    dnnl_primitive_t prim;
    dnnl_memory_t from, to;
};

static int init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct reorder *r = pare_alloc(b->arena, 1, sizeof(*r));
    dnnl_engine_t e = b->onednn->engine;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_t from, to;
    int rc;

    if (!r)
        return pare_fail(err, PARE_ENOMEM, "no memory for a conversion");
    s->state = r;
    if (!pare_dnnl_md(&from, &s->in_buf[0]->t, s->in_block[0]) ||
        !pare_dnnl_md(&to, &s->out_buf[0]->t, s->out_block[0]))
        return pare_fail(err, PARE_EUNSUPPORTED, "no layout for '%s'", s->in[0]->name);
    PARE_TRY(pare_dnnl(err, dnnl_memory_create(&r->from, &from, e, s->in_buf[0]->t.data), "memory"));
    PARE_TRY(pare_dnnl(err, dnnl_memory_create(&r->to, &to, e, s->out_buf[0]->t.data), "memory"));
    PARE_TRY(pare_dnnl(err, dnnl_reorder_primitive_desc_create(&pd, &from, e, &to, e, NULL),
                       "reorder"));
    rc = pare_dnnl(err, dnnl_primitive_create(&r->prim, pd), "reorder");
    dnnl_primitive_desc_destroy(pd);
    return rc;
}

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct reorder *r = s->state;
    dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, r->from }, { DNNL_ARG_TO, r->to } };

    return pare_dnnl(err, dnnl_primitive_execute(r->prim, b->onednn->stream, 2, args), "reorder");
}

static void quit(struct pare_step *s)
{
    struct reorder *r = s->state;

    if (r->prim)
        dnnl_primitive_destroy(r->prim);
    if (r->from)
        dnnl_memory_destroy(r->from);
    if (r->to)
        dnnl_memory_destroy(r->to);
}

const struct pare_kernel pare_kernel_reorder = {
    .name = "reorder",
    .doc = "Between row-major and channel-blocked layouts.",
    .init = init,
    .run = run,
    .quit = quit,
};
