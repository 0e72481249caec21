/* range.c - Range: start, start + delta, ... below limit. */
#include <math.h>

#include "../shape/movement.h"

static bool is_real(enum pare_dtype d)
{
    return d == PARE_F32 || d == PARE_F64 || d == PARE_F16 || d == PARE_BF16;
}

/* Differences of int64 need 65 bits; since the direction is known, uint64 holds them.  The same
 * holds for uint64, compared as such. */
static int count_whole(const struct pare_node *n, int64_t *count, struct pare_err *err)
{
    bool big = n->in[0]->t.dtype == PARE_U64;
    int64_t start = pare_get_int(&n->in[0]->t, 0), limit = pare_get_int(&n->in[1]->t, 0);
    int64_t delta = pare_get_int(&n->in[2]->t, 0);
    bool up = big || delta > 0;
    uint64_t a = (uint64_t)(up ? start : limit), b = (uint64_t)(up ? limit : start);
    uint64_t step = up ? (uint64_t)delta : 0 - (uint64_t)delta, total;

    *count = 0;
    if (!delta)
        return pare_fail(err, PARE_ESHAPE, "delta is 0");
    if (big ? a >= b : (int64_t)a >= (int64_t)b)
        return 0;
    total = (b - a - 1) / step + 1;
    if (total > INT64_MAX / 8)
        return pare_fail(err, PARE_ELIMIT, "a range of %llu elements is too long",
                         (unsigned long long)total);
    *count = (int64_t)total;
    return 0;
}

static int count_real(const struct pare_node *n, int64_t *count, struct pare_err *err)
{
    double start = pare_get(&n->in[0]->t, 0), limit = pare_get(&n->in[1]->t, 0);
    double delta = pare_get(&n->in[2]->t, 0), total = ceil((limit - start) / delta);

    if (delta == 0 || !(total < 0x1p60))
        return pare_fail(err, PARE_ELIMIT, "a range from %g to %g by %g is not finite", start,
                         limit, delta);
    *count = total > 0 ? (int64_t)total : 0;
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    enum pare_dtype d = n->in[0]->t.dtype;
    int64_t count;

    for (int i = 0; i < 3; i++) {
        if (pare_numel(&n->in[i]->t) != 1)
            return pare_fail(err, PARE_ESHAPE, "start, limit and delta must be scalars");
        PARE_TRY(pare_need(n, i, err));
    }
    PARE_TRY(is_real(d) ? count_real(n, &count, err) : count_whole(n, &count, err));
    return pare_shape_set(&n->out[0]->t, d, 1, &count, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *start = &n->in[0]->t, *delta = &n->in[2]->t, *y = &n->out[0]->t;
    int64_t count = y->dim[0];

    (void)c, (void)err;
    switch ((int)y->dtype) {
#define REAL(d, ctype)                                                                            \
    case d:                                                                                       \
        for (int64_t i = 0; i < count; i++)                                                       \
            ((ctype *)y->data)[i] = (ctype)(pare_get(start, 0) + (double)i * pare_get(delta, 0)); \
        break;
#define WHOLE(d, ctype)                                                                      \
    case d:                                                                                  \
        for (int64_t i = 0; i < count; i++)                                                  \
            ((ctype *)y->data)[i] = (ctype)((uint64_t)pare_get_int(start, 0) +               \
                                            (uint64_t)i * (uint64_t)pare_get_int(delta, 0)); \
        break;
        PARE_FLOAT_TYPES(REAL)
        PARE_INT_TYPES(WHOLE)
#undef REAL
#undef WHOLE
    default: break;
    }
    return 0;
}

const struct pare_op pare_op_range = {
    .type = "Range",
    .doc = "Numbers from start by delta up to a limit.",
    .since = 11,
    .in = "TTT",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .settings = 0x7,
    .flags = PARE_OP_FLOAT_ONLY,
};
