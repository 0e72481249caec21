/* dynamic_weights.c - weights of MatMulInteger and ConvInteger as int8. */
#include "dynamic_weights.h"

#include "../../base/simd.h"
#include "../../op/op.h"

bool pare_dynamic_known(const struct pare_value *w, const struct pare_value *zero, int64_t N)
{
    return pare_is_8bit(w) && pare_is_const(w) && pare_const_raw(w) &&
           (!zero || (pare_is_const(zero) && zero->t.data &&
                      (pare_numel(&zero->t) == 1 || pare_numel(&zero->t) == N)));
}

struct pare_node *pare_dynamic_next(const struct pare_match *v, struct pare_value *y,
                                    const struct pare_op *op, enum pare_dtype type,
                                    struct pare_value **other)
{
    struct pare_node *n = pare_only_consumer(v, y);

    if (!pare_node_is(n, op) || (n->n_in > 1 && n->in[0] == n->in[1]) ||
        !pare_same_shape(&n->out[0]->t, &y->t) || n->out[0]->t.dtype != type)
        return NULL;
    *other = n->n_in > 1 ? n->in[n->in[0] == y] : NULL;
    return n;
}

PARE_SIMD int32_t pare_dynamic_row_sum(const uint8_t *x, int64_t n, bool flip)
{
    uint8_t bit = flip ? 128 : 0;
    int32_t sum = 0;

    for (int64_t k = 0; k < n; k++)
        sum += x[k] ^ bit;
    return flip ? sum - (int32_t)(128 * n) : sum;
}

/* The smallest and largest weight of each channel, as bytes that are flipped for int8. */
static void find_ranges(const struct pare_dynamic_weights *d, const uint8_t *raw, uint8_t flip,
                        uint8_t *lo, uint8_t *hi)
{
    memset(lo, 255, (size_t)d->N);
    memset(hi, 0, (size_t)d->N);
    for (int64_t i = 0; i < d->K * d->N;)
        for (int64_t k = 0; k < (d->columns_last ? d->N : d->K); k++, i++) {
            int64_t c = d->columns_last ? k : i / d->K;
            uint8_t w = raw[i] ^ flip;

            lo[c] = w < lo[c] ? w : lo[c];
            hi[c] = w > hi[c] ? w : hi[c];
        }
}

/* The number to subtract from a channel's weights. */
static int base_of(int zero, int lo, int hi, int middle)
{
    return lo - zero >= -128 && hi - zero <= 127 ? zero : middle;
}

int pare_dynamic_center(struct pare_dynamic_weights *d, struct pare_backend *b,
                        struct pare_err *err)
{
    const uint8_t *raw = pare_const_raw(d->w);
    bool is_signed = d->w->t.dtype == PARE_I8, any = false;
    uint8_t *lo = pare_alloc(b->scratch, (size_t)d->N, 1), flip = is_signed ? 128 : 0;
    uint8_t *hi = pare_alloc(b->scratch, (size_t)d->N, 1);
    int *base = pare_alloc(b->scratch, (size_t)d->N, sizeof(*base));

    d->u = pare_alloc_raw(b->scratch, (size_t)(d->K * d->N), 1);
    d->shift = pare_alloc(b->arena, (size_t)d->N, sizeof(*d->shift));
    if (!lo || !hi || !base || !d->u || !d->shift)
        return pare_no_memory(err, "for the weights");
    find_ranges(d, raw, flip, lo, hi);
    for (int64_t c = 0; c < d->N; c++) {
        int64_t at = d->zero && pare_numel(&d->zero->t) > 1 ? c : 0;
        int zero = d->zero ? (int)pare_get_int(&d->zero->t, at) : 0;

        base[c] = base_of(zero, lo[c] - flip, hi[c] - flip, is_signed ? 0 : 128);
        d->shift[c] = zero - base[c];
        any |= d->shift[c] != 0;
    }
    for (int64_t i = 0; i < d->K * d->N;)
        for (int64_t k = 0; k < (d->columns_last ? d->N : d->K); k++, i++)
            d->u[i] = (int8_t)((raw[i] ^ flip) - flip - base[d->columns_last ? k : i / d->K]);
    if (!any)
        d->shift = NULL;
    return 0;
}
