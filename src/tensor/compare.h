/* compare.h - are two tensors the same, and if not, where do they differ first? */
#ifndef PARE_TENSOR_COMPARE_H
#define PARE_TENSOR_COMPARE_H

#include <pare/pare.h>

/* Floats agree when |got - want| <= atol + rtol * |want|. */
struct pare_tolerance {
    double rtol, atol;
};

/* 0 when element type, shape and every element agree.  NaN agrees with NaN, an infinity with
 * itself; integers, booleans and strings must be equal.  Otherwise PARE_ESHAPE for the first two
 * and PARE_EFORMAT for elements, and a sentence with the first difference and how many there
 * are. */
int pare_tensor_compare(const struct pare_tensor *got, const struct pare_tensor *want,
                        struct pare_tolerance tol, struct pare_err *err);

#endif
