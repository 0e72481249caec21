/* arena.h - arena allocator: internal functions; the public ones are in pare.h. */
#ifndef PARE_BASE_ARENA_H
#define PARE_BASE_ARENA_H

#include <pare/pare.h>

/* Test hook: n > 0: the n-th block allocation from now fails; n < 0: the n-th request of any size
 * fails; 0: off. */
extern int pare_oom_countdown;

/* Limit the total size of all arenas to this many bytes; 0: no limit.  Process-wide, for all
 * threads; for the program, not for libraries. */
void pare_memory_limit(size_t bytes);
size_t pare_memory_used(void);  /* bytes held by all arenas */
bool pare_memory_refused(void); /* an allocation has failed because of the limit */

/* Free everything since m but keep its memory as one block, so that a loop that rewinds in every
 * iteration stops requesting memory from the system. */
void pare_rewind(struct pare_arena *a, struct pare_mark m);

/* True if an allocation has ever failed.  For callers of functions that return NULL for several
 * reasons. */
bool pare_arena_failed(const struct pare_arena *a);

/* Allow the arena to request at most this many more bytes from the system; 0: no limit.  Returns
 * what was left of the previous limit; 0 if an allocation failed because of it. */
size_t pare_arena_limit(struct pare_arena *a, size_t bytes);

size_t pare_arena_bytes(const struct pare_arena *a); /* bytes held from the system */

/* Call see() for each contiguous piece of allocated memory. */
void pare_arena_visit(const struct pare_arena *a, void (*see)(const void *data, size_t bytes));

char *pare_strdup(struct pare_arena *a, const char *s);
char *pare_strndup(struct pare_arena *a, const char *s, size_t n);
char *pare_sprintf(struct pare_arena *a, const char *fmt, ...) PARE_PRINTF(2, 3);

/* Concatenate n strings with `between` between them. */
char *pare_join(struct pare_arena *a, const char *const *text, int n, const char *between);

/* Make room for one more element in an arena array: returns the array, possibly moved, or NULL
 * if out of memory.  Updates `cap`; start with NULL, 0. */
void *pare_grow(struct pare_arena *a, void *array, int n, int *cap, size_t size);

#endif
