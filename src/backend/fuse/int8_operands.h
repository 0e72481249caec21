/* int8_operands.h - computing with 8-bit integers where the graph speaks of real numbers.
 *
 * A quantized tensor is uint8 or int8 numbers q that stand for (q - zero) * scale.  Graphs write
 *     DequantizeLinear -> Conv -> Relu -> QuantizeLinear
 * and kernels take all four as one step on integers.  Here is how they find the integers behind a
 * real operand, and the QuantizeLinear behind a real result.
 */
#ifndef PARE_BACKEND_FUSE_INT8_OPERANDS_H
#define PARE_BACKEND_FUSE_INT8_OPERANDS_H

#include "../backend.h"

struct pare_int8 {
    struct pare_value *v; /* the integers */
    float scale;
    int zero, lo, hi; /* zero point; the type's lowest and highest */
    bool viewed;      /* its shape is not the real value's: only row-major order has meaning */
};

/* The integers behind a real value that DequantizeLinear makes (late) from one scale. */
bool pare_int8_source(const struct pare_match *v, const struct pare_value *real,
                      struct pare_int8 *q);

/* From a scale and a zero point among a node's inputs (constants of one element; zero may be
 * NULL) for integers x. */
bool pare_int8_read(struct pare_int8 *q, struct pare_value *x, const struct pare_value *scale,
                    const struct pare_value *zero);

/* The same for an operand or result x whose scale and zero point are among the node's inputs from k
 * on: of QuantizeLinear, DequantizeLinear, and com.microsoft's operators of integers. */
bool pare_int8_operand(struct pare_int8 *q, struct pare_value *x, const struct pare_node *n, int k);

/* Is it that operator of com.microsoft? */
bool pare_int8_is(const struct pare_node *n, const char *type);

/* Equal scale, zero point and type: the same integers stand for the same numbers. */
bool pare_int8_same(const struct pare_int8 *a, const struct pare_int8 *b);

#define PARE_INT8_NODES 6

/* What is behind a real result: held between bounds (Relu, Clip), then quantized. */
struct pare_int8_end {
    struct pare_node *node[PARE_INT8_NODES]; /* those that are fused */
    int n;
    float lo, hi;       /* bounds of the real result; infinite: none */
    struct pare_int8 q; /* q.v is the last node's result */
};

/* A result that is one of integers already. */
bool pare_int8_end_at(struct pare_int8_end *e, const struct pare_node *n, int k);

/* false when it does not end in a QuantizeLinear of one scale. */
bool pare_int8_end(const struct pare_match *v, struct pare_value *real, struct pare_int8_end *e);

/* y = the real number as an integer: round half to even, add the zero point, stay in the type. */
static inline float pare_int8_round(const struct pare_int8 *q, float real_by_scale)
{
    /* 1.5 * 2^23 has no room for a fraction: adding it rounds. */
    const float magic = 12582912.0f, far = 1 << 20;
    float r = real_by_scale > -far ? real_by_scale : -far, y;

    r = r < far ? r : far;
    y = r + magic - magic + (float)q->zero;
    y = y > (float)q->lo ? y : (float)q->lo;
    return y < (float)q->hi ? y : (float)q->hi;
}

/* Integer weights. */
struct pare_int8_weight {
    const struct pare_value *v, *scale, *zero; /* zero is NULL where all are 0 */
    int axis;                                  /* of v, along which scales and zeros run */
    int64_t channels;                          /* its length; scales are as many, or one */
    int reach;                                 /* the largest |w - zero|; 128 only by -128 */
};

/* Those that a folded DequantizeLinear made the real constant w from, one scale for each index of
 * `axis` or for all. */
bool pare_int8_weight(const struct pare_value *w, int axis, struct pare_int8_weight *q);

/* The same, of w itself.  Fails when w - zero does not fit in int8. */
bool pare_int8_weight_read(struct pare_int8_weight *q, const struct pare_value *w,
                           const struct pare_value *scale, const struct pare_value *zero, int axis);

float pare_int8_scale(const struct pare_int8_weight *q, int64_t channel);

/* w - zero, in w's shape: w itself where zero is 0, else a copy; NULL when out of memory. */
const int8_t *pare_int8_centred(const struct pare_int8_weight *q, struct pare_arena *a);

/* The int32 numbers behind a real bias, when they are in units of x_scale w_scale, as a runtime
 * adds them to the sum of products; else the bias itself. */
struct pare_value *pare_int8_bias(struct pare_value *bias, const struct pare_int8 *x,
                                  const struct pare_int8_weight *w);

/* Would oneDNN's sums of x w be right?  Without VNNI it adds two products uint8 * int8 in 16 bits,
 * which is enough for weights of 7 bits, and int8 * int8 it gets wrong. */
bool pare_int8_exact(const struct pare_backend *b, const struct pare_int8 *x,
                     const struct pare_int8_weight *w);

/* A shape as (N, C, space). */
struct pare_ncs {
    int64_t n, c, s;
};
struct pare_ncs pare_ncs(const struct pare_tensor *t);

/* The layout for integers of this shape: pictures have their channels last. */
static inline int pare_int8_layout(const struct pare_tensor *t)
{
    return t->rank == 4 || t->rank == 5 ? PARE_CHANNELS_LAST : 1;
}

/* The layout that a step on these integers keeps. */
int pare_int8_keep(const struct pare_match *v, const struct pare_int8 *q);

/* ---- loops, for run() --------------------------------------------------------------- */

/* real[i] = (x[i] - zero) * scale, for n elements from `from` on. */
void pare_int8_real(const struct pare_int8 *q, const void *x, int64_t from, float *real, int64_t n);

/* y[i] = the integer of real[i], held between lo and hi first. */
void pare_int8_store(const struct pare_int8_end *e, const float *real, void *y, int64_t from,
                     int64_t n);

/* y[i] = table[x[i]], of 256 numbers; bytes may be looked up in place. */
struct pare_int8_table {
    float real[256];
    uint8_t part[4][256]; /* their bytes, by pare_int8_table_set() */
};
void pare_int8_table_set(struct pare_int8_table *t);
void pare_int8_bytes(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t n);
void pare_int8_floats(const struct pare_int8_table *table, const uint8_t *x, float *y, int64_t n);

/* From sums to results: y = held(f (acc + b)), by channel, in the type of `out`; quantized to q, or
 * (int32) the sums themselves. */
struct pare_int8_out {
    const struct pare_value *out;
    struct pare_int8 q;
    float *f, *b, lo, hi; /* but for b by q's scale */
};
/* Bounds of f (acc + b) that leave no more for the type to hold, so that rounding and adding the
 * zero point is all that is left. */
void pare_int8_bounds(const struct pare_int8_out *o, float *lo, float *hi);

void pare_int8_finish(const struct pare_int8_out *o, const int32_t *acc, int64_t channel, int64_t n,
                      void *y);

#endif
