/* conv_winograd_train.c - training of Conv with 3x3 filters by Winograd's F(4x4, 3x3).
 *
 * The filters are transformed again in each pass, so that a layer needs memory for them only while
 * it runs; if there are many filters for few tiles, they are transformed in parts.
 */
#include "winograd.h"

#include "../../base/simd.h"
#include "../../op/nn/conv_family.h"

#define LEAST_CHANNELS 13 /* below this the transforms of tiles cost more than the products save */
#define ALL_CHANNELS 17 /* from here on they do not, in the backward passes and with bf16 either */
#define FEW_TILES 32    /* whose transforms fit in one thread's cache */

/* Multiplications: 36 per tile against the direct kernel's 9 per result, plus the transforms;
 * measured from 1x1 to 56x56 pixels, with 8 to 512 channels.  backward_weights is where oneDNN is
 * slowest. */
static unsigned conv_winograd_train_pays(const struct pare_winograd *g, int64_t channels)
{
    int64_t tiles = pare_winograd_tiles(g), results = g->N * g->to.h * g->to.w;
    bool few = tiles <= FEW_TILES && g->threads == 1;
    unsigned ways = 0;

    if (channels >= (g->bf16 ? ALL_CHANNELS : LEAST_CHANNELS) && results > 10 * tiles)
        ways |= PARE_PASS_FORWARD;
    if (channels >= ALL_CHANNELS && results > 10 * tiles)
        ways |= PARE_PASS_BACKWARD_DATA;
    if (channels >= ALL_CHANNELS && results >= (few ? 4 : 6) * tiles)
        ways |= PARE_PASS_BACKWARD_WEIGHTS;
    return ways;
}

/* Is one of the requested passes fast?  The forward kernel need not be the fastest backward one. */
static bool is_fast(const struct pare_step *s)
{
    return s->passes & PARE_PASS_FORWARD ? s->fast_passes & PARE_PASS_FORWARD
                                         : (s->fast_passes & s->passes) == s->passes;
}

struct conv {
    struct pare_winograd forward, backward_data; /* from X to Y, and from Y's gradient to X's */
    struct pare_winograd_filters filters;
    float *bias; /* padded with zeros; NULL: no bias */
    size_t u;    /* floats of the transformed filters; 0: they are transformed in parts */
    bool want_x, want_w, want_b;
};

static bool conv_winograd_train_usable(const struct pare_match *v, const struct pare_node *n,
                                       struct pare_window *w)
{
    const struct pare_tensor *x, *y;
    struct pare_err err;

    if (!v->train || !pare_node_is(n, &pare_op_conv) || !pare_is_f32(n->in[0]) ||
        !pare_is_fixed(n->in[1]) || !pare_is_f32(n->in[1]) || n->in[0]->t.rank != 4 ||
        (n->n_in > 2 && n->in[2] && !pare_is_fixed(n->in[2])) || v->backend->block < 8)
        return false;
    x = &n->in[0]->t;
    y = &n->out[0]->t;
    if (!pare_numel(y) || !pare_numel(x) || pare_conv_window(n, w, &err) || w->group != 1)
        return false;
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] != 3 || w->stride[i] != 1 || w->dilation[i] != 1 || w->pad_begin[i] < 0 ||
            w->pad_begin[i] > 2)
            return false;
    return true;
}

static int64_t fewest_channels(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t padded(int64_t channels, int block)
{
    return (channels + block - 1) / block * block;
}

static struct conv *describe(const struct pare_match *v, const struct pare_node *n,
                             const struct pare_window *w, unsigned ways)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    struct conv *c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    int block = v->backend->block;

    if (!c)
        return NULL;
    c->forward = (struct pare_winograd){
        .N = x->dim[0],
        .top = w->pad_begin[0],
        .left = w->pad_begin[1],
        .block = block,
        .threads = v->backend->threads,
        .bf16 = v->backend->bf16,
        .from = { padded(x->dim[1], block), x->dim[2], x->dim[3] },
        .to = { padded(y->dim[1], block), y->dim[2], y->dim[3] },
    };
    c->forward.lean = pare_winograd_lean(&c->forward);
    c->backward_data = c->forward;
    c->backward_data.top = 2 - c->forward.top;
    c->backward_data.left = 2 - c->forward.left;
    c->backward_data.from = c->forward.to;
    c->backward_data.to = c->forward.from;
    c->filters = (struct pare_winograd_filters){
        .O = y->dim[1],
        .I = x->dim[1],
        .o = c->forward.to.channels,
        .i = c->forward.from.channels,
        .block = block,
        .threads = v->backend->threads,
        .bf16 = v->backend->bf16,
    };
    c->backward_data.lean = pare_winograd_lean(&c->backward_data);
    if (!c->forward.lean || !c->backward_data.lean)
        c->u = (size_t)(PARE_WINOGRAD *
                        pare_winograd_step(c->forward.to.channels, c->forward.from.channels));
    c->want_x = v->requires_grad[n->in[0]->id] && ways & PARE_PASS_BACKWARD_DATA;
    c->want_w = v->requires_grad[n->in[1]->id] && ways & PARE_PASS_BACKWARD_WEIGHTS;
    c->want_b = n->n_in > 2 && n->in[2] && v->requires_grad[n->in[2]->id] &&
                ways & PARE_PASS_BACKWARD_WEIGHTS;
    return c;
}

static bool conv_winograd_train_match(const struct pare_match *v, struct pare_node *n,
                                      struct pare_step *s)
{
    struct pare_window w;
    struct conv *c;
    size_t back, weights;
    int n_in;

