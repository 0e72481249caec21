/* shrink_rows.c - remove channels of LayerNormalization and RMSNormalization.
 *
 * Their moments count all channels, also those that are 0.  So zeros are appended to each row again
 * before the node, and the kept channels of the result are a slice of it:
 *
 *     x (kept)  ->  Pad (kept, zeros)  ->  LayerNormalization  ->  Slice (kept)
 *
 * The zeros are at the end, so scale and bias are put in that order.  If the result keeps other
 * channels than the input, Gather selects them; if it keeps all, zeros are inserted in place.  If
 * removed channels are constants other than 0, an Add makes them of the zeros.
 */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "speedup.h"

/* Opsets in which lists became inputs instead of attributes. */
#define SLICE_INPUTS 10
#define PAD_INPUTS 11

/* The last axis of input 0 and output 0. */
struct rows {
    struct pare_shrunk *s;
    const struct pare_value *x, *y;
    int axis;
    int64_t n;         /* channels */
    int64_t in, out;   /* of which are kept */
    bool constants;    /* a removed channel of x is not 0 */
    int64_t *order;    /* channels in the order in which the node sees them */
    int64_t *selected; /* places in that order of the kept channels of y */
};

static int list_constant(struct rows *r, const int64_t *v, int64_t n, const char *base,
                         const char **name)
{
    struct pare_tensor t = { .dtype = PARE_I64, .rank = 1, .dim = { n } };

    PARE_TRY(pare_tensor_alloc(r->s->k->arena, &t, r->s->err));
    memcpy(t.data, v, (size_t)n * sizeof(*v));
    return pare_edit_add_constant(r->s->k->e, base, &t, name, r->s->err);
}

/* Insert the node between `from` and `to`; either is new. */
static int insert(struct rows *r, struct pare_edit_node *n, const char *from, const char *to)
{
    n->in[0] = from;
    n->out = to;
    if (!from || !to || !n->name)
        return pare_no_memory(r->s->err, "for a smaller model");
    return pare_edit_insert(r->s->k->e, n, r->s->err);
}

/* The nodes of the file that the node stands for. */
static const struct pare_node *part(const struct pare_node *n, int i)
{
    if (n->n_parts)
        return i < n->n_parts ? n->parts[i] : NULL;
    return i ? NULL : n;
}

