/* weight_rounding.c - rounding of weights by Gram matrices: layers in order, in parts that fit in
 * memory, each with the inputs of the model as quantized so far; then the levels as offsets. */
#include "weight_rounding.h"

#include <omp.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../compress/grams.h"
#include "../../compress/method.h"
#include "../../op/channels.h"
#include "../../tensor/tensor.h"
#include "../bias_correct.h"
#include "gram_round.h"
#include "rounding_choice.h"
#include "../group_scales.h"
#include "../mse_scales.h"
#include "../channel_rows.h"

#define WAVE_BYTES 768e6 /* Grams of a part of the layers */
#define FLOPS 2e10       /* multiplications per Gram */
#define ENOUGH 4000 /* positions per weight of a row of depthwise layers, which are many Grams */

/* A layer's weight as matrices (groups, rows, k). */
struct matrix {
    struct pare_layer *l;
    struct pare_gram gram;
    int64_t row, column; /* strides of the weight */
    int64_t blocks, size;
    bool biased; /* the bias takes the difference of the means */
    bool later;  /* another layer of its part computes its input */
};

struct rounder {
    struct pare_compression *c;
    const struct pare_rounding *o;
    const struct pare_rounding_method *method;
    struct pare_model *dense;
    struct matrix *m;
    int n, threads;
    bool toward_float;
    int64_t items; /* that the rounding uses */
};

bool pare_rounding_needs_data(const struct pare_rounding *o)
{
    return pare_find_rounding(o->how)->needs_data;
}

/* ---- buffers --------------------------------------------------------------------------------- */

const char *const pare_rounding_buffers[PARE_ROUNDING_BUFFERS] = {
    "weight_rounding", "rounding_scale", "rounding_zero", "rounding_bits"
};

struct pare_buffer *pare_rounding_find(const struct pare_layer *l, const char *name)
{
    struct pare_buffer *b = l->buffers;

    while (b && strcmp(b->name, name) != 0)
        b = b->next;
    return b;
}

bool pare_is_rounded(const struct pare_layer *l)
{
    return pare_rounding_find(l, "weight_rounding") != NULL;
}

void pare_rounding_forget(struct pare_layer *l)
{
    for (int i = 0; i < PARE_ROUNDING_BUFFERS; i++)
        for (struct pare_buffer **b = &l->buffers; *b; b = &(*b)->next)
            if (!strcmp((*b)->name, pare_rounding_buffers[i])) {
                *b = (*b)->next;
                break;
            }
}

static struct pare_round_grid grid_of(const struct pare_quant *q)
{
    struct pare_group_fit f;

    pare_group_range(q, &f);
    return (struct pare_round_grid){ .qmin = f.qmin,
                                     .qmax = f.qmax,
                                     .middle = f.middle,
                                     .symmetric = f.symmetric };
}

/* The scale of row r and block b in the layer's buffers. */
static int64_t scale_at(const struct matrix *m, int64_t scales, int64_t r, int64_t b)
{
    int64_t rows = m->gram.groups * m->gram.rows;

    if (scales == 1)
        return 0;
    return m->row > m->column || m->blocks == 1 ? r * m->blocks + b : b * rows + r;
}

/* ---- which layers ---------------------------------------------------------------------------- */

static bool is_plain(const struct pare_layer *l)
{
    struct pare_linear p;
    const struct pare_node *n = l->info.node;

    return n->op->linear(n, &p) && p.scale == 1 && p.outer == 1;
}

