/* trilu.c - Trilu: the part of matrices above or below a diagonal, the rest zero. */
#include "movement.h"

struct trilu {
    int64_t upper;
};

static const struct pare_opt trilu_attrs[] = {
    { "upper", "keep what is above the diagonal, not what is below", PARE_OPT_INT,
      offsetof(struct trilu, upper), 1, PARE_ANY, NULL, NULL, false },
    PARE_OPT_END
};

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

/* Row r keeps columns from r + k on, or those up to and with r + k. */
static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct trilu *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *given = pare_given(n, 1);
    int64_t rows = x->dim[x->rank - 2], cols = x->dim[x->rank - 1];
    int64_t k = given ? pare_get_int(given, 0) : 0, total = pare_span(x, 0, x->rank - 1);
    size_t size = pare_dtype_size(x->dtype);

    (void)c, (void)err;
    if (pare_is_empty(x))
        return 0;
    k = k < -rows ? -rows : k > cols ? cols : k;
    for (int64_t i = 0; i < total; i++) {
        int64_t cut = i % rows + k + (a->upper ? 0 : 1);
        size_t left, all = (size_t)cols * size;
        const char *src = (const char *)x->data + (size_t)i * all;
        char *dst = (char *)n->out[0]->t.data + (size_t)i * all;

        left = (size_t)(cut < 0 ? 0 : cut > cols ? cols : cut) * size;
        memcpy(dst, src, all);
        memset(a->upper ? dst : dst + left, 0, a->upper ? left : all - left);
    }
    return 0;
}

const struct pare_op pare_op_trilu = {
    .abi = PARE_ABI,
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
};
