/* dynamic_quantize_int8.c - DynamicQuantizeLinear in threads: range, scale and uint8 values. */
#include <math.h>

#include "../backend.h"

#include "../../base/simd.h"
#include "../../op/quant/quant_family.h"
#include "../../base/team.h"

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

struct job {
    const float *x;
    uint8_t *y;
    int64_t n, parts;
    float range[MOST_PARTS][2], scale, zero;
};

static void find_ranges(void *arg, int64_t from, int64_t to, int thread)
{
    struct job *j = arg;

    (void)thread;
    for (int64_t t = from; t < to; t++)
        find_range(j->x + j->n * t / j->parts, j->n * (t + 1) / j->parts - j->n * t / j->parts,
                   j->range[t]);
}

static void quantize_parts(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const int64_t first = j->n * from / j->parts;

    (void)thread;
    pare_quantize_values(PARE_U8, j->y + first, j->x + first, j->n * to / j->parts - first,
                         &j->scale, &j->zero, 0);
}

static int dynamic_quantize_int8_run(struct pare_step *s, struct pare_backend *b,
                                     struct pare_err *err)
{
    struct job j = { .x = pare_f32(&s->in_buf[0]->t),
                     .y = s->out_buf[0]->t.data,
                     .n = pare_numel(&s->in_buf[0]->t) };
    float lo = 0, hi = 0;

    (void)err;
    j.parts = j.n < LEAST ? 1 : b->threads < MOST_PARTS ? b->threads : MOST_PARTS;
    pare_parallel((int)j.parts, j.parts, find_ranges, &j);
    for (int t = 0; t < j.parts; t++) {
        lo = j.range[t][0] < lo ? j.range[t][0] : lo;
        hi = j.range[t][1] > hi ? j.range[t][1] : hi;
    }
    j.scale = hi > lo ? (hi - lo) / 255 : 1;
    j.zero = rintf(-lo / j.scale);
    j.zero = j.zero > 0 ? (j.zero < 255 ? j.zero : 255) : 0;
    pare_parallel((int)j.parts, j.parts, quantize_parts, &j);
    *pare_f32_mut(&s->out_buf[1]->t) = j.scale;
    *(uint8_t *)s->out_buf[2]->t.data = (uint8_t)j.zero;
    return 0;
}

const struct pare_kernel pare_kernel_dynamic_quantize_int8 = {
    .name = "dynamic_quantize_int8",
    .doc = "DynamicQuantizeLinear in threads.",
    .match = dynamic_quantize_int8_match,
    .run = dynamic_quantize_int8_run,
};