/* Let the node read another value instead of x. */
static int set_readers(struct rows *r, const char *name)
{
    const struct pare_node *p;

    for (int i = 0; (p = part(r->s->n, i)) != NULL; i++)
        for (int k = 0; k < p->n_in; k++)
            if (p->in[k] == r->x)
                PARE_TRY(pare_edit_set_input(r->s->k->e, p, k, name, r->s->err));
    return 0;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Channel i of x, which is 0 if it is kept. */
static float removed_constant(const struct rows *r, int64_t i)
{
    return pare_shrunk_keep(r->s, r->x, r->axis)[i]
               ? 0
               : pare_constant_channel(r->s->k->s, r->x, r->axis, i);
}

/* Add the constants of removed channels to `from`; *to is the sum, or `from` if all are 0. */
static int add_constants(struct rows *r, const char *from, const char **to)
{
    struct pare_tensor t = { .dtype = PARE_F32, .rank = 1, .dim = { r->n } };
    struct pare_edit_node add = { .type = "Add", .axis = -1 };
    struct pare_edit *e = r->s->k->e;

    *to = from;
    if (!r->constants)
        return 0;
    PARE_TRY(pare_tensor_alloc(r->s->k->arena, &t, r->s->err));
    for (int64_t i = 0; i < r->n; i++)
        pare_f32_mut(&t)[i] = removed_constant(r, r->order ? r->order[i] : i);
    PARE_TRY(pare_speedup_narrow(r->s->k->arena, r->s->k->s, r->x, &t, r->s->err));
    *to = pare_edit_name(e, r->x->name, "_constants");
    add.name = pare_edit_name(e, r->s->n->name, "_constants");
    if (!add.name)
        return pare_no_memory(r->s->err, "for a smaller model");
    PARE_TRY(pare_edit_add_constant(e, add.name, &t, &add.in[1], r->s->err));
    return insert(r, &add, from, *to);
}

/* ---- zeros at their places ------------------------------------------------------------------- */

/* For each channel its index among the kept ones (0 if it is removed), and 1 or 0 to multiply it
 * with, in the type of the file. */
static int make_places(struct rows *r, struct pare_tensor *at, struct pare_tensor *factor)
{
    const uint8_t *keep = pare_shrunk_keep(r->s, r->x, r->axis);
    int64_t next = 0;

    *at = (struct pare_tensor){ .dtype = PARE_I64, .rank = 1, .dim = { r->n } };
    *factor = (struct pare_tensor){ .dtype = PARE_F32, .rank = 1, .dim = { r->n } };
    PARE_TRY(pare_tensor_alloc(r->s->k->arena, at, r->s->err));
    PARE_TRY(pare_tensor_alloc(r->s->k->arena, factor, r->s->err));
    for (int64_t i = 0; i < r->n; i++) {
        ((int64_t *)at->data)[i] = keep[i] ? next : 0;
        pare_f32_mut(factor)[i] = keep[i];
        next += keep[i];
    }
    return pare_speedup_narrow(r->s->k->arena, r->s->k->s, r->x, factor, r->s->err);
}

/* Gather repeats channel 0 at the removed ones, and Mul makes them 0. */
static int insert_zeros(struct rows *r)
{
    struct pare_edit_node gather = { .type = "Gather", .axis = r->axis };
    struct pare_edit *e = r->s->k->e;
    struct pare_edit_node mul = { .type = "Mul", .axis = -1 };
    struct pare_tensor at, factor;
    const char *spread = pare_edit_name(e, r->x->name, "_spread");
    const char *zeros = pare_edit_name(e, r->x->name, "_zeros");

    PARE_TRY(make_places(r, &at, &factor));
    gather.name = pare_edit_name(e, r->s->n->name, "_spread");
    mul.name = pare_edit_name(e, r->s->n->name, "_zeros");
    if (!gather.name || !mul.name)
        return pare_no_memory(r->s->err, "for a smaller model");
    PARE_TRY(pare_edit_add_constant(e, gather.name, &at, &gather.in[1], r->s->err));
    PARE_TRY(pare_edit_add_constant(e, mul.name, &factor, &mul.in[1], r->s->err));
    PARE_TRY(insert(r, &gather, r->x->name, spread));
    PARE_TRY(insert(r, &mul, spread, zeros));
    PARE_TRY(add_constants(r, zeros, &zeros));
    return set_readers(r, zeros);
}

/* ---- zeros at the end ------------------------------------------------------------------------ */

static int find_order(struct rows *r)
{
    const uint8_t *in = pare_shrunk_keep(r->s, r->x, r->axis);
    const uint8_t *out = pare_shrunk_keep(r->s, r->y, r->axis);
    struct pare_arena *a = r->s->k->s->arena;
    int64_t kept = 0, gone = r->in, n = 0;

    r->order = pare_alloc(a, (size_t)r->n, sizeof(*r->order));
    r->selected = pare_alloc(a, (size_t)r->n, sizeof(*r->selected));
    if (!r->order || !r->selected)
        return pare_no_memory(r->s->err, "for a smaller model");
    for (int64_t i = 0; i < r->n; i++) {
        int64_t at = in[i] ? kept++ : gone++;

        r->order[at] = i;
        if (out[i])
            r->selected[n++] = at;
    }
    return 0;
}

static int insert_pad(struct rows *r)
{
    struct pare_edit *e = r->s->k->e;
    struct pare_edit_node pad = { .type = "Pad", .axis = -1 };
    const char *to = pare_edit_name(e, r->x->name, "_zeros");
    int64_t pads[2 * PARE_MAX_RANK] = { 0 };

    pads[2 * r->axis + 1] = r->n - r->in;
    pad.name = pare_edit_name(e, r->s->n->name, "_zeros");
    if (!pad.name)
        return pare_no_memory(r->s->err, "for a smaller model");
    if (pare_edit_version(e) >= PAD_INPUTS) {
        PARE_TRY(list_constant(r, pads, 2 * (r->axis + 1), pad.name, &pad.in[1]));
    } else {
        pad.list[0].name = "pads";
        pad.list[0].v = pads;
        pad.list[0].n = 2 * (r->axis + 1);
    }
    PARE_TRY(insert(r, &pad, r->x->name, to));
    PARE_TRY(add_constants(r, to, &to));
    return set_readers(r, to);
}

/* Is the value a list with one element per channel: scale or bias? */
static bool is_list(const struct rows *r, const struct pare_value *v)
{
    return v && v != r->x && v->flags & PARE_V_CONST && pare_numel(&v->t) == r->n && v->t.rank &&
           v->t.dim[v->t.rank - 1] == r->n;
}

/* Input k of a node of the file in the new order. */
static int reorder(struct rows *r, const struct pare_node *p, int k)
{
    const struct pare_value *v = p->in[k];
    const struct pare_tensor *from = pare_speedup_file(r->s->k->s, v);
    size_t size = pare_dtype_size(from->dtype);
    const char *data = from->data ? from->data : v->raw, *name;
    struct pare_tensor t = *from;

    if (!data) {
        pare_shrunk_fail(r->s, "the contents of its scale or bias are not known");
        return 0;
    }
    PARE_TRY(pare_tensor_alloc(r->s->k->arena, &t, r->s->err));
    for (int64_t i = 0; i < r->n; i++)
        memcpy((char *)t.data + (size_t)i * size, data + (size_t)r->order[i] * size, size);
    PARE_TRY(pare_edit_add_constant(r->s->k->e, v->name, &t, &name, r->s->err));
    return pare_edit_set_input(r->s->k->e, p, k, name, r->s->err);
}

static int reorder_lists(struct rows *r)
{
    const struct pare_node *p;

    for (int i = 0; (p = part(r->s->n, i)) != NULL; i++)
        for (int k = 0; k < p->n_in; k++)
            if (is_list(r, p->in[k]))
                PARE_TRY(reorder(r, p, k));
    return 0;
}

/* ---- the kept channels of the result --------------------------------------------------------- */

/* The first channels. */
static int insert_slice(struct rows *r, struct pare_edit_node *n, const char *all)
{
    static const char *const attr[] = { "starts", "ends", "axes" };
    const int64_t from = 0, axis = r->axis, *list[] = { &from, &r->out, &axis };

    n->type = "Slice";
    for (int i = 0; i < 3; i++)
        if (pare_edit_version(r->s->k->e) >= SLICE_INPUTS) {
            PARE_TRY(list_constant(r, list[i], 1, n->name, &n->in[1 + i]));
        } else {
            n->list[i].name = attr[i];
            n->list[i].v = list[i];
            n->list[i].n = 1;
        }
    return insert(r, n, all, r->y->name);
}

static int select_kept(struct rows *r)
{
    struct pare_edit *e = r->s->k->e;
    struct pare_edit_node n = { .type = "Gather", .axis = -1 };
    const char *all = pare_edit_name(e, r->y->name, "_all");
    bool first = true;

    n.name = pare_edit_name(e, r->s->n->name, "_kept");
    if (!n.name || !all)
        return pare_no_memory(r->s->err, "for a smaller model");
    for (int64_t i = 0; i < r->out; i++)
        first &= r->selected[i] == i;
    if (!first) {
        n.axis = r->axis;
        PARE_TRY(list_constant(r, r->selected, r->out, n.name, &n.in[1]));
    }
    PARE_TRY(pare_edit_rename(e, r->y->name, all, r->s->err));
    if (!first)
        return insert(r, &n, all, r->y->name);
    return insert_slice(r, &n, all);
}

static int shrink(struct rows *r)
{
    if (r->out == r->n)
        return r->in == r->n ? 0 : insert_zeros(r);
    PARE_TRY(find_order(r));
    if (r->in < r->n) {
        PARE_TRY(insert_pad(r));
        PARE_TRY(reorder_lists(r));
    }
    return select_kept(r);
}

void pare_shrunk_rows(struct pare_shrunk *s)
{
    struct rows r = { .s = s, .x = s->n->in[0], .y = s->n->out[0] };

    if (s->rc || s->why)
        return;
    r.axis = r.x->t.rank - 1;
    r.n = r.x->t.dim[r.axis];
    r.in = pare_shrunk_dim(s, r.x, r.axis);
    r.out = pare_shrunk_dim(s, r.y, r.axis);
    for (int64_t i = 0; i < r.n; i++)
        r.constants |= removed_constant(&r, i) != 0;
    s->rc = shrink(&r);
}
