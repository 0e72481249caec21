/* units.c - units of a weight: blocks of elements that are kept or removed as a whole.
 *
 * Along each axis an element has an index in the grid and an index in the block, so the weight in
 * memory order is a nest of loops, alternating between grid and block: g0 b0 g1 b1 ...  Loops of
 * one iteration are dropped and adjacent loops of one kind are merged, which leaves the same short
 * nest for many shapes: (G) for elements, (G B) for rows, (B G B) for input channels.  The
 * innermost G and B are handled as `rows` contiguous rows of `len` elements, row j in unit u + j.
 */
#include "units.h"

#include <math.h>
#include <string.h>

#include "../base/options.h"
#include "../base/simd.h"

/* ---- from granularity to blocks -------------------------------------------------------------- */

static int need_axis(const struct pare_tensor *w, const char *name, int axis, const char *what,
                     struct pare_err *err)
{
    if (axis >= 0 && axis < w->rank)
        return 0;
    return pare_fail(err, PARE_EUNSUPPORTED, "granularity '%s' needs a weight with %s channels",
                     name, what);
}

static int set_blocks(const struct pare_tensor *w, const struct pare_ints *block,
                      struct pare_units *u, struct pare_err *err)
{
    int first = w->rank - block->n;

    if (block->n < 1)
        return pare_fail(err, PARE_ECONFIG, "granularity 'block' needs the sizes of a block");
    if (first < 0)
        return pare_fail(err, PARE_ECONFIG, "block has %d sizes, but the weight has rank %d",
                         block->n, w->rank);
    for (int i = 0; i < block->n; i++) {
        int64_t b = block->v[i], dim = w->dim[first + i];

        if (b < -1)
            return pare_fail(err, PARE_ECONFIG,
                             "block size %lld; expected a positive number, or -1 for a whole axis",
                             (long long)b);
        if (b > 0 && dim % b)
            return pare_fail(err, PARE_ECONFIG,
                             "a block of %lld does not divide axis %d of size %lld", (long long)b,
                             first + i, (long long)dim);
        u->block[first + i] = b > 0 ? b : dim;
    }
    return 0;
}

/* "block_4x1": 4 consecutive output channels at one position of the other axes. */
static int set_columns(const struct pare_tensor *w, const char *name, int axis,
                       struct pare_units *u, struct pare_err *err)
{
    int64_t rows = name[6] - '0';

    PARE_TRY(need_axis(w, name, axis, "output", err));
    if (w->dim[axis] % rows)
        return pare_fail(
            err, PARE_ECONFIG,
            "granularity '%s' needs a multiple of %lld output channels, but the layer has %lld; "
            "exclude the layer, or choose another granularity",
            name, (long long)rows, (long long)w->dim[axis]);
    u->block[axis] = rows;
    return 0;
}

static int set_heads(const struct pare_tensor *w, const struct pare_grain *g, struct pare_units *u,
                     struct pare_err *err)
{
    int64_t dim = w->dim[g->out_axis], parts = g->parts > 1 ? g->parts : 1;

    if (g->gates)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "a recurrent layer has no heads; use granularity 'out_channel'");
    if (g->heads < 1)
        return pare_fail(err, PARE_ECONFIG, "granularity 'head' needs the number of heads");
    if (g->heads > dim / parts || dim % (g->heads * parts))
        return pare_fail(err, PARE_ECONFIG, "%lld heads do not divide %lld output channels",
                         (long long)g->heads * parts, (long long)dim);
    if (parts > 1 && w->rank + 2 > PARE_MAX_RANK)
        return pare_fail(err, PARE_ECONFIG,
                         "heads with several parts are not supported for a weight of rank %d",
                         w->rank);
    u->block[g->out_axis] = dim / g->heads / parts;
    return 0;
}

/* Splits the output axis into (part, head, channel of the head): a head has its channels of all
 * parts.  The parts of a recurrent layer are its gates, and a head is one state. */
static void split_parts(struct pare_units *u, int axis, int64_t parts)
{
    for (int i = u->rank - 1; i > axis; i--) {
        u->block[i + 2] = u->block[i];
        u->grid[i + 2] = u->grid[i];
    }
    u->rank += 2;
    u->block[axis + 2] = u->block[axis];
    u->grid[axis + 2] = 1;
    u->block[axis + 1] = 1;
    u->grid[axis + 1] = u->grid[axis] / parts;
    u->block[axis] = parts;
    u->grid[axis] = 1;
    u->n /= parts;
}

