/* window.c - window geometry of convolutions and pools: sizes, padding, taps. */
#include "window.h"

/* Sizes stay far enough from 2^63 for sums of a few of them: kernels, strides, dilations and pads
 * fit 31 bits (their option tables limit them), and planes of inputs and outputs stay below this.
 */
#define MAX_PLANE (INT64_MAX / 8)

static int64_t extent(const struct pare_window *w, int i)
{
    return (w->kernel[i] - 1) * w->dilation[i] + 1;
}

/* Kernels multiply the sizes of a plane even if the tensor is empty and was never allocated. */
static int check_plane(const char *what, const int64_t *size, int nd, struct pare_err *err)
{
    int64_t plane = 1;

    for (int i = 0; i < nd; i++) {
        if (size[i] > MAX_PLANE / plane)
            return pare_fail(err, PARE_ELIMIT,
                             "%s has a plane of more elements than memory can "
                             "hold",
                             what);
        plane *= size[i] > 0 ? size[i] : 1;
    }
    return 0;
}

/* A list attribute with one number per axis, or absent. */
static int per_axis(const char *name, struct pare_ints list, int nd, int64_t absent, int64_t *v,
                    struct pare_err *err)
{
    if (list.n && list.n != nd)
        return pare_fail(err, PARE_ESHAPE, "%s has %d numbers for %d spatial axes", name, list.n,
                         nd);
    for (int i = 0; i < nd; i++)
        v[i] = list.n ? list.v[i] : absent;
    return 0;
}

/* The geometry that does not depend on the direction: axes, strides, dilations, pads. */
static int read_attrs(const struct pare_window_attr *a, const struct pare_tensor *x,
                      struct pare_window *w, struct pare_err *err)
{
    char buf[PARE_SHAPE_TEXT];
    int nd = x->rank - 2;

    memset(w, 0, sizeof(*w));
    if (nd < 1 || nd > PARE_WINDOW_MAX)
        return pare_fail(err, PARE_ESHAPE,
                         "X is %s, expected batch, channels and 1 to %d spatial axes",
                         pare_shape_text(x, buf, sizeof(buf)), PARE_WINDOW_MAX);
    w->nd = nd;
    w->group = a->group ? a->group : 1;
    for (int i = 0; i < nd; i++)
        w->in[i] = x->dim[i + 2];
    PARE_TRY(check_plane("X", w->in, nd, err));
    PARE_TRY(per_axis("strides", a->strides, nd, 1, w->stride, err));
    PARE_TRY(per_axis("dilations", a->dilations, nd, 1, w->dilation, err));
    if (a->pads.n && a->pads.n != 2 * nd)
        return pare_fail(err, PARE_ESHAPE, "pads has %d numbers for %d spatial axes, expected %d",
                         a->pads.n, nd, 2 * nd);
    for (int i = 0; i < nd && a->pads.n && !strcmp(a->auto_pad, "NOTSET"); i++) {
        w->pad_begin[i] = a->pads.v[i];
        w->pad_end[i] = a->pads.v[nd + i];
    }
    return 0;
}

/* The window's size from W, which must agree with kernel_shape if that is given. */
static int read_kernel(const struct pare_window_attr *a, const struct pare_tensor *wt,
                       struct pare_window *w, struct pare_err *err)
{
    char buf[PARE_SHAPE_TEXT];
    int64_t asked[PARE_WINDOW_MAX];

    if (wt->rank != w->nd + 2)
        return pare_fail(err, PARE_ESHAPE, "W is %s, expected %d dimensions like X",
                         pare_shape_text(wt, buf, sizeof(buf)), w->nd + 2);
    PARE_TRY(per_axis("kernel_shape", a->kernel_shape, w->nd, 0, asked, err));
    for (int i = 0; i < w->nd; i++) {
        w->kernel[i] = wt->dim[i + 2];
        if (w->kernel[i] < 1 || w->kernel[i] > INT32_MAX)
            return pare_fail(err, PARE_ESHAPE, "W is %s, which has an empty window",
                             pare_shape_text(wt, buf, sizeof(buf)));
        if (asked[i] && asked[i] != w->kernel[i])
            return pare_fail(err, PARE_ESHAPE, "kernel_shape is %lld along axis %d but W is %s",
                             (long long)asked[i], i, pare_shape_text(wt, buf, sizeof(buf)));
    }
    return check_plane("W", w->kernel, w->nd, err);
}

