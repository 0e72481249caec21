/* obs_trace.c - exact optimal brain surgeon for rows of a weight, on the columns that are left.
 *
 * The columns that are left are the first n: a removed column is swapped with the last of them.  Of
 * the inverses only the lower triangles are kept, so that a removal touches n^2 / 2 elements.
 */
#include "obs_trace.h"

#include <math.h>
#include <string.h>

#include "../base/simd.h"

#define NEXT (1 + 2.5e-7) /* two costs in this ratio differ as floats, too */

struct trace {
    const struct pare_obs_trace *t;
    int64_t n;      /* columns that are left */
    double *h;      /* (parts, k, k): lower triangles */
    double *w;      /* (parts, rows, k) */
    double *column; /* (parts, k): of h */
    double *at;     /* (k): original column */
    double *lost;   /* by group */
};

int64_t pare_obs_trace_room(const struct pare_obs_trace *t)
{
    return t->parts * (t->k * t->k + t->rows * t->k + t->k) + 2 * t->k;
}

static double cost_of(const struct trace *s, int64_t j)
{
    const struct pare_obs_trace *t = s->t;
    const int64_t k = t->k;
    double cost = 0;

    for (int64_t p = 0; p < t->parts; p++) {
        double sum = 0, d = s->h[(p * k + j) * k + j];

        for (int64_t r = p * t->rows; r < (p + 1) * t->rows; r++)
            sum += s->w[r * k + j] * s->w[r * k + j];
        cost += sum > 0 ? sum / (d > 0 ? d : 1e-300) : 0;
    }
    return cost;
}

/* The column that costs least, the first of equal ones; -1: none may be removed. */
static int64_t cheapest(const struct trace *s, double *cost)
{
    const struct pare_obs_trace *t = s->t;
    int64_t best = -1;

    for (int64_t j = 0; j < s->n; j++) {
        int64_t c = (int64_t)s->at[j];
        double v;

        if (t->group && s->lost[t->group[c] - t->first] >= (double)t->most[t->group[c]])
            continue;
        v = cost_of(s, j);
        if (best < 0 || v < *cost || (v <= *cost && c < (int64_t)s->at[best])) {
            best = j;
            *cost = v;
        }
    }
    return best;
}

static void swap(double *x, int64_t i, int64_t j)
{
    double v = x[i];

    x[i] = x[j];
    x[j] = v;
}

PARE_SIMD static void subtract(double *to, const double *x, double f, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] -= f * x[i];
}

/* Column j of one inverse leaves: the last column takes its place, then the others lose what it
 * explains of them. */
static void remove_column(const struct trace *s, int64_t p, int64_t j)
{
    const int64_t k = s->t->k, last = s->n - 1;
    double *h = s->h + p * k * k, *column = s->column + p * k, d;

    memcpy(column, h + j * k, (size_t)(j + 1) * sizeof(*h));
    for (int64_t i = j + 1; i < s->n; i++)
        column[i] = h[i * k + j];
    if (j < last) {
        memcpy(h + j * k, h + last * k, (size_t)j * sizeof(*h));
        h[j * k + j] = h[last * k + last];
        for (int64_t i = j + 1; i < last; i++)
            h[i * k + j] = h[last * k + i];
        swap(column, j, last);
    }
    d = column[last] > 0 ? column[last] : 1e-300;
    for (int64_t r = p * s->t->rows; r < (p + 1) * s->t->rows; r++) {
        double *w = s->w + r * k;

        swap(w, j, last);
        if (w[last] != 0)
            subtract(w, column, w[last] / d, last);
    }
    for (int64_t i = 0; i < last; i++)
        subtract(h + i * k, column, column[i] / d, i + 1);
}

static void put_rows(const struct trace *s)
{
    const struct pare_obs_trace *t = s->t;

    memset(t->fitted, 0, (size_t)(t->parts * t->rows * t->k) * sizeof(*t->fitted));
    for (int64_t r = 0; r < t->parts * t->rows; r++)
        for (int64_t j = 0; j < s->n; j++)
            t->fitted[r * t->k + (int64_t)s->at[j]] = s->w[r * t->k + j];
}

static struct trace open_trace(const struct pare_obs_trace *t, double *room)
{
    const int64_t k = t->k, rows = t->parts * t->rows;
    struct trace s = { .t = t, .n = k, .h = room };

    s.w = s.h + t->parts * k * k;
    s.column = s.w + rows * k;
    s.at = s.column + t->parts * k;
    s.lost = s.at + k;
    memcpy(s.h, t->inverse, (size_t)(t->parts * k * k) * sizeof(*room));
    memcpy(s.w, t->w, (size_t)(rows * k) * sizeof(*room));
    memset(s.lost, 0, (size_t)k * sizeof(*room));
    for (int64_t j = 0; j < k; j++) {
        s.at[j] = (double)j;
        t->cost[j] = (double)INFINITY;
    }
    return s;
}

void pare_obs_trace(const struct pare_obs_trace *t, double *room)
{
    struct trace s = open_trace(t, room);
    double last = 0;

    for (int64_t i = 0; i < t->k && (t->steps < 0 || i < t->steps); i++) {
        double cost = 0;
        int64_t j = cheapest(&s, &cost);

        if (j < 0)
            break;
        if (t->group)
            s.lost[t->group[(int64_t)s.at[j]] - t->first]++;
        last = cost > last * NEXT ? cost : last * NEXT;
        t->cost[(int64_t)s.at[j]] = last;
        for (int64_t p = 0; p < t->parts; p++)
            remove_column(&s, p, j);
        swap(s.at, j, s.n - 1);
        s.n--;
    }
    if (t->fitted)
        put_rows(&s);
}
