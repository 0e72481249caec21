/* arena.h - memory by lifetime; see pare.h for the functions that everybody uses. */
#ifndef PARE_BASE_ARENA_H
#define PARE_BASE_ARENA_H

#include <pare/pare.h>

/* Test hook: when positive, the n-th block allocation from now fails; when negative, the n-th
 * request of any size. */
extern int pare_oom_countdown;

/* From now on all arenas together hold at most this many bytes; 0: no limit.  Like the limits that
 * a system has for a process, it is one for all threads, and set by whoever runs the process. */
void pare_memory_limit(size_t bytes);
size_t pare_memory_used(void);  /* by all arenas */
bool pare_memory_refused(void); /* the limit has been the reason for a NULL */

/* Drop everything since m but keep as much memory as it took, in one block, so that a loop that
 * rewinds every turn stops asking the system for more. */
void pare_rewind(struct pare_arena *a, struct pare_mark m);

/* Has it ever run out?  For who asks functions that say no for several reasons. */
bool pare_arena_failed(const struct pare_arena *a);

/* From now on it asks the system for less than this many bytes more; 0: as many as it likes.
 * Returns what is left of the limit before this one; 0 when that has been the reason for a NULL. */
size_t pare_arena_limit(struct pare_arena *a, size_t bytes);

size_t pare_arena_bytes(const struct pare_arena *a); /* what it holds from the system */

/* All that was taken from it, in pieces. */
void pare_arena_visit(const struct pare_arena *a, void (*see)(const void *data, size_t bytes));

char *pare_strdup(struct pare_arena *a, const char *s);
char *pare_strndup(struct pare_arena *a, const char *s, size_t n);
char *pare_sprintf(struct pare_arena *a, const char *fmt, ...) PARE_PRINTF(2, 3);

/* Texts one after the other with `between` between them. */
char *pare_join(struct pare_arena *a, const char *const *text, int n, const char *between);

/* Make room for one more element in an arena array: returns the array, perhaps moved, or NULL.
 * `cap` is updated; start with NULL, 0. */
void *pare_grow(struct pare_arena *a, void *array, int n, int *cap, size_t size);

#endif
