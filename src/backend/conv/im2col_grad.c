/* im2col_grad.c - the backward passes of conv_im2col.c. */
#include "im2col.h"

#include <omp.h>

#include "../sparse/row_sums.h"

#include "../../base/simd.h"

const float *pare_im2col_pad(const struct pare_im2col *c, const float *x, float *to)
{
    const struct pare_window *w = &c->w;
    int64_t top = w->pad_begin[1], left = w->pad_begin[2], n = c->W - left;

    n = n < w->in[2] ? n : w->in[2];
    if (!to)
        return x;
    for (int64_t i = 0; i < c->C && n > 0; i++)
        for (int64_t h = 0; h < w->in[1] && h + top < c->H; h++)
            memcpy(to + (i * c->H + h + top) * c->W + left, x + (i * w->in[1] + h) * w->in[2],
                   (size_t)n * sizeof(*to));
    return to;
}

/* Scratch memory of one thread.  Terms are listed by channel, and again by pixel. */
struct own {
    float *x, *gx;       /* (H, W, lanes) */
    float *plain, *rows; /* narrow windows: (C, H, W); (pixels, taps) */
    struct pare_term *by_channel, *by_pixel;
    int32_t *pixel; /* of a term by channel */
    int32_t *first; /* by channel, and by pixel: index of its first term */
    int32_t *end;
};

static struct own divide(const struct pare_im2col *c, float *memory)
{
    int64_t last = pare_round_up(c->H * c->W * c->lanes, 16),
            lists = pare_round_up(c->O * c->results, 16);
    struct own o = { .x = memory, .gx = memory + last };

    memory += 2 * last;
    o.by_channel = (struct pare_term *)memory;
    o.by_pixel = (struct pare_term *)(memory + 2 * lists);
    o.pixel = (int32_t *)(memory + 4 * lists);
    memory += 5 * lists;
    o.first = (int32_t *)memory;
    o.end = o.first + c->O + 1;
    memory += pare_round_up(c->pixels + c->O + 2, 16);
    if (c->narrow) {
        o.plain = memory;
        o.rows = memory + pare_round_up(c->C * c->H * c->W + 8, 16);
    }
    return o;
}

/* List those of n results whose gradient is not zero; returns their number. */
PARE_SIMD static int32_t list_nonzero(const int32_t *from, const float *gy, const int32_t *at,
                                      int64_t n, struct pare_term *term, int32_t *pixel)
{
    int32_t count = 0;

    for (int64_t i = 0; i < n; i++) {
        int32_t p = from[i] < 0 ? 0 : from[i];

        pixel[count] = p;
        term[count] = (struct pare_term){ at[p], gy[i] };
        count += (from[i] >= 0) & (gy[i] != 0);
    }
    return count;
}

/* All terms of image i, channel by channel; `at` is the offset of their windows for dW. */
static void list_by_channel(const struct pare_im2col *c, const float *y, const float *gy, int64_t i,
                            struct own *own)
{
    const int32_t *from = c->pooled ? c->from + i * c->O * c->results : own->end;
    int32_t n = 0;

    y += i * c->O * c->results;
    gy += i * c->O * c->results;
    for (int64_t o = 0; o < c->O; o++, y += c->results, gy += c->results) {
        for (int64_t k = 0; !c->pooled && k < c->results; k++)
            own->end[k] = c->relu && !(y[k] > 0) ? -1 : (int32_t)k;
        own->first[o] = n;
        n += list_nonzero(from, gy, c->row, c->results, own->by_channel + n, own->pixel + n);
        from += c->pooled ? c->results : 0;
    }
    own->first[c->O] = n;
}

/* The same terms pixel by pixel; `at` is the offset of the channel's filter. */
static void list_by_pixel(const struct pare_im2col *c, struct own *own)
{
    int32_t before = 0, *end = own->end;

    memset(end, 0, (size_t)c->pixels * sizeof(*end));
    for (int32_t i = 0; i < own->first[c->O]; i++)
        end[own->pixel[i]]++;
    for (int64_t i = 0; i < c->pixels; i++) {
        int32_t n = end[i];

        end[i] = before;
        before += n;
    }
    for (int64_t o = 0; o < c->O; o++)
        for (int32_t i = own->first[o]; i < own->first[o + 1]; i++)
            own->by_pixel[end[own->pixel[i]]++] = (struct pare_term){ (int32_t)(o * c->taps.size),
                                                                      own->by_channel[i].by };
}

