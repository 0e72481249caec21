/* compare.h - compare two tensors and report the first difference. */
#ifndef PARE_TENSOR_COMPARE_H
#define PARE_TENSOR_COMPARE_H

#include <pare/pare.h>

/* Floats agree when |got - want| <= atol + rtol * |want|. */
struct pare_tolerance {
    double rtol, atol;
};

/* 0 if element type, shape and every element agree.  NaN agrees with NaN, an infinity with
 * itself; integers, booleans and strings must be equal.  PARE_ESHAPE if type or shape differ,
 * PARE_EFORMAT if elements differ; the message has the first difference and the number of
 * differences. */
int pare_tensor_compare(const struct pare_tensor *got, const struct pare_tensor *want,
                        struct pare_tolerance tol, struct pare_err *err);

#endif
