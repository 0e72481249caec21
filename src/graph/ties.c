/* ties.c - collect the axis relations of operators in a list. */
#include "ties.h"

#include <string.h>

#include "../base/arena.h"

static void add(struct pare_ties *t, struct pare_tied tied)
{
    struct pare_tied *list = pare_grow(t->arena, t->tie, t->n, &t->cap, sizeof(*list));

    if (!list) {
        t->failed = true;
        return;
    }
    tied.node = t->node;
    t->tie = list;
    t->tie[t->n++] = tied;
}

static void *copy(struct pare_ties *t, const void *list, size_t n, size_t size)
{
    void *p = pare_alloc_raw(t->arena, n, size);

    if (p && n)
        memcpy(p, list, n * size);
    t->failed |= !p;
    return p;
}

void pare_tie(struct pare_ties *t, const struct pare_value *a, int ax, const struct pare_value *b,
              int bx)
{
    if (a && b)
        add(t, (struct pare_tied){ .kind = PARE_TIE_SAME, .a = a, .b = b, .ax = ax, .bx = bx });
}

void pare_tie_summed(struct pare_ties *t, const struct pare_value *a, int ax,
                     const struct pare_value *b, int bx)
{
    int n = t->n;

    pare_tie(t, a, ax, b, bx);
    if (t->n > n)
        t->tie[n].summed = true;
}

void pare_tie_part(struct pare_ties *t, const struct pare_value *whole, int wx, int64_t from,
                   const struct pare_value *part, int px)
{
    if (whole && part)
        add(t, (struct pare_tied){ .kind = PARE_TIE_PART,
                                   .a = whole,
                                   .b = part,
                                   .ax = wx,
                                   .bx = px,
                                   .from = from });
}

void pare_tie_pick(struct pare_ties *t, const struct pare_value *a, int ax, const int64_t *index,
                   const struct pare_value *b, int bx)
{
    struct pare_tied tied = { .kind = PARE_TIE_PICK, .a = a, .b = b, .ax = ax, .bx = bx };

    if (!a || !b)
        return;
    tied.index = copy(t, index, (size_t)b->t.dim[bx], sizeof(*index));
    if (tied.index)
        add(t, tied);
}

void pare_tie_digits(struct pare_ties *t, const struct pare_value *whole, int wx,
                     const struct pare_digit *digit, int n)
{
    struct pare_tied tied = { .kind = PARE_TIE_DIGITS, .a = whole, .ax = wx, .n_digits = n };

    if (!whole)
        return;
    tied.digit = copy(t, digit, (size_t)n, sizeof(*digit));
    if (tied.digit)
        add(t, tied);
}

void pare_tie_groups(struct pare_ties *t, const struct pare_value *whole, int wx,
                     const struct pare_digit digit[2])
{
    int n = t->n;

    pare_tie_digits(t, whole, wx, digit, 2);
    if (t->n > n)
        t->tie[n].kind = PARE_TIE_GROUPS;
}

void pare_tie_sum(struct pare_ties *t, const struct pare_value *v, int axis)
{
    if (v)
        add(t, (struct pare_tied){ .kind = PARE_TIE_SUM, .a = v, .ax = axis });
}

void pare_tie_restored(struct pare_ties *t, const struct pare_value *v, int axis)
{
    if (v)
        add(t, (struct pare_tied){ .kind = PARE_TIE_RESTORED, .a = v, .ax = axis });
}

void pare_tie_together(struct pare_ties *t, const struct pare_value *a, int ax,
                       const struct pare_value *b, int bx)
{
    if (a && b)
        add(t, (struct pare_tied){ .kind = PARE_TIE_TOGETHER, .a = a, .b = b, .ax = ax, .bx = bx });
}

void pare_tie_freeze(struct pare_ties *t, const struct pare_value *v, int axis, const char *why)
{
    if (v)
        add(t, (struct pare_tied){ .kind = PARE_TIE_FREEZE, .a = v, .ax = axis, .why = why });
}
