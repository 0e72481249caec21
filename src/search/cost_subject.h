/* cost_subject.h - the model of one assignment with its plan, and the times of its layers. */
#ifndef PARE_SEARCH_COST_SUBJECT_H
#define PARE_SEARCH_COST_SUBJECT_H

#include "cost_table.h"

struct pare_cost_subject {
    int64_t *count;                /* by group */
    enum pare_cost_format *format; /* by layer */
    bool mixed;                    /* layers have different formats */
    double bytes;                  /* of the file */
    struct pare_plan *plan;
    struct pare_tensor *in, *out;
    int n_in, n_out;
    int n_steps;
    int *layer;       /* by step: the layer, or n_layers + the layer after which it comes;
                         * -1: it comes before all layers */
    double *step_us;  /* least median so far */
    double *run_us;   /* scratch: runs of a round */
    double total_us;  /* the same of the whole plan */
    double *layer_us; /* by layer: sum of its steps; 2 * n_layers, then steps after it */
};

/* Build the model and its plan; count and format are set.  Close it in any case. */
int pare_cost_subject_open(const struct pare_model *m, const struct pare_cost_table *t,
                           const struct pare_cost_opts *o, struct pare_cost_subject *s,
                           struct pare_err *err);
void pare_cost_subject_close(struct pare_cost_subject *s);

/* Run it a few times and lower the times. */
int pare_cost_subject_round(struct pare_cost_subject *s, const struct pare_cost_opts *o,
                            struct pare_err *err);

/* Sum the steps of each layer. */
void pare_cost_subject_sum(const struct pare_cost_table *t, struct pare_cost_subject *s);

#endif
