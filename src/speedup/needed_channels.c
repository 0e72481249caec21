/* needed_channels.c - find the channels that must be kept (backward liveness analysis).
 *
 * At the start only frozen axes are kept.  A linear node needs a channel of x if one of its kept
 * outputs has a nonzero weight for it, unless the channel is a constant that the node can fold.
 * The needs of a node are kept by its producers, so nodes are visited from last to first, until
 * nothing changes.
 *
 * With padding, a constant channel is not equivalent to a bias at the borders.  Then one constant
 * channel is kept, the carrier, and the weights of the others are added to its weights in
 * proportion to their constants:
 *     sum over i of w_i c_i  =  (sum over i of w_i c_i / c) c
 */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "speedup.h"

/* A carrier with a smaller share of the largest constant would cost precision. */
#define SMALLEST_CARRIER 0.01f

static const uint8_t *keep_of(const struct pare_speedup *s, const struct pare_value *v, int axis)
{
    return pare_keep_axis(s->kept, v, axis);
}

/* ---- linear nodes ---------------------------------------------------------------------------- */

/* Does a kept output have a nonzero weight for channel i? */
static bool has_weight(const struct pare_linear_node *m, const uint8_t *out, int64_t i)
{
    int64_t first = i / m->Ig * m->Og;

    for (int64_t o = first; o < first + m->Og; o++)
        if (out[o] && !pare_linear_node_is_zero(m, o, i))
            return true;
    return false;
}

/* Can the node fold a channel that is the constant c? */
static bool can_fold(const struct pare_speedup *s, const struct pare_linear_node *m, float c)
{
    const struct pare_value *b;

    if (isnan(c) || isinf(c))
        return false;
    if (c == 0)
        return true;
    if (m->l.borders)
        return s->uses[m->w->id] == 1;
    return pare_linear_node_bias(s, m, &b) != PARE_BIAS_NONE;
}

/* Mark the channels of x that the node needs. */
static bool need_inputs(struct pare_speedup *s, const struct pare_linear_node *m)
{
    uint8_t *in = pare_keep_axis(s->kept, m->x, m->l.x_axis);
    const uint8_t *out = keep_of(s, m->y, m->l.y_axis);
    bool grown = false;

    for (int64_t i = 0; i < m->C; i++) {
        if (in[i] || can_fold(s, m, pare_constant_channel(s, m->x, m->l.x_axis, i)) ||
            !has_weight(m, out, i))
            continue;
        in[i] = 1;
        grown = true;
    }
    return grown;
}

bool pare_speedup_is_folded(const struct pare_speedup *s, const struct pare_linear_node *m,
                            int64_t i)
{
    const uint8_t *in = keep_of(s, m->x, m->l.x_axis), *out = keep_of(s, m->y, m->l.y_axis);
    float c = pare_constant_channel(s, m->x, m->l.x_axis, i);

    return !in[i] && !isnan(c) && c != 0 && has_weight(m, out, i);
}

int64_t pare_speedup_carrier(const struct pare_speedup *s, const struct pare_linear_node *m,
                             int64_t group)
{
    const uint8_t *in = keep_of(s, m->x, m->l.x_axis);
    int64_t best = -1;
    float most = 0;

    for (int64_t i = group * m->Ig; i < (group + 1) * m->Ig; i++) {
        float c = fabsf(pare_constant_channel(s, m->x, m->l.x_axis, i));

        if (in[i] && c > most && !isinf(c)) {
            most = c;
            best = i;
        }
    }
    return best;
}

/* Keep a carrier in a group that folds channels. */
static bool need_carrier(struct pare_speedup *s, const struct pare_linear_node *m, int64_t group)
{
    uint8_t *in = pare_keep_axis(s->kept, m->x, m->l.x_axis);
    int64_t best = -1, have = pare_speedup_carrier(s, m, group);
    float most = 0;

    for (int64_t i = group * m->Ig; i < (group + 1) * m->Ig; i++) {
        float c = fabsf(pare_constant_channel(s, m->x, m->l.x_axis, i));

        if (c > most && pare_speedup_is_folded(s, m, i)) {
            most = c;
            best = i;
        }
    }
    if (best < 0 || (have >= 0 && fabsf(pare_constant_channel(s, m->x, m->l.x_axis, have)) >=
                                      SMALLEST_CARRIER * most))
        return false;
    in[best] = 1;
    return true;
}

/* ---- callbacks of operators ------------------------------------------------------------------ */

float pare_needed_constant(const struct pare_needed *s, const struct pare_value *v, int axis,
                           int64_t i)
{
    return pare_constant_channel(s->s, v, axis, i);
}

