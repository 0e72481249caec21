/* removed_channels.c - find the channels that masks make 0, and mask normalizations and constants
 * after them. */
#include "removed_channels.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../graph/tie_carry.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "dependency_groups.h"
#include "removed_search.h"

int64_t pare_layer_outputs(const struct pare_layer *l)
{
    int64_t gates = l->info.node->op ? l->info.node->op->layer.gates : 0;

    return l->out_axis < 0 ? 0 : l->w.dim[l->out_axis] / (gates ? gates : 1);
}

/* The weight is (a, gates, o, b). */
void pare_layer_kept_outputs(const struct pare_layer *l, uint8_t *any)
{
    const uint8_t *mask = l->mask.data;
    int64_t a = 1, rows = l->w.dim[l->out_axis], n = pare_layer_outputs(l), b = 1;

    for (int i = 0; i < l->w.rank; i++) {
        a *= i < l->out_axis ? l->w.dim[i] : 1;
        b *= i > l->out_axis ? l->w.dim[i] : 1;
    }
    for (int64_t i = 0; i < a * rows; i++)
        any[i % n] |= memchr(mask + i * b, 1, (size_t)b) != NULL;
}

/* ---- zeros of values ------------------------------------------------------------------------- */

/* The flags of an axis, created on first use; NULL: no memory. */
static uint8_t *flags_of(struct pare_removed *r, const struct pare_value *v, int axis)
{
    uint8_t **axes = r->zero[v->id];

    if (!axes)
        axes = r->zero[v->id] = pare_alloc(r->c->arena, PARE_MAX_RANK, sizeof(*axes));
    if (axes && !axes[axis])
        axes[axis] = pare_alloc(r->c->arena, (size_t)v->t.dim[axis] + 1, 1);
    return axes ? axes[axis] : NULL;
}

static bool is_zero(const struct pare_removed *r, const struct pare_value *v, int axis, int64_t i)
{
    uint8_t *const *axes = r->zero[v->id];

    return axes && axes[axis] && axes[axis][i];
}

static bool any_zero(const struct pare_removed *r, const struct pare_value *v)
{
    return v && v->t.rank >= 0 && r->zero[v->id];
}

/* A slice of a constant is 0 if the mask removes all of it. */
static int flag_mask(struct pare_removed *r, const struct pare_value *v, int masked,
                     struct pare_err *err)
{
    const struct pare_layer *l = &r->c->layer[(masked > 0 ? masked : -masked) - 1];
    const struct pare_tensor *mask = masked > 0 ? &l->mask : &l->bias_mask;
    const uint8_t *m = mask->data;
    int64_t n = pare_numel(&v->t), inner = 1;

