/* attention.c - fused attention: softmax(scale Q K' + masks) V per image and head.
 *
 * Exporters write Slices or a Split, Reshapes and Transposes around both products.  They only
 * determine where the rows of Q, K, V and of the result are in memory (view_trace.h): nothing is
 * copied except into packed GEMM panels.  Each thread computes some rows of a head's scores at a
 * time.
 */
#include <math.h>
#include "attention_core.h"
#include "attention_mask.h"
#include "../gemm/gemm_packed.h"
#include "../fuse/view_trace.h"

#include "../../op/math/constant_factor.h"
#include "../../op/op.h"
#include "../../base/team.h"

#define NARROW PARE_ATTENTION_NARROW
#define GROUP 96 /* rows of scores at a time, about */

enum { Q, K, V, OPERANDS };

struct attention {
    int64_t B, T, S, D, E; /* matrices, queries, keys; elements of a key, of a value */
    int64_t tokens;        /* S, padded */
    int64_t parts;         /* of a head's rows, so that all threads have work */
    int block;             /* for columns that are elements of a value */
    float scale;
    int in[OPERANDS]; /* indices of the step's inputs */
    int64_t step[OPERANDS], element_stride[OPERANDS], *place[OPERANDS];
    int64_t y_step, *y_place;
    struct pare_attention_mask mask[PARE_ATTENTION_MASKS];
    int n_masks;
    int mask_in[PARE_ATTENTION_MASKS]; /* indices of the step's inputs */
};

/* ---- match ------------------------------------------------------------------------------- */

struct found {
    const struct pare_match *v;
    const struct pare_attention_parts *parts;
    struct pare_value *out;
    struct pare_view_trace from[OPERANDS], mask_from[PARE_ATTENTION_MASKS], to;
    struct pare_view_trace_nodes nodes;
};

/* Elements may be moved, which pare_trace() examines, or multiplied by a constant. */
static bool is_movement(const struct pare_node *n)
{
    return n && n->op && n->op->flags & (PARE_OP_VIEW | PARE_OP_COPIES);
}

static bool is_scaling(const struct pare_node *n)
{
    double by = 1;

    return pare_constant_factor(n, &by) != NULL;
}

static bool is_product(const struct pare_node *n)
{
    return pare_node_is(n, &pare_op_mat_mul) && pare_is_f32(n->in[0]) && pare_is_f32(n->in[1]) &&
           n->in[0]->t.rank > 2 && n->in[0]->t.rank == n->in[1]->t.rank &&
           pare_numel(&n->out[0]->t) && pare_numel(&n->in[0]->t);
}

/* From n, which moves or scales an operand, to the product Q K', or the one with V. */
static struct pare_node *next_product(const struct pare_match *v, struct pare_node *n)
{
    for (int i = 0; i < 8 && n; i++) {
        if (is_product(n))
            return n;
        if (!is_movement(n) && !is_scaling(n))
            return NULL;
        n = n->out[0] ? pare_only_consumer(v, n->out[0]) : NULL;
    }
    return NULL;
}

/* Is n on the path of Q or K to the first product, or of V to the second? */
static bool find_parts(struct found *f, struct pare_node *n)
{
    const struct pare_node *m = next_product(f->v, n);
    const struct pare_attention_parts *p = m ? f->v->attention[m->id] : NULL;

    f->parts = p;
    if (!p || (m != p->scores && m != p->mix) || p->weights || !is_product(p->scores) ||
        !is_product(p->mix))
        return false;
    for (int i = 0; i < p->n_masks; i++)
        if (p->mask[i].factor != 1)
            return false;
    for (int i = 0; i < p->n; i++)
        if (!pare_view_trace_add(&f->nodes, p->node[i]))
            return false;
    return true;
}