static int unknown_granularity(const char *name, struct pare_err *err)
{
    static const char *const names[] = { "element",     "block",      "block_4x1", "block_8x1",
                                         "out_channel", "in_channel", "head" };
    const char *near = pare_nearest(name, names, 7);

    return pare_fail(
        err, PARE_ECONFIG,
        "granularity '%s' is unknown%s%s%s; expected element, block, block_4x1, block_8x1, "
        "out_channel, in_channel or head",
        name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static int block_sizes(const struct pare_tensor *w, const struct pare_grain *g,
                       struct pare_units *u, struct pare_err *err)
{
    const char *name = g->name ? g->name : "";
    bool head = !strcmp(name, "head"), out = head || !strcmp(name, "out_channel");
    bool columns = !strcmp(name, "block_4x1") || !strcmp(name, "block_8x1");
    bool small = !strcmp(name, "element") || !strcmp(name, "block") || columns;

    if (!small && !out && strcmp(name, "in_channel") != 0)
        return unknown_granularity(name, err);
    for (int i = 0; i < w->rank; i++)
        u->block[i] = small ? 1 : w->dim[i];
    if (columns)
        return set_columns(w, name, g->out_axis, u, err);
    if (small)
        return *name == 'b' ? set_blocks(w, &g->block, u, err) : 0;
    if (out)
        PARE_TRY(need_axis(w, name, g->out_axis, "output", err));
    else
        PARE_TRY(need_axis(w, name, g->in_axis, "input", err));
    if (head)
        return set_heads(w, g, u, err);
    if (out && g->gates > 1 && (w->dim[g->out_axis] % g->gates || w->rank + 2 > PARE_MAX_RANK))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "%lld rows of the weight are not those of %lld gates",
                         (long long)w->dim[g->out_axis], (long long)g->gates);
    u->block[out ? g->out_axis : g->in_axis] = 1;
    return 0;
}

/* The number of parts that the output axis is split into. */
static int64_t parts_of(const struct pare_grain *g)
{
    if (!g->name || !strcmp(g->name, "head"))
        return g->parts;
    return strcmp(g->name, "out_channel") ? 1 : g->gates;
}

int pare_units_make(const struct pare_tensor *weight, const struct pare_grain *g,
                    struct pare_units *u, struct pare_err *err)
{
    *u = (struct pare_units){ .rank = weight->rank, .n = 1 };
    PARE_TRY(block_sizes(weight, g, u, err));
    for (int i = 0; i < u->rank; i++) {
        /* An empty axis as a whole is one empty block. */
        u->grid[i] = u->block[i] ? weight->dim[i] / u->block[i] : 1;
        u->n *= u->grid[i];
    }
    if (parts_of(g) > 1)
        split_parts(u, g->out_axis, parts_of(g));
    return 0;
}

int64_t pare_units_of_channel(const struct pare_units *u, const struct pare_tensor *weight,
                              int out_axis, int64_t i)
{
    bool split = u->rank > weight->rank;
    int64_t parts = split && out_axis >= 0 ? u->block[out_axis] : 1;
    int heads = out_axis + (split ? 1 : 0), rest = out_axis + (split ? 2 : 0);

    if (out_axis < 0 || u->grid[heads] != u->n)
        return -1;
    return weight->dim[out_axis] ? i % (weight->dim[out_axis] / parts) / u->block[rest] : 0;
}

int64_t pare_units_size(const struct pare_units *u)
{
    int64_t n = 1;

    for (int i = 0; i < u->rank; i++)
        n *= u->block[i];
    return n;
}

bool pare_units_single(const struct pare_units *u)
{
    return pare_units_size(u) == 1;
}

/* ---- the loop nest --------------------------------------------------------------------------- */

#define MAX_LOOPS (2 * PARE_MAX_RANK)

struct loop {
    int64_t n, dx, du; /* iterations; step of one in the weight and in the units, 0 in a block */
};

struct nest {
    struct loop loop[MAX_LOOPS]; /* outermost first, when complete */
    int n;
    int64_t rows, len;
};

/* Adds a loop around the nest.  It is merged with the outermost one if that is of the same kind. */
static void add_loop(struct nest *t, int64_t n, int64_t dx, int64_t du)
{
    if (n == 1)
        return;
    if (t->n && !t->loop[t->n - 1].du == !du)
        t->loop[t->n - 1].n *= n;
    else
        t->loop[t->n++] = (struct loop){ n, dx, du };
}

static struct nest make_nest(const struct pare_units *u)
{
    struct nest t = { .rows = 1, .len = 1 }, all = { .n = 0 };
    int64_t dx = 1, du = 1;
    int used = 0;

    for (int i = u->rank - 1; i >= 0; i--) {
        add_loop(&all, u->block[i], dx, 0);
        dx *= u->block[i];
        add_loop(&all, u->grid[i], dx, du);
        dx *= u->grid[i];
        du *= u->grid[i];
    }
    if (used < all.n && !all.loop[used].du)
        t.len = all.loop[used++].n;
    if (used < all.n && all.loop[used].du)
        t.rows = all.loop[used++].n;
    while (all.n > used)
        t.loop[t.n++] = all.loop[--all.n];
    return t;
}

struct position {
    int64_t at[MAX_LOOPS], x, u;
};

/* Advances the loops; returns false, at the start again, after the last iteration. */
static bool next_iteration(const struct loop *l, int n, struct position *p)
{
    for (int i = n - 1; i >= 0; i--) {
        p->x += l[i].dx;
        p->u += l[i].du;
        if (++p->at[i] < l[i].n)
            return true;
        p->x -= l[i].dx * l[i].n;
        p->u -= l[i].du * l[i].n;
        p->at[i] = 0;
    }
    return false;
}

/* ---- sums ---------------------------------------------------------------------------------- */

/* No "omp simd" here: it would fix the vector width before PARE_SIMD makes its clones. */
#define STRIP 1024 /* units summed at a time, in double: 8 kB */
#define LANES 16   /* partial sums of a row */
#define SHORT 16   /* rows up to this length are not worth a vector loop each */

PARE_SIMD static void sum_elements(const float *x, int64_t n, int power, float *score)
{
    if (power == 1) {
        for (int64_t i = 0; i < n; i++)
            score[i] = fabsf(x[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            score[i] = x[i] * x[i];
    }
}

static inline double magnitude(float x, int power)
{
    return power == 1 ? (double)fabsf(x) : (double)x * (double)x;
}

static inline void add_lines(const float *x, int64_t n, int64_t step, int power, double *sum)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += (magnitude(x[i], power) + magnitude(x[step + i], power)) +
                  (magnitude(x[2 * step + i], power) + magnitude(x[3 * step + i], power));
}

static inline void add_line(const float *x, int64_t n, int power, double *sum)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += magnitude(x[i], power);
}

/* Adds lines of n elements, four at a time: loading and storing sums takes longer than adding. */
PARE_SIMD static void add_columns(const float *x, int64_t n, const struct loop *line, int power,
                                  double *sum)
{
    int64_t k = 0, dx = line->dx;

    for (; k + 4 <= line->n; k += 4)
        if (power == 1)
            add_lines(x + k * dx, n, dx, 1, sum);
        else
            add_lines(x + k * dx, n, dx, 2, sum);
    for (; k < line->n; k++)
        add_line(x + k * dx, n, power, sum);
}

static inline void add_short(const float *x, int64_t rows, int64_t len, int power, double *sum)
{
    for (int64_t j = 0; j < rows; j++) {
        const float *row = x + j * len;
        double s = 0;

        for (int64_t i = 0; i < len; i++)
            s += magnitude(row[i], power);
        sum[j] += s;
    }
}

/* Common lengths get loops of constant length. */
PARE_SIMD static void add_short_rows(const float *x, int64_t rows, int64_t len, int power,
                                     double *sum)
{
    if (len == 4 && power == 1)
        add_short(x, rows, 4, 1, sum);
    else if (len == 4)
        add_short(x, rows, 4, 2, sum);
    else if (len == 9 && power == 1)
        add_short(x, rows, 9, 1, sum);
    else if (len == 9)
        add_short(x, rows, 9, 2, sum);
    else
        add_short(x, rows, len, power, sum);
}

/* With LANES partial sums, so that vectors of any width give the same result. */
static inline double long_row(const float *row, int64_t len, int power)
{
    double s[LANES] = { 0 };
    int64_t i = 0;

    for (; i + LANES <= len; i += LANES)
        for (int k = 0; k < LANES; k++)
            s[k] += magnitude(row[i + k], power);
    for (; i < len; i++)
        s[0] += magnitude(row[i], power);
    for (int n = LANES / 2; n; n /= 2)
        for (int k = 0; k < n; k++)
            s[k] += s[k + n];
    return s[0];
}

PARE_SIMD static void add_long_rows(const float *x, int64_t rows, int64_t len, int power,
                                    double *sum)
{
    for (int64_t j = 0; j < rows; j++)
        if (power == 1)
            sum[j] += long_row(x + j * len, len, 1);
        else
            sum[j] += long_row(x + j * len, len, 2);
}

/* n contiguous rows of len elements. */
struct rows {
    int64_t n, len;
    int power;
};

/* Moves grid loops outside of block loops, so that a strip of sums is complete before the next. */
static int grid_first(struct nest *t)
{
    struct loop l[MAX_LOOPS];
    int n = 0, grids;

    for (int i = 0; i < t->n; i++)
        if (t->loop[i].du)
            l[n++] = t->loop[i];
    grids = n;
    for (int i = 0; i < t->n; i++)
        if (!t->loop[i].du)
            l[n++] = t->loop[i];
    memcpy(t->loop, l, (size_t)n * sizeof(*l));
    return grids;
}

/* Sums `rows` units from x on, through all block loops. */
static void sum_strip(const struct loop *l, int n, const float *x, const struct rows *r,
                      double *sum)
{
    static const struct loop once = { 1, 0, 0 };
    const struct loop *last = n ? &l[--n] : &once;
    struct position b = { .x = 0 };

    do {
        if (r->len == 1)
            add_columns(x + b.x, r->n, last, r->power, sum);
        for (int64_t k = 0; r->len > 1 && k < last->n; k++) {
            const float *at = x + b.x + k * last->dx;

            if (r->len <= SHORT)
                add_short_rows(at, r->n, r->len, r->power, sum);
            else
                add_long_rows(at, r->n, r->len, r->power, sum);
        }
    } while (next_iteration(l, n, &b));
}

void pare_units_sum(const struct pare_units *u, const struct pare_tensor *x, int power,
                    float *score)
{
    struct nest t = make_nest(u);
    int grids = grid_first(&t);
    struct position g = { .x = 0 };
    double sum[STRIP];

    if (!t.n && t.len == 1) {
        sum_elements(pare_f32(x), t.rows, power, score);
        return;
    }
    if (!u->n)
        return;
    do {
        for (int64_t r = 0; r < t.rows; r += STRIP) {
            struct rows some = { t.rows - r < STRIP ? t.rows - r : STRIP, t.len, power };

            memset(sum, 0, (size_t)some.n * sizeof(*sum));
            if (pare_units_size(u))
                sum_strip(t.loop + grids, t.n - grids, pare_f32(x) + g.x + r * t.len, &some, sum);
            for (int64_t j = 0; j < some.n; j++)
                score[g.u + r + j] = (float)sum[j];
        }
    } while (next_iteration(t.loop, grids, &g));
}

/* ---- masks --------------------------------------------------------------------------------- */

/* For rows that are too short for a vector loop each. */
PARE_SIMD static void any_short_rows(const uint8_t *mask, int64_t rows, int64_t len, uint8_t *keep)
{
    for (int64_t j = 0; j < rows; j++)
        for (int64_t i = 0; i < len; i++)
            keep[j] |= mask[j * len + i];
}

static bool is_empty(const struct pare_units *u)
{
    return !u->n || !pare_units_size(u);
}

void pare_units_expand(const struct pare_units *u, const uint8_t *keep, uint8_t *mask)
{
    struct nest t = make_nest(u);
    struct position p = { .x = 0 };

    if (is_empty(u))
        return;
    do {
        const uint8_t *k = keep + p.u;
        uint8_t *m = mask + p.x;

        if (t.len == 1)
            memcpy(m, k, (size_t)t.rows);
        else if (t.len <= SHORT)
            for (int64_t j = 0; j < t.rows; j++)
                for (int64_t i = 0; i < t.len; i++)
                    m[j * t.len + i] = k[j];
        else
            for (int64_t j = 0; j < t.rows; j++)
                memset(m + j * t.len, k[j], (size_t)t.len);
    } while (next_iteration(t.loop, t.n, &p));
}

PARE_SIMD static void any_rows(const uint8_t *mask, int64_t rows, int64_t len, uint8_t *keep)
{
    for (int64_t j = 0; j < rows; j++) {
        uint8_t any = keep[j];

#pragma omp simd reduction(| : any)
        for (int64_t i = 0; i < len; i++)
            any |= mask[j * len + i];
        keep[j] = any;
    }
}

PARE_SIMD static void any_elements(const uint8_t *mask, int64_t n, uint8_t *keep)
{
    for (int64_t i = 0; i < n; i++)
        keep[i] |= mask[i];
}

void pare_units_shrink(const struct pare_units *u, const uint8_t *mask, uint8_t *keep)
{
    struct nest t = make_nest(u);
    struct position p = { .x = 0 };

    if (!t.n && t.len == 1) {
        memcpy(keep, mask, (size_t)u->n);
        return;
    }
    memset(keep, 0, (size_t)u->n);
    if (is_empty(u))
        return;
    do {
        if (t.len == 1)
            any_elements(mask + p.x, t.rows, keep + p.u);
        else if (t.len <= SHORT)
            any_short_rows(mask + p.x, t.rows, t.len, keep + p.u);
        else
            any_rows(mask + p.x, t.rows, t.len, keep + p.u);
    } while (next_iteration(t.loop, t.n, &p));
}
