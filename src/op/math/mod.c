/* mod.c - Mod: the remainder of a / b, broadcast. */
#include "elementwise.h"

/* With fmod the result has the sign of a, as in C; without, that of b, as in Python.  For integers
 * it is 0 where b is 0. */
struct mod {
    int64_t fmod;
};

static const struct pare_opt mod_attrs[] = { PARE_INT("fmod", offsetof(struct mod, fmod),
                                                      "the result has the sign of the dividend", 0,
                                                      0, 1),
                                             PARE_OPT_END };

static bool as_c(const struct pare_node *n)
{
    return ((const struct mod *)n->attr)->fmod;
}

static double real(bool c, double a, double b)
{
    double r = fmod(a, b);

    return !c && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t whole(bool c, int64_t a, int64_t b)
{
    int64_t r = b && b != -1 ? a % b : 0; /* the smallest integer by -1 overflows */

    return !c && r && (r < 0) != (b < 0) ? r + b : r;
}

#define UNSIGNED(dtype, type) PARE_LOOP2(dtype, type, type, b ? a % b : 0)
#define SIGNED(dtype, type) PARE_LOOP2(dtype, type, type, whole(as_c(n), a, b))

static void map2(const struct pare_node *n, const float *a, int sa, const float *b, int sb,
                 float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = (float)real(as_c(n), (double)a[i * sa], (double)b[i * sb]);
}

/* A remainder is a - q b with an integer q, which is piecewise constant. */
PARE_DMAP2_WITH(g, -g *(c ? truncf(a / b) : floorf(a / b)), const bool c = as_c(n))
PARE_BINARY(PARE_LOOP2(PARE_F64, double, double, real(as_c(n), a, b)) UNSIGNED(PARE_U8, uint8_t)
                UNSIGNED(PARE_U16, uint16_t) UNSIGNED(PARE_U32, uint32_t)
                    UNSIGNED(PARE_U64, uint64_t) SIGNED(PARE_I8, int8_t) SIGNED(PARE_I16, int16_t)
                        SIGNED(PARE_I32, int32_t) SIGNED(PARE_I64, int64_t))

const struct pare_op pare_op_mod = {
    .type = "Mod",
    .doc = "Remainder of a division.",
    .since = 10,
    .in = "TT",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .attrs = mod_attrs,
    .attr_size = sizeof(struct mod),
    .flags = PARE_OP_STEPS,
    .infer = pare_infer_broadcast,
    .forward = forward,
    .backward = pare_backward_map2,
    .ties = pare_ties_elementwise,
    .map2 = map2,
    .dmap2 = dmap2,
};
