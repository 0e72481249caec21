/* obs_columns.h - removal of groups of columns by optimal brain surgeon, in the order of cost. */
#ifndef PARE_PRUNE_OBS_COLUMNS_H
#define PARE_PRUNE_OBS_COLUMNS_H

#include <pare/pare.h>

/* A matrix that the groups have columns of. */
struct pare_obs_columns {
    int64_t rows, k;
    double *w;       /* (rows, k); is overwritten by what is left */
    double *inverse; /* (k, k); is overwritten */
    const int64_t *start,
        *column; /* columns of group i: column[start[i]] to column[start[i + 1]] */
    int threads;
};

struct pare_obs_removal {
    struct pare_obs_columns *m;
    int n_matrices;
    int64_t n;      /* groups */
    int64_t *order; /* out, (n): groups in the order of removal */
    double *error;  /* out, (n + 1): the sum of the costs so far, each not less than those before */
};

/* Remove all groups, the cheapest one next: costs of the matrices add. */
int pare_obs_remove_columns(const struct pare_obs_removal *r, struct pare_arena *a,
                            struct pare_err *err);

#endif
