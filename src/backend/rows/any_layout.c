/* any_layout.c - operators that accept a tensor in any layout (fake quantization), with gradients.
 *
 * Row-major fake quantization would cost two reorders per pass.  If the operator would read the
 * lanes beyond the channels as values, the layout is row-major nevertheless.
 */
#include "../backend.h"

#include "../../base/simd.h"

struct any_layout {
    int64_t count;
    bool train;
};

static bool any_layout_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct any_layout *c;
    int block;

    if (!(n->op->flags & PARE_OP_ANY_LAYOUT) || n->n_in != 1 || n->n_out != 1 ||
        !pare_is_f32(n->in[0]) || !pare_is_f32(n->out[0]) || pare_is_fixed(n->in[0]) ||
        !pare_numel(&n->in[0]->t))
        return false;
    block = pare_block_of(v, n->in[0]);
    if (block > 1 && n->in[0]->t.dim[1] % block)
        block = 1;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_step_lists(s, v, 1, 1, 0))
        return false;
    c->count = pare_numel(&n->in[0]->t);
    c->train = v->train;
    s->in[0] = n->in[0];
    s->out[0] = n->out[0];
    s->in_block[0] = s->out_block[0] = block;
    s->state = c;
    s->unsaved_out = ~0u;
    s->inplace = n->op->flags & PARE_OP_OBSERVES ? 1 : 0;
    s->grad_inplace = 1;
    s->accumulate_bytes = (size_t)c->count * sizeof(float);
    return true;
}

static int any_layout_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct any_layout *c = s->state;

    (void)b;
    return s->node->op->map_tensor(s->node, pare_f32(&s->in_buf[0]->t),
                                   pare_f32_mut(&s->out_buf[0]->t), c->train, err);
}

PARE_SIMD static void add_row(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static int any_layout_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct any_layout *c = s->state;
    float *gx = pare_f32_mut(&s->in_buf[0]->grad->t),
          *to = s->grad_assign[0] ? gx : s->work[1]->t.data;
    int threads = c->count > 32768 ? b->threads : 1;

    PARE_TRY(s->node->op->dmap_tensor(s->node, pare_f32(&s->in_buf[0]->t),
                                      pare_f32(&s->out_buf[0]->grad->t), to, err));
    if (to == gx)
        return 0;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        int64_t from = c->count * t / threads;

        add_row(gx + from, to + from, c->count * (t + 1) / threads - from);
    }
    return 0;
}

const struct pare_kernel pare_kernel_any_layout = {
    .name = "any_layout",
    .doc = "Fake quantization in any layout, with its gradients.",
    .match = any_layout_match,
    .run = any_layout_run,
    .backward = any_layout_backward,
};
