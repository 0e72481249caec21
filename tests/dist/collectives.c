/* collectives.c - collective operations of N processes: collectives N. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dist/dist.h"

#define BIG 300000 /* larger than a bucket */
#define ITEMS 40

static struct pare_dist *d;
static int rank, size, failures;
static struct pare_err err;

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "process %d of %d: %s: %s\n", rank, size, what, err.msg);
    failures++;
}

#define CHECK(condition) check(condition, #condition)

static void test_merge(void)
{
    double sum = rank + 1;
    float low[2] = { (float)rank, (float)-rank }, high[2] = { (float)rank, (float)-rank };
    int64_t count[2] = { 1, (int64_t)1 << 40 };
    uint8_t byte = 1;

    CHECK(!pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, &sum, 1, &err));
    CHECK(sum == size * (size + 1) / 2.0);
    CHECK(!pare_dist_merge(d, PARE_MERGE_MIN, PARE_F32, low, 2, &err));
    CHECK(low[0] == 0 && low[1] == (float)(1 - size));
    CHECK(!pare_dist_merge(d, PARE_MERGE_MAX, PARE_F32, high, 2, &err));
    CHECK(high[0] == (float)(size - 1) && high[1] == 0);
    CHECK(!pare_dist_merge(d, PARE_MERGE_SUM, PARE_I64, count, 2, &err));
    CHECK(count[0] == size && count[1] == size * ((int64_t)1 << 40));
    CHECK(pare_dist_merge(d, PARE_MERGE_SUM, PARE_U8, &byte, 1, &err) == PARE_ECONFIG || !d);
    pare_dist_suspend(d, true);
    CHECK(!pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, &sum, 1, &err));
    CHECK(sum == size * (size + 1) / 2.0);
    pare_dist_suspend(d, false);
}

/* Several asynchronous operations at a time, interleaved with blocking ones. */
static void test_asynchronous(void)
{
    static float x[3][BIG];
    double one = 1;
    uint64_t hash;
    int64_t which;

    for (int k = 0; k < 3; k++)
        for (int i = 0; i < BIG; i++)
            x[k][i] = (float)(i % 1000 + k) / (float)(rank + 3);
    CHECK(!pare_dist_start(d, PARE_F32, x[0], BIG, &err));
    if (rank % 2)
        CHECK(!pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, &one, 1, &err));
    CHECK(!pare_dist_start(d, PARE_F32, x[1], BIG, &err));
    if (rank % 2 == 0)
        CHECK(!pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, &one, 1, &err));
    pare_dist_poll(d);
    CHECK(!pare_dist_start(d, PARE_F32, x[2], BIG, &err));
    CHECK(!pare_dist_finish(d, &err));
    CHECK(one == size);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < BIG; i += 999) {
            double want = 0;

            for (int r = 0; r < size; r++)
                want += (double)((float)(i % 1000 + k) / (float)(r + 3));
            CHECK(fabs((double)x[k][i] - want) <= 1e-6 * want);
        }
    hash = pare_dist_hash(x, sizeof(x)); /* bit-identical in all processes */
    CHECK(!pare_dist_same(d, &hash, 1, &which, &err) && which == -1);
}

static void test_compare(void)
{
    uint64_t hash[3] = { 7, 8, 9 };
    int64_t which;
    char text[8] = "other";

    CHECK(!pare_dist_same(d, hash, 3, &which, &err) && which == -1);
    hash[1] += rank == size - 1;
    CHECK(!pare_dist_same(d, hash, 3, &which, &err) && which == (size > 1 ? 1 : -1));
    if (!rank)
        strncpy(text, "first", sizeof(text));
    CHECK(!pare_dist_broadcast(d, text, sizeof(text), &err) && !strcmp(text, "first"));
    CHECK(pare_dist_hash("abcdefgh1", 9) != pare_dist_hash("abcdefgh2", 9));
    CHECK(pare_dist_hash("a\0", 2) != pare_dist_hash("a", 1));
}

/* Process r > 0 has the r + 1 values r * 100 .. r * 100 + r; the first process has none. */
static void test_moments(void)
{
    double mean[1], var[1], work[3], sum = 0, square = 0, n = 0;
    struct pare_moments m = { mean, var, work, 1, rank ? rank + 1 : 1 };

    if (!d)
        return;
    for (int r = 1; r < size; r++)
        for (int i = 0; i <= r; i++, n++)
            sum += r * 100 + i;
    for (int r = 1; r < size; r++)
        for (int i = 0; i <= r; i++)
            square += pow(r * 100 + i - sum / n, 2);
    mean[0] = rank * 100 + rank / 2.0;
    var[0] = (pow(rank + 1, 2) - 1) / 12;
    pare_dist_batch(d, rank ? rank + 1 : 0, (int64_t)n);
    CHECK(fabs(pare_dist_part(d) - (rank ? rank + 1 : 0) / n) < 1e-15);
    CHECK(!pare_dist_moments(d, &m, &err));
    CHECK(m.count == n && fabs(mean[0] - sum / n) < 1e-9);
    CHECK(fabs(var[0] - square / n) < 1e-9 * (square + 1));
    pare_dist_batch(d, 1, 1);
}

struct result {
    int64_t square;
    int32_t rank; /* of the process that computed it, plus 1 */
};

static int compute(void *user, int64_t i, void *result, struct pare_err *e)
{
    struct result *m = result;

    (void)e;
    ++*(int *)user;
    usleep(i == 3 ? 200000 : 2000); /* one item takes as long as a hundred others */
    m->square = i * i;
    m->rank = (int32_t)rank + 1;
    return 0;
}

static void test_work(void)
{
    static struct result results[ITEMS];
    int own = 0, seen = 0;
    int64_t all;
    struct pare_work w = { ITEMS, sizeof(*results), results, compute, &own };

    for (int again = 0; again < 2; again++) {
        own = 0;
        memset(results, 1, sizeof(results));
        CHECK(!pare_dist_work(d, &w, &err));
        for (int64_t i = 0; i < ITEMS; i++) {
            CHECK(results[i].square == i * i && results[i].rank >= 1 && results[i].rank <= size);
            seen += results[i].rank == rank + 1;
        }
        all = own;
        CHECK(!pare_dist_merge(d, PARE_MERGE_SUM, PARE_I64, &all, 1, &err));
        CHECK(all == ITEMS && seen == own); /* each item once */
        seen = 0;
    }
}

int main(int argc, char **argv)
{
    int want = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    int64_t bad;

    if (pare_dist_open(&d, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    rank = pare_dist_rank(d);
    size = pare_dist_size(d);
    CHECK(size == want && rank < size && !d == (want == 1));
    CHECK(!d || pare_dist_env_rank() == rank);
    CHECK(!d || pare_dist_threads(d) >= 1);
    test_merge();
    test_asynchronous();
    test_compare();
    test_moments();
    test_work();
    CHECK(!pare_dist_barrier(d, &err));
    bad = failures;
    pare_dist_merge(d, PARE_MERGE_SUM, PARE_I64, &bad, 1, &err);
    pare_dist_close(d);
    return bad > 0;
}
