/* scaled_mat_mul.c - int8 matrix products with a float32 result, of com.microsoft. */
#include "scaled_mat_mul.h"

static const struct pare_tensor *input(const struct pare_node *n, int i)
{
    return i >= 0 && i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
}

/* One number, or one for each column of B. */
static int check_list(const struct pare_node *n, const struct pare_scaled_mat_mul *s, int i,
                      bool scalar, const char *name, struct pare_err *err)
{
    const struct pare_tensor *t = input(n, i), *b = input(n, s->b);
    int64_t columns = b->rank > 1 ? b->dim[b->rank - 1] : 1;
    char bt[PARE_SHAPE_TEXT];

    if (!t || (scalar && pare_numel(t) == 1) || (t->rank == 1 && t->dim[0] == columns))
        return 0;
    return pare_fail(err, PARE_ESHAPE, "%s is %s, expected %sa list for the %lld columns of B",
                     name, pare_shape_text(t, bt, sizeof(bt)), scalar ? "one number or " : "",
                     (long long)columns);
}

int pare_scaled_mat_mul_infer(struct pare_node *n, const struct pare_scaled_mat_mul *s,
                              struct pare_err *err)
{
    PARE_TRY(pare_quant_type(input(n, s->b), "B", PARE_T(PARE_U8) | PARE_T(PARE_I8), err));
    PARE_TRY(check_list(n, s, s->b_scale, true, "the scale of B", err));
    PARE_TRY(check_list(n, s, s->b_zero, true, "the zero point of B", err));
    PARE_TRY(check_list(n, s, s->bias, false, "the bias", err));
    n->out[0]->t.dtype = PARE_F32;
    return pare_matmul_shape(&n->out[0]->t, &n->in[0]->t, input(n, s->b), err);
}

int pare_scaled_mat_mul_run(struct pare_node *n, const struct pare_scaled_mat_mul *s,
                            struct pare_ctx *c, const struct pare_tensor *a,
                            const struct pare_tensor *zero, float scale, struct pare_err *err)
{
    const struct pare_tensor *bs = input(n, s->b_scale), *bias = input(n, s->bias);
    struct pare_tensor left, right, bz, sum = n->out[0]->t;
    int64_t columns = input(n, s->b)->rank > 1 ? sum.dim[sum.rank - 1] : 1;
    float *y = pare_f32_mut(&n->out[0]->t);

    if (input(n, s->b_zero))
        PARE_TRY(pare_quant_view(&bz, input(n, s->b_zero), input(n, s->b), -1, err));
    PARE_TRY(pare_quant_centered(c, a, zero, &left, err));
    PARE_TRY(pare_quant_centered(c, input(n, s->b), input(n, s->b_zero) ? &bz : NULL, &right, err));
    sum.dtype = PARE_I32;
    PARE_TRY(pare_tensor_alloc(c->scratch, &sum, err));
    pare_matmul_run(&left, &right, &sum);
    for (int64_t i = 0; i < pare_numel(&sum); i++) {
        int64_t k = i % columns;

        y[i] = (float)((const int32_t *)sum.data)[i] * scale *
                   pare_f32(bs)[pare_numel(bs) == 1 ? 0 : k] +
               (bias ? pare_f32(bias)[k] : 0);
    }
    return 0;
}

void pare_scaled_mat_mul_ties(const struct pare_node *n, const struct pare_scaled_mat_mul *s,
                              struct pare_ties *t)
{
    const int list[] = { s->b_scale, s->b_zero, s->bias };
    const struct pare_value *b = n->in[s->b], *y = n->out[0];

    if (b->t.rank < 2)
        return;
    pare_tie(t, b, b->t.rank - 1, y, y->t.rank - 1);
    for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
        if (input(n, list[i]) && pare_numel(input(n, list[i])) > 1)
            pare_tie(t, n->in[list[i]], 0, y, y->t.rank - 1);
}
