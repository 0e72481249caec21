/* plan_precision.h - bf16 or float32 operands of a plan's products: the error of bf16, and which of
 * them PARE_PRECISION_AUTO means. */
#ifndef PARE_PLAN_PLAN_PRECISION_H
#define PARE_PLAN_PLAN_PRECISION_H

#include "plan.h"

/* pare_plan_build() for PARE_PRECISION_AUTO. */
int pare_plan_build_auto(const struct pare_model *model, const struct pare_plan_build *build,
                         struct pare_plan **plan, struct pare_err *err);

/* Set p->bf16_error of a bf16 plan, by a plan in float32: for `in`, which has data, or if `in` is
 * NULL for random inputs. */
int pare_plan_measure_bf16(struct pare_plan *p, const struct pare_plan_build *build,
                           const struct pare_tensor *in, struct pare_err *err);

#endif
