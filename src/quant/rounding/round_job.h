/* round_job.h - what the methods of rounding.h share: a matrix in the order of its columns' power,
 * the target, the best levels so far, errors in the norm of the Gram matrix, descent. */
#ifndef PARE_QUANT_ROUND_JOB_H
#define PARE_QUANT_ROUND_JOB_H

#include "gram_round.h"

#define PARE_ROUND_COLUMNS 64       /* columns between two updates of the rest */
#define PARE_ROUND_CHUNK (32 << 20) /* bytes of rows that are rounded at a time */

struct pare_round_job {
    struct pare_gram_round *r;
    struct pare_arena *a;
    int64_t *order;     /* (k) columns by descending power */
    double *g, *u;      /* (k, k) in that order; NULL: no data */
    double *w, *target; /* (rows, k) in that order: W, W* */
    int16_t *level;     /* (rows, k) in that order: the best so far, with the scales of r */
    uint8_t *keep;      /* (rows, k) in that order, or NULL */
    double *errors;     /* (rows) of `level` */
};

/* Rows of a job that are rounded together, `copies` of each: copy i has scale[i * blocks + ...]. */
struct pare_round_rows {
    int64_t from, n, copies; /* n: all copies; the first is a copy of row `from` */
    double *w;               /* (n, k) of the method */
    double *target, *e, *grad, *errors;
    double *carried; /* (n, PARE_ROUND_COLUMNS) */
    int16_t *level;
    float *scale, *zero;
    const uint8_t *keep; /* of row `from`, or NULL */
};

/* Buffers for `most` rows. */
int pare_round_rows_new(const struct pare_round_job *j, int64_t most, struct pare_round_rows *m,
                        struct pare_err *err);

/* Begin with `copies` copies of n rows of the job: targets are set, levels and scales are not. */
void pare_round_rows_take(const struct pare_round_job *j, int64_t from, int64_t n, int64_t copies,
                          struct pare_round_rows *m);

/* Is the weight fixed at 0? */
static inline bool pare_round_is_fixed(const struct pare_round_rows *m, int64_t row, int64_t k,
                                       int64_t c)
{
    return m->keep && !m->keep[row / m->copies * k + c];
}

/* e = Q - W*, grad = e G, errors of rows: e grad'. */
void pare_round_measure(const struct pare_round_job *j, struct pare_round_rows *m);

/* Move single weights to the level with the least error, until none moves; then measure. */
void pare_round_descend(const struct pare_round_job *j, struct pare_round_rows *m);

/* Where the best copy of a row is better than the job's levels, it replaces them. */
void pare_round_keep(const struct pare_round_job *j, const struct pare_round_rows *m);

/* Scales of all blocks of the rows (copies: 1) for weights x (rows, k) in the columns' order. */
int pare_round_fit(const struct pare_round_job *j, const struct pare_rounding_method *by,
                   const double *x, struct pare_round_rows *m, struct pare_err *err);

/* Levels of the rows that are nearest to x (rows, k). */
void pare_round_nearest(const struct pare_round_job *j, const double *x, struct pare_round_rows *m);

/* Begin with the job's own levels and scales of n rows, measured. */
void pare_round_rows_resume(const struct pare_round_job *j, int64_t from, int64_t n,
                            struct pare_round_rows *m);

/* Scales by least squares for the levels of the rows (copies: 1); then measure (round_refit.c). */
int pare_round_refit(const struct pare_round_job *j, struct pare_round_rows *m,
                     struct pare_err *err);

/* w -= e u */
void pare_round_carry(double *w, const double *u, double e, int64_t n);

/* The method gptq, which others start from. */
int pare_round_gptq(struct pare_round_job *j, struct pare_err *err);

#endif
