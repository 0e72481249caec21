/* window.h - window geometry of convolutions and pools, shared by those operators and kernels.
 *
 * A window operator slides a kernel over 1 to 3 spatial axes.  Along axis i, tap k of the window of
 * output o reads input position
 *     o * stride[i] - pad_begin[i] + k * dilation[i]
 * where positions outside [0, in[i]) are padding.
 */
#ifndef PARE_OP_NN_WINDOW_H
#define PARE_OP_NN_WINDOW_H

#include "../op.h"

#define PARE_WINDOW_MAX 3

/* pad_end is the value of the attributes (or of auto_pad); with ceil_mode the last window may
 * extend beyond it, and with floor rounding it may end before it.  `out` is authoritative.  For
 * ConvTranspose, `in` is X and `out` is Y, and their roles in the formula above are exchanged. */
struct pare_window {
    int nd; /* spatial axes; entries from nd on are unset */
    int64_t kernel[PARE_WINDOW_MAX], stride[PARE_WINDOW_MAX], dilation[PARE_WINDOW_MAX];
    int64_t pad_begin[PARE_WINDOW_MAX], pad_end[PARE_WINDOW_MAX];
    int64_t group; /* 1 for pools */
    int64_t in[PARE_WINDOW_MAX], out[PARE_WINDOW_MAX];
};

/* ---- attributes, once shapes are known ---------------------------------------------------- */

/* Conv and ConvInteger (X is input 0, W is input 1), once the shapes of both are known.  Checks
 * everything that infer() has to except the bias (pare_conv_bias). */
int pare_conv_window(const struct pare_node *n, struct pare_window *w, struct pare_err *err);

/* ConvTranspose. */
int pare_conv_transpose_window(const struct pare_node *n, struct pare_window *w,
                               struct pare_err *err);

/* MaxPool, AveragePool and LpPool. */
int pare_pool_window(const struct pare_node *n, struct pare_window *w, struct pare_err *err);

/* AveragePool: whether padding counts in the divisor. */
bool pare_pool_counts_pad(const struct pare_node *n);

/* ---- for operators ------------------------------------------------------------------------ */

/* The attributes of all window operators; each uses some of them. */
struct pare_window_attr {
    const char *auto_pad;
    struct pare_ints kernel_shape, strides, dilations, pads;
    int64_t group;                                          /* convolutions */
    struct pare_ints output_padding, output_shape;          /* ConvTranspose */
    int64_t ceil_mode, count_include_pad, storage_order, p; /* pools */
};

/* Rows of attribute tables. */
#define PARE_WINDOW_INT(attr, text, dflt, lo, hi) \
    PARE_INT(#attr, offsetof(struct pare_window_attr, attr), text, dflt, lo, hi)
#define PARE_WINDOW_INTS(attr, text, lo) \
    PARE_INTS(#attr, offsetof(struct pare_window_attr, attr), text, lo, INT32_MAX)
#define PARE_WINDOW_AUTO_PAD                                             \
    PARE_CHOICE("auto_pad", offsetof(struct pare_window_attr, auto_pad), \
                "how to choose the padding", "NOTSET", "NOTSET|SAME_UPPER|SAME_LOWER|VALID")
#define PARE_WINDOW_KERNEL(is_required)                                                   \
    {                                                                                     \
        .name = "kernel_shape", .help = "size of the window along each axis",             \
        .type = PARE_OPT_INTS, .offset = offsetof(struct pare_window_attr, kernel_shape), \
        .min = 1, .max = INT32_MAX, .required = is_required                               \
    }
#define PARE_WINDOW_STRIDES PARE_WINDOW_INTS(strides, "strides of the window along each axis", 1)
#define PARE_WINDOW_DILATIONS \
    PARE_WINDOW_INTS(dilations, "distance between taps along each axis", 1)
#define PARE_WINDOW_PADS PARE_WINDOW_INTS(pads, "padding before all axes, then after all axes", 0)

/* Attributes of Conv, ConvInteger and QLinearConv. */
extern const struct pare_opt pare_conv_attrs[];

/* pare_conv_window for operators with X and W at other inputs. */
int pare_conv_geometry(const struct pare_window_attr *a, const struct pare_tensor *x,
                       const struct pare_tensor *w, struct pare_window *win, struct pare_err *err);

/* Fail unless b is NULL or has `channels` elements. */
int pare_conv_bias(const struct pare_value *b, int64_t channels, struct pare_err *err);

/* Set y to (batch, channels, out...). */
int pare_window_shape(const struct pare_window *w, struct pare_tensor *y, enum pare_dtype dtype,
                      int64_t batch, int64_t channels, struct pare_err *err);

/* The same window over exactly three axes, with leading axes of size 1, so that kernels are written
 * once. */
void pare_window_3d(struct pare_window *w);

/* The outputs [*lo, *hi) for which tap k along an axis is not in the padding. */
void pare_window_span(const struct pare_window *w, int axis, int64_t k, int64_t *lo, int64_t *hi);

/* Whether every window has a tap that is not padding.  Large dilations can step over the input. */
bool pare_window_meets(const struct pare_window *w);

/* Iterates over the outputs of a pool in order, with the start of each window in its input plane
 * and its taps [lo, hi) that are not padding:
 *     for (pare_pool_start(&p, &w), i = 0; i < total; i++, pare_pool_next(&p))
 *         y[i] = f(x + p.plane, p.start, p.lo, p.hi) */
struct pare_pool {
    struct pare_window w;       /* with three axes */
    int64_t plane;              /* offset of the input plane */
    int64_t o[PARE_WINDOW_MAX]; /* the output's position in its plane */
    int64_t start[PARE_WINDOW_MAX], lo[PARE_WINDOW_MAX], hi[PARE_WINDOW_MAX];
};
void pare_pool_start(struct pare_pool *p, const struct pare_window *w);
void pare_pool_next(struct pare_pool *p);

/* Offset in the plane of the element that a tap of the current window reads. */
static inline int64_t pare_pool_at(const struct pare_pool *p, int64_t kd, int64_t kh, int64_t kw)
{
    const struct pare_window *w = &p->w;

    return ((p->start[0] + kd * w->dilation[0]) * w->in[1] + p->start[1] + kh * w->dilation[1]) *
               w->in[2] +
           p->start[2] + kw * w->dilation[2];
}

/* infer() of pools: output 0 has X's type. */
int pare_pool_infer(struct pare_node *n, struct pare_err *err);

/* ties(): batch and channels of X and Y are the same. */
void pare_ties_channels(const struct pare_node *n, struct pare_ties *t);

#endif