static bool matrix_of(struct pare_layer *l, struct matrix *m)
{
    const struct pare_quant *q = pare_layer_quant(l, PARE_WEIGHT);
    const struct pare_tensor *w = &l->w;
    int64_t kept = pare_groups_kept(l), k;

    *m = (struct matrix){ .l = l };
    if (!q || q->bits > 8 || !l->weight || l->quant->norm || l->unseen || l->is_second ||
        l->has_second || !pare_gram_of(&l->info, &m->gram) || l->out_axis < 0 || l->in_axis < 0 ||
        pare_numel(w) != m->gram.groups * m->gram.rows * m->gram.k)
        return false;
    k = m->gram.k;
    if (w->rank > 2 && (l->out_axis != 0 || l->in_axis != 1))
        return false;
    m->row = l->out_axis == 0 ? k : 1;
    m->column = l->out_axis == 0 ? 1 : m->gram.rows;
    m->size = kept > 0 ? kept : k;
    m->blocks = (k + m->size - 1) / m->size;
    m->biased = l->bias && !l->compression->trainer && pare_bias_is_own(l) && is_plain(l) &&
                pare_numel(&l->b) == m->gram.groups * m->gram.rows;
    return kept <= 0 || w->rank == 2;
}

/* ---- one layer ------------------------------------------------------------------------------- */

/* One scale for the whole weight is not searched for. */
static int given_scale(struct matrix *m, struct pare_tensor *scale, struct pare_tensor *zero,
                       struct pare_err *err)
{
    struct pare_layer *l = m->l;
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, PARE_WEIGHT, &l->w, &p, err));
    PARE_TRY(pare_quant_point_fit_mse(&p, &l->w, err));
    pare_f32_mut(scale)[0] = p.scale[0];
    pare_f32_mut(zero)[0] = p.zero[0];
    return 0;
}

/* The matrix of a group, and where its results go. */
struct part {
    double *w, *shift;
    uint8_t *keep;
    float *scale, *zero;
    int16_t *level;
};

static int alloc_part(const struct matrix *m, struct pare_arena *a, struct part *p,
                      struct pare_err *err)
{
    size_t rows = (size_t)m->gram.rows, n = rows * (size_t)m->gram.k;

    p->w = pare_alloc_raw(a, n, sizeof(*p->w));
    p->level = pare_alloc_raw(a, n, sizeof(*p->level));
    p->shift = pare_alloc(a, rows, sizeof(*p->shift));
    p->scale = pare_alloc(a, rows * (size_t)m->blocks, sizeof(*p->scale));
    p->zero = pare_alloc(a, rows * (size_t)m->blocks, sizeof(*p->zero));
    p->keep = m->l->mask.data ? pare_alloc_raw(a, n, 1) : NULL;
    if (!p->w || !p->level || !p->shift || !p->scale || !p->zero || (m->l->mask.data && !p->keep))
        return pare_no_memory(err, "to round weights");
    return 0;
}

/* Copies group g of the layer's weight and scales. */
static void take_part(const struct matrix *m, int64_t g, const struct pare_tensor *scale,
                      const struct pare_tensor *zero, struct part *p)
{
    const float *w = pare_f32(&m->l->w);
    const uint8_t *mask = m->l->mask.data;

    for (int64_t r = 0; r < m->gram.rows; r++) {
        for (int64_t c = 0; c < m->gram.k; c++) {
            int64_t at = (g * m->gram.rows + r) * m->row + c * m->column;

            p->w[r * m->gram.k + c] = mask && !mask[at] ? 0 : (double)w[at];
            if (p->keep)
                p->keep[r * m->gram.k + c] = mask[at];
        }
        for (int64_t b = 0; b < m->blocks; b++) {
            int64_t at = scale_at(m, pare_numel(scale), g * m->gram.rows + r, b);

            p->scale[r * m->blocks + b] = pare_f32(scale)[at];
            p->zero[r * m->blocks + b] = pare_f32(zero)[at];
        }
    }
}

/* Stores scales and the offsets from the nearest levels. */
static void put_part(const struct matrix *m, int64_t g, const struct part *p,
                     struct pare_tensor *const t[3])
{
    const struct pare_round_grid grid = grid_of(pare_layer_quant(m->l, PARE_WEIGHT));
    const float *w = pare_f32(&m->l->w);

