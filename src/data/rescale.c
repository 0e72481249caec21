/* rescale.c - resize an image with Pillow's bilinear filter, to the bit.
 *
 * Each output pixel is a weighted mean of the input pixels under a triangle around its center,
 *     weight(x) = 1 - |x - center| / r,    r = max(1, input size / output size),
 * first along the rows, then along the columns.  Weights are multiples of 1 / 2^22 and each pass
 * rounds to bytes, so that the result is the same as Pillow's, and torchvision's.
 */
#include <math.h>
#include <string.h>

#include "source.h"

#define ONE 22 /* fractional bits of a weight */

/* Output i is the sum of weight[i * most + k] input[first[i] + k] for k < count[i]. */
struct filter {
    int64_t most;
    int64_t *first, *count;
    int32_t *weight;
};

/* The whole pixels of [center - r, center + r] inside the image. */
static void span(double center, double r, int64_t size, int64_t *first, int64_t *count)
{
    int64_t from = (int64_t)(center - r + 0.5), to = (int64_t)(center + r + 0.5);

    from = from < 0 ? 0 : from;
    to = to > size ? size : to;
    *first = from;
    *count = to - from;
}

static int make_filter(struct pare_arena *a, struct filter *f, int64_t in, int64_t out,
                       struct pare_err *err)
{
    double scale = (double)in / (double)out, r = scale > 1 ? scale : 1, *w;

    f->most = (int64_t)ceil(r) * 2 + 1;
    f->first = pare_alloc(a, (size_t)out, sizeof(*f->first));
    f->count = pare_alloc(a, (size_t)out, sizeof(*f->count));
    f->weight = pare_alloc(a, (size_t)(out * f->most), sizeof(*f->weight));
    w = pare_alloc(a, (size_t)f->most, sizeof(*w));
    if (!f->first || !f->count || !f->weight || !w)
        return pare_no_memory(err, "to resize an image");
    for (int64_t i = 0; i < out; i++) {
        double center = ((double)i + 0.5) * scale, sum = 0;

        span(center, r, in, &f->first[i], &f->count[i]);
        for (int64_t k = 0; k < f->count[i]; k++) {
            double x = fabs(((double)(k + f->first[i]) - center + 0.5) * (1 / r));

            w[k] = x < 1 ? 1 - x : 0;
            sum += w[k];
        }
        for (int64_t k = 0; k < f->count[i]; k++)
            f->weight[i * f->most + k] = (int32_t)(0.5 + w[k] / sum * (1 << ONE));
    }
    return 0;
}

/* Resize the middle axis: (outer, in, inner) -> (outer, out, inner). */
static void filter_axis(const struct filter *f, const uint8_t *x, uint8_t *y, const int64_t *size)
{
    int64_t outer = size[0], in = size[1], out = size[2], inner = size[3];

    for (int64_t o = 0; o < outer; o++, x += in * inner)
        for (int64_t i = 0; i < out; i++, y += inner) {
            const int32_t *w = f->weight + i * f->most;
            const uint8_t *from = x + f->first[i] * inner;

            for (int64_t j = 0; j < inner; j++) {
                int64_t sum = (int64_t)1 << (ONE - 1);

                for (int64_t k = 0; k < f->count[i]; k++)
                    sum += (int64_t)w[k] * from[k * inner + j];
                sum >>= ONE;
                y[j] = (uint8_t)(sum > 255 ? 255 : sum);
            }
        }
}

/* One pass: the width (axis 1) or the height (axis 0) becomes n. */
static int resize_axis(struct pare_arena *a, struct pare_image *p, int axis, int64_t n,
                       struct pare_err *err)
{
    int64_t planes = p->last ? 1 : p->c, deep = p->last ? p->c : 1;
    int64_t size[4] = { planes * (axis ? p->h : 1), axis ? p->w : p->h, n,
                        deep * (axis ? 1 : p->w) };
    struct filter f;
    uint8_t *y;

    if (size[1] == n)
        return 0;
    PARE_TRY(make_filter(a, &f, size[1], n, err));
    y = pare_alloc_raw(a, (size_t)(size[0] * n), (size_t)size[3]);
    if (!y)
        return pare_no_memory(err, "to resize an image");
    filter_axis(&f, p->data, y, size);
    p->data = y;
    if (axis)
        p->w = n;
    else
        p->h = n;
    return 0;
}

int pare_rescale(struct pare_arena *a, struct pare_image *p, int64_t h, int64_t w,
                 struct pare_err *err)
{
    /* The other side of a narrow image can become huge. */
    if (h < 1 || w < 1 || w > PARE_MAX_PIXELS / h || w > PARE_MAX_PIXELS / p->h)
        return pare_fail(err, PARE_ELIMIT,
                         "an image of %lld x %lld would become %lld x %lld, at most %lld pixels "
                         "are handled",
                         (long long)p->h, (long long)p->w, (long long)h, (long long)w,
                         (long long)PARE_MAX_PIXELS);
    PARE_TRY(resize_axis(a, p, 1, w, err));
    return resize_axis(a, p, 0, h, err);
}

/* One number is the shorter side; the other keeps the aspect ratio, rounded down. */
void pare_resized(const struct pare_ints *resize, int64_t h, int64_t w, int64_t *rh, int64_t *rw)
{
    int64_t s = resize->n ? resize->v[0] : 0;

    *rh = resize->n == 2 ? resize->v[0] : !s ? h : h <= w ? s : s * h / w;
    *rw = resize->n == 2 ? resize->v[1] : !s ? w : h <= w ? s * w / h : s;
}
