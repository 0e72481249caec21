/* int8_operands.h - find the int8 tensors of dequantized operands and of quantized results.
 *
 * A quantized tensor is uint8 or int8 values q with the float values (q - zero) * scale.  Graphs
 * contain
 *     DequantizeLinear -> Conv -> Relu -> QuantizeLinear
 * and kernels fuse all four into one int8 step.  This file finds the int8 tensor that a float
 * operand is dequantized from, and the QuantizeLinear after a float result.
 */
#ifndef PARE_BACKEND_FUSE_INT8_OPERANDS_H
#define PARE_BACKEND_FUSE_INT8_OPERANDS_H

#include "../backend.h"

struct pare_int8 {
    struct pare_value *v; /* the uint8 or int8 tensor */
    float scale;
    int zero, lo, hi; /* zero point; range of the type */
    bool viewed; /* its shape differs from the float value's: only row-major order has meaning */
};

/* The int8 tensor of a float value that is the result of a lazy DequantizeLinear with one scale. */
bool pare_int8_source(const struct pare_match *v, const struct pare_value *f32,
                      struct pare_int8 *q);

/* Read scale and zero point (constants of one element; zero may be NULL) of the int8 tensor x. */
bool pare_int8_read(struct pare_int8 *q, struct pare_value *x, const struct pare_value *scale,
                    const struct pare_value *zero);

/* The same for an operand or result x whose scale and zero point are the node's inputs k and k + 1:
 * of QuantizeLinear, DequantizeLinear, and com.microsoft's quantized operators. */
bool pare_int8_operand(struct pare_int8 *q, struct pare_value *x, const struct pare_node *n, int k);

/* Equal scale, zero point and type: equal int8 values mean equal float values. */
bool pare_int8_same(const struct pare_int8 *a, const struct pare_int8 *b);

#define PARE_INT8_NODES 6

/* The end of an int8 step: clamp (Relu, Clip), then quantize. */
struct pare_int8_end {
    struct pare_node *node[PARE_INT8_NODES]; /* the fused nodes */
    int n;
    float lo, hi;       /* bounds of the float result; infinite: none */
    struct pare_int8 q; /* q.v is the result of the last node */
};

/* The end of an operator whose result is quantized already. */
bool pare_int8_end_at(struct pare_int8_end *e, const struct pare_node *n, int k);

/* Match the nodes after `f32`; false if they do not end in a QuantizeLinear with one scale. */
bool pare_int8_end(const struct pare_match *v, struct pare_value *f32, struct pare_int8_end *e);

/* Quantize: round half to even, add the zero point, saturate. */
static inline float pare_int8_round(const struct pare_int8 *q, float scaled)
{
    /* float32 values near 1.5 * 2^23 have no fraction bits: adding it rounds. */
    const float magic = 12582912.0f, far = 1 << 20;
    float r = scaled > -far ? scaled : -far, y;

    r = r < far ? r : far;
    y = r + magic - magic + (float)q->zero;
    y = y > (float)q->lo ? y : (float)q->lo;
    return y < (float)q->hi ? y : (float)q->hi;
}

/* Quantized weights. */
struct pare_int8_weight {
    const struct pare_value *v, *scale, *zero; /* zero is NULL if all zero points are 0 */
    int axis;                                  /* of v; scales and zero points run along it */
    int64_t channels;                          /* size of the axis; there is one scale per index, or
                                                  one for all */
    int reach;                                 /* largest |w - zero|; 128 only for -128 */
};

/* The quantized constant from which a folded DequantizeLinear computed the float constant w, with
 * one scale per index of `axis` or one for all. */
bool pare_int8_weight(const struct pare_value *w, int axis, struct pare_int8_weight *q);

/* The same, for quantized weights w.  False if w - zero does not fit in int8. */
bool pare_int8_weight_read(struct pare_int8_weight *q, const struct pare_value *w,
                           const struct pare_value *scale, const struct pare_value *zero, int axis);

float pare_int8_scale(const struct pare_int8_weight *q, int64_t channel);

/* w - zero, in the shape of w: w itself if zero is 0, else a copy; NULL when out of memory. */
const int8_t *pare_int8_centered(const struct pare_int8_weight *q, struct pare_arena *a);

/* The int32 bias from which a float bias was dequantized, if its scale is x_scale w_scale, so that
 * it can be added to the int32 sums; else the float bias itself. */
struct pare_value *pare_int8_bias(struct pare_value *bias, const struct pare_int8 *x,
                                  const struct pare_int8_weight *w);

/* Are oneDNN's sums of x w exact?  Without VNNI it adds two uint8 * int8 products in 16 bits, which
 * is enough for 7-bit weights only, and its int8 * int8 results are wrong. */
bool pare_int8_exact(const struct pare_backend *b, const struct pare_int8 *x,
                     const struct pare_int8_weight *w);

/* A shape as (N, C, pixels). */
struct pare_ncs {
    int64_t n, c, s;
};
struct pare_ncs pare_ncs(const struct pare_tensor *t);

/* The layout of int8 tensors of this shape: images have their channels last. */
static inline int pare_int8_layout(const struct pare_tensor *t)
{
    return t->rank == 4 || t->rank == 5 ? PARE_CHANNELS_LAST : 1;
}

/* The layout in which a step that only maps these int8 values leaves them. */
int pare_int8_keep(const struct pare_match *v, const struct pare_int8 *q);

/* ---- loops, for run() --------------------------------------------------------------- */

/* f32[i] = (x[i] - zero) * scale for n elements, the first of them at index `from` of x. */
void pare_int8_dequantize(const struct pare_int8 *q, const void *x, int64_t from, float *f32,
                          int64_t n);

/* y[from + i] = quantize(clamp(f32[i], lo, hi)) for i < n. */
void pare_int8_quantize(const struct pare_int8_end *e, const float *f32, void *y, int64_t from,
                        int64_t n);

/* y[i] = table[x[i]], 256 entries; x and y may be the same array of bytes. */
struct pare_int8_table {
    float f32[256];
    uint8_t part[4][256]; /* the bytes of f32[], set by pare_int8_table_set() */
};
void pare_int8_table_set(struct pare_int8_table *t);
void pare_int8_bytes(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t n);
void pare_int8_floats(const struct pare_int8_table *table, const uint8_t *x, float *y, int64_t n);

/* From int32 sums to results: y = clamp(f (acc + b)), by channel, in the type of `out`: quantized
 * to q, float32, or (int32) the sums themselves. */
struct pare_int8_out {
    const struct pare_value *out;
    struct pare_int8 q;
    float *f, *b, lo, hi; /* all but b divided by q's scale */
};
/* Clamp bounds of f (acc + b) within the range of the type, so that only rounding and adding the
 * zero point remain. */
void pare_int8_bounds(const struct pare_int8_out *o, float *lo, float *hi);

void pare_int8_finish(const struct pare_int8_out *o, const int32_t *acc, int64_t channel, int64_t n,
                      void *y);

#endif
