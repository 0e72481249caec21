/* shape_plans.c - a few plans of one model, by the shapes of its inputs. */
#include "shape_plans.h"

#include <string.h>

#include "../tensor/tensor.h"

bool pare_shapes_equal(const struct pare_tensor *a, const struct pare_tensor *b, int n)
{
    for (int k = 0; k < n; k++)
        if (!pare_same_shape(&a[k], &b[k]))
            return false;
    return true;
}

int pare_shape_plans_get(struct pare_shape_plans *s, const struct pare_model *m,
                         const struct pare_plan_build *build, int n_in, struct pare_plan **plan,
                         struct pare_err *err)
{
    const struct pare_tensor *in = build->opts->in;
    int at = 0;

    if (n_in > PARE_SHAPE_INPUTS)
        return pare_fail(err, PARE_ELIMIT, "the model has %d inputs, at most %d are supported",
                         n_in, PARE_SHAPE_INPUTS);
    while (at < PARE_SHAPE_PLANS && (!s->plan[at] || !pare_shapes_equal(s->in[at], in, n_in)))
        at++;
    if (at == PARE_SHAPE_PLANS) {
        at = s->plan[s->last] ? (s->last + 1) % PARE_SHAPE_PLANS : s->last;
        pare_plan_free(s->plan[at]);
        s->plan[at] = NULL;
        PARE_TRY(pare_plan_build(m, build, &s->plan[at], err));
        memcpy(s->in[at], in, (size_t)n_in * sizeof(*in));
    }
    s->last = at;
    *plan = s->plan[at];
    return 0;
}

void pare_shape_plans_free(struct pare_shape_plans *s)
{
    for (int i = 0; i < PARE_SHAPE_PLANS; i++) {
        pare_plan_free(s->plan[i]);
        s->plan[i] = NULL;
    }
}
