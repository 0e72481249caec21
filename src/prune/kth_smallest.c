/* kth_smallest.c - mask of the k smallest of many values, without sorting.
 *
 * Values are compared by integer keys of the same order.  The threshold is a key T and a position
 * `cut`: keys below T are removed, and of the keys equal to T those up to the cut.
 */
#include "kth_smallest.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#include "../base/simd.h"
#include "nth_element.h"

#define BLOCK 1024    /* values per inner loop; they fit in the L1 cache */
#define SAMPLE 262144 /* maximum sample size, in values */
#define RUN 4         /* consecutive values per sampled position */
#define SMALL 32768   /* up to this many values, all are collected and none sampled */
#define ROOM 8        /* room for one candidate near the threshold per ROOM values */
#define BINS 65536    /* histogram bins: half of a key's bits */
#define AHEAD 64      /* prefetch distance */

struct pool {
    const struct pare_kth_smallest *array;
    const int64_t *start; /* position of each array's first value; the last entry is the end */
    int n_arrays, threads;
    int64_t n;
    uint8_t *const *keep;
    bool in_place; /* some keep is also `old` */
    struct pare_arena *scratch;
};

struct threshold {
    int32_t T;
    int64_t remove; /* number of keys equal to T to remove: the first ones */
    int64_t ties;   /* number of keys equal to T */
    int64_t cut;    /* position of the last one removed; -1: not known yet */
    bool written;   /* the masks are written already */
};

/* ---- keys ------------------------------------------------------------------------------------ */

/* Loops over values are written once and instantiated for all four combinations of old and
 * magnitude.  They rely on auto-vectorization: "omp simd" would fix the vector width before
 * PARE_SIMD makes its clones. */
struct values {
    const float *x;
    const uint8_t *old;
    bool magnitude;
};

static inline int32_t key_at(const struct values v, int64_t i)
{
    int32_t key = pare_key(v.x[i], v.magnitude);

    return v.old && !v.old[i] ? PARE_KEY_REMOVED : key;
}

#define FOR_KINDS(call, v, ...)                                        \
    do {                                                               \
        if (v->old && v->magnitude)                                    \
            call((struct values){ v->x, v->old, true }, __VA_ARGS__);  \
        else if (v->old)                                               \
            call((struct values){ v->x, v->old, false }, __VA_ARGS__); \
        else if (v->magnitude)                                         \
            call((struct values){ v->x, NULL, true }, __VA_ARGS__);    \
        else                                                           \
            call((struct values){ v->x, NULL, false }, __VA_ARGS__);   \
    } while (0)

static inline void keys_as(const struct values v, int64_t n, int32_t *key)
{
    for (int64_t i = 0; i < n; i++)
        key[i] = key_at(v, i);
}

/* Iterator over a range of the pool. */
struct walk {
    const struct pool *p;
    int64_t at, end, i; /* at: position in the pool; i: index in the array */
    int array;
};

