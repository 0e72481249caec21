/* elementwise_chain.c - chains of elementwise operators in one pass over memory (chain_ops.h). */
#include "chain_ops.h"
#include "../../base/team.h"

#define PIECE 2048 /* elements: whole blocks */

/* The layout that most of the chain's operands have already; row-major if blocks are mostly empty,
 * as with the three channels of an image. */
static int prefer_block(const struct pare_match *v, const struct pare_node *n)
{
    if (n->out[0]->t.rank > 1 && 4 * n->out[0]->t.dim[1] <= v->backend->block)
        return 1;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !pare_is_const(n->in[i]) && pare_same_shape(&n->in[i]->t, &n->out[0]->t) &&
            pare_block_of(v, n->in[i]) > 1)
            return pare_block_of(v, n->in[i]);
    return 1;
}

static bool elementwise_chain_fill_step(const struct pare_match *v, struct pare_chain *c,
                                        struct pare_step *s)
{
    int at = 0;

    if (!pare_step_lists(s, v, c->n_ops, 1, c->n_links - 1))
        return false;
    for (int i = 1; i < c->n_links; i++)
        s->fused[i - 1] = c->link[i].node;
    for (int i = 0; i < c->n_ops; i++) {
        struct pare_value *o = c->op[i].value;
        bool full = o && pare_same_shape(&o->t, &c->link[0].node->out[0]->t);

        if (!o)
            continue;
        s->in[at] = o;
        s->in_block[at] = full ? c->block : 1;
        if (full && !s->inplace && !pare_is_const(o))
            s->inplace = at + 1;
        at++;
    }
    s->n_in = at;
    s->out[0] = pare_chain_out(c);
    s->out_block[0] = c->block;
    s->state = c;
    return true;
}

static bool elementwise_chain_match(const struct pare_match *v, struct pare_node *n,
                                    struct pare_step *s)
{
    struct pare_chain *c;

    if (!pare_is_link(n))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c)
        return false;
    c->block = prefer_block(v, n);
    if (!pare_chain_from(v, n, c)) {
        if (c->block == 1)
            return false;
        c->block = 1;
        if (!pare_chain_from(v, n, c))
            return false;
    }
    return elementwise_chain_fill_step(v, c, s);
}

static int elementwise_chain_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    return pare_chain_init(s->state, b, s->in_buf, NULL, NULL, err);
}

static void run_pieces(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct pare_chain *c = s->state;
    const int64_t total = c->rows * c->length;
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    (void)thread;
    for (int64_t i = from; i < to; i++)
        pare_chain_run(c, i * PIECE, i * PIECE + PIECE < total ? i * PIECE + PIECE : total, y);
}

static int elementwise_chain_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_chain *c = s->state;
    const int64_t total = c->rows * c->length;

    (void)err;
    pare_parallel(total > 16384 ? b->threads : 1, (total + PIECE - 1) / PIECE, run_pieces, s);
    return 0;
}

const struct pare_kernel pare_kernel_elementwise_chain = {
    .name = "elementwise_chain",
    .doc = "Chains of elementwise operators in one pass over memory.",
    .match = elementwise_chain_match,
    .init = elementwise_chain_init,
    .run = elementwise_chain_run,
};
