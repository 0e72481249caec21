/* int8_map.c - from quantized numbers to quantized numbers by a table of 256.
 *
 * Any run of elementwise operators between DequantizeLinear and QuantizeLinear is such a table, and
 * so is a change of scale.  Where it changes nothing (pools and views between two equal scales),
 * the memory is shared.
 */
#include "../q8.h"

#include <math.h>

#include "../../op/op.h"

#define MAX_LINKS 8

struct map8 {
    struct pare_q8 x;
    struct pare_q8_end end;
    struct pare_node *link[MAX_LINKS]; /* elementwise, in order */
    int n;
    uint8_t table[256];
    bool same;
};

static bool is_link(const struct pare_node *n)
{
    if (!n->op->map || n->n_in < 1 || !pare_is_f32(n->in[0]) || !pare_is_f32(n->out[0]) ||
        !pare_same_shape(&n->in[0]->t, &n->out[0]->t))
        return false;
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (!pare_is_const(n->in[i]) || !n->in[i]->t.data))
            return false;
    return true;
}

/* The elementwise nodes from n on, up to a QuantizeLinear. */
static bool follow(const struct pare_view *v, struct pare_node *n, struct map8 *m)
{
    const struct pare_value *zero;

    while (n && m->n < MAX_LINKS && is_link(n)) {
        m->link[m->n++] = n;
        n = pare_only_use(v, n->out[0]);
    }
    if (!n || strcmp(n->type, "QuantizeLinear") || n->op->domain ||
        pare_attr(n, "block_size") != 0 || (m->n && n->in[0] != m->link[m->n - 1]->out[0]))
        return false;
    zero = n->n_in > 2 ? n->in[2] : NULL;
    m->end.node[0] = n;
    m->end.lo = -INFINITY;
    m->end.hi = INFINITY;
    return pare_q8_read(&m->end.q, n->out[0], n->in[1], zero);
}

static void fill(struct map8 *m)
{
    uint8_t x[256];
    float real[256];

    for (int i = 0; i < 256; i++)
        x[i] = (uint8_t)i;
    pare_q8_real(&m->x, x, 0, real, 256);
    for (int i = 0; i < m->n; i++)
        m->link[i]->op->map(m->link[i], real, real, 256);
    pare_q8_store(&m->end, real, m->table, 0, 256);
    m->same = !memcmp(m->table, x, sizeof(x));
}

static bool match(const struct pare_view *v, struct pare_node *n, struct pare_step *s)
{
    struct map8 m = { 0 }, *keep;
    bool head;

    if (n->n_in < 1 || !n->in[0] || !pare_numel(&n->in[0]->t) ||
        !pare_q8_source(v, n->in[0], &m.x) || !follow(v, n, &m))
        return false;
    fill(&m);
    head = m.n > 0; /* the QuantizeLinear is behind n, not n itself */
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, head ? m.n : 0))
        return false;
    *keep = m;
    s->state = keep;
    s->in[0] = m.x.v;
    s->out[0] = m.end.q.v;
    s->in_block[0] = s->out_block[0] = pare_q8_keep(v, &m.x);
    for (int i = 1; i < m.n; i++)
        s->fused[i - 1] = m.link[i];
    if (head)
        s->fused[m.n - 1] = m.end.node[0];
    s->inplace = 1;
    return true;
}

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct map8 *m = s->state;
    const uint8_t *x = s->in_buf[0]->t.data;
    uint8_t *y = s->out_buf[0]->t.data;
    int64_t n = pare_numel(&s->out[0]->t);

    (void)err;
    if (m->same) {
        if (x != y)
            memcpy(y, x, (size_t)n);
        return 0;
    }
#pragma omp parallel for num_threads(b->threads) if (n > 32768)
    for (int64_t i = 0; i < n; i++)
        y[i] = m->table[x[i]];
    return 0;
}

const struct pare_kernel pare_kernel_int8_map = {
    .name = "int8_map",
    .doc = "Elementwise operators between quantized tensors, as a table.",
    .match = match,
    .run = run,
};
