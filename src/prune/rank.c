/* rank.c - masks from scores: rank units per layer, in balanced tiles, N:M, or over several
 * layers. */
#include "rank.h"

/* ---- common parts ---------------------------------------------------------------------------- */

static int check_fraction(const char *what, double fraction, struct pare_err *err)
{
    if (fraction >= 0 && fraction <= 1)
        return 0;
    return pare_fail(err, PARE_ECONFIG, "%s is %g; expected 0 to 1", what, fraction);
}

static int check_layer(const struct pare_ranked *l, struct pare_err *err)
{
    if (!l->score && !pare_units_single(l->units))
        return pare_fail(err, PARE_ECONFIG, "units of %lld weights cannot be ranked without scores",
                         (long long)pare_units_size(l->units));
    if (!l->score && l->weight->dtype != PARE_F32)
        return pare_fail(err, PARE_ECONFIG, "cannot rank weights of type %s; expected float32",
                         pare_dtype_name(l->weight->dtype));
    return 0;
}

/* int(n * fraction) */
static int64_t count_of(int64_t n, double fraction)
{
    int64_t k = (int64_t)((double)n * fraction);

    return k < n ? k : n;
}

static const float *scores(const struct pare_ranked *l)
{
    return l->score ? l->score : pare_f32(l->weight);
}

static int32_t key_at(const struct pare_ranked *l, int64_t i)
{
    if (!l->regrow && !l->keep[i])
        return PARE_KEY_REMOVED;
    return pare_key(scores(l)[i], !l->score);
}

/* Number of units that were removed before and stay removed. */
static int64_t removed_before(const struct pare_ranked *l)
{
    return l->regrow ? 0 : pare_count_zeros(l->keep, l->units->n);
}

static struct pare_kth_smallest selection(const struct pare_ranked *l, int threads)
{
    return (struct pare_kth_smallest){ .x = scores(l),
                                       .n = l->units->n,
                                       .magnitude = !l->score,
                                       .old = l->regrow ? NULL : l->keep,
                                       .threads = threads };
}

/* ---- one layer ------------------------------------------------------------------------------- */

int pare_rank_local(const struct pare_ranked *l, int threads, struct pare_arena *scratch,
                    struct pare_err *err)
{
    struct pare_kth_smallest s = selection(l, threads);
    int64_t k, least = removed_before(l);

    if (!least)
        s.old = NULL;
    PARE_TRY(check_layer(l, err));
    PARE_TRY(check_fraction("sparsity", l->sparsity, err));
    k = count_of(l->units->n, l->sparsity);
    return pare_kth_smallest_mask(&s, k > least ? k : least, l->keep, scratch, err);
}

/* ---- tiles: rank a few units at a time ------------------------------------------------------- */

/* Tiles in a grid; unit j of a tile is at the tile's position + off[j]. */
struct tiling {
    int rank;
    int64_t count[PARE_MAX_RANK], stride[PARE_MAX_RANK], n; /* tiles along each axis, and in
                                                             * total */
    int64_t base;                                           /* position of the first tile */
    int64_t *off, size;                                     /* units of a tile */
    int64_t remove;                                         /* units to remove of each tile */
};

#define FEW 16 /* tiles up to this size are ranked by comparing all pairs */

/* Partitions v so that v[0 .. k) are the k smallest.  No two are equal, so every round makes
 * progress. */
static void partition(uint64_t *v, int64_t n, int64_t k)
{
    int64_t lo = 0, hi = n - 1;
    uint64_t seed = 0x9e3779b97f4a7c15u;

    while (lo < hi) {
        uint64_t pivot, tmp;
        int64_t i = lo, j = hi;

        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        pivot = v[lo + (int64_t)(seed % (uint64_t)(hi - lo + 1))];
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                tmp = v[i];
                v[i++] = v[j];
                v[j--] = tmp;
            }
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            return;
    }
}

static void rank_few(const struct pare_ranked *l, const struct tiling *t, int64_t at,
                     const uint64_t *v, int64_t remove)
{
    for (int64_t i = 0; i < t->size; i++) {
        int64_t before = 0;

        for (int64_t j = 0; j < t->size; j++)
            before += v[j] < v[i];
        l->keep[at + t->off[i]] = before >= remove;
    }
}

/* v has room for a tile.  An entry has the key in the upper half and the index in the lower half,
 * so that all differ. */