    for (int64_t r = 0; r < m->gram.rows; r++) {
        int64_t row = g * m->gram.rows + r;

        for (int64_t b = 0; b < m->blocks; b++) {
            int64_t at = scale_at(m, pare_numel(t[0]), row, b);

            pare_f32_mut(t[0])[at] = p->scale[r * m->blocks + b];
            pare_f32_mut(t[1])[at] = p->zero[r * m->blocks + b];
        }
        for (int64_t c = 0; c < m->gram.k; c++) {
            int64_t at = row * m->row + c * m->column, b = r * m->blocks + c / m->size;

            ((int16_t *)t[2]->data)[at] = (int16_t)(p->level[r * m->gram.k + c] -
                                                    pare_nearest_level(&grid, w[at], p->scale[b],
                                                                       p->zero[b]));
        }
    }
}

/* The bias before the repair is kept, for the float model and for other bits. */
static int shift_bias(const struct matrix *m, int64_t g, const double *shift, struct pare_err *err)
{
    struct pare_layer *l = m->l;
    struct pare_layer_quant *q = l->quant;
    size_t bytes = (size_t)pare_numel(&l->b) * sizeof(float);

    if (!q->b_before.data) {
        PARE_TRY(pare_tensor_new(l->compression->arena, &q->b_before, PARE_F32, l->b.rank, l->b.dim,
                                 err));
        memcpy(q->b_before.data, l->b.data, bytes);
    }
    for (int64_t r = 0; r < m->gram.rows; r++)
        pare_f32_mut(&l->b)[g * m->gram.rows + r] += (float)shift[r];
    if (g + 1 < m->gram.groups)
        return 0;
    if (!q->b_rounded.data)
        PARE_TRY(pare_tensor_new(l->compression->arena, &q->b_rounded, PARE_F32, l->b.rank,
                                 l->b.dim, err));
    memcpy(q->b_rounded.data, l->b.data, bytes);
    q->rounded_bias = true;
    return 0;
}

static double damping_of(const struct rounder *s, const struct pare_layer *l)
{
    if (s->o->damping >= 0)
        return s->o->damping;
    return l->info.node->op->layer.kind == PARE_LAYER_CONV ? 1e-3 : 1e-2;
}

/* Buffers of the layer: scales, zero points, offsets. */
static int open_buffers(const struct matrix *m, struct pare_tensor *t[3], struct pare_err *err)
{
    struct pare_layer *l = m->l;
    const struct pare_quant *q = pare_layer_quant(l, PARE_WEIGHT);
    const int64_t one = 1;
    int64_t n = m->blocks > 1 || q->axis >= 0 ? m->gram.groups * m->gram.rows * m->blocks : 1;
    struct pare_tensor *bits = pare_layer_buffer(l, "rounding_bits", PARE_I64, 1, &one, err);

    t[0] = bits ? pare_layer_buffer(l, "rounding_scale", PARE_F32, 1, &n, err) : NULL;
    t[1] = t[0] ? pare_layer_buffer(l, "rounding_zero", PARE_F32, 1, &n, err) : NULL;
    t[2] = t[1] ? pare_layer_buffer(l, "weight_rounding", PARE_I16, l->w.rank, l->w.dim, err)
                : NULL;
    if (!t[2])
        return err->code;
    *pare_i64_mut(bits) = q->bits;
    return 0;
}

static int round_group(const struct rounder *s, const struct matrix *m, int64_t g, struct part *p,
                       struct pare_arena *a, struct pare_err *err)
{
    const struct pare_gram *x = &m->gram;
    const struct pare_quant *q = pare_layer_quant(m->l, PARE_WEIGHT);
    const bool corrects = x->cross && !m->later; /* for the errors of the layers before */
    struct pare_gram_round r = { .rows = x->rows,
                                 .k = x->k,
                                 .w = p->w,
                                 .g = x->g ? x->g + g * x->k * x->k : NULL,
                                 .cross = corrects ? x->cross + g * x->k * x->k : NULL,
                                 .mean = x->g && m->biased ? x->mean + g * x->k : NULL,
                                 .d_mean = corrects ? x->cross_mean + g * x->k : NULL,
                                 .keep = p->keep,
                                 .damping = damping_of(s, m->l),
                                 .method = s->method,
                                 .scales = pare_find_rounding(s->o->scales),
                                 .steps = s->o->steps ? s->o->steps : s->method->steps,
                                 .threads = s->threads,
                                 .grid = grid_of(q),
                                 .scale = p->scale,
                                 .zero = p->zero,
                                 .level = p->level,
                                 .shift = p->shift };

