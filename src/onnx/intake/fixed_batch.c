/* fixed_batch.c - intake on demand: a batch of 1 is freed when a command needs another one.
 *
 * Whether items are independent is checked by running the model, which loading does not do:
 * plan/batch/free_batch.c changes the model when training or evaluation needs a larger batch.
 */
#include <string.h>

#include "intake.h"

void pare_model_counted(struct pare_model *m, const char *step, int64_t n)
{
    for (int i = 0; i < m->n_intake; i++)
        if (!strcmp(m->intake[i].name, step))
            m->intake[i].count += n;
}

const struct pare_intake_step pare_intake_step_fixed_batch = {
    .name = "fixed_batch",
    .what = "changes that let the model take any batch",
};
