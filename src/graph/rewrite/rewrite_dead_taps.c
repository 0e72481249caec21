/* rewrite_dead_taps.c - drop the taps of a convolution that only read padding, as the outer ones of
 * large dilations do on small images: a 3x3 filter may become a 1x1 filter. */
#include <string.h>

#include "../../op/nn/window.h"
#include "rewrite.h"

/* Of the taps along an axis, [lo, hi) read an element of the input for some output. */
static void live_taps(const struct pare_window *w, int axis, int64_t *lo, int64_t *hi)
{
    int64_t from, to;

    *lo = 0;
    *hi = w->kernel[axis];
    for (; *lo < *hi; ++*lo) {
        pare_window_span(w, axis, *lo, &from, &to);
        if (from < to)
            break;
    }
    for (; *hi > *lo; --*hi) {
        pare_window_span(w, axis, *hi - 1, &from, &to);
        if (from < to)
            break;
    }
}

/* The filters without the taps outside [lo, hi). */
static struct pare_value *cut_filters(struct pare_rewriter *r, struct pare_value *w,
                                      const int64_t *lo, const int64_t *hi, struct pare_err *err)
{
    struct pare_tensor t = w->t;
    struct pare_value *v;
    int64_t total;

    t.data = NULL;
    for (int i = 2; i < t.rank; i++)
        t.dim[i] = hi[i - 2] - lo[i - 2];
    if (pare_rewrite_load(r, w, err) || !(v = pare_rewrite_constant(r, w->name, &t, err)))
        return NULL;
    total = pare_numel(&t);
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, from = 0, stride = 1;

        for (int a = t.rank - 1; a >= 0; a--) {
            from += (rest % t.dim[a] + (a < 2 ? 0 : lo[a - 2])) * stride;
            stride *= w->t.dim[a];
            rest /= t.dim[a];
        }
        memcpy((char *)v->t.data + (size_t)i * sizeof(float),
               (const char *)w->t.data + (size_t)from * sizeof(float), sizeof(float));
    }
    return v;
}

static int drop_taps(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    int64_t lo[PARE_WINDOW_MAX], hi[PARE_WINDOW_MAX], pads[2 * PARE_WINDOW_MAX];
    struct pare_window_attr *new;
    struct pare_value *filters;
    struct pare_window w;
    bool some = false;

    if (!pare_node_is(n, &pare_op_conv) || !pare_rewrite_const(n->in[1]) ||
        n->in[1]->t.dtype != PARE_F32 || pare_conv_window(n, &w, err))
        return 0;
    for (int i = 0; i < w.nd; i++) {
        live_taps(&w, i, &lo[i], &hi[i]);
        if (lo[i] == hi[i])
            return 0;
        some |= hi[i] - lo[i] < w.kernel[i];
        pads[i] = w.pad_begin[i] - lo[i] * w.dilation[i];
        pads[w.nd + i] = w.pad_end[i] - (w.kernel[i] - hi[i]) * w.dilation[i];
        if (pads[i] < 0 || pads[w.nd + i] < 0)
            return 0;
    }
    if (!some)
        return 0;
    filters = cut_filters(r, n->in[1], lo, hi, err);
    new = filters ? pare_rewrite_attrs(r, n, err) : NULL;
    if (!new)
        return err->code;
    for (int i = 0; i < w.nd; i++)
        lo[i] = hi[i] - lo[i];
    new->auto_pad = "NOTSET";
    new->pads = pare_rewrite_list(r, pads, 2 * w.nd);
    new->kernel_shape = pare_rewrite_list(r, lo, w.nd);
    if (!new->pads.v || !new->kernel_shape.v)
        return pare_no_memory(err, "to rewrite the graph");
    pare_rewrite_input(r, n, 1, filters);
    return 0;
}

const struct pare_rewrite pare_rewrite_dead_taps = {
    .name = "dead_taps",
    .doc = "drop the taps of a convolution that only read padding",
    .node = drop_taps,
};
