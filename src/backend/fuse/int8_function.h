/* int8_function.h - real values that are functions of one tensor of 8-bit integers.
 *
 * x sigmoid(x) of a dequantized x has no more than 256 values, however many nodes it takes,
 * roundings on the way included.  Such nodes are late (backend.h): nobody runs them when who reads
 * the result takes the integers and a table.  A Transpose between (N, C, ...) and (N, ..., C) may
 * be among them: it is another layout of the same bytes.
 */
#ifndef PARE_BACKEND_FUSE_INT8_FUNCTION_H
#define PARE_BACKEND_FUSE_INT8_FUNCTION_H

#include "int8_operands.h"

struct pare_int8_func {
    struct pare_int8 x;           /* the integers */
    struct pare_int8_table table; /* by byte */
    bool plain;                   /* only DequantizeLinear: (q - zero) * scale */
    int turn; /* 1: the value is x with channels moved to the end; -1: from there */
};

/* Is this node such a function, to be run only when somebody asks?  Nodes before it are known. */
bool pare_int8_func_late(const struct pare_match *v, const struct pare_node *n);

/* What the real value is a function of. */
bool pare_int8_func(const struct pare_match *v, const struct pare_value *real,
                    struct pare_int8_func *f);

/* The layout of the integers whose bytes are in the order of the value in this layout; 0: none. */
int pare_int8_func_layout(const struct pare_int8_func *f, int layout);

/* The layout that a step on the value's bytes keeps. */
int pare_int8_func_keep(const struct pare_match *v, const struct pare_int8_func *f);

#endif