/* Offset of run r within a window. */
static int64_t run_at(const struct pare_im2col *c, const struct pare_taps *t, int64_t r)
{
    const struct pare_window *w = &c->w;

    if (t->runs == w->kernel[1])
        return r * w->dilation[1] * c->W * c->lanes;
    return (r / w->kernel[2] * w->dilation[1] * c->W + r % w->kernel[2] * w->dilation[2]) *
           c->lanes;
}

/* Copy an image to channels last; its padding is already zero. */
PARE_SIMD static void to_channels_last(const struct pare_im2col *c, const float *x, float *to)
{
    const struct pare_window *w = &c->w;

    for (int64_t i = 0; i < c->C; i++)
        for (int64_t h = 0; h < w->in[1] && h + w->pad_begin[1] < c->H; h++) {
            const float *row = x + (i * w->in[1] + h) * w->in[2];
            float *out = to + (h + w->pad_begin[1]) * c->W * c->lanes + i;

            for (int64_t q = 0; q < w->in[2] && q + w->pad_begin[2] < c->W; q++)
                out[(q + w->pad_begin[2]) * c->lanes] = row[q];
        }
}

/* Copy its gradient back to row-major, without the padding. */
PARE_SIMD static void to_row_major(const struct pare_im2col *c, const float *from, bool add,
                                   float *gx)
{
    const struct pare_window *w = &c->w;
    int64_t rows = c->H - w->pad_begin[1], n = c->W - w->pad_begin[2];

    n = n < w->in[2] ? n : w->in[2];
    from += (w->pad_begin[1] * c->W + w->pad_begin[2]) * c->lanes;
    for (int64_t i = 0; i < c->C; i++)
        for (int64_t h = 0; h < w->in[1]; h++, gx += w->in[2]) {
            const float *row = from + h * c->W * c->lanes + i;
            int64_t q = 0;

            for (; add && h < rows && q < n; q++)
                gx[q] += row[q * c->lanes];
            for (; h < rows && q < n; q++)
                gx[q] = row[q * c->lanes];
            for (; !add && q < w->in[2]; q++)
                gx[q] = 0;
        }
}

/* The narrow windows of an image, in the order of W.  Short rows are written 8 floats at a time;
 * the next row overwrites the excess. */
PARE_SIMD static void make_rows(const struct pare_im2col *c, const float *x, float *rows)
{
    const struct pare_window *w = &c->w;
    const int64_t KW = w->kernel[2];
    const bool wide = w->dilation[2] == 1 && KW <= 8;

    for (int64_t h = 0; h < w->out[1]; h++, x += w->stride[1] * c->W)
        for (int64_t p = 0; p < w->out[2]; p++, rows += c->for_w.size) {
            const float *from = x + p * w->stride[2];

            if (wide)
                for (int64_t k = 0; k < c->K; k += KW)
                    PARE_PUT8(rows + k, PARE_V8(from + c->tap[k]));
            else
                for (int64_t k = 0; k < c->K; k++)
                    rows[k] = from[c->tap[k]];
        }
}

static void image_weights(const struct pare_im2col *c, const float *x, const struct own *own,
                          float *gw)
{
    const struct pare_taps *t = &c->for_w;

    if (c->narrow)
        make_rows(c, pare_im2col_pad(c, x, own->plain), own->rows);
    else
        to_channels_last(c, x, own->x);
    for (int64_t r = 0; r < t->runs; r++)
        for (int64_t o = 0; o < c->O; o++) {
            struct pare_sum_rows sum = {
                .term = own->by_channel + own->first[o],
                .n = own->first[o + 1] - own->first[o],
                .rows = c->narrow ? own->rows : own->x + run_at(c, t, r),
                .y = gw + o * t->size + r * t->run,
                .width = t->run,
            };

            pare_sum_rows(&sum);
        }
}

static void image_data(const struct pare_im2col *c, const float *w, struct own *own, bool add,
                       float *gx)
{
    const struct pare_taps *t = &c->taps;

    list_by_pixel(c, own);
    memset(own->gx, 0, (size_t)(c->H * c->W * c->lanes) * sizeof(*gx));
    for (int64_t r = 0; r < t->runs; r++)
        for (int64_t p = 0; p < c->pixels; p++) {
            int32_t first = p ? own->end[p - 1] : 0;
            struct pare_sum_rows sum = {
                .term = own->by_pixel + first,
                .n = own->end[p] - first,
                .rows = w + r * t->run,
                .y = own->gx + c->at[p] + run_at(c, t, r),
                .width = t->run,
            };

            if (sum.n)
                pare_sum_rows(&sum);
        }
    to_row_major(c, own->gx, add, gx);
}

