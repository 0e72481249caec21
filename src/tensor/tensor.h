/* tensor.h - element types, sizes and conversion of tensors. */
#ifndef PARE_TENSOR_TENSOR_H
#define PARE_TENSOR_TENSOR_H

#include <string.h>

#include <pare/pare.h>

/* The C type of each element type; X(dtype, ctype).  float16 and bfloat16 are stored as
 * uint16_t and have no arithmetic: convert them. */
#define PARE_INT_TYPES(X) \
    X(PARE_U8, uint8_t)   \
    X(PARE_I8, int8_t)    \
    X(PARE_U16, uint16_t) \
    X(PARE_I16, int16_t)  \
    X(PARE_I32, int32_t) X(PARE_I64, int64_t) X(PARE_U32, uint32_t) X(PARE_U64, uint64_t)
#define PARE_FLOAT_TYPES(X) X(PARE_F32, float) X(PARE_F64, double)
#define PARE_NUMERIC_TYPES(X) PARE_FLOAT_TYPES(X) PARE_INT_TYPES(X)

/* Number of elements and bytes; fails if a dimension is negative or the product overflows.  The
 * only place where sizes are multiplied. */
int pare_tensor_size(const struct pare_tensor *t, int64_t *numel, size_t *bytes,
                     struct pare_err *err);

/* Files have two 4-bit values per byte, the first in the low half; memory has one. */
static inline bool pare_is_4bit(enum pare_dtype d)
{
    return d == PARE_U4 || d == PARE_I4;
}
static inline int pare_nibble(enum pare_dtype d, const void *packed, int64_t i)
{
    int v = ((const uint8_t *)packed)[i / 2] >> (i & 1 ? 4 : 0) & 15;

    return d == PARE_I4 && v > 7 ? v - 16 : v;
}

/* Bits of an element in a file, also of types that are not computed with; 0: strings, unknown. */
int pare_dtype_bits(enum pare_dtype d);

/* The bytes of a tensor in a file; its size must have been checked. */
size_t pare_packed_size(const struct pare_tensor *t);

/* Unpack t's elements, already allocated, from the bytes of a file; and pack them. */
void pare_unpack(const struct pare_tensor *t, const void *packed);
void pare_pack(const struct pare_tensor *t, void *packed);

/* pare_tensor_new without zeroing the memory. */
int pare_tensor_alloc(struct pare_arena *a, struct pare_tensor *t, struct pare_err *err);

/* Values that are not tensors: a sequence has dim[0] elements, which are tensors; an optional
 * without a value is PARE_ABSENT, and one with a value is that value. */
static inline bool pare_is_tensor(const struct pare_tensor *t)
{
    return t->dtype != PARE_SEQUENCE && t->dtype != PARE_ABSENT;
}
static inline const struct pare_tensor *pare_elements(const struct pare_tensor *sequence)
{
    return sequence->data;
}

/* An empty list for n elements; a limit applies.  Elements must live as long as the sequence. */
int pare_sequence_new(struct pare_arena *a, struct pare_tensor *t, int64_t n, struct pare_err *err);
void pare_set_absent(struct pare_tensor *t);

/* Copy any value with everything that it refers to. */
int pare_value_copy(struct pare_arena *a, const struct pare_tensor *from, struct pare_tensor *to,
                    struct pare_err *err);

/* "(2, 3, 224, 224)", in buf. */
const char *pare_shape_text(const struct pare_tensor *t, char *buf, size_t size);
#define PARE_SHAPE_TEXT 128

bool pare_same_shape(const struct pare_tensor *a, const struct pare_tensor *b);

/* A single element of any numeric type; i is not checked. */
double pare_get(const struct pare_tensor *t, int64_t i);
int64_t pare_get_int(const struct pare_tensor *t, int64_t i);

float pare_f16_to_f32(uint16_t h);
uint16_t pare_f32_to_f16(float f); /* rounds half to even, overflows to infinity */
float pare_bf16_to_f32(uint16_t h);
uint16_t pare_f32_to_bf16(float f);

/* Convert n elements between any two numeric types (not PARE_STR), as ONNX Cast does: toward
 * zero for floats to integers, anything but zero is true. */
int pare_convert(enum pare_dtype to, void *dst, enum pare_dtype from, const void *src, int64_t n,
                 struct pare_err *err);

#endif
