/* conv_fuse.c - match Conv with constant weights, BatchNormalization and post-ops. */
#include "conv_fuse.h"

#include <math.h>

#include "../../op/nn/norm.h"

static bool foldable(const struct pare_node *n)
{
    if (!pare_node_is(n, &pare_op_batch_normalization) || pare_bn_trains(n) ||
        !pare_bn_per_channel(n))
        return false;
    for (int i = 1; i < 5; i++)
        if (!pare_is_const(n->in[i]) || !pare_is_f32(n->in[i]))
            return false;
    return true;
}

/* Is it a float32 layer with constant weights? */
static bool constant_weights(const struct pare_node *n, const struct pare_op *op)
{
    return pare_node_is(n, op) && pare_is_f32(n->in[0]) && pare_is_const(n->in[1]) &&
           pare_is_f32(n->in[1]) && pare_numel(&n->out[0]->t) && pare_numel(&n->in[0]->t) &&
           (n->n_in < 3 || !n->in[2] || pare_is_const(n->in[2]));
}

/* Collect BatchNormalization and post-ops. */
static void follow(const struct pare_match *v, struct pare_conv_fuse *h)
{
    struct pare_node *next = pare_only_consumer(v, h->out);

    if (next && foldable(next)) {
        h->bn = next;
        h->out = next->out[0];
    }
    h->out = pare_post_follow(v, h->out, true, &h->post);
}

bool pare_conv_fuse(const struct pare_match *v, struct pare_node *n, struct pare_conv_fuse *h)
{
    struct pare_err err;

    *h = (struct pare_conv_fuse){ .out = n->out[0] };
    if (!constant_weights(n, &pare_op_conv) || pare_conv_window(n, &h->win, &err))
        return false;
    follow(v, h);
    return true;
}

bool pare_conv_transpose_fuse(const struct pare_match *v, struct pare_node *n,
                              struct pare_conv_fuse *h)
{
    struct pare_err err;

    *h = (struct pare_conv_fuse){ .out = n->out[0] };
    if (!constant_weights(n, &pare_op_conv_transpose) ||
        pare_conv_transpose_window(n, &h->win, &err))
        return false;
    follow(v, h);
    return true;
}

void pare_conv_fuse_cut(const struct pare_node *n, struct pare_conv_fuse *h, int keep)
{
    struct pare_post *p = &h->post;

    if (keep >= p->n)
        return;
    for (int i = keep; i < p->n; i++)
        if (p->op[i].kind == PARE_POST_SUM)
            p->sum = NULL;
    p->n = p->n_nodes = keep;
    h->out = keep ? p->node[keep - 1]->out[0] : h->bn ? h->bn->out[0] : n->out[0];
}

int pare_conv_fuse_before_sum(const struct pare_conv_fuse *h)
{
    int at = 0;

    while (at < h->post.n && h->post.op[at].kind != PARE_POST_SUM)
        at++;
    return at;
}

bool pare_conv_fuse_step(const struct pare_match *v, struct pare_node *n,
                         const struct pare_conv_fuse *h, int in_block, int out_block,
                         struct pare_step *s)
{
    int folded = h->bn != NULL;

    if (!pare_step_lists(s, v, h->post.sum ? 2 : 1, 1, folded + h->post.n_nodes))
        return false;
    s->in[0] = n->in[0];
    s->in_block[0] = in_block;
    if (h->post.sum) {
        s->in[1] = h->post.sum;
        s->in_block[1] = out_block;
        s->inplace = 2;
    }
    s->out[0] = h->out;
    s->out_block[0] = out_block;
    if (h->bn)
        s->fused[0] = h->bn;
    for (int i = 0; i < h->post.n_nodes; i++)
        s->fused[folded + i] = h->post.node[i];
    return true;
}

static int fold_bn(struct pare_backend *b, const struct pare_node *bn, int64_t channels,
                   float *scale, float *bias, struct pare_err *err)
{
    const float *p[4];

    for (int i = 0; i < 4; i++) {
        p[i] = pare_const_f32(b, bn->in[i + 1], err);
        if (!p[i])
            return err->code;
    }
    for (int64_t k = 0; k < channels; k++) {
        double s = (double)p[0][k] / sqrt((double)p[3][k] + pare_bn_epsilon(bn));

        scale[k] = (float)s;
        bias[k] = (float)(s * ((double)bias[k] - (double)p[2][k]) + (double)p[1][k]);
    }
    return 0;
}

int pare_conv_fuse_fold(struct pare_backend *b, const struct pare_node *n,
                        const struct pare_conv_fuse *h, float *scale, float *bias,
                        struct pare_err *err)
{
    int64_t O = n->out[0]->t.dim[1];
    const float *given = NULL;

    if (n->n_in > 2 && n->in[2]) {
        given = pare_const_f32(b, n->in[2], err);
        if (!given)
            return err->code;
    }
    for (int64_t k = 0; k < O; k++) {
        scale[k] = 1;
        bias[k] = given ? given[k] : 0;
    }
    return h->bn ? fold_bn(b, h->bn, O, scale, bias, err) : 0;
}

int pare_conv_fuse_vector_ops(const struct pare_conv_fuse *h, bool padded,
                              struct pare_post_op *post)
{
    for (int i = 0; i < h->post.n; i++) {
        const struct pare_post_op *o = &h->post.op[i];

        post[i] = *o;
        if (o->kind == PARE_POST_TANH || o->kind == PARE_POST_ELU || o->kind == PARE_POST_ROUND)
            return -1;
        if (padded && (o->kind == PARE_POST_SIGMOID ||
                       (o->kind == PARE_POST_CLIP && !(o->alpha <= 0 && o->beta >= 0))))
            return -1;
    }
    return h->post.n;
}

bool pare_post_bounds(struct pare_post_op *post, int *n_post, float *low, float *high)
{
    bool clip = *n_post > 0 && post->kind == PARE_POST_CLIP;

    if (!clip && (*n_post < 1 || post->kind != PARE_POST_RELU || post->alpha != 0))
        return false;
    *low = clip ? post->alpha : 0;
    *high = clip ? post->beta : INFINITY;
    --*n_post;
    memmove(post, post + 1, (size_t)*n_post * sizeof(*post));
    return true;
}