const uint8_t *pare_needed_keep(const struct pare_needed *s, const struct pare_value *v, int axis)
{
    return keep_of(s->s, v, axis);
}

void pare_needed_add(struct pare_needed *s, const struct pare_value *v, int axis, int64_t i)
{
    uint8_t *keep = pare_keep_axis(s->s->kept, v, axis);

    s->grown |= keep && !keep[i];
    if (keep)
        keep[i] = 1;
}

/* ---- other nodes ----------------------------------------------------------------------------- */

static bool keep_axis(struct pare_speedup *s, const struct pare_value *v, int axis)
{
    uint8_t *keep = pare_keep_axis(s->kept, v, axis);
    bool grown = false;

    for (int64_t i = 0; keep && i < v->t.dim[axis]; i++) {
        grown |= !keep[i];
        keep[i] = 1;
    }
    return grown;
}

/* Of an axis that a node sums over (b: the other factor), keep all channels but zeros. */
static bool need_nonzero(struct pare_speedup *s, const struct pare_value *a, int ax,
                         const struct pare_value *b, int bx)
{
    uint8_t *keep = pare_keep_axis(s->kept, a, ax);
    bool grown = false;

    for (int64_t i = 0; keep && i < a->t.dim[ax]; i++) {
        if (keep[i] || pare_constant_channel(s, a, ax, i) == 0 ||
            (b && pare_constant_channel(s, b, bx, i) == 0))
            continue;
        keep[i] = 1;
        grown = true;
    }
    return grown;
}

/* Of an axis whose constants the smaller model makes again, keep all channels but these. */
static bool need_variable(struct pare_speedup *s, const struct pare_value *v, int axis)
{
    uint8_t *keep = pare_keep_axis(s->kept, v, axis);
    bool grown = false;

    for (int64_t i = 0; keep && i < v->t.dim[axis]; i++) {
        float c = pare_constant_channel(s, v, axis, i);

        if (keep[i] || (!isnan(c) && !isinf(c)))
            continue;
        keep[i] = 1;
        grown = true;
    }
    return grown;
}

/* Axes of a node's inputs, and its internal axes, that ties connect to an output. */
struct reach {
    const struct pare_node *n;
    bool in[64][PARE_MAX_RANK], own[16];
};

static bool *reached(struct reach *r, const struct pare_value *v, int axis, bool *yes)
{
    *yes = true;
    if (!v)
        return axis >= 0 && axis < 16 ? &r->own[axis] : yes;
    for (int k = 0; k < r->n->n_out; k++)
        if (r->n->out[k] == v)
            return yes;
    for (int k = 0; k < r->n->n_in && k < 64; k++)
        if (r->n->in[k] == v)
            return &r->in[k][axis];
    return yes;
}

/* If one axis of the tie is connected to an output, mark all of them; true: something is new.  A
 * frozen digit is not connected. */
static bool spread(struct reach *r, const struct pare_tied *t)
{
    bool any = false, grown = false, yes;

    if (t->kind == PARE_TIE_FREEZE || t->kind == PARE_TIE_SUM || t->kind == PARE_TIE_RESTORED ||
        t->kind == PARE_TIE_TOGETHER)
        return false;
    any = *reached(r, t->a, t->ax, &yes) || (t->b && *reached(r, t->b, t->bx, &yes));
    for (int d = 0; d < t->n_digits; d++)
        if (t->digit[d].v || t->digit[d].axis >= 0)
            any |= *reached(r, t->digit[d].v, t->digit[d].axis, &yes);
    for (int d = -2; any && d < t->n_digits; d++) {
        const struct pare_value *v = d == -2 ? t->a : d == -1 ? t->b : t->digit[d].v;
        int axis = d == -2 ? t->ax : d == -1 ? t->bx : t->digit[d].axis;
        bool *flag;

        if (d < 0 ? !v : !v && axis < 0)
            continue;
        flag = reached(r, v, axis, &yes);
        grown |= !*flag;
        *flag = true;
    }
    return grown;
}

/* Does the node declare this about the axis? */
static bool declares(const struct pare_speedup *s, const struct pare_node *n,
                     enum pare_tie_kind kind, const struct pare_value *v, int axis)
{
    const struct pare_tied *t = pare_keep_sets_ties(s->kept)->tie;

    for (int i = s->first_tie[n->id]; i < s->first_tie[n->id + 1]; i++)
        if (t[i].kind == kind && t[i].a == v && t[i].ax == axis)
            return true;
    return false;
}

