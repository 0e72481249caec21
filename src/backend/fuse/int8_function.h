/* int8_function.h - match float values that are a 256-entry function of one int8 tensor.
 *
 * x sigmoid(x) of a dequantized x has at most 256 distinct values, however many nodes compute it,
 * including QuantizeLinear and DequantizeLinear pairs in between.  Such nodes are lazy (backend.h):
 * they never run if all consumers of the result read the int8 tensor and a table.  A Transpose
 * between (N, C, ...) and (N, ..., C) may be among them: it is another layout of the same bytes.
 */
#ifndef PARE_BACKEND_FUSE_INT8_FUNCTION_H
#define PARE_BACKEND_FUSE_INT8_FUNCTION_H

#include "int8_operands.h"

struct pare_int8_func {
    struct pare_int8 x;           /* the int8 tensor */
    struct pare_int8_table table; /* by byte of x */
    bool plain;                   /* only DequantizeLinear: (q - zero) * scale */
    int transpose; /* 1: x with the channels moved to the end; -1: moved from the end; 0: neither */
};

/* 1: a Transpose of (N, C, ...) to (N, ..., C); -1: the inverse; 0: neither. */
int pare_int8_transpose(const struct pare_node *n);

/* The layout for the int8 result q of a QuantizeLinear: channels last for images, but row-major if
 * layers read q as rows, or as an image after a Transpose from (N, ..., C). */
int pare_int8_result_layout(const struct pare_match *v, const struct pare_value *q);

/* Is the result of n such a function, so that n is lazy?  The nodes before n have been visited. */
bool pare_int8_func_lazy(const struct pare_match *v, const struct pare_node *n);

/* Find the int8 tensor and the table of a float value; false: it is not such a function. */
bool pare_int8_func(const struct pare_match *v, const struct pare_value *f32,
                    struct pare_int8_func *f);

/* The layout of the int8 tensor whose byte order equals that of the value in this layout; 0:
 * none. */
int pare_int8_func_layout(const struct pare_int8_func *f, int layout);

/* The layout in which a step that only maps bytes leaves them. */
int pare_int8_func_keep(const struct pare_match *v, const struct pare_int8_func *f);

#endif
