/* reshape_view.c - Reshape, Flatten, Squeeze, Unsqueeze, Identity: views that share memory.
 *
 * Also Transpose of int8 images between (N, C, ...) and (N, ..., C), if the former has its channels
 * last in memory.
 */
#include "../fuse/int8_function.h"

/* Set the layouts that make the Transpose a view; false: it is not one. */
static bool view_of_image(const struct pare_node *n, struct pare_step *s)
{
    int transpose = pare_int8_transpose(n);
    enum pare_dtype type = n->in[0]->t.dtype;

    if (!transpose || (type != PARE_U8 && type != PARE_I8))
        return false;
    s->in_block[0] = transpose > 0 ? PARE_CHANNELS_LAST : 1;
    s->out_block[0] = transpose > 0 ? 1 : PARE_CHANNELS_LAST;
    return true;
}

static bool reshape_view_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    bool view = n->op->flags & PARE_OP_VIEW;

    if ((!view && (v->train || !pare_int8_transpose(n))) || n->n_out != 1 ||
        pare_is_const(n->in[0]) || n->in[0]->t.dtype == PARE_NONE ||
        n->out[0]->t.dtype == PARE_NONE)
        return false;
    if (!pare_step_lists(s, v, 1, 1, 0))
        return false;
    if (!view && !view_of_image(n, s))
        return false;
    s->in[0] = n->in[0];
    s->out[0] = n->out[0];
    /* An unchanged shape may have any layout; otherwise only row-major order has meaning. */
    if (view && pare_same_shape(&n->in[0]->t, &n->out[0]->t))
        s->in_block[0] = s->out_block[0] = pare_layout_of(v, n->in[0]);
    s->inplace = s->grad_inplace = 1;
    s->unsaved_in = s->unsaved_out = ~0u;
    return true;
}

static int reshape_view_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    (void)b, (void)err;
    if (s->out_buf[0]->t.data != s->in_buf[0]->t.data)
        memcpy(s->out_buf[0]->t.data, s->in_buf[0]->t.data, s->out_buf[0]->bytes);
    return 0;
}

/* Nothing to do if the gradients share memory as well. */
static int reshape_view_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct pare_buf *in = s->in_buf[0];
    const struct pare_buf *out = s->out_buf[0];
    float *gx;
    const float *gy;

    (void)b, (void)err;
    if (!in->grad || in->grad->t.data == out->grad->t.data)
        return 0;
    gx = pare_f32_mut(&in->grad->t);
    gy = pare_f32(&out->grad->t);
    if (s->grad_assign[0])
        memcpy(gx, gy, in->bytes);
    else
        for (size_t i = 0; i < in->bytes / sizeof(*gx); i++)
            gx[i] += gy[i];
    return 0;
}

const struct pare_kernel pare_kernel_reshape_view = {
    .name = "reshape_view",
    .doc = "Reshape, Flatten, Squeeze and other views: a new shape of the same memory.",
    .match = reshape_view_match,
    .run = reshape_view_run,
    .backward = reshape_view_backward,
};