/* Divide `total` padding between both ends; the odd element is at the end for SAME_UPPER. */
static void share_pad(struct pare_window *w, int i, int64_t total, bool upper)
{
    int64_t small = total / 2;

    w->pad_begin[i] = upper ? small : total - small;
    w->pad_end[i] = total - w->pad_begin[i];
}

/* SAME:  out = ceil(in / stride), padded as needed.
 * Else:  out = round((in + pads - extent) / stride) + 1, rounding down, or up for ceil_mode; then
 *        a last window that would start in the padding after the input is left out.
 * ONNX divides integers, which rounds toward 0: with `beyond`, a window that is larger than the
 * padded input, by less than the stride, has one position and takes what it covers. */
static int slide(const struct pare_window_attr *a, struct pare_window *w, bool beyond,
                 struct pare_err *err)
{
    bool same = !strncmp(a->auto_pad, "SAME", 4), ceil_mode = a->ceil_mode != 0;

    for (int i = 0; i < w->nd; i++) {
        int64_t ext = extent(w, i), s = w->stride[i], room;

        if (same) {
            int64_t out = (w->in[i] + s - 1) / s, total = (out - 1) * s + ext - w->in[i];

            w->out[i] = out;
            share_pad(w, i, total > 0 && out ? total : 0, !strcmp(a->auto_pad, "SAME_UPPER"));
            continue;
        }
        room = w->in[i] + w->pad_begin[i] + w->pad_end[i] - ext + (ceil_mode ? s - 1 : 0);
        if (beyond && !ceil_mode && room < 0 && room > -s)
            room = 0;
        if (room < 0)
            return pare_fail(err, PARE_ESHAPE,
                             "the window spans %lld along spatial axis %d but the input has only "
                             "%lld with its padding",
                             (long long)ext, i,
                             (long long)w->in[i] + w->pad_begin[i] + w->pad_end[i]);
        w->out[i] = room / s + 1;
        if (ceil_mode && w->out[i] > 1 && (w->out[i] - 1) * s >= w->in[i] + w->pad_begin[i])
            w->out[i]--;
    }
    return check_plane("the result", w->out, w->nd, err);
}

int pare_conv_geometry(const struct pare_window_attr *a, const struct pare_tensor *x,
                       const struct pare_tensor *w, struct pare_window *win, struct pare_err *err)
{
    char bx[PARE_SHAPE_TEXT];
    int64_t g;

    PARE_TRY(read_attrs(a, x, win, err));
    PARE_TRY(read_kernel(a, w, win, err));
    g = win->group;
    if (x->dim[1] % g || x->dim[1] / g != w->dim[1])
        return pare_fail(err, PARE_ESHAPE,
                         "X is %s but W has %lld input channels in %lld "
                         "group%s",
                         pare_shape_text(x, bx, sizeof(bx)), (long long)w->dim[1], (long long)g,
                         g == 1 ? "" : "s");
    if (w->dim[0] % g)
        return pare_fail(err, PARE_ESHAPE,
                         "W has %lld output channels, which are not divisible into %lld groups",
                         (long long)w->dim[0], (long long)g);
    return slide(a, win, false, err);
}

int pare_conv_window(const struct pare_node *n, struct pare_window *w, struct pare_err *err)
{
    return pare_conv_geometry(n->attr, &n->in[0]->t, &n->in[1]->t, w, err);
}

int pare_conv_bias(const struct pare_value *b, int64_t channels, struct pare_err *err)
{
    char buf[PARE_SHAPE_TEXT];

    if (!b || (b->t.rank == 1 && b->t.dim[0] == channels))
        return 0;
    return pare_fail(err, PARE_ESHAPE, "B is %s but W has %lld output channels",
                     pare_shape_text(&b->t, buf, sizeof(buf)), (long long)channels);
}

