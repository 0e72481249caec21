/* movement.c - shared by operators that only move elements. */
#include "movement.h"

#include "../math/elementwise.h"

int pare_list_read(const struct pare_node *n, int i, struct pare_ints attr, struct pare_list *list,
                   struct pare_err *err)
{
    const struct pare_tensor *t = pare_given(n, i);

    if (t) {
        PARE_TRY(pare_need(n, i, err));
        return pare_int_list(t, list->v, PARE_MAX_RANK, &list->n, err);
    }
    if (attr.n > PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "a list of %d numbers, at most %d are handled", attr.n,
                         PARE_MAX_RANK);
    for (int k = 0; k < attr.n; k++)
        list->v[k] = attr.v[k];
    list->n = attr.n || attr.v ? attr.n : -1;
    return 0;
}

int pare_axes_read(const struct pare_node *n, int i, struct pare_ints attr, int rank,
                   struct pare_list *axes, struct pare_err *err)
{
    bool seen[PARE_MAX_RANK] = { false };

    PARE_TRY(pare_list_read(n, i, attr, axes, err));
    for (int k = 0; k < axes->n; k++) {
        int axis;

        PARE_TRY(pare_axis(axes->v[k], rank, &axis, err));
        if (seen[axis])
            return pare_fail(err, PARE_ESHAPE, "axis %d is listed twice", axis);
        seen[axis] = true;
        axes->v[k] = axis;
    }
    return 0;
}

int pare_choice(const char *choices, const char *name)
{
    size_t len = strlen(name);

    for (int i = 0; choices; i++) {
        const char *bar = strchr(choices, '|');

        if (!strncmp(choices, name, len) && (choices[len] == '|' || !choices[len]))
            return i;
        choices = bar ? bar + 1 : NULL;
    }
    return 0;
}

int pare_add_size(int64_t a, int64_t b, int64_t *sum, struct pare_err *err)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return pare_fail(err, PARE_ELIMIT, "a dimension of %lld + %lld does not fit", (long long)a,
                         (long long)b);
    *sum = a + b;
    return 0;
}

int pare_mul_size(int64_t a, int64_t b, int64_t *product, struct pare_err *err)
{
    if (a < 0 || b < 0 || (b && a > INT64_MAX / b))
        return pare_fail(err, PARE_ELIMIT, "a dimension of %lld x %lld does not fit", (long long)a,
                         (long long)b);
    *product = a * b;
    return 0;
}

int64_t pare_span(const struct pare_tensor *t, int from, int to)
{
    int64_t n = 1;

    for (int i = from; i < to; i++)
        n *= t->dim[i];
    return n;
}

static int check_index(int64_t *k, int64_t limit, struct pare_err *err)
{
    if (*k < -limit || *k >= limit)
        return pare_fail(err, PARE_ESHAPE, "index %lld is outside a dimension of %lld",
                         (long long)*k, (long long)limit);
    if (*k < 0)
        *k += limit;
    return 0;
}

int pare_indices(struct pare_arena *a, const struct pare_tensor *t, int64_t limit, int64_t **at,
                 struct pare_err *err)
{
    int64_t count = pare_numel(t), *v = pare_alloc_raw(a, (size_t)count, sizeof(*v));

    if (!v)
        return pare_no_memory(err, "for %lld indices", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        v[i] = pare_get_int(t, i);
        PARE_TRY(check_index(&v[i], limit, err));
    }
    *at = v;
    return 0;
}

int pare_index_row(const struct pare_tensor *t, int64_t row, const struct pare_tensor *data,
                   int skip, int64_t *at, struct pare_err *err)
{
    int64_t width = t->dim[t->rank - 1], sum = 0;

    for (int64_t j = 0; j < width; j++) {
        int64_t k = pare_get_int(t, row * width + j), dim = data->dim[skip + j];

        PARE_TRY(check_index(&k, dim, err));
        sum = sum * dim + k;
    }
    *at = sum * pare_span(data, skip + (int)width, data->rank);
    return 0;
}

void pare_fill(void *dst, int64_t n, const void *value, size_t size)
{
    char *d = dst;

    for (int64_t i = 0; i < n; i++)
        pare_copy_one(d + (size_t)i * size, value, size);
}

void pare_move_axis(struct pare_move *m, int64_t dim, int64_t from, int64_t to)
{
    m->dim[m->rank] = dim;
    m->from[m->rank] = from;
    m->to[m->rank] = to;
    m->rank++;
}

/* Drop axes of size 1 from the box, and join axes that are contiguous at both ends. */
static struct pare_move simplified(const struct pare_move *m)
{
    struct pare_move s = { .rank = 0 };