static int array_of(const struct pool *p, int64_t at)
{
    int lo = 0, hi = p->n_arrays - 1;

    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;

        if (p->start[mid] <= at)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static struct walk walk_from(const struct pool *p, int64_t at, int64_t end)
{
    int array = array_of(p, at);

    return (struct walk){ p, at, end, at - p->start[array], array };
}

/* The t-th of `of` ranges of nearly equal length. */
static struct walk thread_range(const struct pool *p, int t, int of)
{
    int64_t each = p->n / of, rest = p->n % of;
    int64_t a = each * t + (t < rest ? t : rest);

    return walk_from(p, a, a + each + (t < rest));
}

/* Number of contiguous values at the iterator, at most BLOCK; 0 at the end. */
static int64_t contiguous(struct walk *w)
{
    int64_t n = w->end - w->at, here;

    if (n <= 0)
        return 0;
    while (w->i == w->p->array[w->array].n) {
        w->array++;
        w->i = 0;
    }
    here = w->p->array[w->array].n - w->i;
    n = n < here ? n : here;
    return n < BLOCK ? n : BLOCK;
}

static struct values values_at(const struct walk *w)
{
    const struct pare_kth_smallest *s = &w->p->array[w->array];

    return (struct values){ s->x + w->i, s->old ? s->old + w->i : NULL, s->magnitude };
}

PARE_SIMD static void load_keys(const struct walk *w, int64_t n, int32_t *key)
{
    struct values here = values_at(w), *v = &here;

    FOR_KINDS(keys_as, v, n, key);
}

static void advance(struct walk *w, int64_t n)
{
    w->at += n;
    w->i += n;
}

/* ---- threshold from a sampled bracket -------------------------------------------------------- */

/* One thread's counts of keys below lo, equal to lo and equal to hi, and the keys in between with
 * their positions.  full: more keys in between than room. */
struct tally {
    int64_t below, at_lo, at_hi;
    int32_t *key;
    int64_t *pos, n, room;
    bool full;
};

/* near[i] = 1 if the key is between lo and hi, keep[i] = 1 if it is hi or above.  Several short
 * loops over cached values: each vectorizes. */
static inline void classify_as(const struct values v, int64_t n, const int32_t bracket[2],
                               struct tally *t, uint8_t *restrict near, uint8_t *restrict keep)
{
    int32_t below = 0, at_lo = 0, at_hi = 0, lo = bracket[0], hi = bracket[1];

    for (int64_t i = 0; i < n; i++) {
        int32_t key = key_at(v, i);

        below += key < lo;
        at_lo += key == lo;
        at_hi += key == hi;
    }
    for (int64_t i = 0; i < n; i++)
        keep[i] = key_at(v, i) >= hi;
    for (int64_t i = 0; i < n; i++)
        near[i] = key_at(v, i) > lo;
    for (int64_t i = 0; i < n; i++)
        near[i] ^= keep[i];
    t->below += below;
    t->at_lo += at_lo;
    t->at_hi += at_hi;
}

PARE_SIMD static void classify(const struct values *v, int64_t n, const int32_t bracket[2],
                               struct tally *t, uint8_t *near, uint8_t *keep)
{
    FOR_KINDS(classify_as, v, n, bracket, t, near, keep);
}

/* Appends the near keys.  Most groups of eight have none.  None of the near values has old 0. */
static void collect_near(const struct values *v, const uint8_t *near, int64_t n, int64_t at,
                         struct tally *t)
{
    for (int64_t i = 0; i < n; i += 8) {
        uint64_t any; /* one byte for each of eight values, the first lowest */

        memcpy(&any, near + i, 8);
        if (any && t->n + 8 > t->room) {
            t->full = true;
            return;
        }
        for (any = le64toh(any); any; any &= any - 1) {
            int64_t j = i + __builtin_ctzll(any) / 8;

            t->key[t->n] = pare_key(v->x[j], v->magnitude);
            t->pos[t->n++] = at + j;
        }
    }
}

static void tally_range(struct walk w, const int32_t bracket[2], struct tally *t)
{
    uint8_t near[BLOCK + 8], aside[BLOCK];

    for (int64_t n = contiguous(&w); n && !t->full; n = contiguous(&w)) {
        struct values v = values_at(&w);

        memset(near + n, 0, 8);
        classify(&v, n, bracket, t, near, w.p->in_place ? aside : w.p->keep[w.array] + w.i);
        collect_near(&v, near, n, w.at, t);
        advance(&w, n);
    }
}

/* Writes the masks of the collected keys; all others were written when they were counted. */
static void write_near(const struct pool *p, const struct tally *t, struct threshold *b)
{
    int64_t left = b->remove;
    int array = 0;

    for (int64_t i = 0; i < t->n; i++) {
        bool tie = t->key[i] == b->T && left > 0;
        int64_t ahead = t->pos[i + AHEAD < t->n ? i + AHEAD : i];

        left -= tie;
        b->cut = tie ? t->pos[i] : b->cut;
        while (t->pos[i] >= p->start[array + 1])
            array++;
        if (p->in_place)
            continue;
        if (ahead < p->start[array + 1])
            __builtin_prefetch(p->keep[array] + (ahead - p->start[array]), 1);
        p->keep[array][t->pos[i] - p->start[array]] = t->key[i] >= b->T && !tie;
    }
    b->written = !p->in_place;
}

/* Finds the key of this rank among those counted; false: it is outside the bracket. */
static bool find_rank(const struct pool *p, const struct tally *t, int64_t rank,
                      const int32_t bracket[2], int32_t *tmp, struct threshold *b)
{
    rank -= t->below;
    if (rank < 0 || rank >= t->at_lo + t->n + t->at_hi)
        return false;
    *b = (struct threshold){ .T = bracket[0], .remove = rank + 1, .ties = t->at_lo, .cut = -1 };
    if (rank < t->at_lo)
        return true;
    rank -= t->at_lo;
    if (rank < t->n) {
        struct pare_nth_element v = pare_nth_element(t->key, t->n, rank, tmp);

        *b = (struct threshold){ .T = v.key, .remove = v.before + 1, .ties = v.equal, .cut = -1 };
        write_near(p, t, b);
    } else {
        b->T = bracket[1];
        b->remove = rank - t->n + 1;
        b->ties = t->at_hi;
    }
    return true;
}

/* Finds the threshold if it is in the bracket and few enough other keys are. */
static int threshold_in_bracket(const struct pool *p, int64_t rank, const int32_t bracket[2],
                                struct threshold *b, bool *found, struct pare_err *err)
{
    int64_t room = p->n <= SMALL ? p->n + 8 : p->n / ROOM / p->threads + 8;
    size_t total = (size_t)room * (size_t)p->threads;
    struct tally *t = pare_alloc(p->scratch, (size_t)p->threads, sizeof(*t)), all = { 0 };
    int32_t *key = pare_alloc_raw(p->scratch, total, 2 * sizeof(*key));
    int64_t *pos = pare_alloc_raw(p->scratch, total, sizeof(*pos));

    if (!t || !key || !pos)
        return pare_no_memory(err, "to rank weights");
#pragma omp parallel for num_threads(p->threads) if (p->threads > 1)
    for (int i = 0; i < p->threads; i++) {
        t[i].key = key + i * room;
        t[i].pos = pos + i * room;
        t[i].room = room;
        tally_range(thread_range(p, i, p->threads), bracket, &t[i]);
    }
    all.key = key;
    all.pos = pos;
    for (int i = 0; i < p->threads; i++) {
        memmove(key + all.n, t[i].key, (size_t)t[i].n * sizeof(*key));
        memmove(pos + all.n, t[i].pos, (size_t)t[i].n * sizeof(*pos));
        all.n += t[i].n;
        all.below += t[i].below;
        all.at_lo += t[i].at_lo;
        all.at_hi += t[i].at_hi;
        all.full |= t[i].full;
    }
    *found = !all.full && find_rank(p, &all, rank, bracket, key + total, b);
    return 0;
}

/* Reads RUN consecutive values at each position: one cache line serves them all. */
static void sample_keys(const struct pool *p, int64_t n, int32_t *key)
{
    uint64_t each = (uint64_t)(p->n / (n / RUN)), seed = 1;
    struct walk w[AHEAD];

    for (int64_t i = 0; i < n; i += AHEAD * RUN) {
        for (int j = 0; j < AHEAD; j++) {
            uint64_t at = (uint64_t)(i / RUN + j) * each + ((seed >> 32) * each >> 32);

            seed = seed * 6364136223846793005u + 1442695040888963407u;
            w[j] = walk_from(p, (int64_t)at, p->n);
            __builtin_prefetch(p->array[w[j].array].x + w[j].i);
        }
        for (int j = 0; j < AHEAD; j++) {
            struct values v = values_at(&w[j]);
            int64_t last = p->array[w[j].array].n - w[j].i - 1;

            for (int k = 0; k < RUN; k++)
                key[i + j * RUN + k] = key_at(v, k < last ? k : last);
        }
    }
}

/* Finds a bracket of keys that should contain the key of this rank: ranks a sample, and allows 3.5
 * standard deviations of a sample's rank to both sides.  A sample of 3 n^(2/3) of n values
 * minimizes the total time. */
static int guess_bracket(const struct pool *p, int64_t rank, int32_t bracket[2],
                         struct pare_err *err)
{
    double N = (double)p->n, q = (double)rank / N, S = 3 * cbrt(N * N), dev;
    int64_t n = (int64_t)(S < SAMPLE ? S : SAMPLE) / (AHEAD * RUN) * (AHEAD * RUN), lo, hi;
    int32_t *key = pare_alloc_raw(p->scratch, (size_t)n, 2 * sizeof(*key));

    if (!key)
        return pare_no_memory(err, "to rank weights");
    sample_keys(p, n, key);
    S = (double)n;
    dev = 3.5 * sqrt(S * q * (1 - q)) + 8;
    lo = (int64_t)floor(q * S - dev);
    hi = (int64_t)ceil(q * S + dev);
    bracket[0] = lo < 0 ? INT32_MIN : pare_nth_element(key, n, lo, key + n).key;
    bracket[1] = hi >= n ? INT32_MAX : pare_nth_element(key, n, hi, key + n).key;
    if (bracket[0] == bracket[1])
        bracket[1]++;
    return 0;
}

/* ---- threshold from histograms --------------------------------------------------------------- */

/* Two alternating histograms, so that a run of equal keys does not wait for its own counts. */
struct counts {
    int64_t even[BINS], odd[BINS];
};

/* Counts by the upper half of the keys (upper -1), or by the lower half of keys with this upper
 * half. */
static void count_keys(struct walk w, int64_t upper, struct counts *c)
{
    int32_t key[BLOCK + 1];

    for (int64_t n = contiguous(&w); n; n = contiguous(&w)) {
        load_keys(&w, n, key);
        if (upper < 0)
            for (int64_t i = 0; i + 1 < n; i += 2) {
                c->even[pare_key_bits(key[i]) >> 16]++;
                c->odd[pare_key_bits(key[i + 1]) >> 16]++;
            }
        if (upper < 0 && n % 2)
            c->even[pare_key_bits(key[n - 1]) >> 16]++;
        for (int64_t i = 0; upper >= 0 && i < n; i++)
            if (pare_key_bits(key[i]) >> 16 == upper)
                c->even[pare_key_bits(key[i]) & 0xffff]++;
        advance(&w, n);
    }
}

static int count_all(const struct pool *p, int64_t upper, struct counts **count,
                     struct pare_err *err)
{
    struct counts *c = pare_alloc(p->scratch, (size_t)p->threads, sizeof(*c));

    if (!c)
        return pare_no_memory(err, "to rank weights");
#pragma omp parallel for num_threads(p->threads) if (p->threads > 1)
    for (int i = 0; i < p->threads; i++)
        count_keys(thread_range(p, i, p->threads), upper, &c[i]);
    for (int i = 0; i < p->threads; i++)
        for (int k = 0; k < BINS; k++)
            c[0].even[k] += c[i].odd[k] + (i ? c[i].even[k] : 0);
    *count = c;
    return 0;
}

static int threshold_by_histogram(const struct pool *p, int64_t rank, struct threshold *b,
                                  struct pare_err *err)
{
    struct counts *c;
    uint32_t upper, lower;

    PARE_TRY(count_all(p, -1, &c, err));
    upper = pare_find_bin(c->even, &rank);
    PARE_TRY(count_all(p, upper, &c, err));
    lower = pare_find_bin(c->even, &rank);
    *b = (struct threshold){
        .T = (int32_t)(((upper << 16) | lower) ^ 0x80000000u),
        .remove = rank + 1,
        .ties = c->even[lower],
        .cut = -1,
    };
    return 0;
}

/* ---- masks ----------------------------------------------------------------------------------- */

PARE_SIMD static int64_t count_equal(const int32_t *key, int64_t n, int32_t T)
{
    int32_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += key[i] == T;
    return sum;
}

PARE_SIMD static int64_t count_zeros_block(const uint8_t *keep, int64_t n)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += !keep[i];
    return sum;
}

