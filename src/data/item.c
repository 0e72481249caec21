/* item.c - prepare an item for a batch: resize, crop, mirror, normalize. */
#include <string.h>

#include "source.h"
#include "../base/rng.h"
#include "../tensor/tensor.h"

/* Output (y, x) is the image's (top + y, left + x), or black outside; if mirrored, x counts from
 * the right. */
struct window {
    int64_t top, left, H, W;
    bool mirror;
};

static int64_t stored_index(const struct pare_data *d, int64_t i)
{
    return d->parts->pick ? d->parts->pick[i] : i;
}

static int fetch(const struct pare_data *d, int64_t i, struct pare_arena *a, struct pare_image *p,
                 struct pare_err *err)
{
    const struct pare_data_parts *s = d->parts;

    if (d->source->read)
        return d->source->read(d, stored_index(d, i), a, p, err);
    *p = s->form;
    p->data = (const char *)s->x.data +
              (size_t)(stored_index(d, i) * p->c * p->h * p->w) * pare_dtype_size(p->dtype);
    return 0;
}

/* ---- the window-------------------------------------------------------------------- */

/* Half of the difference, rounded half to even, as in torchvision. */
static int64_t center(int64_t spare)
{
    return spare / 2 + (spare % 4 == 3);
}

/* Choose the place of a window of v->H x v->W. */
static int place_window(const struct pare_data *d, const struct pare_image *p, struct pare_rng *rng,
                        struct window *v, struct pare_err *err)
{
    int64_t pad = rng ? d->opts.pad : 0, H = v->H, W = v->W;
    int64_t down = p->h + 2 * pad - H, across = p->w + 2 * pad - W;
    bool fixed = !d->parts->cropped && (p->h != H || p->w != W);

    if (fixed || down < 0 || across < 0)
        return pare_fail(err, PARE_ESHAPE,
                         "the image has %lld x %lld pixels, %s %lld x %lld: 'resize' and 'crop' "
                         "make sizes equal",
                         (long long)p->h, (long long)p->w, fixed ? "the first one" : "the window",
                         (long long)H, (long long)W);
    if (!rng) {
        v->top = center(down);
        v->left = center(across);
        return 0;
    }
    v->mirror = d->opts.flip && (pare_rng_next(rng) >> 63);
    v->top = (int64_t)pare_rng_below(rng, (uint64_t)down + 1) - pad;
    v->left = (int64_t)pare_rng_below(rng, (uint64_t)across + 1) - pad;
    return 0;
}

/* ---- numbers ---------------------------------------------------------------------- */

/* Convert n inputs at a distance of `stride` to n outputs at a distance of `step` (1 or -1). */
struct row {
    const void *x;
    int64_t stride;
    float *out;
    int64_t step, n;
};

static void bytes_row(const struct row *r, const float *table)
{
    const uint8_t *x = r->x;

    for (int64_t i = 0; i < r->n; i++)
        r->out[i * r->step] = table[x[i * r->stride]];
}

/* Same order of operations as in PyTorch. */
static void floats_row(const struct row *r, float scale, float mean, float std)
{
    const float *x = r->x;

    for (int64_t i = 0; i < r->n; i++)
        r->out[i * r->step] = (x[i * r->stride] / scale - mean) / std;
}

/* Channel c of the window; p points to bytes if there is a table, else to float32. */
static void plane(const struct pare_data *d, const struct pare_image *p, const struct window *v,
                  int64_t c, float *out)
{
    const struct pare_data_parts *s = d->parts;
    int64_t k = s->n_norm > 1 ? c : 0, W = v->W, step = v->mirror ? -1 : 1;
    int64_t from = v->left < 0 ? -v->left : 0, to = p->w - v->left < W ? p->w - v->left : W;
    int64_t from_c = s->swapped ? p->c - 1 - c : c;
    int64_t stride = p->last ? p->c : 1, at = p->last ? from_c : from_c * p->h * p->w;
    float scale = (float)s->scale, mean = s->mean[k], std = s->std[k], black = (0 - mean) / std;

    for (int64_t y = 0; y < v->H; y++, out += W) {
        float *start = v->mirror ? out + W - 1 : out;
        int64_t iy = v->top + y, i = at + (iy * p->w + v->left + from) * stride;
        struct row r = { NULL, stride, start + from * step, step, to - from };

        for (int64_t x = 0; x < W; x++)
            if (iy < 0 || iy >= p->h || x < from || x >= to)
                start[x * step] = black;
        if (iy < 0 || iy >= p->h)
            continue;
        r.x = s->table ? (const void *)((const uint8_t *)p->data + i)
                       : (const void *)((const float *)p->data + i);
        if (s->table)
            bytes_row(&r, s->table + k * 256);
        else
            floats_row(&r, scale, mean, std);
    }
}