    for (int i = 0; i < m->rank; i++) {
        int last = s.rank - 1;

        if (m->dim[i] == 1)
            continue;
        if (s.rank && s.from[last] == m->from[i] * m->dim[i] &&
            s.to[last] == m->to[i] * m->dim[i]) {
            s.dim[last] *= m->dim[i];
            s.from[last] = m->from[i];
            s.to[last] = m->to[i];
        } else {
            pare_move_axis(&s, m->dim[i], m->from[i], m->to[i]);
        }
    }
    return s;
}

/* Move the axis that is contiguous at the source next to the last, which is contiguous at the
 * destination: tiles of the two read and write whole cache lines. */
static void pair_dense_axes(struct pare_move *m)
{
    int last = m->rank - 1, dense = -1;
    int64_t dim, to;

    for (int i = 0; i < last; i++)
        if (m->from[i] == 1)
            dense = i;
    if (dense < 0 || m->from[last] == 1)
        return;
    dim = m->dim[dense];
    to = m->to[dense];
    for (int i = dense; i < last - 1; i++) {
        m->dim[i] = m->dim[i + 1];
        m->from[i] = m->from[i + 1];
        m->to[i] = m->to[i + 1];
    }
    m->dim[last - 1] = dim;
    m->from[last - 1] = 1;
    m->to[last - 1] = to;
}

#define TILE 16
#define LEAST(a, b) ((a) < (b) ? (a) : (b))

/* Two axes, in tiles; strides in bytes. */
struct plane {
    int64_t rows, cols;
    ptrdiff_t from_row, from_col, to_row, to_col;
};

#define COPY_PLANE(name, bytes)                                                      \
    static void name(char *dst, const char *src, const struct plane *p, size_t size) \
    {                                                                                \
        (void)size;                                                                  \
        for (int64_t r = 0; r < p->rows; r += TILE)                                  \
            for (int64_t c = 0; c < p->cols; c += TILE)                              \
                for (int64_t i = r; i < LEAST(r + TILE, p->rows); i++)               \
                    for (int64_t j = c; j < LEAST(c + TILE, p->cols); j++)           \
                        memcpy(dst + i * p->to_row + j * p->to_col,                  \
                               src + i * p->from_row + j * p->from_col, (bytes));    \
    }
COPY_PLANE(copy_plane1, 1)
COPY_PLANE(copy_plane2, 2)
COPY_PLANE(copy_plane4, 4)
COPY_PLANE(copy_plane8, 8)
COPY_PLANE(copy_plane, size)

static void copy_runs(char *dst, const char *src, const struct plane *p, size_t size)
{
    for (int64_t i = 0; i < p->rows; i++)
        memcpy(dst + i * p->to_row, src + i * p->from_row, (size_t)p->cols * size);
}

typedef void pare_plane_fn(char *dst, const char *src, const struct plane *p, size_t size);

static pare_plane_fn *plane_copier(const struct pare_move *m, size_t size)
{
    int last = m->rank - 1;

    if (m->from[last] == 1 && m->to[last] == 1)
        return copy_runs;
    switch (size) {
    case 1: return copy_plane1;
    case 2: return copy_plane2;
    case 4: return copy_plane4;
    case 8: return copy_plane8;
    default: return copy_plane;
    }
}

/* A box as planes of its last two axes; strides and offsets in units of `size`. */
struct planes {
    struct pare_move m;
    int64_t idx[PARE_MOVE_RANK];
    ptrdiff_t size, from, to; /* offset of the current plane */
    struct plane p;
};

static bool planes_start(struct planes *b, const struct pare_move *m, size_t size)
{
    ptrdiff_t bytes = (ptrdiff_t)size;
    int a, last;

    for (int i = 0; i < m->rank; i++)
        if (!m->dim[i])
            return false;
    *b = (struct planes){ .m = simplified(m), .size = bytes };
    if (!b->m.rank)
        pare_move_axis(&b->m, 1, 1, 1);
    pair_dense_axes(&b->m);
    last = b->m.rank - 1;
    a = last - 1; /* the row axis; a single run has none */
    b->p = (struct plane){ a < 0 ? 1 : b->m.dim[a],          b->m.dim[last],
                           a < 0 ? 0 : b->m.from[a] * bytes, b->m.from[last] * bytes,
                           a < 0 ? 0 : b->m.to[a] * bytes,   b->m.to[last] * bytes };
    return true;
}