/* Are all consumers of the fused nodes' results fused, too, and is none in another step? */
static bool is_closed(const struct found *f)
{
    for (int i = 0; i < f->nodes.n; i++) {
        const struct pare_node *n = f->nodes.list[i];

        if (f->v->claimed[n->id])
            return false;
        for (int k = 0; k < n->n_out; k++) {
            const struct pare_consumers *u = n->out[k] ? &f->v->consumers[n->out[k]->id] : NULL;
            int inside = 0;

            for (int j = 0; u && n->out[k] != f->out && j < f->nodes.n; j++)
                for (int x = 0; x < f->nodes.list[j]->n_in; x++)
                    inside += f->nodes.list[j]->in[x] == n->out[k];
            if (u && n->out[k] != f->out && (inside != u->n || n->out[k]->flags & PARE_V_OUTPUT))
                return false;
        }
    }
    return true;
}

/* The result's rows and matrices; its elements must be contiguous. */
static bool read_out(const struct found *f, struct attention *a)
{
    const struct pare_view_trace *t = &f->to;
    int64_t left = a->B * a->T * a->E;

    for (int i = 0; i < t->n; i++) {
        int64_t size = t->dim[i].size, stride = t->dim[i].stride;

        left /= size;
        if (stride < a->E && (stride != 1 || size != a->E || t->dim[i].own != 1))
            return false;
        if (stride >= a->E && stride < a->E * a->T) {
            if (stride != a->E || size != a->T)
                return false;
            a->y_step = t->dim[i].own;
        }
    }
    for (int64_t k = 0; k < a->B; k++) {
        a->y_place[k] = 0;
        for (int i = 0; i < t->n; i++)
            if (t->dim[i].stride >= a->E * a->T)
                a->y_place[k] += k * (a->E * a->T) / t->dim[i].stride % t->dim[i].size *
                                 t->dim[i].own;
    }
    return left == 1 && !t->offset;
}

/* Follow nodes after the second product as long as they only move elements. */
static bool find_out(struct found *f, struct attention *a)
{
    struct pare_value *end[8];
    int n = 0;

    end[n++] = f->parts->mix->out[0];
    while (n < 8) {
        const struct pare_node *m = pare_only_consumer(f->v, end[n - 1]);

        if (!is_movement(m))
            break;
        end[n++] = m->out[0];
    }
    while (n--) {
        struct pare_view_trace_nodes nodes = f->nodes;

        f->out = end[n];
        if (pare_trace(f->v, f->out, f->parts->mix->out[0], false, &f->to, &f->nodes) &&
            read_out(f, a))
            return true;
        f->nodes = nodes;
    }
    return false;
}

static bool read_operands(const struct found *f, struct pare_arena *arena, struct attention *a)
{
    const int rank = f->parts->scores->in[0]->t.rank;

    for (int k = 0; k < OPERANDS; k++) {
        bool transposed = k == K; /* as the first product reads it: (elements, tokens) */

        a->step[k] = pare_view_trace_stride(&f->from[k], rank - (transposed ? 1 : 2));
        a->element_stride[k] = pare_view_trace_stride(&f->from[k], rank - (transposed ? 2 : 1));
        a->place[k] = pare_alloc(arena, (size_t)a->B, sizeof(int64_t));
        if (a->step[k] < 0 || a->element_stride[k] < 0 || !a->place[k])
            return false;
        pare_view_trace_offsets(&f->from[k], rank - 2, a->B, a->place[k]);
    }
    a->y_place = pare_alloc(arena, (size_t)a->B, sizeof(int64_t));
    return a->y_place != NULL;
}

static bool read_sizes(const struct found *f, int threads, struct attention *a)
{
    const struct pare_tensor *q = &f->parts->scores->in[0]->t, *k = &f->parts->scores->in[1]->t;
    const struct pare_tensor *v = &f->parts->mix->in[1]->t;
    const int rank = q->rank;

    if (v->rank != rank)
        return false;
    a->B = 1;
    for (int i = 0; i < rank - 2; i++) {
        if (k->dim[i] != q->dim[i] || v->dim[i] != q->dim[i])
            return false;
        a->B *= q->dim[i];
    }
    a->T = q->dim[rank - 2];
    a->D = q->dim[rank - 1];
    a->S = k->dim[rank - 1];
    a->E = v->dim[rank - 1];
    a->tokens = (a->S + NARROW - 1) / NARROW * NARROW;
    a->parts = a->B % threads ? threads : 1;
    a->parts = a->parts < a->T ? a->parts : a->T;
    return a->D % 8 == 0 && a->E % 8 == 0 && a->T > 1 &&
           pare_numel(&f->parts->softmax->out[0]->t) == a->B * a->T * a->S &&
           pare_numel(&f->parts->mix->out[0]->t) == a->B * a->T * a->E;
}

