/* budget_journal.c - the journal of a search: results in a text file, one per line. */
#include "budget_journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pare/budget.h>

#include "../base/arena.h"
#include "../io/file.h"

#define NAME "search.txt"
#define MOST_MODELS 64
#define NUMBER 32 /* characters of a number and the end of its line */

const char *pare_journal_file(const struct pare_journal *j, const char *name, bool *exists)
{
    const char *path = j->folder ? pare_sprintf(j->arena, "%s/%s", j->folder, name) : NULL;

    if (exists)
        *exists = path && !access(path, F_OK);
    return path;
}

static int append(struct pare_journal *j, double x, struct pare_err *err)
{
    j->x = pare_grow(j->arena, j->x, j->n, &j->cap, sizeof(*j->x));
    if (!j->x)
        return pare_no_memory(err, "for the journal of a search");
    j->x[j->n++] = x;
    return 0;
}

static int read_results(struct pare_journal *j, const char *path, struct pare_err *err)
{
    const void *bytes;
    const char *p;
    char *text, *end;
    size_t len, head = strlen(j->head);

    PARE_TRY(pare_file_read(j->arena, path, &bytes, &len, err));
    text = pare_alloc(j->arena, len + 1, 1);
    if (!text)
        return pare_no_memory(err, "for the journal of a search");
    memcpy(text, bytes, len);
    if (strncmp(text, j->head, head) != 0)
        return pare_fail(err, PARE_ECONFIG,
                         "%s is of a search with another model, data or settings: resume with the "
                         "same ones, or search without resuming",
                         path);
    for (p = text + head; *p; p = end) {
        double x = strtod(p, &end);

        if (end == p)
            return *p == '\n' && !p[1] ? 0
                                       : pare_fail(err, PARE_EFORMAT,
                                                   "%s: expected a number at "
                                                   "byte %zu",
                                                   path, (size_t)(p - text));
        PARE_TRY(append(j, x, err));
    }
    return 0;
}

static int write_results(struct pare_journal *j, struct pare_err *err)
{
    const char *path = pare_journal_file(j, NAME, NULL);
    struct pare_mark mark = pare_mark(j->arena);
    size_t head = strlen(j->head), room = head + ((size_t)j->n + 1) * NUMBER, at = head;
    char *text = path ? pare_alloc(j->arena, room, 1) : NULL;
    int rc;

    if (!text)
        return pare_no_memory(err, "for the journal of a search");
    memcpy(text, j->head, head);
    for (int i = 0; i < j->n; i++)
        at += (size_t)snprintf(text + at, room - at, "%.17g\n", j->x[i]);
    rc = pare_file_write(path, text, at, err);
    pare_rewind(j->arena, mark);
    return rc;
}

int pare_budget_work_remove(const char *folder)
{
    static const char *const files[] = { NAME, "times.jsonl", NULL };
    char path[4096];

    if (strlen(folder) > sizeof(path) - 64)
        return -1;
    for (int i = 0; files[i]; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        remove(path);
    }
    for (int i = 0; i < MOST_MODELS; i++) {
        snprintf(path, sizeof(path), "%s/model-%d.onnx", folder, i);
        remove(path);
        snprintf(path, sizeof(path), "%s/training-%d.ckpt", folder, i);
        remove(path);
    }
    return rmdir(folder);
}

int pare_journal_open(struct pare_journal *j, const char *folder, uint64_t key, bool resume,
                      struct pare_err *err)
{
    const char *path;
    bool exists;

    j->folder = folder;
    j->n = j->at = j->models = 0;
    if (!folder)
        return 0;
    j->head = pare_sprintf(j->arena, "pare search 1 %016llx\n", (unsigned long long)key);
    path = pare_journal_file(j, NAME, &exists);
    if (!j->head || !path)
        return pare_no_memory(err, "for the journal of a search");
    if (resume && exists)
        return read_results(j, path, err);
    pare_budget_work_remove(folder);
    if (mkdir(folder, 0777) && errno != EEXIST)
        return pare_fail(err, PARE_EIO, "%s: cannot make the folder: %s", folder, strerror(errno));
    return write_results(j, err);
}

bool pare_journal_next(struct pare_journal *j, double *x, int n)
{
    if (j->n - j->at < n)
        return false;
    if (n > 0)
        memcpy(x, j->x + j->at, (size_t)n * sizeof(*x));
    j->at += n;
    return true;
}

int pare_journal_add(struct pare_journal *j, const double *x, int n, struct pare_err *err)
{
    if (!j->folder)
        return 0;
    j->n = j->at; /* an incomplete group of results is not taken */
    for (int i = 0; i < n; i++)
        PARE_TRY(append(j, x[i], err));
    j->at = j->n;
    return write_results(j, err);
}
