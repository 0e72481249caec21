/* winograd_tiles.c - transforms of the tiles of Winograd's F(4x4, 3x3). */
#include "winograd_tiles.h"

#include "../gemm/bf16_pairs.h"

#include "../../base/simd.h"

#define VEC pare_v8
#define PART PARE_SIMD_PART
#include "winograd_points.h"

/* ---- tiles ----------------------------------------------------------------- */

void pare_winograd_find_tile(const struct pare_winograd *g, int64_t i, struct pare_winograd_tile *t)
{
    int64_t across = (g->to.w + 3) / 4, down = (g->to.h + 3) / 4;

    t->image = i / (across * down);
    t->row = i / across % down * 4;
    t->col = i % across * 4;
}

void pare_winograd_find_elements(const struct pare_winograd_side *s, int64_t row, int64_t col,
                                 int size, struct pare_winograd_tile *t)
{
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            int64_t r = row + i, c = col + j;

            t->at[i * size + j] = r >= 0 && r < s->h && c >= 0 && c < s->w ? r * s->w + c : -1;
        }
}

static int64_t start_of(const struct pare_winograd *g, const struct pare_winograd_side *s,
                        const struct pare_winograd_tile *t, int64_t c)
{
    return (t->image * s->channels + c / g->block * g->block) * s->h * s->w + c % g->block;
}

/* `n` x `n` elements of eight channels; zeros outside. */
PARE_SIMD_PART void load_tile(const struct pare_winograd_tile *t, const float *s, int64_t block,
                              int n, pare_v8 *d)
{
    for (int k = 0; k < n * n; k++) {
        if (t->at[k] >= 0)
            d[k] = PARE_V8(s + t->at[k] * block);
        else
            d[k] = (pare_v8){ 0 };
    }
}

/* d = B' d B for eight channels from c on. */
PARE_SIMD_PART void input_tile(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                               const float *x, int64_t c, pare_v8 d[PARE_WINOGRAD], const float p,
                               const float q)
{
    pare_v8 e[PARE_WINOGRAD];

    load_tile(t, x + start_of(g, &g->from, t, c), g->block, 6, d);
    for (int j = 0; j < 6; j++)
        input6(d + j, 6, e + j, 6, p, q);
    for (int i = 0; i < 6; i++)
        input6(e + 6 * i, 1, d + 6 * i, 1, p, q);
}

PARE_SIMD_PART void in_as(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                          const float *x, float *v, int64_t step, const float p, const float q)
{
    for (int64_t c = 0; c < g->from.channels; c += 8) {
        pare_v8 d[PARE_WINOGRAD];

        input_tile(g, t, x, c, d, p, q);
        for (int k = 0; k < PARE_WINOGRAD; k++)
            PARE_PUT8(v + k * step + c, d[k]);
    }
}

PARE_SIMD void pare_winograd_in(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                                const float *x, float *v, int64_t step)
{
    if (g->bf16)
        in_as(g, t, x, v, step, PARE_WINOGRAD_BF16);
    else
        in_as(g, t, x, v, step, PARE_WINOGRAD_FLOAT);
}

PARE_SIMD static void in_pairs(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                               const float *x, float *v, int64_t step)
{
    for (int64_t c = 0; c < g->from.channels; c += 8) {
        pare_v8 d[PARE_WINOGRAD];

        input_tile(g, t, x, c, d, PARE_WINOGRAD_BF16);
        for (int k = 0; k < PARE_WINOGRAD; k++)
            pare_bf16_pairs(&d[k], 8, v + k * step + c / 2);
    }
}

void pare_winograd_in_pairs(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                            const float *x, float *v, int64_t step)
{
    if (pare_winograd_wide(g->bf16, g->block))
        pare_winograd_wide_in(g, t, x, v, step);
    else
        in_pairs(g, t, x, v, step);
}

PARE_SIMD_PART void spread_as(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                              const float *y, float *v, int64_t step, const float p, const float q)
{
    for (int64_t c = 0; c < g->to.channels; c += 8) {
        pare_v8 d[16], e[24], o[PARE_WINOGRAD];

        load_tile(t, y + start_of(g, &g->to, t, c), g->block, 4, d);
        for (int j = 0; j < 4; j++)
            spread6(d + j, 4, e + j, 4, p, q);
        for (int i = 0; i < 6; i++)
            spread6(e + 4 * i, 1, o + 6 * i, 1, p, q);
        for (int k = 0; k < PARE_WINOGRAD; k++)
            PARE_PUT8(v + k * step + c, o[k]);
    }
}

