/* dynamic_weights.h - weights of MatMulInteger and ConvInteger as int8, and what that changes.
 *
 * w - zw has nine bits in general.  With u = w - base in int8 and shift = zw - base by channel,
 *     sum_k (x[k] - zx) (w[k] - zw) =
 *         sum_k x[k] u[k] - zx sum_k u[k] - shift (sum_k x[k] - K zx).
 * base is zw where w - zw fits in int8, so that shift is 0, else the middle of w's type.
 */
#ifndef PARE_BACKEND_INT8_DYNAMIC_WEIGHTS_H
#define PARE_BACKEND_INT8_DYNAMIC_WEIGHTS_H

#include "../backend.h"

struct pare_dynamic_weights {
    const struct pare_value *w, *zero; /* zero: one or N numbers, or NULL */
    int64_t K, N;
    bool columns_last; /* w is (K, N); else (N, K) */

    /* Set by pare_dynamic_center(). */
    int8_t *u;      /* in the order of w, in scratch memory */
    int32_t *shift; /* N of them; NULL: all 0 */
};

int pare_dynamic_center(struct pare_dynamic_weights *d, struct pare_backend *b,
                        struct pare_err *err);

static inline bool pare_is_8bit(const struct pare_value *v)
{
    return v && (v->t.dtype == PARE_U8 || v->t.dtype == PARE_I8);
}

/* Are w and its zero point constants that pare_dynamic_center() can read? */
bool pare_dynamic_known(const struct pare_value *w, const struct pare_value *zero, int64_t N);

/* The node of this type that alone reads y, with a result of the same shape and of this type;
 * `other` is its other operand.  NULL: none. */
struct pare_node *pare_dynamic_next(const struct pare_match *v, struct pare_value *y,
                                    const struct pare_op *op, enum pare_dtype type,
                                    struct pare_value **other);

/* sum of n bytes x, as uint8 or, flipped, as int8. */
int32_t pare_dynamic_row_sum(const uint8_t *x, int64_t n, bool flip);

#endif
