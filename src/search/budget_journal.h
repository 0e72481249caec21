/* budget_journal.h - what an interrupted search has found so far, in a folder.
 *
 * A search asks for the same results in the same order when it is resumed with the same settings.
 * The journal is the list of these results: known ones are taken from it, new ones are added.
 * Built models, times of layers and checkpoints of trainings are other files of the folder.  Every
 * file is written atomically, so that it is complete whenever the process ends.
 */
#ifndef PARE_SEARCH_BUDGET_JOURNAL_H
#define PARE_SEARCH_BUDGET_JOURNAL_H

#include <pare/pare.h>

struct pare_journal {
    struct pare_arena *arena;
    const char *folder; /* NULL: nothing is kept */
    const char *head;   /* first line of the file: the settings */
    double *x;          /* results */
    int n, cap, at;     /* known; room; taken so far */
    int models;         /* built so far */
};

/* key: a hash of the model and all settings.  resume: take what the folder has, which must be of
 * the same key; otherwise the folder is emptied of what an earlier search left. */
int pare_journal_open(struct pare_journal *j, const char *folder, uint64_t key, bool resume,
                      struct pare_err *err);

/* The next n results; false: they are not known, and must be added. */
bool pare_journal_next(struct pare_journal *j, double *x, int n);
int pare_journal_add(struct pare_journal *j, const double *x, int n, struct pare_err *err);

/* A file of the folder; NULL: no folder, or no memory.  *exists may be NULL. */
const char *pare_journal_file(const struct pare_journal *j, const char *name, bool *exists);

#endif
