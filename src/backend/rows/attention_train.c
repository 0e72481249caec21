/* attention_train.c - training of attention, from the joint QKV projection to the heads' results.
 *
 *     S = scale Q K'     P = softmax(S)     O = P V          for each image and head, (T, D) each
 *     dV = P' dO     dP = dO V'     dS = scale P (dP - sum of P dP)     dQ = dS K     dK = dS' Q
 *
 * Q, K and V are columns of one matrix (N T, 3 H D), O is columns of (N T, H D): the graph's Split,
 * Reshapes and Transposes only determine which.  Only P is saved for the backward pass.
 */
#include <math.h>
#include <omp.h>

#include "attention_core.h"
#include "../gemm/gemm_packed.h"

#include "../backend.h"

#include "../../base/simd.h"
#include "../../op/math/constant_factor.h"
#include "../../op/matrix/attention_parts.h"
#include "../../op/shape/movement.h"

#define MOST_NODES 20
#define NARROW PARE_ATTENTION_NARROW

struct attention {
    int64_t N, T, H, D;
    int64_t tokens; /* T, padded to NARROW */
    float scale;
    int block; /* of columns that are elements of a head */
    float *p;  /* (N, H, T, tokens) */
};

/* ---- match ------------------------------------------------------------------------------- */

/* The matched nodes so far. */
struct found {
    const struct pare_match *v;
    struct pare_node *list[MOST_NODES];
    int n;
    double scale;
};

/* The only consumer of x, if it has that type. */
static struct pare_node *next_of_type(struct found *f, const struct pare_value *x,
                                      const struct pare_op *op)
{
    struct pare_node *n = pare_only_consumer(f->v, x);

    if (!pare_node_is(n, op) || n->n_out != 1 || f->n == MOST_NODES)
        return NULL;
    f->list[f->n++] = n;
    return n;
}

/* x multiplied or divided by constant scalars. */
static struct pare_value *skip_scales(struct found *f, struct pare_value *x)
{
    for (;;) {
        const struct pare_node *n = pare_only_consumer(f->v, x);
        double scale = f->scale;

        if (pare_constant_factor(n, &scale) != x || n->version < 7 || !next_of_type(f, x, n->op))
            return x;
        f->scale = scale;
        x = n->out[0];
    }
}

static bool permutes(const struct pare_node *n, int a, int b, int c, int d)
{
    int perm[PARE_MAX_RANK];

    if (n->in[0]->t.rank != 4)
        return false;
    pare_transpose_perm(n, perm);
    return perm[0] == a && perm[1] == b && perm[2] == c && perm[3] == d;
}

/* A part as (N, H, T, D), or with the last two exchanged. */
static struct pare_value *match_heads(struct found *f, struct pare_value *x, bool swapped,
                                      struct attention *a)
{
    const struct pare_node *n = next_of_type(f, x, &pare_op_reshape);
    const struct pare_tensor *t = n ? &n->out[0]->t : NULL;

    if (!t || t->rank != 4 ||
        (a->N &&
         (t->dim[0] != a->N || t->dim[1] != a->T || t->dim[2] != a->H || t->dim[3] != a->D)))
        return NULL;
    a->N = t->dim[0];
    a->T = t->dim[1];
    a->H = t->dim[2];
    a->D = t->dim[3];
    n = next_of_type(f, n->out[0], &pare_op_transpose);
    if (!n || !permutes(n, 0, 2, swapped ? 3 : 1, swapped ? 1 : 3))
        return NULL;
    return skip_scales(f, n->out[0]);
}

static bool three_parts(const struct pare_node *n)
{
    const struct pare_tensor *x = n->n_in ? &n->in[0]->t : NULL;

    if (!x || !pare_node_is(n, &pare_op_split) || n->n_out != 3 || !pare_is_f32(n->in[0]) ||
        pare_is_fixed(n->in[0]) || x->rank < 2 || !pare_numel(x) ||
        pare_split_axis(n) != x->rank - 1)
        return false;
    for (int i = 0; i < 3; i++)
        if (!n->out[i] || pare_split_size(n, i) * 3 != x->dim[x->rank - 1])
            return false;
    return true;
}

/* Is it attention of these values, without a mask?  Adds its nodes. */
static bool match_parts(struct found *f, const struct pare_attention_parts *p,
                        const struct pare_value *const in[3])
{
    if (!p || p->n_masks || p->weights || p->dropout || p->scores->in[0] != in[0] ||
        p->scores->in[1] != in[1] || p->mix->in[1] != in[2] || p->n > MOST_NODES - f->n)
        return false;
    for (int i = 0; i < 3; i++)
        if (pare_only_consumer(f->v, in[i]) != (i < 2 ? p->scores : p->mix))
            return false;
    for (int i = p->n - 1; i >= 0; i--) {
        const struct pare_node *n = p->node[i];

        if (n->version < 7 || (i && pare_only_consumer(f->v, n->out[0]) != p->node[i - 1]))
            return false;
        f->list[f->n++] = p->node[i];
    }
    f->scale *= p->scale;
    return true;
}

