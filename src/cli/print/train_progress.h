/* train_progress.h - progress bar, one line per epoch, and training history. */
#ifndef PARE_CLI_PRINT_TRAIN_PROGRESS_H
#define PARE_CLI_PRINT_TRAIN_PROGRESS_H

#include <stdio.h>

#include "../../train/train.h"

struct json_t;

struct pare_train_progress {
    FILE *lines;                /* stream for one line per epoch; NULL: none */
    bool bar;                   /* draw a progress bar on stderr, a terminal */
    double drawn;               /* time of the last redraw; 0: there is no bar */
    int64_t first, first_batch; /* epoch and batch after the first batch of this run; -1: not yet */
    double start;               /* time at first_batch */
    int64_t epoch, items;       /* current epoch, and its items after its first batch; -1: none */
    double since;               /* time at `items` */
    struct json_t *history;     /* array of epochs, or NULL */
    const char *journal;        /* file that the history is written to after each epoch, or NULL */
    struct pare_err failed;     /* first error in writing the journal; code 0: none */
};

/* Callbacks of struct pare_train_conf; `user` is the struct pare_train_progress. */
void pare_train_progress_batch(void *user, const struct pare_train_status *p);
void pare_train_progress_epoch(void *user, const struct pare_epoch *e);

/* Explain the marked epoch: which one the model has. */
void pare_train_progress_best(const struct pare_train_progress *v,
                              const struct pare_train_result *r, bool kept);

/* Erase the bar, if there is one. */
void pare_train_progress_end(struct pare_train_progress *v);

#endif
