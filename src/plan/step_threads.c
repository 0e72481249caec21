/* step_threads.c - how many threads run each step of an inference plan.
 *
 * Starting a parallel region and waiting for its end takes a few microseconds, more than a small
 * step takes on one thread, and waking threads that sleep takes dozens.  The time of a step on one
 * thread is estimated from the multiply-accumulates of its first node and the bytes that it moves,
 * before a kernel is chosen: kernels may prepare for a number of threads.
 */
#include <omp.h>

#include "../base/team.h"
#include "../tensor/tensor.h"
#include "plan.h"

#define MACS_PER_US 20000.0  /* of a core with AVX2; other machines are within a factor of two */
#define BYTES_PER_US 16000.0 /* from and to its caches */
#define STEP_US 8.0          /* a step that is faster runs on one thread */
#define PLAN_US 40.0         /* a plan that is faster runs on one thread */

static double value_bytes(const struct pare_value *v)
{
    return v && v->t.rank >= 0 && v->t.dtype != PARE_NONE
               ? (double)pare_numel(&v->t) * (double)pare_dtype_size(v->t.dtype)
               : 0;
}

/* The estimate for one node; those with bodies or with unknown shapes count as long. */
static double node_us(const struct pare_node *n)
{
    double macs = n->op && n->op->macs ? n->op->macs(n) : 0, bytes = 0;

    if (pare_node_body(n, 0, NULL))
        return PLAN_US;
    for (int k = 0; k < n->n_in; k++)
        bytes += value_bytes(n->in[k]);
    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k] && n->out[k]->t.dtype == PARE_NONE)
            return PLAN_US;
        bytes += value_bytes(n->out[k]);
    }
    return (macs > 0 ? macs / MACS_PER_US : 0) + bytes / BYTES_PER_US;
}

void pare_plan_use_threads(struct pare_plan *p, int threads)
{
    if (p->backend.threads == threads)
        return;
    p->backend.threads = threads;
    omp_set_num_threads(threads);
}

void pare_plan_count_us(struct pare_plan *p)
{
    double us = 0;

    if (p->train || p->reference || p->threads == 1)
        return;
    for (int i = 0; i < p->graph->n_nodes && us < PLAN_US; i++)
        us += node_us(p->graph->node[i]);
    p->short_plan = us < PLAN_US;
}

static int threads_for(const struct pare_plan *p, double us)
{
    if (p->train || p->reference)
        return p->threads;
    return p->short_plan || us < STEP_US ? 1 : p->threads;
}

int pare_plan_threads_for(const struct pare_plan *p, const struct pare_node *n)
{
    return threads_for(p, node_us(n));
}

static bool uses_openmp(const struct pare_step *s)
{
    if (s->threads == 1)
        return false;
    if (s->kernel == &pare_kernel_plain) /* reference kernels of layers have parallel loops */
        return s->node->op && s->node->op->macs;
    return s->openmp || s->kernel->openmp;
}

int pare_plan_add_team(struct pare_plan *p, struct pare_err *err)
{
    if (p->train || p->reference || p->threads == 1 || p->short_plan)
        return 0;
    for (int i = 0; i < p->n_steps; i++)
        if (uses_openmp(p->step[i]))
            return 0;
    p->team = pare_team_new(p->arena, p->threads);
    return p->team ? 0 : pare_no_memory(err, "for the threads");
}

int pare_plan_reorder_threads(const struct pare_plan *p, const struct pare_value *v)
{
    return threads_for(p, 2 * value_bytes(v) / BYTES_PER_US);
}