    r.grid.blocks = m->blocks;
    r.grid.size = m->size;
    r.grid.given = m->blocks == 1 && q->axis < 0;
    PARE_TRY(pare_gram_round(&r, a, err));
    m->l->compression->quant->rounded.failed += r.failed;
    m->l->compression->quant->rounded.error += r.error;
    m->l->compression->quant->rounded.nearest += r.nearest;
    m->l->quant->round_error[0] += r.error;
    m->l->quant->round_error[1] += r.nearest;
    return 0;
}

static int round_layer(const struct rounder *s, struct matrix *m, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 20);
    struct pare_tensor *t[3] = { NULL, NULL, NULL };
    struct part p;
    int rc = a ? open_buffers(m, t, err) : pare_no_memory(err, "to round weights");

    m->l->quant->round_error[0] = m->l->quant->round_error[1] = 0;
    if (!rc && pare_numel(t[0]) == 1)
        rc = given_scale(m, t[0], t[1], err);
    for (int64_t g = 0; g < m->gram.groups && !rc; g++) {
        struct pare_mark mark = pare_mark(a);

        rc = alloc_part(m, a, &p, err);
        if (rc)
            break;
        take_part(m, g, t[0], t[1], &p);
        rc = round_group(s, m, g, &p, a, err);
        if (!rc)
            put_part(m, g, &p, t);
        if (!rc && m->biased && m->gram.g)
            rc = shift_bias(m, g, p.shift, err);
        pare_rewind(a, mark);
    }
    pare_arena_free(a);
    return pare_at(err, rc, "layer '%s'", m->l->info.name);
}

/* ---- all layers ------------------------------------------------------------------------------ */

/* Layers from `from` on whose Grams are collected in one pass.  Methods that choose by the weights
 * alone use them only to reject what is worse than the nearest levels: one pass is enough. */
static int wave_end(const struct rounder *s, int from)
{
    int64_t passes = s->method->needs_data ? s->o->passes : 1;
    int most = (int)((s->n + passes - 1) / passes), to = from;
    double bytes = 0;

    while (to < s->n && to - from < most) {
        bytes += (double)pare_gram_bytes(&s->m[to].gram, true);
        if (to > from && bytes > WAVE_BYTES)
            break;
        to++;
    }
    return to;
}

/* Which layers read what other layers of [from, to) compute.  Toward float, all layers of a part
 * would make up for the same errors, those before the part: a layer that reads what another one has
 * corrected already goes toward its own outputs. */
static int find_later(const struct rounder *s, int from, int to, struct pare_err *err)
{
    const struct pare_graph *g = s->c->model->graph;
    struct pare_arena *a = pare_arena_new(1 << 12);
    bool *read = a ? pare_alloc(a, (size_t)g->n_values + 1, sizeof(*read)) : NULL;

    for (int i = 0; i < g->n_nodes && read; i++) {
        const struct pare_node *n = g->node[i];
        bool later = false;

        for (int k = 0; k < n->n_in; k++)
            later |= n->in[k] && read[n->in[k]->id];
        for (int k = 0; k < n->n_cap; k++)
            later |= read[n->cap[k]->id];
        for (int k = from; k < to; k++)
            if (n->n_out && n->out[0] &&
                !strcmp(n->out[0]->name, s->m[k].l->info.node->out[0]->name)) {
                s->m[k].later = later;
                later = true;
            }
        for (int k = 0; k < n->n_out && later; k++)
            if (n->out[k])
                read[n->out[k]->id] = true;
    }
    pare_arena_free(a);
    return read ? 0 : pare_no_memory(err, "to round weights");
}