/* Match from the Split n to the result; NULL: no match. */
static struct pare_value *match_pattern(struct found *f, struct pare_node *n, struct attention *a)
{
    struct pare_value *q = match_heads(f, n->out[0], false, a);
    struct pare_value *k = q ? match_heads(f, n->out[1], true, a) : NULL;
    double scale = f->scale;
    struct pare_value *z = k ? match_heads(f, n->out[2], false, a) : NULL;
    const struct pare_node *m = z && f->scale == scale ? pare_only_consumer(f->v, q) : NULL;
    const struct pare_attention_parts *p = m ? f->v->attention[m->id] : NULL;

    if (!match_parts(f, p, (const struct pare_value *const[]){ q, k, z }) ||
        !pare_node_is(p->scores, &pare_op_mat_mul) || !pare_node_is(p->mix, &pare_op_mat_mul))
        return NULL;
    m = next_of_type(f, p->mix->out[0], &pare_op_transpose);
    if (!m || !permutes(m, 0, 2, 1, 3))
        return NULL;
    m = next_of_type(f, m->out[0], &pare_op_reshape);
    return m ? m->out[0] : NULL;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* In floats, per thread: packed columns, one matrix of scores, one of a head. */
static size_t own_size(const struct attention *a)
{
    return (size_t)(round_up(a->tokens * round_up(a->D, 32), 16) + round_up(a->T * a->tokens, 16) +
                    round_up(a->T * a->D, 16));
}

static bool attention_train_match(const struct pare_match *v, struct pare_node *n,
                                  struct pare_step *s)
{
    struct found f = { .v = v, .scale = 1 };
    struct pare_value *out;
    struct attention *a;
    size_t work;

    if (!v->train || !three_parts(n))
        return false;
    a = pare_alloc(v->backend->arena, 1, sizeof(*a));
    out = a ? match_pattern(&f, n, a) : NULL;
    if (!out || a->D % 8 || out->t.rank < 2 || out->t.dim[out->t.rank - 1] != a->H * a->D ||
        n->in[0]->t.dim[n->in[0]->t.rank - 1] != 3 * a->H * a->D)
        return false;
    a->scale = (float)f.scale;
    a->tokens = round_up(a->T, NARROW);
    a->block = v->backend->block == 16 && a->D % 16 == 0 ? 16 : 8;
    a->p = pare_alloc_raw(v->backend->arena, (size_t)(a->N * a->H * a->T * a->tokens),
                          sizeof(*a->p));
    if (!a->p || !pare_step_lists(s, v, 1, 1, f.n))
        return false;
    memcpy(s->fused, f.list, (size_t)f.n * sizeof(*f.list));
    s->in[0] = n->in[0];
    s->out[0] = out;
    s->state = a;
    s->unsaved_out = ~0u;
    work = (size_t)v->backend->threads * own_size(a) * sizeof(float);
    s->work_bytes[0] = s->work_bytes[1] = work;
    return true;
}

/* ---- pieces ------------------------------------------------------------------------------ */

/* A matrix (T, D) or (T, tokens) with a row stride of `step`. */
struct rows {
    float *at;
    int64_t step;
};

static struct pare_attention_head head_of(const struct attention *a, const struct rows *x)
{
    return (struct pare_attention_head){ x->at, x->step, 1, a->T, a->D };
}

/* Pack rows of D elements as the right operand of a product over T. */
static void pack(const struct attention *a, const struct rows *x, float *to)
{
    struct pare_attention_head h = head_of(a, x);

    pare_attention_pack(&h, a->block, to);
}

/* Pack rows of D elements transposed: (D, tokens). */
static void pack_transposed(const struct attention *a, const struct rows *x, float *to)
{
    struct pare_attention_head h = head_of(a, x);

    pare_attention_pack_transposed(&h, to);
}

/* y (T, tokens) = x (T, D) w. */
static void to_tokens(const struct attention *a, struct rows x, const float *w, struct rows y)
{
    struct pare_packed_gemm p = pare_packed_gemm_matrix(a->T, a->D, a->tokens, NARROW);

    p.x = x.at;
    p.x_row = x.step;
    p.w = w;
    p.y = y.at;
    p.y_row = y.step;
    pare_packed_gemm_run(&p);
}

/* y (T, D) = x (T, T) w, or x transposed. */
static void to_head(const struct attention *a, struct rows x, bool transposed, const float *w,
                    struct rows y)
{
    struct pare_packed_gemm p = {
        .x = x.at,
        .w = w,
        .y = y.at,
        .rows = a->T,
        .blocks = a->D / a->block,
        .runs = transposed ? a->T : 1,
        .run = transposed ? 1 : a->T,
        .x_row = transposed ? 1 : x.step,
        .x_run = x.step,
        .y_row = y.step,
        .y_block = a->block,
        .block = a->block,
    };

