/* int8_add.c - the sum of two quantized tensors, quantized: a residual's Add, Relu, QuantizeLinear.
 *
 * By way of real numbers in chunks that stay in the first-level cache, so the result is that of the
 * single operators.
 */
#include "../q8.h"

#define CHUNK 1024

struct add8 {
    struct pare_q8 a, b;
    struct pare_q8_end end;
};

static bool match(const struct pare_view *v, struct pare_node *n, struct pare_step *s)
{
    struct add8 c, *keep;
    int layout;

    if (strcmp(n->type, "Add") || n->op->domain || !pare_q8_source(v, n->in[0], &c.a) ||
        !pare_q8_source(v, n->in[1], &c.b) || c.a.viewed || c.b.viewed ||
        !pare_same_shape(&n->in[0]->t, &n->in[1]->t) || !pare_q8_end(v, n->out[0], &c.end))
        return false;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 2, 1, c.end.n))
        return false;
    *keep = c;
    layout = pare_q8_keep(v, &c.a) == PARE_LAST ? PARE_LAST : pare_q8_keep(v, &c.b);
    s->state = keep;
    s->in[0] = c.a.v;
    s->in[1] = c.b.v;
    s->out[0] = c.end.q.v;
    s->in_block[0] = s->in_block[1] = s->out_block[0] = layout;
    for (int i = 0; i < c.end.n; i++)
        s->fused[i] = c.end.node[i];
    s->inplace = 1;
    return true;
}

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct add8 *c = s->state;
    const void *x = s->in_buf[0]->t.data, *z = s->in_buf[1]->t.data;
    void *y = s->out_buf[0]->t.data;
    int64_t n = pare_numel(&s->out[0]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (n > 32768)
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        float p[CHUNK], q[CHUNK];

        pare_q8_real(&c->a, x, i, p, m);
        pare_q8_real(&c->b, z, i, q, m);
        for (int64_t k = 0; k < m; k++)
            p[k] += q[k];
        pare_q8_store(&c->end, p, y, i, m);
    }
    return 0;
}

const struct pare_kernel pare_kernel_int8_add = {
    .name = "int8_add",
    .doc = "Sum of two quantized tensors, quantized.",
    .match = match,
    .run = run,
};