static void rank_tile(const struct pare_ranked *l, const struct tiling *t, int64_t at, uint64_t *v)
{
    int64_t remove = t->remove, removed = 0;

    for (int64_t j = 0; j < t->size; j++) {
        int32_t key = key_at(l, at + t->off[j]);

        removed += key == PARE_KEY_REMOVED;
        v[j] = (uint64_t)pare_key_bits(key) << 32 | (uint64_t)j;
    }
    remove = removed > remove ? removed : remove;
    if (t->size <= FEW) {
        rank_few(l, t, at, v, remove);
        return;
    }
    partition(v, t->size, remove);
    for (int64_t j = 0; j < t->size; j++)
        l->keep[at + t->off[v[j] & 0xffffffffu]] = j >= remove;
}

static void rank_tile_range(const struct pare_ranked *l, const struct tiling *t, int64_t from,
                            int64_t to, uint64_t *v)
{
    int64_t i[PARE_MAX_RANK] = { 0 }, at = t->base, rest = from;

    for (int k = t->rank - 1; k >= 0; k--) {
        i[k] = rest % t->count[k];
        rest /= t->count[k];
        at += i[k] * t->stride[k];
    }
    for (; from < to; from++) {
        int k = t->rank - 1;

        rank_tile(l, t, at, v);
        for (; k >= 0 && ++i[k] == t->count[k]; k--) {
            at -= (i[k] - 1) * t->stride[k];
            i[k] = 0;
        }
        if (k >= 0)
            at += t->stride[k];
    }
}

static int rank_tiles(const struct pare_ranked *l, const struct tiling *t, int threads,
                      struct pare_arena *scratch, struct pare_err *err)
{
    uint64_t *v;

    if (!t->n || !t->size)
        return 0;
    if (t->size > UINT32_MAX)
        return pare_fail(err, PARE_ELIMIT, "a tile has %lld units, expected at most 4294967295",
                         (long long)t->size);
    threads = threads < 1 || t->n * t->size < 65536 ? 1 : threads;
    v = pare_alloc_raw(scratch, (size_t)t->size, (size_t)threads * sizeof(*v));
    if (!v)
        return pare_no_memory(err, "to rank weights");
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        int64_t each = t->n / threads, to = i + 1 < threads ? each * (i + 1) : t->n;

        rank_tile_range(l, t, each * i, to, v + (int64_t)i * t->size);
    }
    return 0;
}

/* Lists the units of a tile, row by row. */
static int tile_offsets(struct tiling *t, const int64_t *gran, const int64_t *step,
                        struct pare_arena *scratch, struct pare_err *err)
{
    int64_t i[PARE_MAX_RANK] = { 0 }, at = 0;

    t->off = pare_alloc_raw(scratch, (size_t)t->size + 1, sizeof(*t->off));
    if (!t->off)
        return pare_no_memory(err, "to rank weights");
    for (int64_t j = 0; j < t->size; j++) {
        int k = t->rank - 1;

        t->off[j] = at;
        for (; k >= 0 && ++i[k] == gran[k]; k--) {
            at -= (i[k] - 1) * step[k];
            i[k] = 0;
        }
        if (k >= 0)
            at += step[k];
    }
    return 0;
}

static int balance_tiles(const struct pare_ranked *l, const struct pare_ints *gran,
                         struct tiling *t, struct pare_arena *scratch, struct pare_err *err)
{
    const struct pare_units *u = l->units;
    int64_t size[PARE_MAX_RANK], step[PARE_MAX_RANK], s = 1;
    int first = u->rank - gran->n;

    if (gran->n < 1)
        return pare_fail(err, PARE_ECONFIG, "mode 'balance' needs balance_gran");
    if (first < 0)
        return pare_fail(err, PARE_ECONFIG, "balance_gran has %d sizes for a weight of rank %d",
                         gran->n, u->rank);
    *t = (struct tiling){ .rank = u->rank, .n = 1, .size = 1 };
    for (int k = u->rank - 1; k >= 0; k--) {
        size[k] = k < first ? 1 : gran->v[k - first];
        if (size[k] < 1 || u->grid[k] % size[k])
            return pare_fail(err, PARE_ECONFIG,
                             "balance_gran %lld does not divide axis %d, of %lld units",
                             (long long)size[k], k, (long long)u->grid[k]);
        step[k] = s;
        t->stride[k] = s * size[k];
        t->count[k] = u->grid[k] / size[k];
        t->n *= t->count[k];
        t->size *= size[k];
        s *= u->grid[k];
    }
    t->remove = count_of(t->size, l->sparsity);
    return t->n ? tile_offsets(t, size, step, scratch, err) : 0;
}

int pare_rank_balance(const struct pare_ranked *l, const struct pare_ints *gran, int threads,
                      struct pare_arena *scratch, struct pare_err *err)
{
    struct pare_mark m = pare_mark(scratch);
    struct tiling t;
    int rc;

    PARE_TRY(check_layer(l, err));
    PARE_TRY(check_fraction("sparsity", l->sparsity, err));
    rc = balance_tiles(l, gran, &t, scratch, err);
    if (!rc)
        rc = rank_tiles(l, &t, threads, scratch, err);
    pare_reset(scratch, m);
    return rc;
}