int64_t pare_count_zeros(const uint8_t *keep, int64_t n)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < n; i += BLOCK)
        sum += count_zeros_block(keep + i, n - i < BLOCK ? n - i : BLOCK);
    return sum;
}

/* Position of the last removed key that equals T. */
static int64_t find_cut(const struct pool *p, const struct threshold *b)
{
    struct walk w = walk_from(p, 0, p->n);
    int64_t left = b->remove;
    int32_t key[BLOCK];

    if (b->remove == b->ties)
        return p->n - 1;
    for (int64_t n = contiguous(&w), m; n; n = contiguous(&w)) {
        load_keys(&w, n, key);
        m = count_equal(key, n, b->T);
        for (int64_t i = 0; left <= m; i++)
            if (key[i] == b->T && !--left)
                return w.at + i;
        left -= m;
        advance(&w, n);
    }
    return p->n - 1;
}

static inline void write_as(const struct values v, int64_t n, int32_t least, uint8_t *keep)
{
    for (int64_t i = 0; i < n; i++)
        keep[i] = key_at(v, i) >= least;
}

PARE_SIMD static void write_block(const struct values *v, int64_t n, int32_t least, uint8_t *keep)
{
    FOR_KINDS(write_as, v, n, least, keep);
}

static void write_masks(struct walk w, const struct threshold *b)
{
    for (int64_t n = contiguous(&w); n; n = contiguous(&w)) {
        struct values v = values_at(&w);
        int32_t least = b->T;

        if (w.at <= b->cut) {
            n = b->cut + 1 - w.at < n ? b->cut + 1 - w.at : n;
            least++;
        }
        write_block(&v, n, least, w.p->keep[w.array] + w.i);
        advance(&w, n);
    }
}