    if (!conv_winograd_train_usable(v, n, &w))
        return false;
    c = describe(v, n, &w, s->passes);
    n_in = n->n_in > 2 && n->in[2] ? 3 : 2;
    if (!c)
        return false;
    s->fast_passes = v->ignore_cost
                         ? PARE_ALL_PASSES
                         : conv_winograd_train_pays(&c->forward,
                                                    fewest_channels(c->filters.I, c->filters.O));
    if (!is_fast(s) || !pare_step_lists(s, v, n_in, 1, 0))
        return false;
    if (n_in > 2) {
        c->bias = pare_alloc(v->backend->arena, (size_t)c->forward.to.channels, sizeof(float));
        if (!c->bias)
            return false;
    }
    for (int i = 0; i < n_in; i++)
        s->in[i] = n->in[i];
    s->out[0] = n->out[0];
    s->in_block[0] = s->out_block[0] = v->backend->block;
    if (!pare_step_layouts_match(s))
        return false;
    s->state = c;
    s->pass_independent = true;
    s->unsaved_in = c->want_w ? 0 : 1;
    s->unsaved_out = 1;
    back = c->want_x ? pare_winograd_work(&c->backward_data) : 0;
    weights = c->want_w ? pare_winograd_weights_work(&c->forward) : 0;
    if (s->passes & PARE_PASS_FORWARD)
        s->work_bytes[0] = (c->u + pare_winograd_work(&c->forward)) * sizeof(float);
    if (c->want_x || c->want_w)
        s->work_bytes[1] = (c->u + (back > weights ? back : weights)) * sizeof(float);
    return true;
}

static int conv_winograd_train_run(struct pare_step *s, struct pare_backend *b,
                                   struct pare_err *err)
{
    struct conv *c = s->state;
    struct pare_winograd_filters f = c->filters;
    float *u = pare_f32_mut(&s->work[0]->t);
    struct pare_winograd_run r = {
        .x = pare_f32(&s->in_buf[0]->t),
        .u = u,
        .u_step = pare_winograd_step(c->filters.o, c->filters.i),
        .f = &f,
        .bias = c->bias,
        .y = pare_f32_mut(&s->out_buf[0]->t),
        .work = u + c->u,
    };

    (void)b;
    (void)err;
    if (c->bias)
        memcpy(c->bias, s->in[2]->t.data, (size_t)s->in[2]->t.dim[0] * sizeof(float));
    f.w = pare_f32(&s->in[1]->t);
    f.blocked = s->blocked_filters;
    if (!c->forward.lean)
        pare_winograd_filters(&f, u);
    pare_winograd_run(&c->forward, &r);
    return 0;
}

/* The sum over all pixels of one image, by lane. */
PARE_SIMD static void sum_pixels(const float *y, int64_t len, int block, double *sum)
{
    for (int k = 0; k < block; k += 8) {
        pare_v8 s = { 0 };

        for (int64_t i = k; i < len; i += block)
            s += PARE_V8(y + i);
        for (int j = 0; j < 8; j++)
            sum[k + j] += (double)s[j];
    }
}

static void bias_grad(const struct conv *c, const float *gy, bool first, float *gb)
{
    const struct pare_winograd *g = &c->forward;
    int64_t blocks = g->to.channels / g->block, len = g->to.h * g->to.w * g->block;

#pragma omp parallel for num_threads(g->threads)
    for (int64_t i = 0; i < blocks; i++) {
        double sum[16] = { 0 };

        for (int64_t n = 0; n < g->N; n++)
            sum_pixels(gy + (n * blocks + i) * len, len, g->block, sum);
        for (int k = 0; k < g->block && i * g->block + k < c->filters.O; k++)
            gb[i * g->block + k] = (float)sum[k] + (first ? 0 : gb[i * g->block + k]);
    }
}

static int conv_winograd_train_backward(struct pare_step *s, struct pare_backend *b,
                                        struct pare_err *err)
{
    struct conv *c = s->state;
    const float *gy = pare_f32(&s->out_buf[0]->grad->t);
    struct pare_winograd_filters f = c->filters;
    float *u = s->work[1] ? pare_f32_mut(&s->work[1]->t) : NULL;

    (void)b;
    (void)err;
    f.blocked = s->blocked_filters;
    if (c->want_b)
        bias_grad(c, gy, s->grad_assign[2], pare_f32_mut(&s->in_buf[2]->grad->t));
    if (c->want_w) {
        struct pare_winograd_grad r = {
            .x = pare_f32(&s->in_buf[0]->t),
            .gy = gy,
            .f = &f,
            .add = !s->grad_assign[1],
            .gw = pare_f32_mut(&s->in_buf[1]->grad->t),
            .u = u,
            .work = u + c->u,
        };

        pare_winograd_weights(&c->forward, &r);
    }
    if (c->want_x) {
        struct pare_winograd_run r = {
            .x = gy,
            .u = u,
            .u_step = pare_winograd_step(c->filters.o, c->filters.i),
            .f = &f,
            .add = !s->grad_assign[0],
            .y = pare_f32_mut(&s->in_buf[0]->grad->t),
            .work = u + c->u,
        };

        f.w = pare_f32(&s->in[1]->t);
        f.rotated = true;
        if (!c->backward_data.lean)
            pare_winograd_filters(&f, u);
        pare_winograd_run(&c->backward_data, &r);
    }
    return 0;
}

const struct pare_kernel pare_kernel_conv_winograd_train = {
    .name = "conv_winograd_train",
    .doc = "Training of convolutions with 3x3 filters by Winograd's F(4x4, 3x3).",
    .candidate = true,
    .blocked_filters = true,
    .match = conv_winograd_train_match,
    .run = conv_winograd_train_run,
    .backward = conv_winograd_train_backward,
};