static int round_wave(const struct rounder *s, int from, int to, struct pare_err *err)
{
    struct pare_compression *c = s->c;
    struct pare_arena *a = pare_arena_new(1 << 20);
    struct pare_gram *g = a ? pare_alloc(a, (size_t)(to - from), sizeof(*g)) : NULL;
    struct pare_gram_source source = { .model = c->model,
                                       .other = s->toward_float ? s->dense : NULL,
                                       .data = c->data,
                                       .items = s->items,
                                       .flops = FLOPS,
                                       .enough = ENOUGH,
                                       .dist = c->dist,
                                       .threads = c->threads,
                                       .progress = c->progress,
                                       .user = c->progress_user };
    int rc = g ? 0 : pare_no_memory(err, "to round weights");

    for (int i = from; i < to && g; i++)
        g[i - from] = s->m[i].gram;
    if (!rc)
        rc = find_later(s, from, to, err);
    if (!rc)
        rc = pare_grams_collect(&source, a, g, to - from, err);
    for (int i = from; i < to && !rc; i++) {
        s->m[i].gram = g[i - from];
        s->m[i].l->quant->quantized[PARE_WEIGHT] = true;
        rc = round_layer(s, &s->m[i], err);
        if (rc)
            pare_rounding_forget(s->m[i].l);
    }
    for (int i = from; i < to; i++) {
        struct pare_gram *x = &s->m[i].gram;

        x->g = x->mean = x->cross = x->cross_mean = NULL;
    }
    pare_arena_free(a);
    return rc ? rc : pare_compression_write_weights(c, err);
}

/* All layers are float until their turn. */
static int round_all(struct rounder *s, struct pare_err *err)
{
    struct pare_compression *c = s->c;
    int rc = 0;

    c->quant->rounded = (struct pare_rounded){ .how = s->method->name,
                                               .layers = s->n,
                                               .by_data = true };
    for (int i = 0; i < s->n; i++)
        s->m[i].l->quant->quantized[PARE_WEIGHT] = false;
    rc = pare_compression_write_weights(c, err);
    for (int from = 0, to; from < s->n && !rc; from = to) {
        to = wave_end(s, from);
        rc = round_wave(s, from, to, err);
    }
    for (int i = 0; i < s->n; i++)
        s->m[i].l->quant->quantized[PARE_WEIGHT] = true;
    return rc;
}

static int round_way(void *user, const struct pare_rounding_method *method, bool toward_float,
                     int64_t items, struct pare_err *err)
{
    struct rounder *s = user;

    s->method = method;
    s->toward_float = toward_float;
    s->items = items;
    return round_all(s, err);
}

/* The best of several ways on held-out items. */
static int choose_way(struct rounder *s, struct pare_err *err)
{
    struct pare_compression *c = s->c;
    struct pare_layer **l = pare_alloc(pare_compression_scratch(c), (size_t)s->n + 1, sizeof(*l));
    struct pare_rounding_choice choice = { .c = c,
                                           .dense = s->dense,
                                           .layer = l,
                                           .n = s->n,
                                           .method = s->method,
                                           .items = s->o->items,
                                           .round = round_way,
                                           .user = s };

    if (!l)
        return pare_no_memory(err, "to round weights");
    for (int i = 0; i < s->n; i++)
        l[i] = s->m[i].l;
    return pare_rounding_choose(&choice, err);
}

/* Without data: each layer by its weights alone. */
static int round_by_weights(const struct rounder *s, struct pare_err *err)
{
    s->c->quant->rounded = (struct pare_rounded){ .how = s->o->how, .layers = s->n };
    for (int i = 0; i < s->n; i++) {
        int rc = round_layer(s, &s->m[i], err);

        if (rc) {
            pare_rounding_forget(s->m[i].l);
            return rc;
        }
    }
    return pare_compression_write_weights(s->c, err);
}

static int find_matrices(struct rounder *s, struct pare_err *err)
{
    struct pare_compression *c = s->c;

    s->m = pare_alloc(pare_compression_scratch(c), (size_t)c->n_layers + 1, sizeof(*s->m));
    if (!s->m)
        return pare_no_memory(err, "to round weights");
    for (int i = 0; i < c->n_layers; i++)
        s->n += matrix_of(&c->layer[i], &s->m[s->n]);
    return 0;
}

