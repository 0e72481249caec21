/* output_difference.c - how much the outputs of two models differ, and how much they may. */
#include "output_difference.h"

#include <math.h>

#include "../tensor/tensor.h"

#define TOLERANCE 1e-4
#define TOLERANCE_F16 5e-3 /* ten times the rounding error of 11 bits */
#define TOLERANCE_BF16 4e-2
#define SMALL 1e-3

void pare_outputs_differ(const struct pare_tensor *a, const struct pare_tensor *b, double *abs,
                         double *most)
{
    *abs = *most = 0;
    for (int64_t i = 0; i < pare_numel(a); i++) {
        double x = pare_get(a, i), y = pare_get(b, i), d = fabs(x - y);

        if (x == y || (isnan(x) && isnan(y)))
            d = 0;
        else if (isnan(d))
            d = INFINITY;
        *abs = d > *abs ? d : *abs;
        if (fabs(x) > *most && !isinf(x))
            *most = fabs(x);
    }
}

double pare_relative_difference(double abs, double most)
{
    return abs / (most > SMALL ? most : SMALL);
}

int64_t pare_outputs_equal(const struct pare_tensor *a, const struct pare_tensor *b,
                           double tolerance)
{
    double abs, most;
    int64_t equal = 0;

    pare_outputs_differ(a, b, &abs, &most);
    for (int64_t i = 0; i < pare_numel(a); i++) {
        double x = pare_get(a, i), y = pare_get(b, i);

        equal += x == y || (isnan(x) && isnan(y)) ||
                 pare_relative_difference(fabs(x - y), most) <= tolerance;
    }
    return equal;
}

double pare_outputs_tolerance(const struct pare_model *m)
{
    double most = TOLERANCE;

    for (int i = 0; i < m->graph->n_values; i++) {
        enum pare_dtype t = m->graph->value[i]->t.dtype;
        double mine = t == PARE_F16 ? TOLERANCE_F16 : t == PARE_BF16 ? TOLERANCE_BF16 : 0;

        most = mine > most ? mine : most;
    }
    return most;
}
