/* paired_bound.c - exact confidence bounds of a paired difference of accuracies; repeated looks. */
#include "paired_bound.h"

#include <math.h>

#define FIRST_LOOK 64
#define ALPHA_SIDE 0.75 /* part of alpha for pi; the rest is for q */

double pare_pairs_drop(const struct pare_pairs *p)
{
    return p->n ? (double)(p->b - p->d) / (double)p->n : 0;
}

double pare_pairs_error(const struct pare_pairs *p)
{
    double both = (double)(p->b + p->d), gap = (double)(p->b - p->d), n = (double)p->n;

    return p->n ? sqrt(fmax(both - gap * gap / n, 0)) / n : 0;
}

/* Continued fraction of the incomplete beta function, evaluated from the front by Lentz's method;
 * it converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), value = d;

    for (int i = 1; i < 10000; i++) {
        double m = i, even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), step;

        d = 1 / (1 + even * d);
        c = 1 + even / c;
        value *= c * d;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        step = c * d;
        value *= step;
        if (fabs(step - 1) < 1e-13)
            break;
    }
    return value;
}

/* Regularized incomplete beta function I_x(a, b). */
static double incomplete_beta(double a, double b, double x)
{
    double scale;

    if (x <= 0 || x >= 1)
        return x >= 1;
    scale = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return scale * beta_fraction(a, b, x) / a;
    return 1 - scale * beta_fraction(b, a, 1 - x) / b;
}

/* The p at which P(at most k of n) = I_{1-p}(n - k, k + 1) is alpha; the larger end of the interval
 * that the bisection leaves. */
double pare_binomial_upper(int64_t k, int64_t n, double alpha)
{
    double low = n ? (double)k / (double)n : 0, high = 1;

    if (k >= n)
        return 1;
    for (int i = 0; i < 60; i++) {
        double p = (low + high) / 2;

        if (incomplete_beta((double)(n - k), (double)k + 1, 1 - p) > alpha)
            low = p;
        else
            high = p;
    }
    return high;
}

double pare_pairs_upper(const struct pare_pairs *p, double alpha)
{
    int64_t m = p->b + p->d;
    double side, share;

    if (!p->n)
        return 1;
    side = 2 * pare_binomial_upper(p->b, m, ALPHA_SIDE * alpha) - 1;
    /* The most that q allows: its upper bound if the side may be positive, else its lower one. */
    share = side > 0 ? pare_binomial_upper(m, p->n, (1 - ALPHA_SIDE) * alpha)
                     : 1 - pare_binomial_upper(p->n - m, p->n, (1 - ALPHA_SIDE) * alpha);
    return share * side;
}

double pare_pairs_lower(const struct pare_pairs *p, double alpha)
{
    struct pare_pairs other = { p->n, p->d, p->b };

    return -pare_pairs_upper(&other, alpha);
}

struct pare_looks pare_looks_start(int64_t n, double alpha)
{
    struct pare_looks l = { .n = n, .alpha = alpha, .count = 1, .spent = alpha };

    l.next = n < FIRST_LOOK ? n : FIRST_LOOK;
    for (int64_t at = FIRST_LOOK; at < n; at *= 2)
        l.count++;
    return l;
}

int pare_looks_decide(struct pare_looks *l, const struct pare_pairs *p, double max)
{
    bool last = p->n >= l->n;

    if (p->n < l->next || !p->n)
        return 0;
    while (l->next <= p->n && l->next < l->n)
        l->next = 2 * l->next < l->n ? 2 * l->next : l->n;
    if (l->count > 1)
        l->spent = last ? l->alpha / 2 : l->alpha / (2 * (l->count - 1));
    if (pare_pairs_upper(p, l->spent) <= max)
        return 1;
    return pare_pairs_lower(p, l->spent) > max ? -1 : 0;
}
