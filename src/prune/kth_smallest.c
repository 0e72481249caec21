/* kth_smallest.c - which of many numbers are the smallest, without sorting them.
 *
 * Numbers are compared as integers in the same order, "keys".  The border is a key T and a position
 * `cut`: whatever is below T goes, and of those that are T the ones up to the cut.
 */
#include "kth_smallest.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#include "../base/simd.h"
#include "nth_element.h"

#define BLOCK 1024    /* numbers at a time, in the first-level cache */
#define SAMPLE 262144 /* at most so many are looked at first ... */
#define RUN 4         /* ... so many in a row */
#define SMALL 32768   /* of so few numbers all are looked at */
#define ROOM 8        /* one of so many may be near the border */
#define BINS 65536    /* of a histogram: half of a key's bits */
#define AHEAD 64      /* what is asked for before the first is needed */

struct pool {
    const struct pare_kth_smallest *part;
    const int64_t *start; /* of each part among all numbers, and the end */
    int n_parts, threads;
    int64_t n;
    uint8_t *const *keep;
    bool in_place; /* some keep is also `old` */
    struct pare_arena *scratch;
};

struct border {
    int32_t T;
    int64_t go;   /* how many of those that are T go: the first */
    int64_t ties; /* how many there are */
    int64_t cut;  /* position of the last that goes; -1: not known */
    bool written; /* the masks are there already */
};

/* ---- keys ---------------------------------------------------------------------------------- */

/* Loops over numbers are written once and built for all four kinds of numbers.  The compiler finds
 * the vectors itself: "omp simd" would fix their width before PARE_SIMD makes its clones. */
struct numbers {
    const float *x;
    const uint8_t *old;
    bool magnitude;
};

static inline int32_t key_at(const struct numbers v, int64_t i)
{
    int32_t key = pare_key(v.x[i], v.magnitude);

    return v.old && !v.old[i] ? PARE_KEY_REMOVED : key;
}

#define FOR_KINDS(call, v, ...)                                         \
    do {                                                                \
        if (v->old && v->magnitude)                                     \
            call((struct numbers){ v->x, v->old, true }, __VA_ARGS__);  \
        else if (v->old)                                                \
            call((struct numbers){ v->x, v->old, false }, __VA_ARGS__); \
        else if (v->magnitude)                                          \
            call((struct numbers){ v->x, NULL, true }, __VA_ARGS__);    \
        else                                                            \
            call((struct numbers){ v->x, NULL, false }, __VA_ARGS__);   \
    } while (0)

static inline void keys_as(const struct numbers v, int64_t n, int32_t *key)
{
    for (int64_t i = 0; i < n; i++)
        key[i] = key_at(v, i);
}

/* Where a walk over a stretch of the pool is. */
struct walk {
    const struct pool *p;
    int64_t at, end, i; /* i: inside the part */
    int part;
};

static int part_of(const struct pool *p, int64_t at)
{
    int lo = 0, hi = p->n_parts - 1;

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
    int part = part_of(p, at);

    return (struct walk){ p, at, end, at - p->start[part], part };
}

/* The t-th of so many equal stretches. */
static struct walk stretch(const struct pool *p, int t, int of)
{
    int64_t each = p->n / of, rest = p->n % of;
    int64_t a = each * t + (t < rest ? t : rest);

    return walk_from(p, a, a + each + (t < rest));
}

/* How many numbers there are in a row here, at most BLOCK; 0 at the end. */
static int64_t in_a_row(struct walk *w)
{
    int64_t n = w->end - w->at, here;

    if (n <= 0)
        return 0;
    while (w->i == w->p->part[w->part].n) {
        w->part++;
        w->i = 0;
    }
    here = w->p->part[w->part].n - w->i;
    n = n < here ? n : here;
    return n < BLOCK ? n : BLOCK;
}

static struct numbers numbers_at(const struct walk *w)
{
    const struct pare_kth_smallest *s = &w->p->part[w->part];

    return (struct numbers){ s->x + w->i, s->old ? s->old + w->i : NULL, s->magnitude };
}