/* The requested size of Y along each axis; -1: it follows from the pads. */
static int transposed_sizes(const struct pare_window_attr *a, const struct pare_window *w,
                            int64_t *size, struct pare_err *err)
{
    struct pare_ints want = a->output_shape;

    if (want.n == w->nd + 2) { /* some exporters prepend batch and channels */
        want.v += 2;
        want.n -= 2;
    }
    PARE_TRY(per_axis("output_shape", want, w->nd, -1, size, err));
    for (int i = 0; i < w->nd && !want.n && !strncmp(a->auto_pad, "SAME", 4); i++) {
        if (w->in[i] > INT64_MAX / 4 / w->stride[i])
            return pare_fail(err, PARE_ELIMIT, "the result is too large");
        size[i] = w->in[i] * w->stride[i];
    }
    return 0;
}

/* Without padding Y would be   full = stride * (in - 1) + output_padding + extent.  Then out = full
 * - pads; or, if a size is requested, the pads are chosen to give it (never negative: a larger Y
 * has outputs at its end that no window reaches). */
int pare_conv_transpose_window(const struct pare_node *n, struct pare_window *w,
                               struct pare_err *err)
{
    const struct pare_window_attr *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *wt = &n->in[1]->t;
    int64_t extra[PARE_WINDOW_MAX], size[PARE_WINDOW_MAX];
    char bx[PARE_SHAPE_TEXT], bw[PARE_SHAPE_TEXT];

    PARE_TRY(read_attrs(a, x, w, err));
    PARE_TRY(read_kernel(a, wt, w, err));
    if (x->dim[1] != wt->dim[0] || x->dim[1] % w->group)
        return pare_fail(err, PARE_ESHAPE,
                         "X is %s but W is %s, for %lld input channels in %lld "
                         "group%s",
                         pare_shape_text(x, bx, sizeof(bx)), pare_shape_text(wt, bw, sizeof(bw)),
                         (long long)wt->dim[0], (long long)w->group, w->group == 1 ? "" : "s");
    PARE_TRY(per_axis("output_padding", a->output_padding, w->nd, 0, extra, err));
    PARE_TRY(transposed_sizes(a, w, size, err));
    for (int i = 0; i < w->nd; i++) {
        int64_t full = 0;

        if (w->in[i] > INT64_MAX / 4 / w->stride[i])
            return pare_fail(err, PARE_ELIMIT, "the result is too large");
        if (w->in[i])
            full = w->stride[i] * (w->in[i] - 1) + extra[i] + extent(w, i);
        if (size[i] >= 0) {
            w->out[i] = size[i];
            share_pad(w, i, full > size[i] ? full - size[i] : 0,
                      !strcmp(a->auto_pad, "SAME_UPPER"));
            continue;
        }
        w->out[i] = full - w->pad_begin[i] - w->pad_end[i];
        if (w->out[i] < 0 || (!w->out[i] && w->in[i]))
            return pare_fail(err, PARE_ESHAPE,
                             "pads remove %lld of the %lld outputs along spatial "
                             "axis %d",
                             (long long)w->pad_begin[i] + w->pad_end[i], (long long)full, i);
    }
    return check_plane("the result", w->out, w->nd, err);
}

int pare_pool_window(const struct pare_node *n, struct pare_window *w, struct pare_err *err)
{
    const struct pare_window_attr *a = n->attr;

    PARE_TRY(read_attrs(a, &n->in[0]->t, w, err));
    w->group = 1;
    PARE_TRY(per_axis("kernel_shape", a->kernel_shape, w->nd, 1, w->kernel, err));
    for (int i = 0; i < w->nd; i++) {
        int64_t pad = w->pad_begin[i] > w->pad_end[i] ? w->pad_begin[i] : w->pad_end[i];

        if (pad >= extent(w, i)) /* some windows would consist of padding only */
            return pare_fail(err, PARE_ESHAPE,
                             "padding of %lld along spatial axis %d, which must "
                             "be less than the window's %lld",
                             (long long)pad, i, (long long)extent(w, i));
    }
    return slide(a, w, !pare_pool_counts_pad(n), err);
}

bool pare_pool_counts_pad(const struct pare_node *n)
{
    const struct pare_window_attr *a = n->attr;

    return a->count_include_pad != 0;
}

