/* pick_axes.c - Slice, Split, Pad, Tile and nearest Resize in any layout: elements that are chosen
 * along each axis.
 *
 * In the blocked layout an element is a block of channels, so that spatial axes are picked without
 * conversion, and channels if whole blocks are.
 */
#include "../backend.h"

#include "../../base/simd.h"
#include "../../op/shape/movement.h"
#include "../../base/team.h"

/* Consecutive positions of a row; from < 0: the fill value. */
struct segment {
    int64_t from, to, count;
};

/* One output: rows along the last axis that has a list, of positions of `run` bytes. */
struct part {
    int rank; /* axes of rows */
    int64_t dim[PARE_MAX_RANK], stride[PARE_MAX_RANK];
    const int64_t *at[PARE_MAX_RANK]; /* index in the input; NULL: the same */
    int64_t rows, width, n_segments;
    const int64_t *last; /* the list of the last axis; NULL: copied as one run */
    struct segment *segment;
    size_t run;
    bool single; /* most segments are single elements of four bytes, without fill */
};

struct picks {
    int n;
    struct part *part;
    const void *fill;
    size_t size; /* of an element */
    size_t bytes;
};

/* ---- lists -------------------------------------------------------------------------- */

/* The lists of a selection with constant steps. */
static bool mapped_lists(const struct pare_node *n, int k, struct pare_arena *a,
                         struct pare_pick *p)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[k]->t;
    struct pare_index_map m;

    if (!pare_index_map(n, k, &m) || m.offset || x->rank != y->rank)
        return false;
    for (int i = 0; i < x->rank; i++) {
        if (m.axis[i] != i)
            return false;
        if (x->dim[i] == y->dim[i] && !m.first[i] && m.step[i] == 1)
            continue;
        p->at[i] = pare_alloc_raw(a, (size_t)y->dim[i], sizeof(**p->at));
        if (!p->at[i])
            return false;
        for (int64_t j = 0; j < y->dim[i]; j++)
            p->at[i][j] = m.first[i] + j * m.step[i];
    }
    return true;
}

static bool is_zero(const char *value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (value[i])
            return false;
    return true;
}

/* Turn the list of channels into one of blocks; false: blocks would be mixed, or lanes beyond the
 * channels would not be zero. */
static bool block_list(struct pare_pick *p, int block, size_t size)
{
    const int64_t C = p->x->dim[1], channels = p->y->dim[1];
    int64_t *at = p->at[1];

    if (p->fill && channels % block && !is_zero(p->fill, size))
        return false;
    for (int64_t k = 0; at && k < channels; k += block) {
        int64_t lanes = channels - k < block ? channels - k : block, from = at[k];

        if ((from >= 0 && from % block) || (lanes < block && from >= 0 && from + lanes != C))
            return false;
        for (int64_t i = 1; i < lanes; i++)
            if (at[k + i] != (from < 0 ? -1 : from + i))
                return false;
        at[k / block] = from < 0 ? -1 : from / block;
    }
    return true;
}

/* Axes in the order of memory, in units of elements or blocks. */
static void order_axes(const struct pare_tensor *t, int layout, struct pare_tensor *to)
{
    *to = *t;
    if (layout > 1)
        to->dim[1] = (t->dim[1] + layout - 1) / layout;
    if (layout != PARE_CHANNELS_LAST)
        return;
    for (int i = 1; i < t->rank - 1; i++)
        to->dim[i] = t->dim[i + 1];
    to->dim[t->rank - 1] = t->dim[1];
}

static bool order_lists(struct pare_pick *p, int layout, size_t size)
{
    int64_t *channels = p->at[1];
    int rank = p->x->rank;

    if (layout > 1)
        return block_list(p, layout, size);
    if (layout == PARE_CHANNELS_LAST) {
        for (int i = 1; i < rank - 1; i++)
            p->at[i] = p->at[i + 1];
        p->at[rank - 1] = channels;
    }
    return true;
}

/* ---- match -------------------------------------------------------------------------- */

static bool find_segments(struct part *r, struct pare_arena *a)
{
    bool filled = false;

    for (int pass = 0; pass < 2; pass++) {
        int64_t n = 0;

        for (int64_t i = 0, j; i < r->width; i = j, n++) {
            int64_t from = r->last ? r->last[i] : i;

            for (j = i + 1; j < r->width; j++) {
                int64_t next = r->last ? r->last[j] : j;

                if (next != (from < 0 ? -1 : from + j - i))
                    break;
            }
            filled |= from < 0;
            if (pass)
                r->segment[n] = (struct segment){ from, i, j - i };
        }
        r->n_segments = n;
        if (!pass)
            r->segment = pare_alloc_raw(a, (size_t)n, sizeof(*r->segment));
        if (!r->segment)
            return false;
    }
    r->single = !filled && r->run == 4 && r->n_segments * 4 > r->width;
    return true;
}

static bool plan_part(struct pare_pick *p, int layout, size_t size, struct pare_arena *a,
                      struct part *r)
{
    struct pare_tensor x, y;
    int64_t stride[PARE_MAX_RANK];
    int last;

    if (!order_lists(p, layout, size))
        return false;
    order_axes(p->x, layout, &x);
    order_axes(p->y, layout, &y);
    pare_strides(&x, stride);
    for (last = y.rank - 1; last > 0 && !p->at[last]; last--)
        ;
    r->run = (size_t)pare_span(&y, last + 1, y.rank) * size * (size_t)(layout > 1 ? layout : 1);
    r->width = y.dim[last];
    r->last = p->at[last];
    r->rows = pare_span(&y, 0, last);
    r->rank = last;
    for (int i = 0; i < last; i++) {
        r->dim[i] = y.dim[i];
        r->stride[i] = stride[i] / stride[last];
        r->at[i] = p->at[i];
    }
    return find_segments(r, a);
}