static bool planes_next(struct planes *b)
{
    const struct pare_move *m = &b->m;

    for (int i = m->rank - 3; i >= 0; i--) {
        b->from += m->from[i] * b->size;
        b->to += m->to[i] * b->size;
        if (++b->idx[i] < m->dim[i])
            return true;
        b->from -= m->from[i] * b->size * m->dim[i];
        b->to -= m->to[i] * b->size * m->dim[i];
        b->idx[i] = 0;
    }
    return false;
}

void pare_move(void *dst, const void *src, size_t size, const struct pare_move *m)
{
    struct planes b;
    pare_plane_fn *copy;

    if (!planes_start(&b, m, size))
        return;
    copy = plane_copier(&b.m, size);
    do
        copy((char *)dst + b.to, (const char *)src + b.from, &b.p, size);
    while (planes_next(&b));
}

/* ---- forward and backward ----------------------------------------------------------------- */

bool pare_flow(struct pare_flow *f, const struct pare_value *x, const struct pare_value *y,
               bool back)
{
    if (!x || !y || pare_is_empty(&y->t) || (back && (!x->grad.data || !y->grad.data)))
        return false;
    *f = (struct pare_flow){ x->t.data, y->t.data, pare_dtype_size(x->t.dtype), NULL, NULL };
    if (back) {
        f->gx = pare_f32_mut(&x->grad);
        f->gy = pare_f32(&y->grad);
    }
    return true;
}

static ptrdiff_t distance(ptrdiff_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* gx += gy, with strides `from` in gx and `to` in gy.  The inner loop of a tile runs along the axis
 * without the longest stride: distant cache lines may share a cache set. */
static void add_plane(float *gx, const float *gy, const struct plane *p)
{
    struct plane turned = { p->cols, p->rows, p->from_col, p->from_row, p->to_col, p->to_row };

    if (p->to_col == 1 && (p->from_col == 0 || p->from_col == 1)) {
        for (int64_t i = 0; i < p->rows; i++)
            pare_add_row(gx + i * p->from_row, (int)p->from_col, gy + i * p->to_row, p->cols);
        return;
    }
    if (distance(p->from_col) > distance(p->to_row))
        p = &turned;
    for (int64_t r = 0; r < p->rows; r += TILE)
        for (int64_t c = 0; c < p->cols; c += TILE)
            for (int64_t i = r; i < LEAST(r + TILE, p->rows); i++)
                for (int64_t j = c; j < LEAST(c + TILE, p->cols); j++)
                    gx[i * p->from_row + j * p->from_col] += gy[i * p->to_row + j * p->to_col];
}

void pare_flow_box(const struct pare_flow *f, int64_t x, int64_t y, const struct pare_move *m)
{
    struct planes b;

    if (!f->gx)
        pare_move(f->y + (size_t)y * f->size, f->x + (size_t)x * f->size, f->size, m);
    else if (planes_start(&b, m, 1))
        do
            add_plane(f->gx + x + b.from, f->gy + y + b.to, &b.p);
        while (planes_next(&b));
}

/* One row of a pick: blocks of `run` bytes from a row of x. */
static void pick_row(char *y, const char *x, const int64_t *at, int64_t count, size_t run)
{
    for (int64_t j = 0; j < count; j++)
        if (at[j] >= 0)
            pare_copy_one(y + (size_t)j * run, x + (size_t)at[j] * run, run);
}

static void pick_row_back(const float *gy, float *gx, const int64_t *at, int64_t count, int64_t run)
{
    for (int64_t j = 0; j < count; j++, gy += run)
        for (int64_t i = 0; at[j] >= 0 && i < run; i++)
            gx[at[j] * run + i] += gy[i];
}

void pare_flow_pick(const struct pare_flow *f, const struct pare_pick *p)
{
    const struct pare_tensor *y = p->y;
    int64_t idx[PARE_MAX_RANK] = { 0 }, stride[PARE_MAX_RANK], run, to = 0;
    int last = y->rank - 1, i;

    while (last >= 0 && !p->at[last])
        last--;
    run = pare_span(y, last + 1, y->rank);
    if (last < 0) {
        pare_flow_run(f, 0, 0, run);
        return;
    }
    pare_strides(p->x, stride);
    do {
        int64_t from = 0;

        for (i = 0; i < last && from >= 0; i++) {
            int64_t k = p->at[i] ? p->at[i][idx[i]] : idx[i];

            from = k < 0 ? -1 : from + k * stride[i];
        }
        if (p->fill && !f->gx)
            pare_fill(f->y + (size_t)to * f->size, y->dim[last] * run, p->fill, f->size);
        if (from >= 0 && f->gx)
            pick_row_back(f->gy + to, f->gx + from, p->at[last], y->dim[last], run);
        else if (from >= 0)
            pick_row(f->y + (size_t)to * f->size, f->x + (size_t)from * f->size, p->at[last],
                     y->dim[last], (size_t)run * f->size);
        to += y->dim[last] * run;
        for (i = last - 1; i >= 0 && ++idx[i] == y->dim[i]; i--)
            idx[i] = 0;
    } while (i >= 0);
}

void pare_ties_kept(const struct pare_node *n, struct pare_ties *t, const bool *changed)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;

    for (int i = 0; i < x->rank && i < y->rank; i++)
        if (x->dim[i] == y->dim[i] && !(changed && changed[i]))
            pare_tie(t, n->in[0], i, n->out[0], i);
}

