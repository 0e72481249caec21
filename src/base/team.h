/* team.h - parallel loops over independent items, and the threads of a plan that run them.
 *
 * pare_parallel() runs fn(arg, from, to, thread) on consecutive pieces of the items 0 to
 * count - 1.  An item must give the same result in whichever piece and on whichever thread it is
 * computed; `thread` is only an index of scratch memory, from 0 to threads - 1.
 *
 * Without a team the threads are OpenMP's, and the loop ends when all of them have arrived.  With
 * a team it ends when the items are done: threads take pieces from counters, first of their own
 * share, then of the others', and a thread that arrives late finds nothing to do.  If another
 * program holds a core, the caller does the work of the thread that waits for it.
 *
 * Inside a loop, further loops run on the calling thread alone, and oneDNN uses one thread.
 */
#ifndef PARE_BASE_TEAM_H
#define PARE_BASE_TEAM_H

#include <stdint.h>

#include "arena.h"

struct pare_team;

typedef void pare_range_fn(void *arg, int64_t from, int64_t to, int thread);

void pare_parallel(int threads, int64_t count, pare_range_fn *fn, void *arg);

/* A team of this many threads, the caller included; NULL if out of memory.  The others start in the
 * first loop, and again after a fork().  If the system refuses them, there are fewer.  The arena
 * must outlive pare_team_stop(). */
struct pare_team *pare_team_new(struct pare_arena *arena, int threads);
void pare_team_stop(struct pare_team *t); /* end its threads and wait for them; t may be NULL */

int pare_team_threads(void); /* of the team that loops of the calling thread use; 1: none, or the
                              * thread is inside a loop */

/* From enter to leave, loops of the calling thread use this team, which only one thread may do at a
 * time.  If it has a team already, that one stays.  Pass what enter returns to leave. */
struct pare_team *pare_team_enter(struct pare_team *t);
void pare_team_leave(struct pare_team *before);

#endif
