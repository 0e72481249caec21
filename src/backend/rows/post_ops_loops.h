/* post_ops_loops.h - post-op loops for one instruction set.
 *
 * post_ops_apply.c includes it once per instruction set, after vec512.h, vec256.h or vec_plain.h.
 */
#ifdef VEC

#include "../simd/vec_math.h"

/* x P(N(0, 1) < x), 1e-7 of |x|: P = 1/2 + x q(s), a polynomial in s = 2 (x / 5.45)^2 - 1.  Beyond
 * 5.45 P is 0 or 1 in float32. */
TARGET static inline __attribute__((always_inline)) void NAME(gelu)(VEC *v)
{
    VEC x = MAX(ALL(-5.45f), *v), c = MIN(ALL(5.45f), x);
    VEC s = FMA(MUL(c, c), ALL(2 / (5.45f * 5.45f)), ALL(-1.0f));
    VEC q = FMA(s, ALL(4.63624106e-4f), ALL(-1.18799065e-3f));

    q = FMA(q, s, ALL(9.38624318e-4f));
    q = FMA(q, s, ALL(-1.21655536e-3f));
    q = FMA(q, s, ALL(3.95457912e-3f));
    q = FMA(q, s, ALL(-7.17935339e-3f));
    q = FMA(q, s, ALL(1.00518558e-2f));
    q = FMA(q, s, ALL(-1.43301468e-2f));
    q = FMA(q, s, ALL(1.99799016e-2f));
    q = FMA(q, s, ALL(-2.5938062e-2f));
    q = FMA(q, s, ALL(3.21068913e-2f));
    q = FMA(q, s, ALL(-3.90014797e-2f));
    q = FMA(q, s, ALL(4.81178649e-2f));
    q = FMA(q, s, ALL(-6.4745903e-2f));
    q = FMA(q, s, ALL(1.29729271e-1f));
    *v = MUL(x, FMA(c, q, ALL(0.5f)));
}

#define EACH(...)                                                            \
    for (int64_t r = 0; r < a->rows; r++)                                    \
        for (int64_t i = r * a->step, end = i + a->n; i < end; i += BLOCK) { \
            VEC v = LOAD(a->y + i), t = ZERO();                              \
                                                                             \
            __VA_ARGS__;                                                     \
            (void)t;                                                         \
            STORE(a->y + i, v);                                              \
        }

TARGET static void NAME(apply)(const struct pare_post_op *p, const struct pare_post_area *a)
{
    const VEC low = ALL(p->alpha), high = ALL(p->beta), zero = ZERO();

    switch (p->kind) {
    case PARE_POST_SUM: EACH(v = ADD(v, LOAD(a->sum + i))) break;
    case PARE_POST_RELU:
        if (p->alpha != 0) /* -0 would be the wrong factor for minus infinity */
            EACH(t = MIN(zero, v); v = MAX(zero, v); v = FMA(t, low, v))
        else
            EACH(v = MAX(zero, v))
        break;
    case PARE_POST_CLIP: EACH(v = MAX(low, v); v = MIN(high, v)) break;
    case PARE_POST_SIGMOID: EACH(t = v; NAME(sigmoid)(&t, &v)) break;
    case PARE_POST_SWISH: EACH(t = MUL(v, low); NAME(sigmoid)(&t, &t); v = MUL(v, t)) break;
    case PARE_POST_HARDSWISH:
        EACH(t = ADD(v, ALL(3.0f)); t = MAX(zero, t); t = MIN(ALL(6.0f), t);
             v = MUL(v, MUL(t, ALL(1.0f / 6))))
        break;
    case PARE_POST_GELU: EACH(NAME(gelu)(&v)) break;
    case PARE_POST_TANH:
    case PARE_POST_ELU:
    case PARE_POST_ROUND: break; /* never here: pare_conv_fuse_vector_ops() */
    }
}

#undef EACH

#endif
