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

/* The slope is the product of the other elements: aux[1], the product of all nonzero elements, over
 * x.  If one element is zero only that one has a slope; if two are (aux[0] counts them), none has.
 */
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

PARE_REDUCE_CALLS

const struct pare_op pare_op_reduce_prod = {
    PARE_REDUCE_OP("ReduceProd", "Product over axes."),
    .types = PARE_T_REDUCE,
    .ties = pare_reduce_ties,
    .flags = PARE_OP_WIDE,
};
