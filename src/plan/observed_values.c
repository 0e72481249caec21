/* observed_values.c - intermediate values that the caller reads, or adds gradients to.
 *
 * An observed value is treated like a graph output: no kernel fuses it away, and a row-major buffer
 * of it lives until the run ends.  In training the loss may depend on it: pare_plan_execute()
 * zeroes its gradient, the loss adds to it, and the backward pass continues from there.
 */
#include "plan.h"

#include <string.h>

int pare_plan_observe(struct pare_plan *p, struct pare_strs names, struct pare_err *err)
{
    p->observed = pare_alloc(p->arena, (size_t)names.n, sizeof(*p->observed));
    if (!p->observed)
        return pare_no_memory(err, "for the plan");
    for (int i = 0; i < names.n; i++) {
        struct pare_value *v = pare_graph_find(p->graph, names.v[i]);

        if (!v)
            return pare_fail(err, PARE_ECONFIG, "the graph has no value '%s' to observe",
                             names.v[i]);
        v->flags |= PARE_V_OUTPUT;
        p->observed[p->n_observed++] = v;
    }
    return 0;
}

const struct pare_tensor *pare_plan_value(const struct pare_plan *p, int i)
{
    return &p->observed[i]->t;
}

float *pare_plan_value_grad(const struct pare_plan *p, int i)
{
    return pare_is_fixed(p->observed[i]) ? NULL : pare_f32_mut(&p->observed[i]->grad);
}

void pare_plan_observed_zero(const struct pare_plan *p)
{
    for (int i = 0; i < p->n_observed; i++) {
        float *grad = pare_plan_value_grad(p, i);

        if (grad)
            memset(grad, 0, (size_t)pare_numel(&p->observed[i]->grad) * sizeof(*grad));
    }
}