/* Describe all outputs in this layout. */
static bool plan_parts(const struct pare_match *v, const struct pare_node *n, int layout,
                       struct picks *c)
{
    struct pare_arena *a = v->backend->arena;

    c->n = 0;
    c->size = pare_dtype_size(n->in[0]->t.dtype);
    c->bytes = 0;
    for (int k = 0; k < n->n_out; k++) {
        struct pare_pick p = { .x = &n->in[0]->t };

        if (!n->out[k])
            continue;
        p.y = &n->out[k]->t;
        if (p.y->rank != p.x->rank || p.y->rank < 1 || !pare_numel(p.y) ||
            !(n->op->pick ? n->op->pick(n, a, &p) : mapped_lists(n, k, a, &p)))
            return false;
        c->fill = p.fill;
        if (!plan_part(&p, layout, c->size, a, &c->part[c->n]))
            return false;
        c->bytes += (size_t)c->part[c->n].rows * (size_t)c->part[c->n].width * c->part[c->n].run;
        c->n++;
    }
    return c->n > 0;
}

static bool pick_axes_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct pare_arena *a = v->backend->arena;
    struct picks *c;
    int layout, at = 0;

    if ((!n->op->pick && !n->op->index_map) || !n->n_in || !n->in[0] || pare_is_const(n->in[0]) ||
        n->in[0]->t.dtype == PARE_STR || !pare_dtype_size(n->in[0]->t.dtype))
        return false;
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (!pare_is_const(n->in[i]) || !n->in[i]->t.data))
            return false;
    layout = pare_layout_of(v, n->in[0]);
    c = pare_alloc(a, 1, sizeof(*c));
    if (!c || !(c->part = pare_alloc(a, (size_t)n->n_out, sizeof(*c->part))))
        return false;
    if (!plan_parts(v, n, layout, c)) {
        if (layout == 1)
            return false;
        layout = 1;
        if (!plan_parts(v, n, layout, c))
            return false;
    }
    if (!pare_step_lists(s, v, 1, c->n, 0))
        return false;
    s->in[0] = n->in[0];
    s->in_block[0] = layout;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k]) {
            s->out[at] = n->out[k];
            s->out_block[at++] = layout;
        }
    s->state = c;
    return true;
}

/* ---- run ---------------------------------------------------------------------------- */

static inline void copy_run(char *y, const char *x, size_t bytes)
{
    switch (bytes) {
    case 4: memcpy(y, x, 4); break;
    case 32: memcpy(y, x, 32); break;
    case 64: memcpy(y, x, 64); break;
    default: memcpy(y, x, bytes); break;
    }
}

PARE_SIMD static void copy_single(int32_t *y, const int32_t *x, const int64_t *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[at[i]];
}

static void run_row(const struct picks *c, const struct part *p, const char *x, char *y)
{
    if (p->single && p->last) {
        copy_single((int32_t *)(void *)y, (const int32_t *)(const void *)x, p->last, p->width);
        return;
    }
    for (int64_t i = 0; i < p->n_segments; i++) {
        const struct segment *g = &p->segment[i];
        char *to = y + (size_t)g->to * p->run;
        size_t bytes = (size_t)g->count * p->run;

        if (g->from >= 0)
            copy_run(to, x + (size_t)g->from * p->run, bytes);
        else
            pare_fill(to, (int64_t)(bytes / c->size), c->fill, c->size);
    }
}

/* The position in the input of a row; -1: outside. */
static int64_t find_row(const struct part *p, int64_t row)
{
    int64_t at = 0;

    for (int i = p->rank - 1; i >= 0; i--) {
        int64_t k = row % p->dim[i];

        row /= p->dim[i];
        k = p->at[i] ? p->at[i][k] : k;
        if (k < 0)
            return -1;
        at += k * p->stride[i];
    }
    return at;
}

/* Rows [first, end).  A row from the same source as the row before is a copy of that. */
static void run_rows(const struct picks *c, const struct part *p, const char *x, char *y,
                     int64_t first, int64_t end)
{
    const size_t bytes = (size_t)p->width * p->run;
    int64_t before = -2;

    for (int64_t i = first; i < end; i++) {
        int64_t from = find_row(p, i);
        char *to = y + (size_t)i * bytes;

        if (from < 0)
            pare_fill(to, (int64_t)(bytes / c->size), c->fill, c->size);
        else if (from == before)
            memcpy(to, to - bytes, bytes);
        else
            run_row(c, p, x + (size_t)from * p->run, to);
        before = from;
    }
}

/* Shares of all results. */
struct shares {
    struct pare_step *s;
    int64_t n;
};

static void run_shares(void *arg, int64_t from, int64_t to, int thread)
{
    const struct shares *j = arg;
    const struct picks *c = j->s->state;

    (void)thread;
    for (int k = 0; k < c->n; k++) {
        const struct part *p = &c->part[k];

        run_rows(c, p, j->s->in_buf[0]->t.data, j->s->out_buf[k]->t.data, p->rows * from / j->n,
                 p->rows * to / j->n);
    }
}

static int pick_axes_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct picks *c = s->state;
    const int threads = c->bytes > 65536 ? b->threads : 1;
    struct shares j = { s, threads > 1 ? 4 * threads : 1 };

    (void)err;
    pare_parallel(threads, j.n, run_shares, &j);
    return 0;
}

const struct pare_kernel pare_kernel_pick_axes = {
    .name = "pick_axes",
    .doc = "Slice, Split, Pad, Tile and nearest Resize in any layout.",
    .match = pick_axes_match,
    .run = pick_axes_run,
};