/* Requires 1 <= k <= n. */
static int find_threshold(const struct pool *p, int64_t k, struct threshold *b,
                          struct pare_err *err)
{
    int32_t bracket[2] = { INT32_MIN, INT32_MAX };
    int64_t removed = 0;
    bool found = false;

    for (int i = 0; i < p->n_arrays; i++)
        if (p->array[i].old)
            removed += pare_count_zeros(p->array[i].old, p->array[i].n);
    if (k <= removed) {
        *b = (struct threshold){ .T = PARE_KEY_REMOVED, .remove = k, .ties = removed, .cut = -1 };
        return 0;
    }
    if (p->n > SMALL)
        PARE_TRY(guess_bracket(p, k - 1, bracket, err));
    PARE_TRY(threshold_in_bracket(p, k - 1, bracket, b, &found, err));
    return found ? 0 : threshold_by_histogram(p, k - 1, b, err);
}

static int compute_masks(const struct pool *p, int64_t k, struct pare_err *err)
{
    struct threshold b;

    if (!k) {
        for (int i = 0; i < p->n_arrays; i++)
            memset(p->keep[i], 1, (size_t)p->array[i].n);
        return 0;
    }
    PARE_TRY(find_threshold(p, k, &b, err));
    if (b.written)
        return 0;
    if (b.cut < 0)
        b.cut = find_cut(p, &b);
#pragma omp parallel for num_threads(p->threads) if (p->threads > 1)
    for (int i = 0; i < p->threads; i++)
        write_masks(thread_range(p, i, p->threads), &b);
    return 0;
}

