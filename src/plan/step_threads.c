/* step_threads.c - how many threads run each step of an inference plan.
 *
 * Starting a parallel region and waiting for its end takes a few microseconds, more than a small
 * step takes on one thread, and waking threads that sleep takes dozens.  The time of a step on one
 * thread is estimated from its multiply-accumulates and the bytes that it moves.
 */
#include "plan.h"

#define MACS_PER_US 20000.0  /* of a core with AVX2; other machines are within a factor of two */
#define BYTES_PER_US 16000.0 /* from and to its caches */
#define STEP_US 8.0          /* a step that is faster runs on one thread */
#define PLAN_US 40.0         /* a plan that is faster runs on one thread */

static double node_macs(const struct pare_node *n)
{
    double macs = n && n->op && n->op->macs ? n->op->macs(n) : 0;

    return macs > 0 ? macs : 0;
}

/* The estimate; steps with bodies and those whose shapes are unknown count as long. */
static double step_us(const struct pare_step *s)
{
    double macs = node_macs(s->node), bytes = 0;

    if (s->kernel == &pare_kernel_dynamic || (s->node && pare_node_body(s->node, 0, NULL)))
        return PLAN_US;
    for (int k = 0; k < s->n_fused; k++)
        macs += node_macs(s->fused[k]);
    for (int k = 0; k < s->n_in; k++)
        bytes += (double)s->in_buf[k]->bytes;
    for (int k = 0; k < s->n_out; k++)
        bytes += s->out_buf[k] ? (double)s->out_buf[k]->bytes : 0;
    return macs / MACS_PER_US + bytes / BYTES_PER_US;
}

void pare_plan_step_threads(struct pare_plan *p)
{
    double us = 0;

    for (int i = 0; i < p->n_steps; i++)
        us += step_us(p->step[i]);
    for (int i = 0; i < p->n_steps; i++)
        p->step[i]->threads = !p->train && (us < PLAN_US || step_us(p->step[i]) < STEP_US)
                                  ? 1
                                  : p->backend.threads;
}
