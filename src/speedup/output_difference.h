/* output_difference.h - how much the outputs of two models differ, and how much they may. */
#ifndef PARE_SPEEDUP_OUTPUT_DIFFERENCE_H
#define PARE_SPEEDUP_OUTPUT_DIFFERENCE_H

#include "../onnx/model.h"

/* The largest difference, and the largest element of a.  Two NANs do not differ. */
void pare_outputs_differ(const struct pare_tensor *a, const struct pare_tensor *b, double *abs,
                         double *most);

/* Outputs that are almost 0 are differences of larger numbers: they are compared absolutely. */
double pare_relative_difference(double abs, double most);

/* The number of elements that agree. */
int64_t pare_outputs_equal(const struct pare_tensor *a, const struct pare_tensor *b,
                           double tolerance);

/* The tolerance for the element types of the model. */
double pare_outputs_tolerance(const struct pare_model *m);

#endif
