/* tie_carry.c - along axis relations: which channels of an input make a channel of an output. */
#include "tie_carry.h"

/* An axis of an output, and the caller. */
struct carry {
    const struct pare_value *x, *y;
    int axis;
    pare_carry_fn *fn;
    void *user;
};

static void carry_one(const struct carry *c, int64_t to, int axis, int64_t i)
{
    const struct pare_channel from = { axis, i };

    c->fn(c->user, to, &from, 1);
}

/* The digits of index p in the mixed radix of the tie. */
static void digits_of(const struct pare_tied *t, int64_t p, int64_t *digit)
{
    for (int d = t->n_digits - 1; d >= 0; d--) {
        digit[d] = p % t->digit[d].size;
        p /= t->digit[d].size;
    }
}

static void carry_digits(const struct pare_tied *t, const struct carry *c)
{
    struct pare_channel from[2 * PARE_MAX_RANK];
    int64_t digit[2 * PARE_MAX_RANK];

    if (t->n_digits > 2 * PARE_MAX_RANK)
        return;
    for (int64_t p = 0; p < t->a->t.dim[t->ax]; p++) {
        int n = 0;

        digits_of(t, p, digit);
        for (int d = 0; d < t->n_digits; d++) {
            if (t->a == c->y && t->digit[d].v == c->x)
                from[n++] = (struct pare_channel){ t->digit[d].axis, digit[d] };
            if (t->a == c->x && t->digit[d].v == c->y && t->digit[d].axis == c->axis)
                carry_one(c, digit[d], t->ax, p);
        }
        if (t->a == c->y && t->ax == c->axis)
            c->fn(c->user, p, from, n);
    }
}

static bool mentions(const struct pare_tied *t, const struct pare_value *v, int axis)
{
    bool found = (t->a == v && (axis < 0 || t->ax == axis)) ||
                 (t->b == v && (axis < 0 || t->bx == axis));

    for (int d = 0; d < t->n_digits && !found; d++)
        found = t->digit[d].v == v && (axis < 0 || t->digit[d].axis == axis);
    return found;
}

void pare_tie_carry(const struct pare_tied *t, const struct pare_value *x,
                    const struct pare_value *y, int axis, pare_carry_fn *fn, void *user)
{
    const struct carry c = { x, y, axis, fn, user };
    bool forth = t->a == x && t->b == y && t->bx == axis;
    bool back = t->b == x && t->a == y && t->ax == axis;

    if (!mentions(t, x, -1) || !mentions(t, y, axis))
        return;
    switch (t->kind) {
    case PARE_TIE_SAME:
        for (int64_t i = 0; (forth || back) && i < y->t.dim[axis]; i++)
            carry_one(&c, i, forth ? t->ax : t->bx, i);
        break;
    case PARE_TIE_PART:
        for (int64_t i = 0; (forth || back) && i < t->b->t.dim[t->bx]; i++)
            carry_one(&c, forth ? i : t->from + i, forth ? t->ax : t->bx, forth ? t->from + i : i);
        break;
    case PARE_TIE_PICK:
        for (int64_t i = 0; forth && i < t->b->t.dim[t->bx]; i++)
            carry_one(&c, i, t->ax, t->index[i]);
        break;
    case PARE_TIE_DIGITS: carry_digits(t, &c); break;
    case PARE_TIE_GROUPS:
    case PARE_TIE_SUM:
    case PARE_TIE_RESTORED:
    case PARE_TIE_TOGETHER:
    case PARE_TIE_FREEZE: break;
    }
}