/* Filters with channels last. */
static void filters_to_channels_last(const struct pare_im2col *c, const float *w, float *to)
{
    const int64_t taps = c->w.kernel[1] * c->w.kernel[2];

    memset(to, 0, (size_t)(c->O * c->taps.size) * sizeof(*to));
    for (int64_t o = 0; o < c->O; o++)
        for (int64_t i = 0; i < c->C; i++)
            for (int64_t k = 0; k < taps; k++)
                to[o * c->taps.size + k * c->lanes + i] = *w++;
}

/* The gradient of filter o: the sum over all groups, in their order. */
static void sum_groups(const struct pare_im2col *c, const float *from, int64_t o, bool add,
                       float *gw)
{
    const int64_t taps = c->w.kernel[1] * c->w.kernel[2];
    const int64_t group = pare_round_up(c->O * c->for_w.size, 16);

    from += o * c->for_w.size;
    gw += o * c->K;
    for (int64_t k = 0; k < c->K; k++) {
        int64_t at = c->narrow ? k : k % taps * c->lanes + k / taps;
        float sum = add ? gw[k] : 0;

        for (int64_t g = 0; g < c->groups; g++)
            sum += from[g * group + at];
        gw[k] = sum;
    }
}

static void bias_grad(struct pare_step *s, const struct pare_im2col *c)
{
    float *gb = pare_f32_mut(&s->in_buf[2]->grad->t);

    for (int64_t o = 0; o < c->O; o++) {
        double sum = s->grad_assign[2] ? 0 : (double)gb[o];

        for (int64_t g = 0; g < c->groups; g++)
            sum += c->gb[g * c->O + o];
        gb[o] = (float)sum;
    }
}

static double sum_terms(const struct pare_term *t, int32_t n)
{
    double a = 0, b = 0, c = 0, d = 0;
    int32_t i = 0;

    for (; i + 4 <= n; i += 4) {
        a += (double)t[i].by;
        b += (double)t[i + 1].by;
        c += (double)t[i + 2].by;
        d += (double)t[i + 3].by;
    }
    for (; i < n; i++)
        a += (double)t[i].by;
    return a + b + (c + d);
}

/* The images of group g. */
static void run_group(struct pare_step *s, int64_t g, struct own *own, const float *w, float *gw)
{
    const struct pare_im2col *c = s->state;
    const int64_t size = c->C * c->w.in[1] * c->w.in[2];
    double *gb = c->gb + g * c->O;

    memset(gb, 0, (size_t)c->O * sizeof(*gb));
    if (c->want_w)
        memset(gw, 0, (size_t)(c->O * c->for_w.size) * sizeof(*gw));
    for (int64_t i = c->N * g / c->groups; i < c->N * (g + 1) / c->groups; i++) {
        list_by_channel(c, pare_f32(&s->out_buf[0]->t), pare_f32(&s->out_buf[0]->grad->t), i, own);
        for (int64_t o = 0; o < c->O && c->want_b; o++)
            gb[o] += sum_terms(own->by_channel + own->first[o], own->first[o + 1] - own->first[o]);
        if (c->want_w)
            image_weights(c, pare_f32(&s->in_buf[0]->t) + i * size, own, gw);
        if (c->want_x)
            image_data(c, w, own, !s->grad_assign[0],
                       pare_f32_mut(&s->in_buf[0]->grad->t) + i * size);
    }
}

int pare_im2col_grad(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_im2col *c = s->state;
    float *w = pare_f32_mut(&s->work[1]->t), *gw = w + pare_round_up(c->O * c->taps.size, 16);
    const int64_t size = pare_round_up(c->O * c->for_w.size, 16);

    (void)err;
    if (c->want_x)
        filters_to_channels_last(c, pare_f32(&s->in_buf[1]->t), w);
#pragma omp parallel num_threads(b->threads)
    {
        size_t me = (size_t)omp_get_thread_num();
        float *memory = gw + c->groups * size + me * c->work[1];
        struct own own = divide(c, memory);

        memset(memory, 0, c->work[1] * sizeof(*memory));
#pragma omp for schedule(static)
        for (int64_t g = 0; g < c->groups; g++)
            run_group(s, g, &own, w, gw + g * size);
#pragma omp for schedule(static)
        for (int64_t o = 0; o < c->O; o++)
            if (c->want_w)
                sum_groups(c, gw, o, !s->grad_assign[1], pare_f32_mut(&s->in_buf[1]->grad->t));
    }
    if (c->want_b)
        bias_grad(s, c);
    return 0;
}
