/* pattern_pointwise.c - nodes that compute a function of one value, compared with an operator at
 * sample points.
 *
 * From the last node backward, the operand that was computed last is replaced by what it was
 * computed from, until a single value remains.  x (1 + erf(x / sqrt 2)) / 2 is found in any order
 * of its factors, with any spelling of the constants.
 */
#include <math.h>
#include <string.h>

#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "pattern.h"

#define POINTS 33 /* from -8 to 8, among them 1 */
#define ONE 18    /* index of 1 */
#define TOLERANCE 2e-5f
#define LEAVES 4

struct region {
    struct pare_found *f;
    struct pare_value *leaf[LEAVES]; /* values that the function reads, except constant scalars */
    int n;
};

/* Can the node be evaluated element by element? */
static bool is_pointwise(const struct pare_node *n)
{
    double x;

    if (!n || !n->op || n->n_cap || n->n_out < 1 || !n->out[0] || n->out[0]->t.dtype != PARE_F32)
        return false;
    if (n->op->map2)
        return n->n_in == 2 && n->in[0] && n->in[1] && n->version >= 7 && !n->op->domain;
    for (int i = 1; i < n->n_in && n->op->map; i++)
        if (n->in[i] && !pare_value_scalar(n->in[i], &x))
            return false;
    return n->op->map && n->n_in && n->in[0] && n->in[0]->t.dtype == PARE_F32;
}

static bool add_leaf(struct region *r, struct pare_value *v)
{
    double x;

    if (pare_value_scalar(v, &x))
        return true;
    for (int i = 0; i < r->n; i++)
        if (r->leaf[i] == v)
            return true;
    if (r->n == LEAVES)
        return false;
    r->leaf[r->n++] = v;
    return true;
}

static bool add_operands(struct region *r, const struct pare_node *n)
{
    bool good = true;

    for (int i = 0; i < (n->op->map2 ? 2 : 1); i++)
        good &= add_leaf(r, n->in[i]);
    return good;
}

/* Replace the leaf that was computed last by what it was computed from. */
static bool expand(struct region *r)
{
    struct pare_node *n = NULL;
    int at = -1;

    for (int i = 0; i < r->n; i++) {
        struct pare_node *m = r->leaf[i]->flags & PARE_V_CONST ? NULL : r->leaf[i]->maker;

        if (m && (!n || m->id > n->id)) {
            n = m;
            at = i;
        }
    }
    if (!n || !is_pointwise(n) || !pare_found_add(r->f, n))
        return false;
    r->leaf[at] = r->leaf[--r->n];
    return add_operands(r, n);
}

/* ---- comparing ----------------------------------------------------------------------------- */

static float point(int i)
{
    return -8 + 0.5f * (float)i;
}

/* The results of a node of the region: y[k] is that of f->node[k]. */
static void evaluate(const struct region *r, const struct pare_node *n, const float *x,
                     float (*y)[POINTS], int k)
{
    const float *operand[2] = { x, x };
    float scalar[2];
    int stride[2] = { 1, 1 };

    for (int i = 0; i < (n->op->map2 ? 2 : 1); i++) {
        double c;

        for (int j = 0; j < r->f->n; j++)
            if (r->f->node[j]->out[0] == n->in[i])
                operand[i] = y[j];
        if (pare_value_scalar(n->in[i], &c)) {
            scalar[i] = (float)c;
            operand[i] = &scalar[i];
            stride[i] = 0;
        }
    }
    if (n->op->map2)
        n->op->map2(n, operand[0], stride[0], operand[1], stride[1], y[k], POINTS);
    else
        n->op->map(n, operand[0], y[k], POINTS);
}

/* In the order of the graph, so that operands are there. */
static void evaluate_all(const struct region *r, const float *x, float (*y)[POINTS])
{
    int last = -1;

    for (int done = 0; done < r->f->n; done++) {
        int next = -1;

        for (int k = 0; k < r->f->n; k++)
            if (r->f->node[k]->id > last && (next < 0 || r->f->node[k]->id < r->f->node[next]->id))
                next = k;
        if (next < 0)
            return;
        last = r->f->node[next]->id;
        evaluate(r, r->f->node[next], x, y, next);
    }
}

static bool computes_same(const struct region *r)
{
    const struct pare_pattern *p = r->f->pattern;
    float x[POINTS], y[PARE_PATTERN_NODES][POINTS], want[POINTS];
    double attr[8] = { 0 };
    struct pare_node n = { .op = p->op, .version = p->version, .attr = attr, .n_in = 1 };
    struct pare_err err;

    for (int i = 0; i < POINTS; i++)
        x[i] = point(i);
    evaluate_all(r, x, y);
    r->f->setting = p->setting;
    if (p->fit)
        r->f->setting.num = p->fit((double)y[0][ONE]);
    if (p->op->attr_size > sizeof(attr) ||
        (p->op->attrs &&
         pare_opts_apply(p->op->attrs, &r->f->setting, p->setting.name != NULL, attr, NULL, &err)))
        return false;
    p->op->map(&n, x, want, POINTS);
    for (int i = 0; i < POINTS; i++)
        if (!(fabsf(y[0][i] - want[i]) <= TOLERANCE * (1 + fabsf(want[i]))))
            return false;
    return true;
}

bool pare_found_pointwise(struct pare_found *f, struct pare_node *last)
{
    struct region r = { .f = f };

    if (!last->op->map2 || !is_pointwise(last) || !add_operands(&r, last))
        return false;
    while (expand(&r))
        if (r.n == 1 && r.leaf[0]->t.dtype == PARE_F32 && computes_same(&r)) {
            f->x = r.leaf[0];
            return true;
        }
    return false;
}
