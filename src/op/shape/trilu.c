/* trilu.c - Trilu: the upper or lower triangle of matrices, zeros elsewhere. */
#include "movement.h"

struct trilu {
    int64_t upper;
};

static const struct pare_opt trilu_attrs[] = { PARE_INT("upper", offsetof(struct trilu, upper),
                                                        "1: keep the upper triangle, 0: the lower",
                                                        1, PARE_NO_MIN, PARE_NO_MAX),
                                               PARE_OPT_END };

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *k = pare_given(n, 1);

    if (x->rank < 2 || x->dtype == PARE_STR)
        return pare_fail(err, PARE_ESHAPE,
                         "matrices of numbers are expected, found %s of %d "
                         "dimensions",
                         pare_dtype_name(x->dtype), x->rank);
    if (k && pare_numel(k) != 1)
        return pare_fail(err, PARE_ESHAPE, "k must be one number, found %lld",
                         (long long)pare_numel(k));
    return pare_infer_same(n, err);
}

/* Row r keeps the columns from r + k on, or those up to r + k inclusive. */
static int move_trilu(const struct pare_node *n, const struct pare_flow *f,
                      struct pare_arena *scratch, struct pare_err *err)
{
    const struct trilu *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *given = pare_given(n, 1);
    int64_t rows = x->dim[x->rank - 2], cols = x->dim[x->rank - 1];
    int64_t k = given ? pare_get_int(given, 0) : 0, total = pare_span(x, 0, x->rank - 1);

    (void)scratch, (void)err;
    k = k < -rows ? -rows : k > cols ? cols : k;
    for (int64_t i = 0; i < total; i++) {
        int64_t cut = i % rows + k + (a->upper ? 0 : 1);
        int64_t left = cut < 0 ? 0 : cut > cols ? cols : cut, first = a->upper ? left : 0;

        if (!f->gx)
            memset(f->y + (size_t)(i * cols) * f->size, 0, (size_t)cols * f->size);
        pare_flow_run(f, i * cols + first, i * cols + first, a->upper ? cols - left : left);
    }
    return 0;
}

PARE_BOTH_PASSES(move_trilu)

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_ties_except(n, 3u << (n->in[0]->t.rank - 2), t);
}

const struct pare_op pare_op_trilu = {
    .type = "Trilu",
    .doc = "The upper or lower triangle of matrices.",
    .since = 14,
    .in = "AL?",
    .min_out = 1,
    .max_out = 1,
    .attrs = trilu_attrs,
    .attr_size = sizeof(struct trilu),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};
