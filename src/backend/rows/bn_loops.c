/* bn_loops.c - loops of BatchNormalization in training mode.
 *
 * Vectors first, then the remaining floats of an odd plane one by one.
 */
#include "bn_loops.h"

#include "../../base/simd.h"

/* The sixteen lanes are two vectors of eight: h is 0 and 1. */
#define EACH16(...)                                               \
    for (int64_t i = 0; i + PARE_LANES <= len; i += PARE_LANES) { \
        for (int h = 0; h < 2; h++) {                             \
            const int64_t at = i + 8 * h;                         \
                                                                  \
            __VA_ARGS__                                           \
        }                                                         \
    }
#define REST for (int64_t i = len / PARE_LANES * PARE_LANES; i < len; i++)
#define BOTH(p)                      \
    {                                \
        PARE_V8(p), PARE_V8((p) + 8) \
    }

#define PUT_BOTH(p, v) PARE_PUT8(p, v[0]), PARE_PUT8((p) + 8, v[1])

PARE_SIMD void pare_bn_sums(const float *x, int64_t len, const float *about, float *sum,
                            float *square)
{
    const pare_v8 a[2] = BOTH(about);
    pare_v8 s[2] = { { 0 } }, q[2] = { { 0 } };

    EACH16(const pare_v8 v = PARE_V8(x + at) - a[h]; s[h] += v; q[h] += v * v;)
    PUT_BOTH(sum, s);
    PUT_BOTH(square, q);
    REST
    {
        float v = x[i] - about[i % PARE_LANES];

        sum[i % PARE_LANES] += v;
        square[i % PARE_LANES] += v * v;
    }
}

/* Clamp v to [low, high]; NaN is kept. */
#define CLAMP(v)                                                           \
    ((pare_v8)(((v < low) & (pare_m8)low) | ((v > high) & (pare_m8)high) | \
               (~((v < low) | (v > high)) & (pare_m8)(v))))

PARE_SIMD void pare_bn_apply(const struct pare_bn_apply *how, const float *x, const float *z,
                             float *y, int64_t len)
{
    const pare_v8 a[2] = BOTH(how->scale), b[2] = BOTH(how->shift);
    const pare_v8 low = PARE_ALL8(how->low), high = PARE_ALL8(how->high);

#define APPLY(sum, result) \
    EACH16(const pare_v8 v = a[h] * PARE_V8(x + at) + b[h] sum; PARE_PUT8(y + at, result);)
    if (z && how->act)
        APPLY(+PARE_V8(z + at), CLAMP(v))
    else if (z)
        APPLY(+PARE_V8(z + at), v)
    else if (how->act)
        APPLY(, CLAMP(v))
    else
        APPLY(, v)
    REST
    {
        float v = how->scale[i % PARE_LANES] * x[i] + how->shift[i % PARE_LANES] + (z ? z[i] : 0);

        if (how->act)
            v = v < how->low ? how->low : v > how->high ? how->high : v;
        y[i] = v;
    }
}

/* The gradient at element i, 0 where the activation stops it. */
static float passed_grad(const struct pare_bn_back *how, const struct pare_bn_at *a, int64_t i)
{
    int64_t k = i % PARE_LANES;
    float v = !how->act ? how->high : a->y ? a->y[i] : how->scale[k] * a->x[i] + how->shift[k];

    return !how->act || (v > how->above && v <= how->high) ? a->gy[i] : 0;
}

/* The same for a vector; `seen` is the activation's input or output. */
#define ALL_OF PARE_V8(gy + at)
#define THROUGH(seen) PARE_WHERE8((seen > above) & (seen <= high), PARE_V8(gy + at))
#define BY_X THROUGH((scale[h] * x + shift[h]))
#define BY_Y THROUGH(PARE_V8(y + at))
#define SUMS(g_of, ...)                                                                        \
    EACH16(const pare_v8 x = PARE_V8(xs + at), g = g_of; s[h] += g; d[h] += g * (x - mean[h]); \
           __VA_ARGS__)
#define GIVE(g, others) PARE_PUT8(gz + at, g others);

PARE_SIMD void pare_bn_back_sums(const struct pare_bn_back *how, const struct pare_bn_at *a,
                                 int64_t len, float *sum, float *dot)
{
    const float *xs = a->x, *y = a->y, *gy = a->gy;
    const pare_v8 scale[2] = BOTH(how->scale), shift[2] = BOTH(how->shift);
    const pare_v8 mean[2] = BOTH(how->mean), above = PARE_ALL8(how->above);
    const pare_v8 high = PARE_ALL8(how->high);
    pare_v8 s[2] = { { 0 } }, d[2] = { { 0 } };
    float *gz = a->gz;

    if (!gz && !how->act)
        SUMS(ALL_OF, )
    else if (!gz && !y)
        SUMS(BY_X, )
    else if (!gz)
        SUMS(BY_Y, )
    else if (!how->act && how->gz_first)
        SUMS(ALL_OF, GIVE(g, ))
    else if (!how->act)
        SUMS(ALL_OF, GIVE(g, +PARE_V8(gz + at)))
    else if (how->gz_first)
        SUMS(BY_Y, GIVE(g, ))
    else
        SUMS(BY_Y, GIVE(g, +PARE_V8(gz + at)))
    PUT_BOTH(sum, s);
    PUT_BOTH(dot, d);
    REST
    {
        float g = passed_grad(how, a, i);

        sum[i % PARE_LANES] += g;
        dot[i % PARE_LANES] += g * (xs[i] - how->mean[i % PARE_LANES]);
        if (gz)
            gz[i] = how->gz_first ? g : g + gz[i];
    }
}

#define COMBINE(g_of, others)                            \
    EACH16(const pare_v8 x = PARE_V8(xs + at), g = g_of; \
           PARE_PUT8(gx + at, p[h] * g + q[h] * x + r[h] others);)

PARE_SIMD void pare_bn_back_apply(const struct pare_bn_back *how, const struct pare_bn_at *a,
                                  int64_t len)
{
    const float *xs = a->x, *y = a->y, *gy = a->gy;
    const pare_v8 scale[2] = BOTH(how->scale), shift[2] = BOTH(how->shift);
    const pare_v8 p[2] = BOTH(how->p), q[2] = BOTH(how->q), r[2] = BOTH(how->r);
    const pare_v8 above = PARE_ALL8(how->above), high = PARE_ALL8(how->high);
    float *gx = a->gx;

    if (!how->act && how->gx_first)
        COMBINE(ALL_OF, )
    else if (!how->act)
        COMBINE(ALL_OF, +PARE_V8(gx + at))
    else if (y && how->gx_first)
        COMBINE(BY_Y, )
    else if (y)
        COMBINE(BY_Y, +PARE_V8(gx + at))
    else if (how->gx_first)
        COMBINE(BY_X, )
    else
        COMBINE(BY_X, +PARE_V8(gx + at))
    REST
    {
        int64_t k = i % PARE_LANES;
        float v = how->p[k] * passed_grad(how, a, i) + how->q[k] * xs[i] + how->r[k];

        gx[i] = how->gx_first ? v : v + gx[i];
    }
}