static int64_t round_up(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* In floats, per thread: packed keys and values, some rows of queries and of scores. */
static size_t own_size(const struct attention *a)
{
    int64_t panels = a->tokens * round_up(a->D > a->E ? a->D : a->E);

    return (size_t)(2 * panels + GROUP * round_up(a->D) + GROUP * round_up(a->tokens));
}

static bool attention_fill_step(const struct found *f, struct attention *a, struct pare_step *s)
{
    if (!pare_step_lists(s, f->v, OPERANDS + a->n_masks, 1, f->nodes.n - 1))
        return false;
    s->n_in = 0;
    for (int k = 0; k < OPERANDS; k++) {
        for (a->in[k] = 0; a->in[k] < s->n_in && s->in[a->in[k]] != f->from[k].base;)
            a->in[k]++;
        if (a->in[k] == s->n_in)
            s->in[s->n_in++] = f->from[k].base;
    }
    for (int k = 0; k < a->n_masks; k++) {
        a->mask_in[k] = s->n_in;
        s->in[s->n_in++] = f->mask_from[k].base;
    }
    for (int i = 1; i < f->nodes.n; i++)
        s->fused[i - 1] = f->nodes.list[i];
    s->out[0] = f->out;
    s->state = a;
    s->work_bytes[0] = (size_t)f->v->backend->threads * own_size(a) * sizeof(float);
    return true;
}

static void inputs_in_order(struct pare_view_trace_nodes *nodes)
{
    for (int i = 1; i < nodes->n; i++)
        for (int k = i; k && nodes->list[k]->id < nodes->list[k - 1]->id; k--) {
            struct pare_node *n = nodes->list[k];

            nodes->list[k] = nodes->list[k - 1];
            nodes->list[k - 1] = n;
        }
}

static bool read_masks(struct found *f, struct pare_arena *arena, struct attention *a)
{
    for (int k = 0; k < f->parts->n_masks; k++) {
        const struct pare_attention_masking *m = &f->parts->mask[k];

        a->mask[k].kind = m->kind;
        a->mask[k].fill = m->fill;
        if (!pare_trace(f->v, m->mask, NULL, false, &f->mask_from[k], &f->nodes) ||
            !pare_attention_mask_read(&f->mask_from[k], &m->mask->t, &m->node->out[0]->t, arena,
                                      &a->mask[k]))
            return false;
    }
    a->n_masks = f->parts->n_masks;
    return true;
}

static bool attention_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct found f = { .v = v };
    struct pare_arena *arena = v->backend->arena;
    struct attention *a;

    if (v->train || v->backend->block < 8 ||
        (!is_movement(n) && !is_scaling(n) && !v->attention[n->id]) || !find_parts(&f, n) ||
        !pare_trace(v, f.parts->scores->in[0], NULL, true, &f.from[Q], &f.nodes) ||
        !pare_trace(v, f.parts->scores->in[1], NULL, true, &f.from[K], &f.nodes) ||
        !pare_trace(v, f.parts->mix->in[1], NULL, false, &f.from[V], &f.nodes))
        return false;
    a = pare_alloc(arena, 1, sizeof(*a));
    if (!a || !read_sizes(&f, v->backend->threads, a) || !read_operands(&f, arena, a) ||
        !read_masks(&f, arena, a) || !find_out(&f, a) || !is_closed(&f))
        return false;
    inputs_in_order(&f.nodes);
    if (f.nodes.list[0] != n)
        return false;
    a->scale = (float)(f.parts->scale * f.from[Q].scale * f.from[K].scale);
    a->block = v->backend->block == 16 && a->E % 16 == 0 ? 16 : 8;
    return isfinite(a->scale) && a->scale != 0 && attention_fill_step(&f, a, s);
}

/* ---- run --------------------------------------------------------------------------------- */

struct rows {
    const float *x; /* queries: rows with a stride of `step`, their elements contiguous */
    int64_t step, n;
    int64_t matrix, first; /* they are rows `first` and later of this matrix */
    const void *mask[PARE_ATTENTION_MASKS];
};

