/* train_view.h - what people see while a model is trained. */
#ifndef PARE_CLI_VIEW_TRAIN_VIEW_H
#define PARE_CLI_VIEW_TRAIN_VIEW_H

#include <stdio.h>

#include "../../train/train.h"

struct json_t;

struct pare_view_train {
    FILE *lines;                /* one line an epoch goes here; NULL: none */
    bool bar;                   /* stderr is a terminal: a bar in it */
    double drawn;               /* when the bar was drawn last */
    int64_t first, first_batch; /* where this run was after its first batch; first -1: not yet */
    double start;               /* ... and when */
    int64_t epoch, items;       /* the epoch at work, and its items after its first batch; -1 */
    double since;               /* ... and when */
    struct json_t *history;     /* or NULL */
    const char *journal;        /* file that has the history so far, or NULL */
    struct pare_err failed;     /* why it could not be written; code 0: it could */
};

/* The callbacks of struct pare_train_conf; user is the view. */
void pare_view_batch(void *user, const struct pare_train_progress *p);
void pare_view_epoch(void *user, const struct pare_epoch *e);

/* Remove the bar, if there is one. */
void pare_view_end(struct pare_view_train *v);

#endif