/* Does the other operand have an axis that is tied to the summed one? */
static bool has_partner(const struct pare_speedup *s, const struct pare_node *n,
                        const struct pare_tied *sum)
{
    const struct pare_tied *t = pare_keep_sets_ties(s->kept)->tie;

    for (int i = s->first_tie[n->id]; i < s->first_tie[n->id + 1]; i++)
        if (t[i].kind == PARE_TIE_SAME && t[i].b != n->out[0] &&
            ((t[i].a == sum->a && t[i].ax == sum->ax) || (t[i].b == sum->a && t[i].bx == sum->ax)))
            return true;
    return false;
}

static bool need_both(struct pare_speedup *s, const struct pare_tied *t)
{
    bool grown = need_nonzero(s, t->a, t->ax, t->b, t->bx);

    return need_nonzero(s, t->b, t->bx, t->a, t->ax) || grown;
}

/* A product of two computed operands sums over an axis that they share. */
static bool need_products(struct pare_speedup *s, const struct pare_node *n)
{
    const struct pare_tied *t = pare_keep_sets_ties(s->kept)->tie;
    bool grown = false;

    for (int i = s->first_tie[n->id]; i < s->first_tie[n->id + 1]; i++)
        if (t[i].kind == PARE_TIE_SAME && t[i].a != n->out[0] && t[i].b != n->out[0])
            grown |= need_both(s, &t[i]);
        else if (t[i].kind == PARE_TIE_SUM && !has_partner(s, n, &t[i]))
            grown |= need_nonzero(s, t[i].a, t[i].ax, NULL, 0);
    return grown;
}

/* An input that occurs twice has its flags at the first occurrence. */
static bool seen_before(const struct pare_node *n, int k)
{
    for (int i = 0; i < k; i++)
        if (n->in[i] == n->in[k])
            return true;
    return false;
}

/* A node needs all of an axis that is not connected to an output. */
static bool need_rest(struct pare_speedup *s, const struct pare_node *n)
{
    const struct pare_tied *t = pare_keep_sets_ties(s->kept)->tie;
    struct reach r = { .n = n };
    bool grown = false, more = true;

    while (more) {
        more = false;
        for (int i = s->first_tie[n->id]; i < s->first_tie[n->id + 1]; i++)
            more |= spread(&r, &t[i]);
    }
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = n->in[k];

        if (!v || v->flags & PARE_V_CONST || seen_before(n, k))
            continue;
        for (int axis = 0; axis < v->t.rank; axis++)
            if (declares(s, n, PARE_TIE_SUM, v, axis))
                grown |= need_nonzero(s, v, axis, NULL, 0);
            else if (declares(s, n, PARE_TIE_RESTORED, v, axis))
                grown |= need_variable(s, v, axis);
            else if (k >= 64 || !r.in[k][axis])
                grown |= keep_axis(s, v, axis);
    }
    return grown;
}

/* ---- all nodes ------------------------------------------------------------------------------- */

static bool is_product(const struct pare_node *n)
{
    return n->n_in == 2 && n->op->flags & PARE_OP_PRODUCT;
}

static bool is_kept(const struct pare_speedup *s, const struct pare_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        for (int axis = 0; n->out[k] && axis < n->out[k]->t.rank; axis++)
            if (n->out[k]->t.dim[axis] && !pare_keep_sets_count(s->kept, n->out[k], axis))
                return false;
    return true;
}

/* An operator that does not describe its products: its outputs depend on all inputs. */
static bool need_all(struct pare_speedup *s, const struct pare_node *n)
{
    bool grown = false;

    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const struct pare_value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];

        for (int axis = 0; v && axis < v->t.rank; axis++)
            grown |= keep_axis(s, v, axis);
    }
    return grown;
}

static bool need(struct pare_speedup *s, const struct pare_node *n)
{
    struct pare_linear_node m;

    if (!n->op || !n->op->ties)
        return false; /* all axes are frozen */
    if (n->op->needed_channels && pare_keep_sets_asked(s->kept, n)) {
        struct pare_needed about = { .s = s };

        n->op->needed_channels(n, &about);
        return about.grown;
    }
    if (!n->op->linear)
        return n->op->macs ? need_all(s, n) : need_rest(s, n);
    if (pare_linear_node_open(n, &m))
        return need_inputs(s, &m);
    if (is_product(n))
        return need_products(s, n);
    return n->n_in > 2 && n->op->flags & PARE_OP_PRODUCT ? need_all(s, n) : need_rest(s, n);
}

static int visit_nodes(struct pare_speedup *s, struct pare_err *err)
{
    bool more = true;

    PARE_TRY(pare_keep_sets_solve(s->kept, err));
    while (more) {
        more = false;
        for (int i = s->g->n_nodes - 1; i >= 0; i--)
            if (s->live[i] && is_kept(s, s->g->node[i]) && need(s, s->g->node[i])) {
                more = true;
                PARE_TRY(pare_keep_sets_solve(s->kept, err));
            }
    }
    return 0;
}