/* A range of axes of x and of y with the same number of elements. */
struct span {
    const struct pare_value *x, *y;
    int xi, xn, yi, yn; /* first axis, and one past the last */
};

/* The ends of the axes [i, n), in elements counted from the last axis, sorted into `end`. */
static int add_ends(const struct pare_tensor *t, int i, int n, int64_t *end, int count)
{
    int64_t size = 1;

    for (n--; n >= i; n--) {
        int at = count;

        size *= t->dim[n];
        while (at && end[at - 1] >= size)
            at--;
        if (at < count && end[at] == size)
            continue;
        memmove(end + at + 1, end + at, (size_t)(count - at) * sizeof(*end));
        end[at] = size;
        count++;
    }
    return count;
}

/* The digits of the axis that covers sizes from `low` to `high`: their number, and the first. */
static int digits_of(const int64_t *end, int count, int64_t low, int64_t high, int *first)
{
    int n = 0;

    *first = -1;
    for (int i = 0; i < count; i++)
        if (end[i] > low && end[i] <= high) {
            *first = *first < 0 ? i : *first;
            n++;
        }
    return n;
}

/* A digit that is a whole axis gets the name of that axis, x's before y's. */
static void name_digits(const struct pare_value *v, int i, int n, const int64_t *end, int count,
                        struct pare_digit *digit)
{
    int64_t low = 1, high;
    int first;

    for (n--; n >= i; n--, low = high) {
        high = low * v->t.dim[n];
        if (digits_of(end, count, low, high, &first) == 1 && !digit[first].v) {
            digit[first].v = v;
            digit[first].axis = n;
        }
    }
}

static void tie_digits(const struct pare_value *v, int i, int n, const int64_t *end, int count,
                       const struct pare_digit *digit, struct pare_ties *t)
{
    struct pare_digit turned[2 * PARE_MAX_RANK];
    int64_t low = 1, high;
    int first, k;

    for (n--; n >= i; n--, low = high) {
        high = low * v->t.dim[n];
        k = digits_of(end, count, low, high, &first);
        for (int d = 0; d < k; d++)
            turned[d] = digit[first + k - 1 - d];
        if (k > 1 || (k == 1 && turned[0].v != v))
            pare_tie_digits(t, v, n, turned, k);
    }
}

/* Cut x's and y's axes into common digits, if the cuts of both are compatible. */
static void tie_span(const struct span *s, struct pare_ties *t)
{
    struct pare_digit digit[2 * PARE_MAX_RANK] = { { NULL, 0, 0 } };
    int64_t end[2 * PARE_MAX_RANK + 1], last = 1;
    int count = add_ends(&s->x->t, s->xi, s->xn, end, 0);

    count = add_ends(&s->y->t, s->yi, s->yn, end, count);
    for (int i = 0; i < count; i++) {
        if (end[i] % last)
            return;
        digit[i].axis = s->xi +
                        PARE_MAX_RANK * i; /* a virtual axis, unless a value's axis has the digit */
        digit[i].size = end[i] / last;
        last = end[i];
    }
    name_digits(s->x, s->xi, s->xn, end, count, digit);
    name_digits(s->y, s->yi, s->yn, end, count, digit);
    tie_digits(s->x, s->xi, s->xn, end, count, digit, t);
    tie_digits(s->y, s->yi, s->yn, end, count, digit, t);
}

void pare_ties_reshape(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    struct span s = { .x = n->in[0], .y = n->out[0] };

    if (!pare_numel(x) || pare_numel(x) != pare_numel(y))
        return;
    while (s.xn < x->rank && s.yn < y->rank) {
        int64_t nx = x->dim[s.xn++], ny = y->dim[s.yn++];

        while (nx != ny)
            if (nx < ny)
                nx *= x->dim[s.xn++];
            else
                ny *= y->dim[s.yn++];
        tie_span(&s, t);
        s.xi = s.xn;
        s.yi = s.yn;
    }
}