    if (!m || !pare_same_shape(mask, &v->t))
        return 0;
    for (int axis = v->t.rank - 1; axis >= 0; axis--) {
        uint8_t *flags = flags_of(r, v, axis);

        if (!flags)
            return pare_no_memory(err, "for masks");
        memset(flags, 1, (size_t)v->t.dim[axis]);
        for (int64_t i = 0; i < n && !r->all; i++)
            if (m[i])
                flags[i / inner % v->t.dim[axis]] = 0;
        inner *= v->t.dim[axis];
    }
    return 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* A normalization: without scale and shift a channel is 0. */
static int pass_norm(struct pare_removed *r, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_removed_step *s = &r->step[n->id];
    const struct pare_value *x = n->in[0], *y = n->out[0];
    struct pare_hidden *h = s->hidden >= 0 ? &r->hidden[s->hidden] : NULL;
    const struct pare_layer *l = s->layer >= 0 ? &r->c->layer[s->layer] : NULL;
    uint8_t *flags = flags_of(r, y, s->axis);

    if (!flags)
        return pare_no_memory(err, "for masks");
    for (int64_t i = 0; i < y->t.dim[s->axis]; i++) {
        if (h) {
            r->changed |= h->gone[i] && !is_zero(r, x, s->axis, i);
            h->gone[i] &= is_zero(r, x, s->axis, i);
            flags[i] = h->gone[i];
        } else {
            const uint8_t *b = l ? l->bias_mask.data : NULL;

            flags[i] = l && (r->all ||
                             (!((const uint8_t *)l->mask.data)[i] && (!l->bias || !b || !b[i])));
        }
    }
    return 0;
}

/* Are all inputs of output channel o of a sum 0? */
static bool inputs_zero(const struct pare_removed *r, const struct pare_node *n,
                        const struct pare_linear *l, int64_t o)
{
    const struct pare_value *x = n->in[l->x], *y = n->out[0];
    int64_t Ig = x->t.dim[l->x_axis] / l->groups, Og = y->t.dim[l->y_axis] / l->groups;

    if (!any_zero(r, x) || !Og)
        return false;
    for (int64_t i = o / Og * Ig; i < (o / Og + 1) * Ig; i++)
        if (!is_zero(r, x, l->x_axis, i))
            return false;
    return true;
}

/* A sum over channels: a filter without weights and bias, or without inputs, whose bias is then
 * removed. */
static int pass_sum(struct pare_removed *r, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_removed_step *s = &r->step[n->id];
    struct pare_layer *l = s->layer >= 0 ? &r->c->layer[s->layer] : NULL;
    int64_t O = n->out[0]->t.dim[s->sum.y_axis];
    bool has_bias = s->sum.bias >= 0 && s->sum.bias < n->n_in && n->in[s->sum.bias];
    uint8_t *flags = flags_of(r, n->out[0], s->sum.y_axis), *bias = NULL, *kept;

    if (has_bias && (!l || !l->bias || l->info.add || pare_numel(&l->b) != O))
        return 0; /* a bias that is not masked */
    kept = pare_alloc(r->c->scratch, (size_t)O + 1, 1);
    if (!flags || !kept)
        return pare_no_memory(err, "for masks");
    if (has_bias)
        bias = l->bias_mask.data;
    if (!l || pare_layer_outputs(l) != O || r->all)
        memset(kept, !r->all || !l || !pare_layer_by_channels(l), (size_t)O);
    else
        pare_layer_kept_outputs(l, kept);
    for (int64_t o = 0; o < O; o++) {
        bool none = inputs_zero(r, n, &s->sum, o);

        if (none && bias && s->alone && !r->all)
            bias[o] = 0;
        flags[o] = (none && (!bias || s->alone)) || (!kept[o] && (r->all || !bias || !bias[o]));
    }
    return 0;
}

/* Index i of y's axis, of an operand that is broadcast to y. */
static bool operand_zero(const struct pare_removed *r, const struct pare_value *v,
                         const struct pare_value *y, int axis, int64_t i)
{
    int at = axis - (y->t.rank - v->t.rank);

    return at >= 0 && is_zero(r, v, at, v->t.dim[at] == 1 ? 0 : i);
}

static bool pair_zero(struct pare_removed *r, const struct pare_node *n, int axis, int64_t i)
{
    const struct pare_removed_step *s = &r->step[n->id];
    const struct pare_value *y = n->out[0];
    bool zero[2] = { operand_zero(r, n->in[0], y, axis, i), operand_zero(r, n->in[1], y, axis, i) };
    struct pare_hidden *h = s->hidden >= 0 && s->axis == axis ? &r->hidden[s->hidden] : NULL;

    if (h) {
        r->changed |= h->gone[i] && !zero[!s->table];
        h->gone[i] &= zero[!s->table];
        zero[s->table] = h->gone[i];
    }
    return (s->both && zero[0] && zero[1]) || (s->absorbs[0] && zero[0]) ||
           (s->absorbs[1] && zero[1]);
}

static int pass_pair(struct pare_removed *r, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_value *y = n->out[0];

    for (int k = 0; k < 2; k++)
        if (r->step[n->id].masked[k])
            PARE_TRY(flag_mask(r, n->in[k], r->step[n->id].masked[k], err));
    if (!any_zero(r, n->in[0]) && !any_zero(r, n->in[1])) {
        if (r->step[n->id].hidden >= 0)
            memset(r->hidden[r->step[n->id].hidden].gone, 0,
                   (size_t)r->hidden[r->step[n->id].hidden].n);
        return 0;
    }
    for (int axis = 0; axis < y->t.rank; axis++)
        for (int64_t i = 0; i < y->t.dim[axis]; i++) {
            bool zero = pair_zero(r, n, axis, i);
            bool wanted = zero || any_zero(r, y);
            uint8_t *flags = wanted ? flags_of(r, y, axis) : NULL;

            if (wanted && !flags)
                return pare_no_memory(err, "for masks");
            if (wanted)
                flags[i] = zero;
        }
    return 0;
}

/* y = f(x) of each element, f(0) = 0. */
static int pass_map(struct pare_removed *r, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_value *x = n->in[0], *y = n->out[0];

    for (int axis = 0; any_zero(r, x) && axis < x->t.rank; axis++) {
        const uint8_t *from = r->zero[x->id][axis];
        uint8_t *to = from ? flags_of(r, y, axis) : NULL;

        if (from && !to)
            return pare_no_memory(err, "for masks");
        if (from)
            memcpy(to, from, (size_t)x->t.dim[axis]);
    }
    return 0;
}

/* Along one relation: all contributions to an index are 0, or, of a product, one of them. */
struct carried {
    const struct pare_removed *r;
    const struct pare_value *x;
    uint8_t *flags, *set;
    bool any;
};

static void carry(void *user, int64_t to, const struct pare_channel *from, int n)
{
    const struct carried *c = user;
    bool zero = false;

    for (int k = 0; k < n; k++)
        zero |= is_zero(c->r, c->x, from[k].axis, from[k].i);
    c->flags[to] = !c->set[to] ? zero : c->any ? c->flags[to] || zero : c->flags[to] && zero;
    c->set[to] = 1;
}

static int pass_axis(struct pare_removed *r, const struct pare_node *n, const struct pare_value *y,
                     int axis, struct pare_err *err)
{
    bool product = r->step[n->id].kind == PARE_REMOVED_PRODUCT;
    struct carried c = { .r = r, .any = product };

    c.flags = flags_of(r, y, axis);
    c.set = pare_alloc(r->c->scratch, (size_t)y->t.dim[axis] + 1, 1);
    if (!c.flags || !c.set)
        return pare_no_memory(err, "for masks");
    memset(c.flags, 0, (size_t)y->t.dim[axis]);
    for (int k = 0; k < n->n_in; k++) {
        c.x = n->in[k];
        for (int i = r->first_tie[n->id]; c.x && c.x->t.rank >= 0 && i < r->first_tie[n->id + 1];
             i++)
            if (!k || product || n->op->constant_channel == pare_constant_channel_same)
                pare_tie_carry(&r->ties->tie[i], c.x, y, axis, carry, &c);
    }
    return 0;
}

static int pass_moved(struct pare_removed *r, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_removed_step *s = &r->step[n->id];
    bool any = false;

    if (s->masked[0])
        PARE_TRY(flag_mask(r, n->in[0], s->masked[0], err));
    for (int k = 0; k < n->n_in; k++)
        any |= any_zero(r, n->in[k]);
    for (int k = 0; k < n->n_out && any; k++)
        for (int axis = 0; n->out[k] && axis < n->out[k]->t.rank; axis++)
            if (s->axes >> axis & 1)
                PARE_TRY(pass_axis(r, n, n->out[k], axis, err));
    return 0;
}

/* ---- the whole graph ------------------------------------------------------------------------- */

static void clear(const struct pare_removed *r)
{
    for (int i = 0; i < r->g->n_values; i++)
        for (int axis = 0; r->zero[i] && axis < r->g->value[i]->t.rank; axis++)
            if (r->zero[i][axis])
                memset(r->zero[i][axis], 0, (size_t)r->g->value[i]->t.dim[axis]);
}

static int pass(struct pare_removed *r, struct pare_err *err)
{
    static int (*const one[])(struct pare_removed *, const struct pare_node *,
                              struct pare_err *) = {
        [PARE_REMOVED_NORM] = pass_norm,   [PARE_REMOVED_SUM] = pass_sum,
        [PARE_REMOVED_PAIR] = pass_pair,   [PARE_REMOVED_MAP] = pass_map,
        [PARE_REMOVED_MOVED] = pass_moved, [PARE_REMOVED_PRODUCT] = pass_moved,
    };

    clear(r);
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct pare_mark m = pare_mark(r->c->scratch);
        enum pare_removed_kind kind = r->step[r->g->node[i]->id].kind;
        int rc = kind == PARE_REMOVED_OTHER ? 0 : one[kind](r, r->g->node[i], err);

        pare_reset(r->c->scratch, m);
        if (rc)
            return rc;
    }
    return 0;
}

