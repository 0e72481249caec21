/* dynamic_quantize_linear.c - DynamicQuantizeLinear: quantize to uint8 by the tensor's own range.
 */
#include <math.h>

#include "quant_family.h"

enum { Y, SCALE, ZERO };

static int infer(struct pare_node *n, struct pare_err *err)
{
    (void)err;
    pare_like(&n->out[Y]->t, &n->in[0]->t);
    n->out[Y]->t.dtype = PARE_U8;
    for (int i = SCALE; i <= ZERO; i++) {
        n->out[i]->t.dtype = i == SCALE ? PARE_F32 : PARE_U8;
        n->out[i]->t.rank = 0;
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t count = pare_numel(x);
    float lo = 0, hi = 0, scale, zero;

    (void)c, (void)err;
    for (int64_t i = 0; i < count; i++) {
        lo = pare_f32(x)[i] < lo ? pare_f32(x)[i] : lo;
        hi = pare_f32(x)[i] > hi ? pare_f32(x)[i] : hi;
    }
    scale = hi > lo ? (hi - lo) / 255 : 1;
    zero = rintf(-lo / scale);
    zero = zero > 0 ? (zero < 255 ? zero : 255) : 0;
    pare_quantize_values(PARE_U8, n->out[Y]->t.data, pare_f32(x), count, &scale, &zero, 0);
    *pare_f32_mut(&n->out[SCALE]->t) = scale;
    *(uint8_t *)n->out[ZERO]->t.data = (uint8_t)zero;
    return 0;
}

const struct pare_op pare_op_dynamic_quantize_linear = {
    .type = "DynamicQuantizeLinear",
    .doc = "Quantize to uint8 by the range of the input.",
    .since = 11,
    .in = "F",
    .min_out = 3,
    .max_out = 3,
    .flags = PARE_OP_STEPS,
    .scales = { .dynamic = true },
    .infer = infer,
    .forward = forward,
};
