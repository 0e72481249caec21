/* conv.c - Conv: cross-correlation over 1 to 3 spatial axes, in groups.
 *
 *     y[n, m, o] = b[m] + sum over c, k of w[m, c, k] * x[n, g * C + c, o * stride - pad + k * dil]
 *
 * for output channel m of group g, with C = channels / group.
 */
#include "window.h"

const struct pare_opt pare_conv_attrs[] = {
    PARE_WINDOW_AUTO_PAD,
    PARE_WINDOW_DILATIONS,
    PARE_WINDOW_INT(group, "parts that the channels are divided in", 1, 1, INT32_MAX),
    PARE_WINDOW_KERNEL(false),
    PARE_WINDOW_PADS,
    PARE_WINDOW_STRIDES,
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *w = &n->in[1]->t;
    struct pare_window win;

    PARE_TRY(pare_conv_window(n, &win, err));
    PARE_TRY(pare_conv_bias(n->n_in > 2 ? n->in[2] : NULL, w->dim[0], err));
    return pare_window_shape(&win, &n->out[0]->t, x->dtype, x->dim[0], w->dim[0], err);
}

/* One input plane with one plane of the kernel, added to one output plane.  The innermost loop
 * runs along a row of outputs, so that it vectorises. */
PARE_SIMD static void add_plane(const struct pare_window *w, const float *x, const float *kernel,
                                float *y)
{
    int64_t s = w->stride[2];

    for (int64_t kd = 0; kd < w->kernel[0]; kd++)
        for (int64_t kh = 0; kh < w->kernel[1]; kh++)
            for (int64_t kw = 0; kw < w->kernel[2]; kw++) {
                float f = *kernel++;
                int64_t d0, d1, h0, h1, w0, w1, id, ih, iw;

                pare_window_span(w, 0, kd, &d0, &d1);
                pare_window_span(w, 1, kh, &h0, &h1);
                pare_window_span(w, 2, kw, &w0, &w1);
                iw = w0 * s - w->pad_begin[2] + kw * w->dilation[2];
                for (int64_t od = d0; od < d1 && w0 < w1; od++)
                    for (int64_t oh = h0; oh < h1; oh++) {
                        const float *row;
                        float *out = y + (od * w->out[1] + oh) * w->out[2] + w0;

                        id = od * w->stride[0] - w->pad_begin[0] + kd * w->dilation[0];
                        ih = oh * w->stride[1] - w->pad_begin[1] + kh * w->dilation[1];
                        row = x + (id * w->in[1] + ih) * w->in[2] + iw;
                        if (s == 1)
                            for (int64_t i = 0; i < w1 - w0; i++)
                                out[i] += f * row[i];
                        else
                            for (int64_t i = 0; i < w1 - w0; i++)
                                out[i] += f * row[i * s];
                    }
            }
}

/* Where each output reads just the input below it, a plane is one long row. */
static void flatten(struct pare_window *w)
{
    for (int i = 0; i < 3; i++)
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->pad_begin[i] || w->pad_end[i])
            return;
    w->in[2] *= w->in[0] * w->in[1];
    w->out[2] = w->in[2];
    w->in[0] = w->in[1] = w->out[0] = w->out[1] = 1;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *w = &n->in[1]->t, *y = &n->out[0]->t;
    const float *b = n->n_in > 2 && n->in[2] ? pare_f32(&n->in[2]->t) : NULL;
    int64_t N = x->dim[0], C = w->dim[1], M = w->dim[0], in_plane, out_plane, taps, per_group;
    struct pare_window win;

    (void)c;
    PARE_TRY(pare_conv_window(n, &win, err));
    pare_window_3d(&win);
    flatten(&win);
    in_plane = win.in[0] * win.in[1] * win.in[2];
    out_plane = win.out[0] * win.out[1] * win.out[2];
    taps = win.kernel[0] * win.kernel[1] * win.kernel[2];
    per_group = M / win.group;
    for (int64_t i = 0; i < N && out_plane; i++)
        for (int64_t m = 0; m < M; m++) {
            int64_t first = i * x->dim[1] + m / per_group * C;
            float *out = pare_f32(y) + (i * M + m) * out_plane;

            for (int64_t k = 0; k < out_plane; k++)
                out[k] = b ? b[m] : 0;
            for (int64_t k = 0; k < C; k++)
                add_plane(&win, pare_f32(x) + (first + k) * in_plane,
                          pare_f32(w) + (m * C + k) * taps, out);
        }
    return 0;
}

/* Plain: X's channels are W's inputs, and Y's are W's outputs.  Depthwise: all are the same.
 * Other groupings tie blocks of channels and are left alone. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_window_attr *a = n->attr;
    const struct pare_value *x = n->in[0], *w = n->in[1], *y = n->out[0];
    bool depthwise = a->group > 1 && a->group == x->t.dim[1] && w->t.dim[0] == x->t.dim[1];

    pare_tie(t, x, 0, y, 0);
    if (a->group > 1 && !depthwise)
        return;
    pare_tie(t, x, 1, w, depthwise ? 0 : 1);
    pare_tie(t, w, 0, y, 1);
    if (n->n_in > 2 && n->in[2])
        pare_tie(t, n->in[2], 0, w, 0);
}

static double macs(const struct pare_node *n)
{
    const struct pare_tensor *w = &n->in[1]->t;
    double per_output = 1;

    for (int i = 1; i < w->rank; i++)
        per_output *= (double)w->dim[i];
    return (double)pare_numel(&n->out[0]->t) * per_output;
}

const struct pare_op pare_op_conv = {
    .abi = PARE_ABI,
    .type = "Conv",
    .doc = "Convolution over 1 to 3 spatial axes, with groups, strides, padding and dilation.",
    .since = 1,
    .in = "TTT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_conv_attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .macs = macs,
};