static bool keep_carriers(struct pare_speedup *s)
{
    bool grown = false;

    for (int i = s->g->n_nodes - 1; i >= 0; i--) {
        struct pare_linear_node m;

        if (!s->live[i] || !pare_linear_node_open(s->g->node[i], &m) || !m.l.borders)
            continue;
        for (int64_t g = 0; g < m.l.groups && !grown; g++)
            grown |= need_carrier(s, &m, g);
        if (grown)
            break;
    }
    return grown;
}

/* No axis may become empty: if all channels would be removed, keep the one with the largest
 * constant. */
static bool keep_one(struct pare_speedup *s, const struct pare_value *v)
{
    bool grown = false;

    for (int axis = 0; v && axis < v->t.rank; axis++) {
        uint8_t *keep = pare_keep_axis(s->kept, v, axis);
        int64_t best = 0;

        if (!keep || !v->t.dim[axis] || pare_keep_sets_count(s->kept, v, axis))
            continue;
        for (int64_t i = 1; i < v->t.dim[axis]; i++)
            if (fabsf(pare_constant_channel(s, v, axis, i)) >
                fabsf(pare_constant_channel(s, v, axis, best)))
                best = i;
        keep[best] = 1;
        grown = true;
    }
    return grown;
}

static bool keep_at_least_one(struct pare_speedup *s)
{
    bool grown = false;

    pare_speedup_find_removed(s);
    for (int i = s->g->n_nodes - 1; i >= 0 && !grown; i--) {
        const struct pare_node *n = s->g->node[i];

        for (int k = 0; s->live[i] && !s->removed[i] && k < n->n_out; k++)
            grown |= keep_one(s, n->out[k]);
        for (int k = 0; s->live[i] && !s->removed[i] && k < n->n_in; k++)
            if (!pare_speedup_drops_input(s, n, k))
                grown |= keep_one(s, n->in[k]);
    }
    return grown;
}

/* Keep more output channels until their number is a multiple of opts->round_to. */
static bool round_up(struct pare_speedup *s)
{
    int64_t unit = s->opts->round_to;

    for (int i = 0; i < s->g->n_nodes && unit > 1; i++) {
        struct pare_linear_node m;
        uint8_t *keep;
        int64_t count;

        if (!s->live[i] || !pare_linear_node_open(s->g->node[i], &m))
            continue;
        keep = pare_keep_axis(s->kept, m.y, m.l.y_axis);
        count = pare_keep_sets_count(s->kept, m.y, m.l.y_axis);
        if (count == m.O || count % unit == 0)
            continue;
        for (int64_t o = 0; o < m.O && count % unit; o++) {
            count += !keep[o];
            keep[o] = 1;
        }
        return true;
    }
    return false;
}

static void want_makers(const struct pare_speedup *s, const struct pare_node *n, bool *wanted)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->maker && n->in[k]->flags & PARE_V_CONST &&
            pare_varies(&s->varying, n->in[k]))
            wanted[n->in[k]->maker->id] = true;
}

/* An unshrinkable node keeps the channels of its inputs and outputs.  A list of sizes that it
 * computes from a free dimension cannot be stored, so values whose sizes are read for it keep their
 * channels, too. */
static int keep_unshrinkable(struct pare_speedup *s, struct pare_err *err)
{
    struct pare_mark m = pare_mark(s->arena);
    bool *wanted = pare_alloc(s->arena, (size_t)s->g->n_nodes + 1, sizeof(*wanted));

    if (!wanted)
        return pare_no_memory(err, "to make the model smaller");
    for (const struct pare_unshrinkable *t = s->unshrinkable; t; t = t->next) {
        need_all(s, s->g->node[t->node]);
        want_makers(s, s->g->node[t->node], wanted);
    }
    for (int i = s->g->n_nodes - 1; i >= 0; i--) {
        const struct pare_node *n = s->g->node[i];

        if (wanted[i] && n->op && n->op->flags & PARE_OP_SHAPES)
            need_all(s, n);
        else if (wanted[i])
            want_makers(s, n, wanted);
    }
    pare_reset(s->arena, m);
    return 0;
}

int pare_speedup_find_needed(struct pare_speedup *s, struct pare_err *err)
{
    bool more = true;

    PARE_TRY(keep_unshrinkable(s, err));
    while (more) {
        PARE_TRY(visit_nodes(s, err));
        more = keep_carriers(s) || keep_at_least_one(s) || round_up(s);
    }
    return 0;
}
