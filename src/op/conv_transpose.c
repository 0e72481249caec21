/* conv_transpose.c - ConvTranspose: each input adds its multiple of the kernel to the output.
 *
 *     y[n, g * M + m, i * stride - pad + k * dil] += w[c, m, k] * x[n, c, i]
 *
 * for input channel c of group g, with M = output channels / group: the gradient of Conv with
 * respect to its input.
 */
#include "window.h"

static const struct pare_opt attrs[] = {
    PARE_WINDOW_AUTO_PAD,
    PARE_WINDOW_DILATIONS,
    PARE_WINDOW_INT(group, "parts that the channels are divided in", 1, 1, INT32_MAX),
    PARE_WINDOW_KERNEL(false),
    PARE_WINDOW_INTS(output_padding, "outputs added after each axis", 0),
    PARE_WINDOW_INTS(output_shape, "size of the output, which then decides the padding", 0),
    PARE_WINDOW_PADS,
    PARE_WINDOW_STRIDES,
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *w = &n->in[1]->t;
    struct pare_window win;
    int64_t M;

    PARE_TRY(pare_conv_transpose_window(n, &win, err));
    if (w->dim[1] > INT64_MAX / win.group)
        return pare_fail(err, PARE_ELIMIT, "W makes more channels than can be handled");
    M = w->dim[1] * win.group;
    PARE_TRY(pare_conv_bias(n->n_in > 2 ? n->in[2] : NULL, M, err));
    return pare_window_shape(&win, &n->out[0]->t, x->dtype, x->dim[0], M, err);
}

/* One input plane with one plane of the kernel, added to one output plane.  w is seen from the
 * output: its `in` is Y and its `out` is X. */
PARE_SIMD static void add_plane(const struct pare_window *w, const float *x, const float *kernel,
                                float *y)
{
    int64_t s = w->stride[2];

    for (int64_t kd = 0; kd < w->kernel[0]; kd++)
        for (int64_t kh = 0; kh < w->kernel[1]; kh++)
            for (int64_t kw = 0; kw < w->kernel[2]; kw++) {
                float f = *kernel++;
                int64_t d0, d1, h0, h1, w0, w1, yd, yh, yw;

                pare_window_span(w, 0, kd, &d0, &d1);
                pare_window_span(w, 1, kh, &h0, &h1);
                pare_window_span(w, 2, kw, &w0, &w1);
                yw = w0 * s - w->pad_begin[2] + kw * w->dilation[2];
                for (int64_t id = d0; id < d1 && w0 < w1; id++)
                    for (int64_t ih = h0; ih < h1; ih++) {
                        const float *row = x + (id * w->out[1] + ih) * w->out[2] + w0;
                        float *out;

                        yd = id * w->stride[0] - w->pad_begin[0] + kd * w->dilation[0];
                        yh = ih * w->stride[1] - w->pad_begin[1] + kh * w->dilation[1];
                        out = y + (yd * w->in[1] + yh) * w->in[2] + yw;
                        for (int64_t i = 0; i < w1 - w0; i++)
                            out[i * s] += f * row[i];
                    }
            }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *w = &n->in[1]->t, *y = &n->out[0]->t;
    const float *b = n->n_in > 2 && n->in[2] ? pare_f32(&n->in[2]->t) : NULL;
    int64_t N = x->dim[0], M = y->dim[1], per_group = w->dim[1], C, x_plane, y_plane, taps;
    struct pare_window win, back;

    (void)c;
    PARE_TRY(pare_conv_transpose_window(n, &win, err));
    pare_window_3d(&win);
    back = win;
    memcpy(back.in, win.out, sizeof(back.in));
    memcpy(back.out, win.in, sizeof(back.out));
    x_plane = win.in[0] * win.in[1] * win.in[2];
    y_plane = win.out[0] * win.out[1] * win.out[2];
    taps = win.kernel[0] * win.kernel[1] * win.kernel[2];
    C = x->dim[1] / win.group;
    for (int64_t i = 0; i < N && y_plane; i++)
        for (int64_t m = 0; m < M; m++) {
            int64_t first = m / per_group * C;
            float *out = pare_f32(y) + (i * M + m) * y_plane;

            for (int64_t k = 0; k < y_plane; k++)
                out[k] = b ? b[m] : 0;
            for (int64_t k = first; k < first + C && x_plane; k++)
                add_plane(&back, pare_f32(x) + (i * x->dim[1] + k) * x_plane,
                          pare_f32(w) + (k * per_group + m % per_group) * taps, out);
        }
    return 0;
}

/* As Conv's, with the first two axes of W exchanged. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_window_attr *a = n->attr;
    const struct pare_value *x = n->in[0], *w = n->in[1], *y = n->out[0];
    bool depthwise = a->group > 1 && a->group == x->t.dim[1] && w->t.dim[1] == 1;

    pare_tie(t, x, 0, y, 0);
    if (a->group > 1 && !depthwise)
        return;
    pare_tie(t, x, 1, w, 0);
    pare_tie(t, w, depthwise ? 0 : 1, y, 1);
    if (n->n_in > 2 && n->in[2])
        pare_tie(t, n->in[2], 0, y, 1);
}

static double macs(const struct pare_node *n)
{
    const struct pare_tensor *w = &n->in[1]->t;
    double per_input = 1;

    for (int i = 1; i < w->rank; i++)
        per_input *= (double)w->dim[i];
    return (double)pare_numel(&n->in[0]->t) * per_input;
}

const struct pare_op pare_op_conv_transpose = {
    .abi = PARE_ABI,
    .type = "ConvTranspose",
    .doc = "Transposed convolution (the gradient of Conv) over 1 to 3 spatial axes.",
    .since = 1,
    .in = "TTT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .macs = macs,
};