int pare_kth_smallest_masks(const struct pare_kth_smallest *array, int n_arrays, int64_t k,
                            uint8_t *const *keep, struct pare_arena *scratch, struct pare_err *err)
{
    struct pare_mark m = pare_mark(scratch);
    int64_t *start = pare_alloc(scratch, (size_t)n_arrays + 1, sizeof(*start));
    struct pool p = { .array = array, .start = start, .n_arrays = n_arrays, .keep = keep };
    int rc;

    if (!start)
        return pare_no_memory(err, "to rank weights");
    for (int i = 0; i < n_arrays; i++) {
        start[i + 1] = start[i] + array[i].n;
        p.in_place |= array[i].old == keep[i];
    }
    p.n = start[n_arrays];
    p.scratch = scratch;
    p.threads = n_arrays && array->threads > 1 && p.n > SMALL ? array->threads : 1;
    if (k < 0 || k > p.n)
        rc = pare_fail(err, PARE_ELIMIT, "cannot remove %lld of %lld values", (long long)k,
                       (long long)p.n);
    else
        rc = compute_masks(&p, k, err);
    pare_reset(scratch, m);
    return rc;
}

int pare_kth_smallest_mask(const struct pare_kth_smallest *s, int64_t k, uint8_t *keep,
                           struct pare_arena *scratch, struct pare_err *err)
{
    return pare_kth_smallest_masks(s, 1, k, &keep, scratch, err);
}