/* Ranks `groups` consecutive runs of `size` elements along the axis, from `first` on. */
static int rank_runs(const struct pare_ranked *l, int axis, const int64_t range[3], int64_t keep,
                     struct pare_arena *scratch, struct pare_err *err)
{
    const int64_t *dim = l->weight->dim, first = range[0], groups = range[1], size = range[2];
    int64_t outer = 1, inner = 1;
    struct tiling t = { .rank = 3, .size = size, .remove = size > keep ? size - keep : 0 };

    for (int k = 0; k < axis; k++)
        outer *= dim[k];
    for (int k = axis + 1; k < l->weight->rank; k++)
        inner *= dim[k];
    t.count[0] = outer, t.stride[0] = dim[axis] * inner;
    t.count[1] = groups, t.stride[1] = size * inner;
    t.count[2] = inner, t.stride[2] = 1;
    t.n = outer * groups * inner;
    t.base = first * inner;
    if (!t.n || !size)
        return 0;
    PARE_TRY(tile_offsets(&t, (int64_t[]){ 1, 1, size }, (int64_t[]){ 0, 0, inner }, scratch, err));
    return rank_tiles(l, &t, 1, scratch, err);
}

int pare_rank_nm(const struct pare_ranked *l, int64_t n, int64_t m, int axis,
                 struct pare_arena *scratch, struct pare_err *err)
{
    struct pare_mark mark = pare_mark(scratch);
    int64_t dim, whole;
    int rc;

    PARE_TRY(check_layer(l, err));
    if (n < 1 || m < n)
        return pare_fail(err, PARE_ECONFIG, "n:m is %lld:%lld; expected 1 <= n <= m", (long long)n,
                         (long long)m);
    if (!pare_units_single(l->units))
        return pare_fail(err, PARE_ECONFIG, "n:m needs single weights, but units have %lld",
                         (long long)pare_units_size(l->units));
    if (axis < 0 || axis >= l->weight->rank)
        return pare_fail(err, PARE_ECONFIG, "n:m is along axis %d, but the weight has rank %d",
                         axis, l->weight->rank);
    dim = l->weight->dim[axis];
    whole = dim / m;
    rc = rank_runs(l, axis, (int64_t[]){ 0, whole, whole ? m : 0 }, n, scratch, err);
    if (!rc)
        rc = rank_runs(l, axis, (int64_t[]){ whole * m, 1, dim % m }, n, scratch, err);
    pare_reset(scratch, mark);
    return rc;
}

/* ---- several layers with units of one size --------------------------------------------------- */

/* How many units a layer may lose in total. */
struct share {
    int64_t most;
    bool full, fresh; /* full: the layer has reached the limit; fresh: no unit was removed before */
};

struct pooled {
    const struct pare_ranked *l;
    int n, threads;
    struct share *share;
    uint8_t **keep; /* per layer: the new mask */
    struct pare_kth_smallest *sel;
    uint8_t **to;
    struct pare_arena *scratch;
};

/* Removes the k lowest units of all layers that are not full.  A layer that would exceed its limit
 * loses its limit instead and becomes full; *k is then the number for the other layers. */
static int pooled_round(struct pooled *p, int64_t *k, bool *settled, struct pare_err *err)
{
    int64_t room = 0;
    int n = 0;

    for (int i = 0; i < p->n; i++)
        if (!p->share[i].full) {
            p->sel[n] = selection(&p->l[i], p->threads);
            p->sel[n].old = p->share[i].fresh ? NULL : p->sel[n].old;
            p->to[n++] = p->keep[i];
            room += p->l[i].units->n;
        }
    PARE_TRY(pare_kth_smallest_masks(p->sel, n, *k < room ? *k : room, p->to, p->scratch, err));
    *settled = true;
    for (int i = 0; i < p->n; i++) {
        struct pare_kth_smallest s = selection(&p->l[i], p->threads);

        if (p->share[i].full || pare_count_zeros(p->keep[i], s.n) <= p->share[i].most)
            continue;
        PARE_TRY(pare_kth_smallest_mask(&s, p->share[i].most, p->keep[i], p->scratch, err));
        p->share[i].full = true;
        *k -= p->share[i].most;
        *settled = false;
    }
    return 0;
}

