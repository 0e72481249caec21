/* same_grams.c - Gram matrices that several processes collect are those that one collects alone,
 * to 1e-12: same_grams MODEL, started by mpirun. */
#include <math.h>
#include <stdio.h>

#include "base/arena.h"
#include "compress/fisher.h"
#include "compress/grams.h"
#include "compress/wrap.h"

/* Fisher information by all processes and by one, with and without labels. */
static int collect_fisher(struct pare_model *m, struct pare_data *data, struct pare_gram *g, int n,
                          struct pare_dist *dist, double *worst, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);

    for (int own = 0; own < 2; own++) {
        struct pare_fisher_source s = { .model = m,
                                        .data = data,
                                        .items = 300,
                                        .own = own,
                                        .threads = 1 };
        struct pare_fisher shared[8] = { 0 }, alone[8] = { 0 };

        for (int i = 0; i < n; i++)
            shared[i].layer = alone[i].layer = g[i].layer;
        PARE_TRY(pare_fisher_collect(&s, a, alone, n, err));
        s.dist = dist;
        PARE_TRY(pare_fisher_collect(&s, a, shared, n, err));
        for (int i = 0; i < n; i++) {
            double size = 0, off = fabs(alone[i].count - shared[i].count);

            for (int64_t k = 0; k < alone[i].n; k++) {
                size = fmax(size, fabs(alone[i].f[k]));
                off = fmax(off, fabs(alone[i].f[k] - shared[i].f[k]));
            }
            *worst = fmax(*worst, size > 0 ? off / size : 1);
        }
    }
    pare_arena_free(a);
    return 0;
}

static int collect(const char *path, struct pare_dist *dist, double *worst, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m;
    struct pare_data *data;
    struct pare_graph *g;
    struct pare_layer_info *list;
    struct pare_gram shared[8], alone[8];
    struct pare_gram_source s = { .items = 100, .threads = 1, .flops = 1e5 };
    int n, count = 0;

    PARE_TRY(pare_model_load(path, &m, err));
    PARE_TRY(pare_data_open("digits", "train", NULL, &data, err));
    PARE_TRY(pare_model_layers(m, a, &g, &list, &n, err));
    for (int i = 0; i < n && count < 8; i++)
        count += pare_gram_of(&list[i], &shared[count]);
    for (int i = 0; i < count; i++)
        alone[i] = shared[i];
    s.model = s.other = m;
    s.data = data;
    PARE_TRY(pare_grams_collect(&s, a, alone, count, err));
    s.dist = dist;
    PARE_TRY(pare_grams_collect(&s, a, shared, count, err));
    for (int i = 0; i < count; i++) {
        double size = 0, off = fabs(alone[i].n - shared[i].n);

        for (int64_t k = 0; k < shared[i].groups * shared[i].k * shared[i].k; k++) {
            size = fmax(size, fabs(alone[i].g[k]));
            off = fmax(off, fabs(alone[i].g[k] - shared[i].g[k]));
            off = fmax(off, fabs(alone[i].cross[k] - shared[i].cross[k]));
        }
        *worst = fmax(*worst, off / size);
    }
    PARE_TRY(collect_fisher(m, data, alone, count, dist, worst, err));
    pare_data_free(data);
    pare_model_free(m);
    pare_arena_free(a);
    return count ? 0 : pare_fail(err, PARE_ECONFIG, "there are no layers");
}

int main(int argc, char **argv)
{
    struct pare_dist *dist = NULL;
    struct pare_err err = { 0 };
    double worst = 0;
    int rc = argc == 2 ? pare_dist_open(&dist, &err) : 1;

    if (!rc)
        rc = collect(argv[1], dist, &worst, &err);
    if (rc)
        fprintf(stderr, "same_grams: %s\n", err.msg);
    else if (pare_dist_rank(dist) == 0)
        printf("%d processes: Grams and Fisher information agree to %s\n", pare_dist_size(dist),
               worst < 1e-12 ? "1e-12" : "less than 1e-12");
    rc = rc || !(worst < 1e-12);
    pare_dist_close(dist);
    return rc;
}
