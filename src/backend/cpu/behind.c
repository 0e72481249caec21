/* behind.c - what convolutions fuse behind themselves, on vectors. */
#include "behind.h"

#include "../../base/simd.h"

#define ROUNDER 12582912.0f /* 1.5 * 2^23: what is added to it becomes whole */

/* 1 / (1 + exp(-x)), 3e-7 relative: 2^f for |f| <= 1/2 is a polynomial, 2^k goes into the
 * exponent's bits.  Beyond 87 the result would not be a normal number. */
static inline void sigmoid8(const pare_v8 *x, pare_v8 *y)
{
    const pare_v8 most = PARE_ALL8(125.0f), whole = PARE_ALL8(ROUNDER);
    pare_v8 t = *x * -1.44269504f, k, q;
    pare_m8 high = t > most, low = t < -most;
    pare_m8 bits;

    t = (pare_v8)((high & (pare_m8)most) | (low & (pare_m8)-most) | (~high & ~low & (pare_m8)t));
    k = t + whole;
    bits = (pare_m8)k << 23;
    t -= k - whole;
    q = t * 1.32764716e-3f + 9.67554137e-3f;
    q = q * t + 5.55071328e-2f;
    q = q * t + 2.40221197e-1f;
    q = q * t + 6.93146967e-1f;
    q = q * t + 1.00000007f;
    q = (pare_v8)((pare_m8)q + bits);
    *y = 1.0f / (1.0f + q);
}

static inline void relu8(const struct pare_lane_post *p, pare_v8 *v)
{
    const pare_v8 zero = { 0 };
    pare_m8 below = *v < zero;

    *v = (pare_v8)((~below & (pare_m8)*v) | (below & (pare_m8)(*v * p->a)));
}

static inline void clip8(float a, float b, pare_v8 *v)
{
    const pare_v8 lo = PARE_ALL8(a), hi = PARE_ALL8(b);
    pare_m8 low = *v<lo, high = *v> hi;

    *v = (pare_v8)((low & (pare_m8)lo) | (high & (pare_m8)hi) | (~low & ~high & (pare_m8)*v));
}

#define EACH(...)                        \
    for (int64_t i = 0; i < n; i += 8) { \
        pare_v8 v = PARE_V8(y + i);      \
                                         \
        __VA_ARGS__;                     \
        PARE_PUT8(y + i, v);             \
    }

PARE_SIMD static void apply(const struct pare_lane_post *p, const float *sum, float *y, int64_t n)
{
    pare_v8 t;

    switch (p->kind) {
    case PARE_LANE_SUM: EACH(v += PARE_V8(sum + i)) break;
    case PARE_LANE_RELU: EACH(relu8(p, &v)) break;
    case PARE_LANE_CLIP: EACH(clip8(p->a, p->b, &v)) break;
    case PARE_LANE_SIGMOID: EACH(t = v; sigmoid8(&t, &v)) break;
    case PARE_LANE_SWISH: EACH(t = v * p->a; sigmoid8(&t, &t); v *= t) break;
    case PARE_LANE_HARDSWISH: EACH(t = v + 3.0f; clip8(0, 6, &t); v *= t * (1.0f / 6)) break;
    }
}

void pare_lanes(const struct pare_lane_post *post, int n_post, const float *sum, float *y,
                int64_t n)
{
    enum { PIECE = 1024 }; /* stays in the first-level cache */

    for (int64_t at = 0; at < n; at += PIECE)
        for (int i = 0; i < n_post; i++)
            apply(&post[i], sum ? sum + at : sum, y + at, n - at < PIECE ? n - at : PIECE);
}
