/* quantize_bnn.c - BNN quantizer, binarizes to -1 and 1: Courbariaux et al., "Binarized neural
 * networks", 2016.
 *
 *     y = x >= 0 ? 1 : -1
 *     outputs: d loss / d x = d loss / d y where |x| <= 1, else 0; weights: straight through
 *
 * quant_bits is ignored.  The integers are -1 and 1 with scale 1 and zero point 0.
 */
#include <math.h>

#include "../base/simd.h"
#include "channel_rows.h"

PARE_SIMD static void sign_row(const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] >= 0 ? 1.0f : -1.0f;
}

PARE_SIMD static void clip_row(const float *x, const float *gy, float *gx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = gy[i];

        gx[i] = fabsf(x[i]) <= 1 ? g : 0;
    }
}

struct work {
    const float *x, *gy;
    float *out;
};

static void one_row(const struct pare_row *row, void *user)
{
    const struct work *w = user;

    if (w->gy)
        clip_row(w->x + row->at, w->gy + row->at, w->out + row->at, row->n);
    else
        sign_row(w->x + row->at, w->out + row->at, row->n);
}

static int binarize(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    struct pare_tensor *y, struct pare_err *err)
{
    struct work w = { .x = pare_f32(x), .out = pare_f32_mut(y) };
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    for (int64_t c = 0; c < p.n; c++) {
        p.scale[c] = 1;
        p.zero[c] = 0;
    }
    if (pare_layer_waits(l))
        pare_copy(x, y);
    else
        pare_rows_each(p.q, x, one_row, &w);
    return 0;
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    return binarize(l, PARE_WEIGHT, x, y, err);
}

static int output(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    return binarize(l, PARE_OUTPUT, x, y, err);
}

static int backward(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *err)
{
    struct work w = { .x = pare_f32(x), .gy = pare_f32(gy), .out = pare_f32_mut(gx) };

    (void)err;
    if (site == PARE_WEIGHT || pare_layer_waits(l))
        pare_copy(gy, gx);
    else
        pare_rows_each(pare_layer_quant(l, site), x, one_row, &w);
    return 0;
}

const struct pare_algorithm pare_quantizer_bnn = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "bnn",
    .doc = "Binarize weights and outputs to -1 and 1.",
    .flags = PARE_TRAINED,
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .output = output,
            .backward = backward,
        },
};