int pare_removed_find(struct pare_removed *r, struct pare_err *err)
{
    for (int i = 0; i < r->n_hidden; i++)
        memset(r->hidden[i].gone, r->all || r->hidden[i].layer >= 0, (size_t)r->hidden[i].n);
    do {
        r->changed = false;
        PARE_TRY(pass(r, err));
    } while (r->changed && r->shared);
    return 0;
}

/* Keep what is not gone of the weight, along its axis, and of the bias. */
static void write_hidden(const struct pare_hidden *h, struct pare_layer *l)
{
    uint8_t *mask = l->mask.data;
    int64_t inner = 1, n = pare_numel(&l->w);

    for (int i = l->out_axis + 1; i < l->w.rank; i++)
        inner *= l->w.dim[i];
    for (int64_t i = 0; i < n; i++)
        mask[i] = !h->gone[i / inner % h->n];
    for (int64_t i = 0; l->bias && i < h->n; i++)
        ((uint8_t *)l->bias_mask.data)[i] = !h->gone[i];
}

int pare_removed_channels_mask(struct pare_compression *c, struct pare_err *err)
{
    struct pare_removed *r = c->prune->removed;

    if (!r)
        return 0;
    PARE_TRY(pare_removed_find(r, err));
    for (int i = 0; i < r->n_hidden; i++)
        if (r->hidden[i].layer >= 0)
            write_hidden(&r->hidden[i], &c->layer[r->hidden[i].layer]);
    return 0;
}
