/* reduce_prod.c - ReduceProd: y = product of x over axes. */
#include "reduce_family.h"

PARE_FOLD(fold, double, PARE_FOLD_SELF, PARE_FOLD_MUL)
PARE_FOLD(fold_int, int64_t, PARE_FOLD_SELF, PARE_FOLD_MUL_INT)

static const struct pare_reduction reduction = {
    .start = 1,
    .start_int = 1,
    .fold = fold,
    .fold_int = fold_int,
};

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_forward(n, c, &reduction, err);
}

/* The slope is the product of the other elements: of all that are not zero, aux[1], over x; with
 * one zero only that has a slope, with two (aux[0] counts them) none has. */
static void gather(const struct pare_reduce_row *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        r->aux[0][i * r->step] += r->x[i] == 0;
        r->aux[1][i * r->step] *= r->x[i] == 0 ? 1 : (double)r->x[i];
    }
}

static void spread(const struct pare_reduce_row *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        double zeros = r->aux[0][i * r->step], others = r->aux[1][i * r->step];
        bool zero = r->x[i] == 0;

        if (zeros - (double)zero > 0)
            continue;
        r->gx[i] += r->gy[i * r->step] * (float)(zero ? others : others / (double)r->x[i]);
    }
}

static const struct pare_reduce_slope slope = { .spread = spread,
                                                .gather = gather,
                                                .start = { 0, 1 } };

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_backward(n, c, &slope, err);
}

const struct pare_op pare_op_reduce_prod = {
    .type = "ReduceProd",
    .doc = "Product over axes.",
    .since = 1,
    .in = "TL?",
    .types = PARE_T_REDUCE,
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_reduce_attrs,
    .attr_size = sizeof(struct pare_reduce),
    .infer = pare_reduce_infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_reduce_ties,
};
