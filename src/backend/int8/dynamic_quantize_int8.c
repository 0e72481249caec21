/* dynamic_quantize_int8.c - DynamicQuantizeLinear in threads: range, scale and uint8 values. */
#include <math.h>

#include "../backend.h"

#include "../../base/simd.h"
#include "../../op/quant/quant_family.h"

#define LANES 32
#define MOST_PARTS 64
#define LEAST (1 << 15) /* elements; fewer are not worth a second thread */

static bool dynamic_quantize_int8_match(const struct pare_match *v, struct pare_node *n,
                                        struct pare_step *s)
{
    if (!pare_node_is(n, &pare_op_dynamic_quantize_linear) || !pare_is_f32(n->in[0]) ||
        !pare_numel(&n->in[0]->t) || !pare_step_lists(s, v, 1, 3, 0))
        return false;
    s->in[0] = n->in[0];
    for (int i = 0; i < 3; i++)
        s->out[i] = n->out[i];
    if (pare_layout_of(v, n->in[0]) == PARE_CHANNELS_LAST)
        s->in_block[0] = s->out_block[0] = PARE_CHANNELS_LAST;
    return true;
}

/* The smallest and the largest element, and 0. */
PARE_SIMD static void find_range(const float *x, int64_t n, float range[2])
{
    float lo[LANES] = { 0 }, hi[LANES] = { 0 };
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            lo[k] = x[i + k] < lo[k] ? x[i + k] : lo[k];
            hi[k] = x[i + k] > hi[k] ? x[i + k] : hi[k];
        }
    for (; i < n; i++) {
        lo[0] = x[i] < lo[0] ? x[i] : lo[0];
        hi[0] = x[i] > hi[0] ? x[i] : hi[0];
    }
    for (int k = 1; k < LANES; k++) {
        lo[0] = lo[k] < lo[0] ? lo[k] : lo[0];
        hi[0] = hi[k] > hi[0] ? hi[k] : hi[0];
    }
    range[0] = lo[0];
    range[1] = hi[0];
}

static int dynamic_quantize_int8_run(struct pare_step *s, struct pare_backend *b,
                                     struct pare_err *err)
{
    const float *x = pare_f32(&s->in_buf[0]->t);
    const int64_t n = pare_numel(&s->in_buf[0]->t);
    const int parts = n < LEAST ? 1 : b->threads < MOST_PARTS ? b->threads : MOST_PARTS;
    uint8_t *y = s->out_buf[0]->t.data;
    float range[MOST_PARTS][2], lo = 0, hi = 0, scale, zero;

    (void)err;
#pragma omp parallel for num_threads(parts) if (parts > 1)
    for (int t = 0; t < parts; t++)
        find_range(x + n * t / parts, n * (t + 1) / parts - n * t / parts, range[t]);
    for (int t = 0; t < parts; t++) {
        lo = range[t][0] < lo ? range[t][0] : lo;
        hi = range[t][1] > hi ? range[t][1] : hi;
    }
    scale = hi > lo ? (hi - lo) / 255 : 1;
    zero = rintf(-lo / scale);
    zero = zero > 0 ? (zero < 255 ? zero : 255) : 0;
#pragma omp parallel for num_threads(parts) if (parts > 1)
    for (int t = 0; t < parts; t++) {
        int64_t first = n * t / parts;

        pare_quantize_values(PARE_U8, y + first, x + first, n * (t + 1) / parts - first, &scale,
                             &zero, 0);
    }
    *pare_f32_mut(&s->out_buf[1]->t) = scale;
    *(uint8_t *)s->out_buf[2]->t.data = (uint8_t)zero;
    return 0;
}

const struct pare_kernel pare_kernel_dynamic_quantize_int8 = {
    .name = "dynamic_quantize_int8",
    .doc = "DynamicQuantizeLinear in threads.",
    .match = dynamic_quantize_int8_match,
    .run = dynamic_quantize_int8_run,
};
