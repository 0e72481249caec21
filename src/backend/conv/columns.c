/* columns.c - im2col and col2im of strips of pixels, for any window. */
#include "columns.h"

#include <string.h>

#define STRIP_BYTES (256 << 10) /* columns that stay in the cache */
#define LEAST 32                /* pixels of a strip */

static bool is_direct(const struct pare_window *w)
{
    for (int i = 0; i < 3; i++)
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->pad_begin[i] || w->in[i] != w->out[i])
            return false;
    return true;
}

bool pare_columns_init(const struct pare_node *n, struct pare_columns *c)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_err err;

    if (x->rank < 3 || x->rank > 5 || pare_conv_window(n, &c->w, &err))
        return false;
    pare_window_3d(&c->w);
    c->N = x->dim[0];
    c->C = x->dim[1];
    c->O = n->out[0]->t.dim[1];
    c->I = c->C / c->w.group;
    c->Q = c->O / c->w.group;
    c->K = c->I * c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2];
    c->pixels = c->w.out[0] * c->w.out[1] * c->w.out[2];
    c->plane = c->w.in[0] * c->w.in[1] * c->w.in[2];
    c->direct = is_direct(&c->w);
    c->strip = STRIP_BYTES / (c->K * (int64_t)sizeof(float)) / LEAST * LEAST;
    c->strip = c->strip < LEAST ? LEAST : c->strip;
    c->strip = c->strip < c->pixels ? c->strip : c->pixels;
    c->strips = (c->pixels + c->strip - 1) / c->strip;
    return c->K > 0 && c->Q > 0;
}

/* Neighboring pixels of one line of Y, and where a tap reads them. */
struct span {
    int64_t n;        /* pixels */
    int64_t at;       /* offset of the line in the plane of X; -1: it is padding */
    int64_t x;        /* position of the first pixel in that line, perhaps outside */
    int64_t from, to; /* pixels [from, to) are not padding */
};

/* The pixels from p on, before `end`, that are in one line. */
static struct span next_span(const struct pare_window *w, const int64_t tap[3], int64_t p,
                             int64_t end)
{
    const int64_t q = p % w->out[2], step = w->stride[2];
    const int64_t d = p / w->out[2] / w->out[1] * w->stride[0] - w->pad_begin[0] +
                      tap[0] * w->dilation[0];
    const int64_t h = p / w->out[2] % w->out[1] * w->stride[1] - w->pad_begin[1] +
                      tap[1] * w->dilation[1];
    struct span s = { .n = w->out[2] - q < end - p ? w->out[2] - q : end - p, .at = -1 };

    s.x = q * step - w->pad_begin[2] + tap[2] * w->dilation[2];
    if (d < 0 || d >= w->in[0] || h < 0 || h >= w->in[1])
        return s;
    s.at = (d * w->in[1] + h) * w->in[2];
    s.from = s.x >= 0 ? 0 : (-s.x + step - 1) / step;
    s.to = s.x >= w->in[2] ? 0 : (w->in[2] - 1 - s.x) / step + 1;
    s.to = s.to < s.n ? s.to : s.n;
    s.from = s.from < s.to ? s.from : s.to;
    return s;
}

static void read_line(const struct span *s, const float *x, int64_t step, float *to)
{
    if (s->at < 0) {
        memset(to, 0, (size_t)s->n * sizeof(*to));
        return;
    }
    x += s->at + s->x;
    memset(to, 0, (size_t)s->from * sizeof(*to));
    if (step == 1)
        memcpy(to + s->from, x + s->from, (size_t)(s->to - s->from) * sizeof(*to));
    else
        for (int64_t i = s->from; i < s->to; i++)
            to[i] = x[i * step];
    memset(to + s->to, 0, (size_t)(s->n - s->to) * sizeof(*to));
}

static void add_line(const struct span *s, const float *from, int64_t step, float *x)
{
    if (s->at < 0)
        return;
    x += s->at + s->x;
    for (int64_t i = s->from; i < s->to; i++)
        x[i * step] += from[i];
}

static void tap_of(const struct pare_window *w, int64_t k, int64_t tap[3])
{
    tap[2] = k % w->kernel[2];
    tap[1] = k / w->kernel[2] % w->kernel[1];
    tap[0] = k / w->kernel[2] / w->kernel[1] % w->kernel[0];
}

const float *pare_columns_make(const struct pare_columns *c, const float *x, int64_t i, float *room,
                               int64_t *row)
{
    const int64_t taps = c->K / c->I, first = i * c->strip, end = first + pare_strip_pixels(c, i);

    *row = c->direct ? c->pixels : c->strip;
    if (c->direct)
        return x + first;
    for (int64_t k = 0; k < c->K; k++) {
        int64_t tap[3];

        tap_of(&c->w, k, tap);
        for (int64_t p = first; p < end;) {
            struct span s = next_span(&c->w, tap, p, end);

            read_line(&s, x + k / taps * c->plane, c->w.stride[2], room + k * c->strip + p - first);
            p += s.n;
        }
    }
    return room;
}

void pare_columns_add(const struct pare_columns *c, const float *columns, int64_t i, float *x)
{
    const int64_t taps = c->K / c->I, first = i * c->strip, end = first + pare_strip_pixels(c, i);

    for (int64_t k = 0; k < c->K; k++) {
        int64_t tap[3];

        tap_of(&c->w, k, tap);
        for (int64_t p = first; p < end;) {
            struct span s = next_span(&c->w, tap, p, end);

            add_line(&s, columns + k * c->strip + p - first, c->w.stride[2],
                     x + k / taps * c->plane);
            p += s.n;
        }
    }
}