static int rank_pooled(struct pooled *p, int64_t k, struct pare_err *err)
{
    int64_t least = 0;
    bool settled = false;

    for (int i = 0; i < p->n; i++) {
        const struct pare_ranked *l = &p->l[i];
        int64_t z = removed_before(l), most = count_of(l->units->n, l->max_sparsity);

        least += z;
        p->share[i] = (struct share){ .most = most > z ? most : z, .fresh = !z };
        /* The old mask is needed until the last round. */
        p->keep[i] = pare_alloc_raw(p->scratch, (size_t)l->units->n + 1, 1);
        if (!p->keep[i])
            return pare_no_memory(err, "to rank weights");
    }
    k = k > least ? k : least;
    while (!settled)
        PARE_TRY(pooled_round(p, &k, &settled, err));
    for (int i = 0; i < p->n; i++)
        memcpy(p->l[i].keep, p->keep[i], (size_t)p->l[i].units->n);
    return 0;
}

static int rank_same_size(const struct pare_ranked *l, int n, int64_t k, int threads,
                          struct pare_arena *scratch, struct pare_err *err)
{
    struct pooled p = { .l = l, .n = n, .threads = threads, .scratch = scratch };
    size_t count = (size_t)n;

    p.share = pare_alloc(scratch, count, sizeof(*p.share));
    p.keep = pare_alloc(scratch, count, sizeof(*p.keep));
    p.sel = pare_alloc(scratch, count, sizeof(*p.sel));
    p.to = pare_alloc(scratch, count, sizeof(*p.to));
    if (!p.share || !p.keep || !p.sel || !p.to)
        return pare_no_memory(err, "to rank weights");
    return rank_pooled(&p, k, err);
}

/* ---- several layers with units of any size --------------------------------------------------- */

struct unit {
    uint32_t key;
    int32_t layer;
    int64_t i;
};

/* Radix sort by key, stable.  The result is in v. */
static void sort_units(struct unit *v, struct unit *tmp, int64_t n)
{
    for (int shift = 0; shift < 32; shift += 8) {
        int64_t at[257] = { 0 };
        struct unit *swap = v;

        for (int64_t i = 0; i < n; i++)
            at[(v[i].key >> shift & 255) + 1]++;
        for (int b = 0; b < 256; b++)
            at[b + 1] += at[b];
        for (int64_t i = 0; i < n; i++)
            tmp[at[v[i].key >> shift & 255]++] = v[i];
        v = tmp; /* four swaps: at the end v is the original array */
        tmp = swap;
    }
}

static int rank_sorted(const struct pare_ranked *l, int n_layers, int64_t budget,
                       struct pare_arena *scratch, struct pare_err *err)
{
    int64_t n = 0, m = 0, lost = 0;
    int64_t *left = pare_alloc(scratch, (size_t)n_layers, sizeof(*left));
    struct unit *v;

    for (int k = 0; k < n_layers; k++)
        n += l[k].units->n;
    v = pare_alloc_raw(scratch, (size_t)n + 1, 2 * sizeof(*v));
    if (!left || !v)
        return pare_no_memory(err, "to rank weights");
    for (int k = 0; k < n_layers; k++) {
        left[k] = count_of(l[k].units->n, l[k].max_sparsity);
        for (int64_t i = 0; i < l[k].units->n; i++)
            v[m++] = (struct unit){ pare_key_bits(key_at(&l[k], i)), k, i };
    }
    sort_units(v, v + n + 1, n);
    for (int k = 0; k < n_layers; k++)
        memset(l[k].keep, 1, (size_t)l[k].units->n);
    for (int64_t j = 0; j < n; j++) {
        const struct pare_ranked *at = &l[v[j].layer];
        int64_t size = pare_units_size(at->units);
        bool removed = v[j].key == pare_key_bits(PARE_KEY_REMOVED);

        if (!removed && left[v[j].layer] <= 0)
            continue;
        if (!removed && lost + size > budget)
            break;
        at->keep[v[j].i] = 0;
        left[v[j].layer]--;
        lost += size;
    }
    return 0;
}

int pare_rank_global(const struct pare_ranked *l, int n_layers, double sparsity, int threads,
                     struct pare_arena *scratch, struct pare_err *err)
{
    struct pare_mark m = pare_mark(scratch);
    int64_t weights = 0, size = n_layers ? pare_units_size(l->units) : 1, budget;
    bool same = true;
    int rc;

    PARE_TRY(check_fraction("sparsity", sparsity, err));
    for (int i = 0; i < n_layers; i++) {
        PARE_TRY(check_layer(&l[i], err));
        PARE_TRY(check_fraction("max_sparsity_per_layer", l[i].max_sparsity, err));
        weights += l[i].units->n * pare_units_size(l[i].units);
        same &= pare_units_size(l[i].units) == size;
    }
    budget = count_of(weights, sparsity);
    if (same && size)
        rc = rank_same_size(l, n_layers, budget / size, threads, scratch, err);
    else
        rc = rank_sorted(l, n_layers, budget, scratch, err);
    pare_reset(scratch, m);
    return rc;
}