static int to_floats(struct pare_arena *a, struct pare_image *p, struct pare_err *err)
{
    int64_t n = p->c * p->h * p->w;
    float *f;

    if (p->dtype == PARE_F32)
        return 0;
    f = pare_alloc_raw(a, (size_t)n, sizeof(*f));
    if (!f)
        return pare_no_memory(err, "for an item of %lld numbers", (long long)n);
    PARE_TRY(pare_convert(PARE_F32, f, p->dtype, p->data, n, err));
    p->dtype = PARE_F32;
    p->data = f;
    return 0;
}

/* Item i, resized. */
static int open_item(const struct pare_data *d, int64_t i, struct pare_arena *a,
                     struct pare_image *p, struct pare_err *err)
{
    int64_t h, w;

    PARE_TRY(fetch(d, i, a, p, err));
    pare_resized(&d->parts->resize, p->h, p->w, &h, &w);
    return h != p->h || w != p->w ? pare_rescale(a, p, h, w, err) : 0;
}

/* Cutout (DeVries and Taylor 2017): a square at a random center, clipped at the borders, becomes 0,
 * which is the mean after normalization. */
static void cut_out(const struct window *v, int64_t channels, int64_t side, struct pare_rng *rng,
                    float *out)
{
    int64_t y = (int64_t)pare_rng_below(rng, (uint64_t)v->H) - side / 2;
    int64_t x = (int64_t)pare_rng_below(rng, (uint64_t)v->W) - side / 2;
    int64_t top = y > 0 ? y : 0, bottom = y + side < v->H ? y + side : v->H;
    int64_t left = x > 0 ? x : 0, right = x + side < v->W ? x + side : v->W;

    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = top; i < bottom && left < right; i++)
            memset(out + (c * v->H + i) * v->W + left, 0, (size_t)(right - left) * sizeof(*out));
}

/* A window of v->H x v->W of an image, (C, H, W). */
static int load_window(const struct pare_data *d, struct pare_image *p, struct pare_rng *rng,
                       struct window *v, float *out, struct pare_arena *a, struct pare_err *err)
{
    PARE_TRY(place_window(d, p, rng, v, err));
    if (!d->parts->table)
        PARE_TRY(to_floats(a, p, err));
    for (int64_t c = 0; c < p->c; c++)
        plane(d, p, v, c, out + c * v->H * v->W);
    if (rng && d->opts.cutout)
        cut_out(v, p->c, d->opts.cutout, rng, out);
    return 0;
}

static int load_own(const struct pare_data *d, int64_t i, struct pare_rng *rng,
                    struct pare_arena *a, struct pare_tensor *t, struct pare_err *err)
{
    struct pare_image p;
    struct window v;

    PARE_TRY(open_item(d, i, a, &p, err));
    v = (struct window){ .H = p.h, .W = p.w };
    *t = (struct pare_tensor){ PARE_F32, 3, { p.c, p.h, p.w }, NULL };
    if (!d->parts->is_image) {
        t->rank = d->item.rank;
        t->dim[0] = t->rank > 1 ? p.c : p.w;
        t->dim[1] = p.w;
    }
    PARE_TRY(pare_tensor_alloc(a, t, err));
    return load_window(d, &p, rng, &v, pare_f32_mut(t), a, err);
}

int pare_item_own(const struct pare_data *d, int64_t i, struct pare_rng *rng, struct pare_arena *a,
                  struct pare_tensor *t, struct pare_err *err)
{
    return pare_at(err, load_own(d, i, rng, a, t, err), "item %lld", (long long)i);
}

static int load_item(const struct pare_data *d, int64_t i, struct pare_rng *rng, float *out,
                     struct pare_arena *a, struct pare_err *err)
{
    struct window v = { .H = d->parts->H, .W = d->parts->W };
    struct pare_image p;

    PARE_TRY(open_item(d, i, a, &p, err));
    return load_window(d, &p, rng, &v, out, a, err);
}

int pare_item_load(const struct pare_data *d, int64_t i, struct pare_rng *rng, float *out,
                   struct pare_arena *a, struct pare_err *err)
{
    return pare_at(err, load_item(d, i, rng, out, a, err), "item %lld", (long long)i);
}

int pare_item_raw(const struct pare_data *d, int64_t i, enum pare_dtype dtype, void *out,
                  struct pare_err *err)
{
    struct pare_image p;

    PARE_TRY(fetch(d, i, NULL, &p, err));
    return pare_convert(dtype, out, p.dtype, p.data, p.c * p.h * p.w, err);
}

void pare_item_turn(const float *from, float *to, int64_t channels, int64_t pixels)
{
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++)
            to[i * channels + c] = from[c * pixels + i];
}
