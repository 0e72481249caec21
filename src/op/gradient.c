/* gradient.c - backward() functions shared by many operators. */
#include "math/elementwise.h"

int pare_backward_map(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_value *x = n->in[0], *y = n->out[0];

    (void)c, (void)err;
    if (x->grad.data && y->grad.data)
        n->op->dmap(n, pare_f32(&x->t), pare_f32(&y->t), pare_f32(&y->grad), pare_f32_mut(&x->grad),
                    pare_numel(&x->t));
    return 0;
}

int pare_backward_copy(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);

    (void)c, (void)err;
    if (gx && gy)
        pare_add_row(gx, 1, gy, pare_numel(&n->in[0]->t));
    return 0;
}

int pare_backward_zero(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)n, (void)c, (void)err;
    return 0;
}

/* ---- broadcasting ------------------------------------------------------------------------- */

PARE_SIMD void pare_add_row(float *grad, int step, const float *row, int64_t len)
{
    double sum = 0;

    if (step) {
#pragma omp simd
        for (int64_t i = 0; i < len; i++)
            grad[i] += row[i];
    } else {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < len; i++)
            sum += (double)row[i];
        grad[0] += (float)sum;
    }
}

void pare_unspread(const struct pare_tensor *x, const struct pare_tensor *y)
{
    struct pare_rows r;

    pare_rows_start(&r, y, &x, 1);
    for (int64_t i = 0; i < r.n; i++, pare_walk_next(&r.w))
        pare_add_row(pare_f32_mut(x) + r.w.at[0], r.step[0], pare_f32(y) + i * r.len, r.len);
}

#define PIECE 512 /* a row's gradients, in pieces that fit the cache */

void pare_apply_dmap2(const struct pare_node *n, const struct pare_tensor *const *in)
{
    const float *a = pare_f32(in[0]), *b = pare_f32(in[1]), *gy = pare_f32(&n->out[0]->grad);
    float *ga = pare_f32_mut(&n->in[0]->grad), *gb = pare_f32_mut(&n->in[1]->grad);
    float for_a[PIECE], for_b[PIECE];
    struct pare_rows r;

    if (!gy || (!ga && !gb))
        return;
    pare_rows_start(&r, &n->out[0]->t, in, 2);
    for (int64_t i = 0; i < r.n; i++, pare_walk_next(&r.w))
        for (int64_t k = 0; k < r.len; k += PIECE) {
            int64_t len = r.len - k < PIECE ? r.len - k : PIECE;
            int64_t at = r.w.at[0] + k * r.step[0], bt = r.w.at[1] + k * r.step[1];

            n->op->dmap2(n, a + at, r.step[0], b + bt, r.step[1], gy + i * r.len + k,
                         ga ? for_a : NULL, gb ? for_b : NULL, len);
            if (ga)
                pare_add_row(ga + at, r.step[0], for_a, len);
            if (gb)
                pare_add_row(gb + bt, r.step[1], for_b, len);
        }
}

int pare_backward_map2(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *in[2] = { &n->in[0]->t, &n->in[1]->t };

    (void)c, (void)err;
    pare_apply_dmap2(n, in);
    return 0;
}

int pare_backward_sum(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    for (int k = 0; n->out[0]->grad.data && k < n->n_in; k++)
        if (n->in[k] && n->in[k]->grad.data)
            pare_unspread(&n->in[k]->grad, &n->out[0]->grad);
    return 0;
}

/* ---- choices ------------------------------------------------------------------------------ */

int pare_backward_choice(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *y = pare_f32(&n->out[0]->t), *gy = pare_f32(&n->out[0]->grad);
    int64_t total = pare_numel(&n->out[0]->t);
    float *alike;
    struct pare_walk w;

    if (!gy)
        return 0;
    if (n->n_in == 2 && n->in[1])
        return pare_backward_map2(n, c, err);
    alike = pare_alloc(c->scratch, (size_t)total, sizeof(*alike));
    if (!alike)
        return pare_no_memory(err, "for the shares of %lld gradients", (long long)total);
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < n->n_in; k++) {
            const struct pare_tensor *x = n->in[k] ? &n->in[k]->t : NULL;
            float *gx = x ? pare_f32_mut(&n->in[k]->grad) : NULL;

            if (!x || (pass && !gx))
                continue;
            pare_walk_start(&w, &n->out[0]->t, &x, 1);
            for (int64_t i = 0; i < total; i++, pare_walk_next(&w))
                if (pare_f32(x)[w.at[0]] == y[i]) {
                    if (pass)
                        gx[w.at[0]] += gy[i] / alike[i];
                    else
                        alike[i]++;
                }
        }
    return 0;
}
