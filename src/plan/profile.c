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
    for (int i = 0; i < p->n_steps; i++)
        if (pare_tail_plan(p->step[i]->node))
            pare_plan_profile(pare_tail_plan(p->step[i]->node), on);
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

/* The steps of a tail are listed instead of the step that runs it. */
static int count_steps(const struct pare_plan *p)
{
    int n = 0;

    for (int i = 0; i < p->n_steps; i++) {
        const struct pare_plan *tail = pare_tail_plan(p->step[i]->node);

        n += tail ? count_steps(tail) : 1;
    }
    return n;
}

/* p is the whole plan of `inner`, or the same.  Returns the number of rows. */
static int list_steps(const struct pare_plan *p, const struct pare_plan *inner,
                      struct pare_plan_stat *stat)
{
    int n = 0;

    for (int i = 0; i < inner->n_steps; i++) {
        const struct pare_step *s = inner->step[i];
        const struct pare_plan *tail = pare_tail_plan(s->node);

        if (tail) {
            n += list_steps(tail, tail, stat + n);
            continue;
        }
        stat[n++] = (struct pare_plan_stat){
            .kernel = s->kernel->name,
            .node = s->node ? s->node->name : s->in[0]->name,
            .type = s->node ? s->node->type : "reorder",
            .n_fused = s->n_fused,
            .seconds = seconds(p, i),
            .back_seconds = s->backward_seconds,
            .tuned = s->tuned,
        };
    }
    return n;
}

int pare_plan_stats(const struct pare_plan *p, struct pare_arena *a, struct pare_plan_stat **stat)
{
    const struct pare_plan *inner = pare_plan_inner(p);

    *stat = pare_alloc(a, (size_t)count_steps(inner) + 1, sizeof(**stat));
    return *stat ? list_steps(p, inner, *stat) : 0;
}