    pare_packed_gemm_run(&p);
}

/* scale p (g - sum of p g), in g. */
PARE_SIMD static void softmax_backward(const float *p, float *g, int64_t n, float scale)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += p[i] * g[i];
    for (int64_t i = 0; i < n; i++)
        g[i] = scale * p[i] * (g[i] - sum);
}

/* Add to the gradient; with `first` it has been assigned already. */
static void add_rows(const struct attention *a, bool first, const struct rows *x,
                     const struct rows *to)
{
    for (int64_t t = 0; t < a->T && !first; t++)
        for (int64_t d = 0; d < a->D; d++)
            to->at[t * to->step + d] += x->at[t * x->step + d];
}

/* ---- run --------------------------------------------------------------------------------- */

/* The rows of Q, K or V (part 0, 1 or 2) of image and head i. */
static struct rows part_rows(const struct attention *a, float *x, int64_t i, int64_t which)
{
    int64_t step = 3 * a->H * a->D;

    return (struct rows){ x + i / a->H * a->T * step + (which * a->H + i % a->H) * a->D, step };
}

static struct rows result_rows(const struct attention *a, float *y, int64_t i)
{
    int64_t step = a->H * a->D;

    return (struct rows){ y + i / a->H * a->T * step + i % a->H * a->D, step };
}

static struct rows weights(const struct attention *a, int64_t i)
{
    return (struct rows){ a->p + i * a->T * a->tokens, a->tokens };
}

static int attention_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct attention *a = s->state;
    float *x = pare_f32_mut(&s->in_buf[0]->t), *y = pare_f32_mut(&s->out_buf[0]->t);
    float *work = pare_f32_mut(&s->work[0]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < a->N * a->H; i++) {
        float *columns = work + (size_t)omp_get_thread_num() * own_size(a);
        struct rows k = part_rows(a, x, i, 1), z = part_rows(a, x, i, 2), p = weights(a, i);

        pack_transposed(a, &k, columns);
        to_tokens(a, part_rows(a, x, i, 0), columns, p);
        for (int64_t t = 0; t < a->T; t++)
            pare_attention_softmax(p.at + t * p.step, a->T, a->scale);
        pack(a, &z, columns);
        to_head(a, p, false, columns, result_rows(a, y, i));
    }
    return 0;
}

static void head_backward(const struct attention *a, struct pare_step *s, int64_t i, float *columns)
{
    float *x = pare_f32_mut(&s->in_buf[0]->t), *gx = pare_f32_mut(&s->in_buf[0]->grad->t);
    struct rows q = part_rows(a, x, i, 0), k = part_rows(a, x, i, 1), z = part_rows(a, x, i, 2);
    struct rows p = weights(a, i), gy = result_rows(a, pare_f32_mut(&s->out_buf[0]->grad->t), i);
    struct rows g = { columns + round_up(a->tokens * round_up(a->D, 32), 16), a->tokens };
    struct rows one = { g.at + round_up(a->T * a->tokens, 16), a->D }, to[3];

    for (int j = 0; j < 3; j++)
        to[j] = part_rows(a, gx, i, j);
    pack(a, &gy, columns);
    to_head(a, p, true, columns, s->grad_assign[0] ? to[2] : one);
    add_rows(a, s->grad_assign[0], &one, &to[2]);
    pack_transposed(a, &z, columns);
    to_tokens(a, gy, columns, g);
    for (int64_t t = 0; t < a->T; t++)
        softmax_backward(p.at + t * p.step, g.at + t * g.step, a->T, a->scale);
    pack(a, &k, columns);
    to_head(a, g, false, columns, s->grad_assign[0] ? to[0] : one);
    add_rows(a, s->grad_assign[0], &one, &to[0]);
    pack(a, &q, columns);
    to_head(a, g, true, columns, s->grad_assign[0] ? to[1] : one);
    add_rows(a, s->grad_assign[0], &one, &to[1]);
}

static int attention_train_backward(struct pare_step *s, struct pare_backend *b,
                                    struct pare_err *err)
{
    const struct attention *a = s->state;
    float *work = pare_f32_mut(&s->work[1]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < a->N * a->H; i++)
        head_backward(a, s, i, work + (size_t)omp_get_thread_num() * own_size(a));
    return 0;
}

const struct pare_kernel pare_kernel_attention_train = {
    .name = "attention_train",
    .doc = "Training of attention, from the joint QKV projection on.",
    .match = attention_train_match,
    .run = attention_train_run,
    .backward = attention_train_backward,
};
