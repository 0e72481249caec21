/* ties.c - collect what operators say about their axes. */
#include "ties.h"

#include "../base/arena.h"

void pare_tie(struct pare_ties *t, const struct pare_value *a, int ax, const struct pare_value *b,
              int bx)
{
    struct pare_tied *list = pare_grow(t->arena, t->tie, t->n, &t->cap, sizeof(*list));

    if (!list) {
        t->failed = true;
        return;
    }
    t->tie = list;
    t->tie[t->n++] = (struct pare_tied){ a, b, ax, bx };
}