int pare_round_weights(struct pare_compression *c, const struct pare_rounding *o,
                       struct pare_err *err)
{
    struct rounder s = { .c = c,
                         .o = o,
                         .method = pare_find_rounding(o->how),
                         .toward_float = !strcmp(o->toward, "float"),
                         .items = o->items,
                         .threads = c->threads > 0 ? c->threads : omp_get_max_threads() };
    int rc;

    c->quant->rounded = (struct pare_rounded){ 0 };
    for (int i = 0; i < c->n_layers; i++) {
        pare_rounding_forget(&c->layer[i]);
        c->layer[i].quant->rounded_bias = false;
    }
    if (!strcmp(o->how, "nearest"))
        return 0;
    if (!c->data && s.method->needs_data)
        return pare_fail(err, PARE_ECONFIG,
                         "rounding %s needs data: use --data, or rounding nearest", o->how);
    PARE_TRY(find_matrices(&s, err));
    if (!c->data)
        return pare_at(err, round_by_weights(&s, err), "rounding %s", o->how);
    PARE_TRY(pare_model_duplicate(c->model, &s.dense, err));
    rc = s.method->needs_data && s.n && !strcmp(o->toward, "auto") ? choose_way(&s, err)
                                                                   : round_all(&s, err);
    pare_model_free(s.dense);
    return pare_at(err, rc, "rounding %s", o->how);
}

/* ---- the weight ------------------------------------------------------------------------------ */

/* Elements with one scale each: rows of the weight seen as (outer, scales, inner), or groups. */
static int64_t scale_of_element(const struct pare_layer *l, const struct pare_groups *g, int axis,
                                int64_t i)
{
    int64_t inner = 1;

    if (g->size) {
        int64_t r = i / l->w.dim[1], c = i % l->w.dim[1];

        return g->axis ? r * g->dim[1] + c / g->size : r / g->size * g->dim[1] + c;
    }
    for (int k = axis + 1; k < l->w.rank; k++)
        inner *= l->w.dim[k];
    return i / inner % l->w.dim[axis];
}

int pare_rounded_weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                        bool *done, struct pare_err *err)
{
    const struct pare_quant *q = pare_layer_quant(l, PARE_WEIGHT);
    const struct pare_buffer *off = pare_rounding_find(l, "weight_rounding");
    const struct pare_buffer *bits = pare_rounding_find(l, "rounding_bits");
    const struct pare_buffer *s = pare_rounding_find(l, "rounding_scale");
    const struct pare_buffer *z = pare_rounding_find(l, "rounding_zero");
    const struct pare_round_grid grid = grid_of(q);
    struct pare_tensor *scale, *zero;
    struct pare_groups g = { 0 };
    int64_t n;

    *done = off && bits && s && z && *pare_i64(&bits->t) == q->bits;
    if (!*done)
        return 0;
    n = pare_numel(&s->t);
    scale = pare_layer_scale(l, PARE_WEIGHT, n, err);
    zero = scale ? pare_layer_zero_point(l, PARE_WEIGHT, n, err) : NULL;
    if (!zero)
        return err->code;
    memcpy(scale->data, s->t.data, (size_t)n * sizeof(float));
    memcpy(zero->data, z->t.data, (size_t)n * sizeof(float));
    if (pare_groups_kept(l) > 0)
        PARE_TRY(pare_groups(l, pare_groups_kept(l), &g, err));
    for (int64_t i = 0; i < pare_numel(x); i++) {
        int64_t at = n > 1 ? scale_of_element(l, &g, q->axis, i) : 0;
        float sc = pare_f32(scale)[at], zp = pare_f32(zero)[at];
        int64_t v = pare_nearest_level(&grid, pare_f32(x)[i], sc, zp) +
                    ((const int16_t *)off->t.data)[i];

        v = v < grid.qmin ? grid.qmin : v > grid.qmax ? grid.qmax : v;
        pare_f32_mut(y)[i] = ((float)v - zp) * sc;
    }
    return 0;
}