PARE_SIMD void pare_winograd_spread(const struct pare_winograd *g,
                                    const struct pare_winograd_tile *t, const float *y, float *v,
                                    int64_t step)
{
    if (g->bf16)
        spread_as(g, t, y, v, step, PARE_WINOGRAD_BF16);
    else
        spread_as(g, t, y, v, step, PARE_WINOGRAD_FLOAT);
}

/* Apply the post-ops to the 16 results of one tile; `sum`: the operand of PARE_POST_SUM. */
PARE_SIMD_PART void apply_post_ops(const struct pare_winograd_run *r,
                                   const struct pare_winograd_tile *t, const float *sum,
                                   int64_t block, pare_v8 o[16])
{
    const struct pare_post_area all = { .y = (float *)o, .rows = 1, .n = 16 * 8 };
    const pare_v8 zero = { 0 };

    for (int i = 0; i < r->n_post; i++) {
        const struct pare_post_op *p = &r->post[i];
        const pare_v8 lo = PARE_ALL8(p->alpha), hi = PARE_ALL8(p->beta);

        if (p->kind > PARE_POST_CLIP)
            pare_post_ops_run(p, 1, &all);
        for (int k = 0; k < 16 && p->kind <= PARE_POST_CLIP; k++) {
            pare_v8 v = o[k];

            if (p->kind == PARE_POST_SUM && t->at[k] >= 0)
                v += PARE_V8(sum + t->at[k] * block);
            if (p->kind == PARE_POST_RELU) {
                pare_m8 below = v < zero;

                v = (pare_v8)((~below & (pare_m8)v) | (below & (pare_m8)(v * lo)));
            }
            if (p->kind == PARE_POST_CLIP) {
                pare_m8 low = v<lo, high = v> hi;

                v = (pare_v8)((low & (pare_m8)lo) | (high & (pare_m8)hi) |
                              (~low & ~high & (pare_m8)v));
            }
            o[k] = v;
        }
    }
}

/* d = A' d A for eight channels of all positions. */
PARE_SIMD_PART void output_tile(const float *m, int64_t step, pare_v8 o[16], const float p,
                                const float q)
{
    pare_v8 d[PARE_WINOGRAD], e[24];

    for (int k = 0; k < PARE_WINOGRAD; k++)
        d[k] = PARE_V8(m + k * step);
    for (int j = 0; j < 6; j++)
        output4(d + j, 6, e + j, 6, p, q);
    for (int i = 0; i < 4; i++)
        output4(e + 6 * i, 1, o + 4 * i, 1, p, q);
}

PARE_SIMD static void narrow_out(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                                 const struct pare_winograd_run *r, const float *m, int64_t step)
{
    const int64_t block = g->block;

    for (int64_t c = 0; c < g->to.channels; c += 8) {
        const int64_t start = start_of(g, &g->to, t, c);
        pare_v8 o[16], b = { 0 };

        if (r->bias)
            b = PARE_V8(r->bias + c);
        if (g->bf16)
            output_tile(m + c, step, o, PARE_WINOGRAD_BF16);
        else
            output_tile(m + c, step, o, PARE_WINOGRAD_FLOAT);
        for (int k = 0; k < 16; k++)
            o[k] += b;
        if (r->n_post)
            apply_post_ops(r, t, r->sum ? r->sum + start : NULL, block, o);
        for (int k = 0; k < 16; k++) {
            float *to = r->y + start + t->at[k] * block;

            if (t->at[k] >= 0 && r->add)
                o[k] += PARE_V8(to);
            if (t->at[k] >= 0)
                PARE_PUT8(to, o[k]);
        }
    }
}

void pare_winograd_out(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                       const struct pare_winograd_run *r, const float *m, int64_t step)
{
    if (!r->n_post && pare_winograd_wide(g->bf16, g->block))
        pare_winograd_wide_out(g, t, r, m, step);
    else
        narrow_out(g, t, r, m, step);
}