PARE_SIMD static void load(const struct walk *w, int64_t n, int32_t *key)
{
    struct numbers here = numbers_at(w), *v = &here;

    FOR_KINDS(keys_as, v, n, key);
}

static void go_on(struct walk *w, int64_t n)
{
    w->at += n;
    w->i += n;
}

/* ---- the border by a bracket --------------------------------------------------------------- */

/* What one thread finds: how many are below lo, lo itself, hi itself; and those in between. */
struct tally {
    int64_t below, at_lo, at_hi;
    int32_t *key;
    int64_t *pos, n, room;
    bool full;
};

/* near[i] = 1 when the key is between lo and hi, keep[i] = 1 when it is hi or above.  Several short
 * loops over what is in the cache: each becomes plain vector code. */
static inline void classify_as(const struct numbers v, int64_t n, const int32_t bracket[2],
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

PARE_SIMD static void classify(const struct numbers *v, int64_t n, const int32_t bracket[2],
                               struct tally *t, uint8_t *near, uint8_t *keep)
{
    FOR_KINDS(classify_as, v, n, bracket, t, near, keep);
}

/* Most stretches of eight have none.  None of those that are near was removed. */
static void collect(const struct numbers *v, const uint8_t *near, int64_t n, int64_t at,
                    struct tally *t)
{
    for (int64_t i = 0; i < n; i += 8) {
        uint64_t any; /* a byte for each of eight, the first lowest */

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

static void tally(struct walk w, const int32_t bracket[2], struct tally *t)
{
    uint8_t near[BLOCK + 8], aside[BLOCK];

    for (int64_t n = in_a_row(&w); n && !t->full; n = in_a_row(&w)) {
        struct numbers v = numbers_at(&w);

        memset(near + n, 0, 8);
        classify(&v, n, bracket, t, near, w.p->in_place ? aside : w.p->keep[w.part] + w.i);
        collect(&v, near, n, w.at, t);
        go_on(&w, n);
    }
}

/* What is near the border gets its place; all else was written while it was counted. */
static void settle(const struct pool *p, const struct tally *t, struct border *b)
{
    int64_t left = b->go;
    int part = 0;

    for (int64_t i = 0; i < t->n; i++) {
        bool tie = t->key[i] == b->T && left > 0;
        int64_t ahead = t->pos[i + AHEAD < t->n ? i + AHEAD : i];

        left -= tie;
        b->cut = tie ? t->pos[i] : b->cut;
        while (t->pos[i] >= p->start[part + 1])
            part++;
        if (p->in_place)
            continue;
        if (ahead < p->start[part + 1])
            __builtin_prefetch(p->keep[part] + (ahead - p->start[part]), 1);
        p->keep[part][t->pos[i] - p->start[part]] = t->key[i] >= b->T && !tie;
    }
    b->written = !p->in_place;
}

/* Find the rank in what was counted; false: it is not there. */
static bool resolve(const struct pool *p, const struct tally *t, int64_t rank,
                    const int32_t bracket[2], int32_t *tmp, struct border *b)
{
    rank -= t->below;
    if (rank < 0 || rank >= t->at_lo + t->n + t->at_hi)
        return false;
    *b = (struct border){ .T = bracket[0], .go = rank + 1, .ties = t->at_lo, .cut = -1 };
    if (rank < t->at_lo)
        return true;
    rank -= t->at_lo;
    if (rank < t->n) {
        struct pare_nth_element v = pare_nth_element(t->key, t->n, rank, tmp);

        *b = (struct border){ .T = v.key, .go = v.before + 1, .ties = v.equal, .cut = -1 };
        settle(p, t, b);
    } else {
        b->T = bracket[1];
        b->go = rank - t->n + 1;
        b->ties = t->at_hi;
    }
    return true;
}

/* The border when it is between lo and hi and not too many others are. */
static int by_bracket(const struct pool *p, int64_t rank, const int32_t bracket[2],
                      struct border *b, bool *found, struct pare_err *err)
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
        tally(stretch(p, i, p->threads), bracket, &t[i]);
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
    *found = !all.full && resolve(p, &all, rank, bracket, key + total, b);
    return 0;
}

/* RUN numbers in a row from each of equal stretches: that is no more to fetch than one of them. */
static void sample(const struct pool *p, int64_t n, int32_t *key)
{
    uint64_t each = (uint64_t)(p->n / (n / RUN)), seed = 1;
    struct walk w[AHEAD];

    for (int64_t i = 0; i < n; i += AHEAD * RUN) {
        for (int j = 0; j < AHEAD; j++) {
            uint64_t at = (uint64_t)(i / RUN + j) * each + ((seed >> 32) * each >> 32);

            seed = seed * 6364136223846793005u + 1442695040888963407u;
            w[j] = walk_from(p, (int64_t)at, p->n);
            __builtin_prefetch(p->part[w[j].part].x + w[j].i);
        }
        for (int j = 0; j < AHEAD; j++) {
            struct numbers v = numbers_at(&w[j]);
            int64_t last = p->part[w[j].part].n - w[j].i - 1;

            for (int k = 0; k < RUN; k++)
                key[i + j * RUN + k] = key_at(v, k < last ? k : last);
        }
    }
}

/* Between which keys the one of this rank should be: a sample, ranked, and 3.5 standard deviations
 * of a sample's rank to both sides.  Of n numbers, 3 n^(2/3) make it quickest in all. */
static int guess(const struct pool *p, int64_t rank, int32_t bracket[2], struct pare_err *err)
{
    double N = (double)p->n, q = (double)rank / N, S = 3 * cbrt(N * N), dev;
    int64_t n = (int64_t)(S < SAMPLE ? S : SAMPLE) / (AHEAD * RUN) * (AHEAD * RUN), lo, hi;
    int32_t *key = pare_alloc_raw(p->scratch, (size_t)n, 2 * sizeof(*key));

    if (!key)
        return pare_no_memory(err, "to rank weights");
    sample(p, n, key);
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

/* ---- the border by histograms -------------------------------------------------------------- */

/* Two histograms in turn, so that a run of equal keys does not wait for its own counts. */
struct counts {
    int64_t even[BINS], odd[BINS];
};

/* Count by the upper half of the keys, or by the lower half of those with this upper one. */
static void count_keys(struct walk w, int64_t upper, struct counts *c)
{
    int32_t key[BLOCK + 1];

    for (int64_t n = in_a_row(&w); n; n = in_a_row(&w)) {
        load(&w, n, key);
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
        go_on(&w, n);
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
        count_keys(stretch(p, i, p->threads), upper, &c[i]);
    for (int i = 0; i < p->threads; i++)
        for (int k = 0; k < BINS; k++)
            c[0].even[k] += c[i].odd[k] + (i ? c[i].even[k] : 0);
    *count = c;
    return 0;
}

static int by_histogram(const struct pool *p, int64_t rank, struct border *b, struct pare_err *err)
{
    struct counts *c;
    uint32_t upper, lower;

    PARE_TRY(count_all(p, -1, &c, err));
    upper = pare_find_bin(c->even, &rank);
    PARE_TRY(count_all(p, upper, &c, err));
    lower = pare_find_bin(c->even, &rank);
    *b = (struct border){
        .T = (int32_t)(((upper << 16) | lower) ^ 0x80000000u),
        .go = rank + 1,
        .ties = c->even[lower],
        .cut = -1,
    };
    return 0;
}

/* ---- masks --------------------------------------------------------------------------------- */

PARE_SIMD static int64_t count_equal(const int32_t *key, int64_t n, int32_t T)
{
    int32_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += key[i] == T;
    return sum;
}

PARE_SIMD static int64_t zeros(const uint8_t *keep, int64_t n)
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
        sum += zeros(keep + i, n - i < BLOCK ? n - i : BLOCK);
    return sum;
}

/* Where the go-th of the numbers that are T stands. */
static int64_t find_cut(const struct pool *p, const struct border *b)
{
    struct walk w = walk_from(p, 0, p->n);
    int64_t left = b->go;
    int32_t key[BLOCK];

    if (b->go == b->ties)
        return p->n - 1;
    for (int64_t n = in_a_row(&w), m; n; n = in_a_row(&w)) {
        load(&w, n, key);
        m = count_equal(key, n, b->T);
        for (int64_t i = 0; left <= m; i++)
            if (key[i] == b->T && !--left)
                return w.at + i;
        left -= m;
        go_on(&w, n);
    }
    return p->n - 1;
}

static inline void write_as(const struct numbers v, int64_t n, int32_t least, uint8_t *keep)
{
    for (int64_t i = 0; i < n; i++)
        keep[i] = key_at(v, i) >= least;
}

PARE_SIMD static void write_block(const struct numbers *v, int64_t n, int32_t least, uint8_t *keep)
{
    FOR_KINDS(write_as, v, n, least, keep);
}

static void write_masks(struct walk w, const struct border *b)
{
    for (int64_t n = in_a_row(&w); n; n = in_a_row(&w)) {
        struct numbers v = numbers_at(&w);
        int32_t least = b->T;

        if (w.at <= b->cut) {
            n = b->cut + 1 - w.at < n ? b->cut + 1 - w.at : n;
            least++;
        }
        write_block(&v, n, least, w.p->keep[w.part] + w.i);
        go_on(&w, n);
    }
}

/* k is between 1 and n. */
static int find_border(const struct pool *p, int64_t k, struct border *b, struct pare_err *err)
{
    int32_t bracket[2] = { INT32_MIN, INT32_MAX };
    int64_t removed = 0;
    bool found = false;

    for (int i = 0; i < p->n_parts; i++)
        if (p->part[i].old)
            removed += pare_count_zeros(p->part[i].old, p->part[i].n);
    if (k <= removed) {
        *b = (struct border){ .T = PARE_KEY_REMOVED, .go = k, .ties = removed, .cut = -1 };
        return 0;
    }
    if (p->n > SMALL)
        PARE_TRY(guess(p, k - 1, bracket, err));
    PARE_TRY(by_bracket(p, k - 1, bracket, b, &found, err));
    return found ? 0 : by_histogram(p, k - 1, b, err);
}

static int fill_all(const struct pool *p, int64_t k, struct pare_err *err)
{
    struct border b;

    if (!k) {
        for (int i = 0; i < p->n_parts; i++)
            memset(p->keep[i], 1, (size_t)p->part[i].n);
        return 0;
    }
    PARE_TRY(find_border(p, k, &b, err));
    if (b.written)
        return 0;
    if (b.cut < 0)
        b.cut = find_cut(p, &b);
#pragma omp parallel for num_threads(p->threads) if (p->threads > 1)
    for (int i = 0; i < p->threads; i++)
        write_masks(stretch(p, i, p->threads), &b);
    return 0;
}

int pare_kth_smallest_masks(const struct pare_kth_smallest *part, int n_parts, int64_t k,
                            uint8_t *const *keep, struct pare_arena *scratch, struct pare_err *err)
{
    struct pare_mark m = pare_mark(scratch);
    int64_t *start = pare_alloc(scratch, (size_t)n_parts + 1, sizeof(*start));
    struct pool p = { .part = part, .start = start, .n_parts = n_parts, .keep = keep };
    int rc;

    if (!start)
        return pare_no_memory(err, "to rank weights");
    for (int i = 0; i < n_parts; i++) {
        start[i + 1] = start[i] + part[i].n;
        p.in_place |= part[i].old == keep[i];
    }
    p.n = start[n_parts];
    p.scratch = scratch;
    p.threads = n_parts && part->threads > 1 && p.n > SMALL ? part->threads : 1;
    if (k < 0 || k > p.n)
        rc = pare_fail(err, PARE_ELIMIT, "%lld of %lld numbers cannot be removed", (long long)k,
                       (long long)p.n);
    else
        rc = fill_all(&p, k, err);
    pare_reset(scratch, m);
    return rc;
}

int pare_kth_smallest_mask(const struct pare_kth_smallest *s, int64_t k, uint8_t *keep,
                           struct pare_arena *scratch, struct pare_err *err)
{
    return pare_kth_smallest_masks(s, 1, k, &keep, scratch, err);
}
