/* quantize_naive.c - naive quantizer: 8 bits, the largest weight is 127 steps, rounding toward 0.
 *
 * One scale per tensor, or one per output channel with a scheme per_channel_*.  The integers are
 * always signed and symmetric around 0, as in NNI.
 */
#include <math.h>

#include "../base/arena.h"
#include "channel_rows.h"

struct work {
    const float *x, *scale;
    float *y;
};

static void truncate_row(const struct pare_row *row, void *user)
{
    const struct work *w = user;
    float s = w->scale[row->channel];

    for (int64_t i = row->at; i < row->at + row->n; i++) {
        float v = truncf(w->x[i] / s);

        w->y[i] = (v > 127 ? 127 : v < -127 ? -127 : v) * s;
    }
}

/* A scale never decreases: it fits the largest weight ever seen.  Infinities are ignored, and
 * clamped to the largest. */
static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    struct pare_arena *a = pare_compression_scratch(pare_layer_compression(l));
    struct work w = { .x = pare_f32(x), .y = pare_f32_mut(y) };
    struct pare_quant_point p;
    float *lo, *hi;

    PARE_TRY(pare_quant_point_open(l, PARE_WEIGHT, x, &p, err));
    lo = pare_alloc_raw(a, 2 * (size_t)p.n, sizeof(*lo));
    if (!lo)
        return pare_no_memory(err, "for ranges");
    hi = lo + p.n;
    PARE_TRY(pare_quant_point_range(&p, x, lo, hi, err));
    for (int64_t c = 0; c < p.n; c++) {
        float largest = fmaxf(-lo[c], hi[c]) / 127;

        p.scale[c] = pare_scale_limit(largest > p.scale[c] ? largest : p.scale[c]);
    }
    w.scale = p.scale;
    pare_rows_each(p.q, x, truncate_row, &w);
    return 0;
}

const struct pare_algorithm pare_quantizer_naive = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "naive",
    .doc = "Quantize weights to 8 bits by their largest magnitude.",
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .min_bits = 8,
            .max_bits = 8,
        },
};