int pare_window_shape(const struct pare_window *w, struct pare_tensor *y, enum pare_dtype dtype,
                      int64_t batch, int64_t channels, struct pare_err *err)
{
    int64_t dim[PARE_WINDOW_MAX + 2] = { batch, channels };

    for (int i = 0; i < w->nd; i++)
        dim[i + 2] = w->out[i];
    PARE_TRY(pare_shape_set(y, dtype, w->nd + 2, dim, err));
    return pare_tensor_size(y, NULL, NULL, err);
}

void pare_window_3d(struct pare_window *w)
{
    int shift = PARE_WINDOW_MAX - w->nd;
    struct pare_window old = *w;

    for (int i = 0; i < PARE_WINDOW_MAX; i++) {
        int j = i - shift;

        w->kernel[i] = j < 0 ? 1 : old.kernel[j];
        w->stride[i] = j < 0 ? 1 : old.stride[j];
        w->dilation[i] = j < 0 ? 1 : old.dilation[j];
        w->pad_begin[i] = j < 0 ? 0 : old.pad_begin[j];
        w->pad_end[i] = j < 0 ? 0 : old.pad_end[j];
        w->in[i] = j < 0 ? 1 : old.in[j];
        w->out[i] = j < 0 ? 1 : old.out[j];
    }
    w->nd = PARE_WINDOW_MAX;
}

/* The least q >= 0 with q * d >= a. */
static int64_t steps(int64_t a, int64_t d)
{
    return a <= 0 ? 0 : (a - 1) / d + 1;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void pare_window_span(const struct pare_window *w, int axis, int64_t k, int64_t *lo, int64_t *hi)
{
    int64_t first = k * w->dilation[axis] - w->pad_begin[axis], s = w->stride[axis];

    *lo = steps(-first, s);
    *hi = least(steps(w->in[axis] - first, s), w->out[axis]);
    if (*hi < *lo)
        *hi = *lo;
}

bool pare_window_meets(const struct pare_window *w)
{
    for (int i = 0; i < w->nd; i++)
        for (int64_t o = 0; o < w->out[i]; o++) {
            int64_t start = o * w->stride[i] - w->pad_begin[i], d = w->dilation[i];

            if (least(steps(w->in[i] - start, d), w->kernel[i]) <= steps(-start, d))
                return false;
        }
    return true;
}

/* Start and taps of the current output along one axis. */
static void pool_axis(struct pare_pool *p, int i)
{
    const struct pare_window *w = &p->w;
    int64_t start = p->o[i] * w->stride[i] - w->pad_begin[i], d = w->dilation[i];

    p->start[i] = start;
    p->lo[i] = steps(-start, d);
    p->hi[i] = least(steps(w->in[i] - start, d), w->kernel[i]);
    if (p->hi[i] < p->lo[i])
        p->hi[i] = p->lo[i];
}

void pare_pool_start(struct pare_pool *p, const struct pare_window *w)
{
    memset(p, 0, sizeof(*p));
    p->w = *w;
    pare_window_3d(&p->w);
    for (int i = 0; i < PARE_WINDOW_MAX; i++)
        pool_axis(p, i);
}

void pare_pool_next(struct pare_pool *p)
{
    const struct pare_window *w = &p->w;

    for (int i = PARE_WINDOW_MAX - 1; i >= 0; i--) {
        bool more = ++p->o[i] < w->out[i];

        if (!more)
            p->o[i] = 0;
        pool_axis(p, i);
        if (more)
            return;
    }
    p->plane += w->in[0] * w->in[1] * w->in[2];
}

int pare_pool_infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_window w;

    PARE_TRY(pare_pool_window(n, &w, err));
    return pare_window_shape(&w, &n->out[0]->t, x->dtype, x->dim[0], x->dim[1], err);
}

void pare_ties_channels(const struct pare_node *n, struct pare_ties *t)
{
    /* Further outputs are indices into the whole tensor, which change with every removed channel.
     */
    for (int k = 1; k < n->n_out; k++)
        if (n->out[k])
            return;
    pare_tie(t, n->in[0], 0, n->out[0], 0);
    pare_tie(t, n->in[0], 1, n->out[0], 1);
}
