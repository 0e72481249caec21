/* sparsity_vector.c - vectors of sparsities with an overall sparsity: draw, perturb, rescale. */
#include <math.h>
#include <string.h>

#include "sparsity_vector.h"

#define ATTEMPTS 1000

/* Insertion sort: there are at most some hundred parts. */
void pare_sparsity_order(struct pare_sparsity_space *s)
{
    for (int i = 0; i < s->n; i++) {
        int k = i;

        for (; k > 0 && s->weight[s->order[k - 1]] > s->weight[i]; k--)
            s->order[k] = s->order[k - 1];
        s->order[k] = i;
    }
}

/* The smallest number for the part with the least weight, and so on. */
static void sort_by_weight(const struct pare_sparsity_space *s, double *v)
{
    for (int i = 1; i < s->n && s->sorted; i++) {
        double x = v[s->order[i]];
        int k = i;

        for (; k > 0 && v[s->order[k - 1]] > x; k--)
            v[s->order[k]] = v[s->order[k - 1]];
        v[s->order[k]] = x;
    }
}

bool pare_sparsity_rescale(const struct pare_sparsity_space *s, double *v)
{
    double all = 0, gone = 0, by;

    for (int i = 0; i < s->n; i++) {
        all += s->weight[i];
        gone += floor(s->weight[i] * v[i]);
    }
    if (!(gone > 0))
        return false;
    by = s->target / (gone / all);
    for (int i = 0; i < s->n; i++)
        v[i] *= by;
    for (int i = 0; i < s->n; i++)
        if (!(v[i] >= 0 && v[i] < 1))
            return false;
    return true;
}

void pare_sparsity_draw(const struct pare_sparsity_space *s, struct pare_rng *rng, double *v)
{
    double low = 0;

    for (int k = 0; k < ATTEMPTS; k++) {
        for (int i = 0; i < s->n; i++)
            v[i] = low + (1 - low) * pare_rng_uniform(rng);
        sort_by_weight(s, v);
        if (pare_sparsity_rescale(s, v))
            return;
        low += (1 - low) * 0.05;
    }
    for (int i = 0; i < s->n; i++)
        v[i] = s->target;
}

void pare_sparsity_perturb(const struct pare_sparsity_space *s, struct pare_rng *rng, double most,
                           const double *from, double *to)
{
    for (int k = 0; k < ATTEMPTS; k++) {
        for (int i = 0; i < s->n; i++)
            to[i] = fmax(0, from[i] + most * (2 * pare_rng_uniform(rng) - 1));
        sort_by_weight(s, to);
        if (pare_sparsity_rescale(s, to))
            return;
    }
    memcpy(to, from, (size_t)s->n * sizeof(*to));
}

bool pare_annealing_accepts(double worse, double t, double u)
{
    return worse <= 0 || (t > 0 && u < exp(-worse / t));
}

double pare_annealing_temperature(double mean_difference)
{
    return mean_difference > 1e-9 ? mean_difference / log(2) : 1e-9;
}
