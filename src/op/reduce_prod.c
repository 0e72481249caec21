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

const struct pare_op pare_op_reduce_prod = {
    .abi = PARE_ABI,
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
    .ties = pare_reduce_ties,
};
