/* profile.c - per-step times of a plan. */
#include "batch/microbatch.h"

const struct pare_plan *pare_plan_inner(const struct pare_plan *p)
{
    return p->microbatch ? p->microbatch->plan[0] : p;
}

void pare_plan_profile(struct pare_plan *p, bool on)
{
    p->profile = on;
    for (int i = 0; p->microbatch && i < p->microbatch->n; i++)
        pare_plan_profile(p->microbatch->plan[i], on);
    for (int i = 0; i < p->n_steps; i++)
        p->step[i]->seconds = p->step[i]->backward_seconds = 0;
}

/* The mean over the plans of concurrent micro-batches. */
static double seconds(const struct pare_plan *p, int i)
{
    double sum = 0;

    if (!p->microbatch)
        return p->step[i]->seconds;
    for (int k = 0; k < p->microbatch->n; k++)
        sum += p->microbatch->plan[k]->step[i]->seconds;
    return sum / p->microbatch->n;
}

int pare_plan_stats(const struct pare_plan *p, struct pare_arena *a, struct pare_plan_stat **stat)
{
    const struct pare_plan *inner = pare_plan_inner(p);

    *stat = pare_alloc(a, (size_t)inner->n_steps, sizeof(**stat));
    for (int i = 0; i < inner->n_steps && *stat; i++) {
        const struct pare_step *s = inner->step[i];

        (*stat)[i] = (struct pare_plan_stat){
            .kernel = s->kernel->name,
            .node = s->node ? s->node->name : s->in[0]->name,
            .type = s->node ? s->node->type : "reorder",
            .n_fused = s->n_fused,
            .seconds = seconds(p, i),
            .back_seconds = s->backward_seconds,
            .tuned = s->tuned,
        };
    }
    return *stat ? inner->n_steps : 0;
}