static void softmax_row(const struct attention *a, const struct rows *r, int64_t t, float *scores)
{
    for (int k = 0; k < a->n_masks; k++)
        pare_attention_mask_row(&a->mask[k], r->mask[k], r->matrix, r->first + t, scores, a->S,
                                k ? 1 : a->scale);
    pare_attention_softmax(scores, a->S, a->n_masks ? 1 : a->scale);
}

/* y = softmax(scale x keys + masks) values */
static void compute_rows(const struct attention *a, const struct rows *r,
                         const float *const panels[2], float *scores, float *y)
{
    struct pare_packed_gemm p = pare_packed_gemm_matrix(r->n, a->D, a->tokens, NARROW);

    p.x = r->x;
    p.x_row = r->step;
    p.w = panels[0];
    p.y = scores;
    p.y_row = round_up(a->tokens);
    pare_packed_gemm_run(&p);
    for (int64_t t = 0; t < r->n; t++)
        softmax_row(a, r, t, scores + t * round_up(a->tokens));
    p = pare_packed_gemm_matrix(r->n, a->S, a->E, a->block);
    p.x = scores;
    p.x_row = round_up(a->tokens);
    p.w = panels[1];
    p.y = y;
    p.y_row = a->y_step;
    pare_packed_gemm_run(&p);
}

static struct pare_attention_head load_head(const struct pare_step *s, int which, int64_t i)
{
    const struct attention *a = s->state;

    return (struct pare_attention_head){
        .at = pare_f32(&s->in_buf[a->in[which]]->t) + a->place[which][i],
        .step = a->step[which],
        .element_stride = a->element_stride[which],
        .T = which == Q ? a->T : a->S,
        .D = which == V ? a->E : a->D,
    };
}

/* Rows [from, to) of matrix i. */
static void run_part(const struct pare_step *s, int64_t i, int64_t from, int64_t to, float *own)
{
    const struct attention *a = s->state;
    const int64_t size = a->tokens * round_up(a->D > a->E ? a->D : a->E);
    const float *const panels[2] = { own, own + size };
    float *copy = own + 2 * size, *scores = copy + GROUP * round_up(a->D);
    struct pare_attention_head q = load_head(s, Q, i), k = load_head(s, K, i),
                               v = load_head(s, V, i);

    pare_attention_pack_transposed(&k, own);
    pare_attention_pack(&v, a->block, own + size);
    for (int64_t t = from; t < to; t += GROUP) {
        struct rows r = { .x = q.at + t * q.step,
                          .step = q.step,
                          .n = to - t < GROUP ? to - t : GROUP,
                          .matrix = i,
                          .first = t };

        for (int m = 0; m < a->n_masks; m++)
            r.mask[m] = s->in_buf[a->mask_in[m]]->t.data;
        for (int64_t m = 0; m < r.n && q.element_stride != 1; m++)
            for (int64_t d = 0; d < a->D; d++)
                copy[m * a->D + d] = r.x[m * q.step + d * q.element_stride];
        if (q.element_stride != 1) {
            r.x = copy;
            r.step = a->D;
        }
        compute_rows(a, &r, panels, scores,
                     pare_f32_mut(&s->out_buf[0]->t) + a->y_place[i] + t * a->y_step);
    }
}

static void run_parts(void *arg, int64_t first, int64_t end, int thread)
{
    struct pare_step *s = arg;
    const struct attention *a = s->state;
    float *work = pare_f32_mut(&s->work[0]->t) + (size_t)thread * own_size(a);

    for (int64_t k = first; k < end; k++) {
        int64_t part = k % a->parts, from = a->T * part / a->parts;

        run_part(s, k / a->parts, from, a->T * (part + 1) / a->parts, work);
    }
}

static int attention_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct attention *a = s->state;

    (void)err;
    pare_parallel(b->threads, a->B * a->parts, run_parts, s);
    return 0;
}

const struct pare_kernel pare_kernel_attention = {
    .name = "attention",
    .doc = "Fused attention: both products, mask and Softmax, Reshapes and Transposes around them.",
    .match = attention_match,
    .run = attention_run,
};
