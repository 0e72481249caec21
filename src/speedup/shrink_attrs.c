/* shrink_attrs.c - update attributes and shape constants of nodes whose channels are removed. */
#include <string.h>

#include "../base/arena.h"
#include "../op/shape/movement.h"
#include "../tensor/tensor.h"
#include "speedup.h"

#define WHERE_OPSET 9 /* the first one that has Where */

int64_t pare_shrunk_dim(const struct pare_shrunk *s, const struct pare_value *v, int axis)
{
    return pare_keep_sets_count(s->k->s->kept, v, axis);
}

const uint8_t *pare_shrunk_keep(const struct pare_shrunk *s, const struct pare_value *v, int axis)
{
    return pare_keep_axis(s->k->s->kept, v, axis);
}

bool pare_shrunk_free(const struct pare_shrunk *s, const struct pare_value *v, int axis)
{
    return pare_axis_is_free(s->k->s->g, v, axis);
}

void pare_shrunk_fail(struct pare_shrunk *s, const char *why)
{
    if (!s->why)
        s->why = why;
}

void pare_shrunk_int(struct pare_shrunk *s, const char *attr, int64_t v)
{
    if (!s->rc)
        s->rc = pare_edit_set_int(s->k->e, s->n, attr, v, s->err);
}

void pare_shrunk_ints(struct pare_shrunk *s, const char *attr, const int64_t *v, int n)
{
    if (!s->rc)
        s->rc = pare_edit_set_ints(s->k->e, s->n, attr, v, n, s->err);
}

bool pare_shrink_computed(const struct pare_value *v)
{
    return v->maker && v->maker->n_in;
}

/* The list in the type and rank of the constant that it replaces. */
static int make_list(struct pare_shrunk *s, const struct pare_value *was, const int64_t *v,
                     int64_t n, struct pare_tensor *t)
{
    *t = (struct pare_tensor){ .dtype = was ? was->t.dtype : PARE_I64, .rank = 1, .dim = { n } };
    if (was && !was->t.rank && n == 1)
        t->rank = 0;
    PARE_TRY(pare_tensor_alloc(s->k->arena, t, s->err));
    return pare_convert(t->dtype, t->data, PARE_I64, v, n, s->err);
}

static bool same_list(const struct pare_tensor *a, const struct pare_tensor *b)
{
    if (!a->data || a->dtype != b->dtype || a->rank != b->rank || pare_numel(a) != pare_numel(b))
        return false;
    return !memcmp(a->data, b->data, (size_t)pare_numel(a) * pare_dtype_size(a->dtype));
}

/* Why the list must not be written: an element depends on the size of a free dimension.  Elements
 * of a shape are relative to the input if they are -1, 0 or 1.  NULL: it may be. */
static const char *why_not(const struct pare_shrunk *s, const struct pare_value *was,
                           const struct pare_tensor *t, bool shape)
{
    const struct pare_varying *varying = &s->k->s->varying;
    bool varies = was && pare_varies(varying, was);
    int unknown = 0;

    for (int64_t i = 0; i < pare_numel(t); i++) {
        int64_t v = pare_get_int(t, i);

        unknown += shape && v == -1;
        if (varies && (pare_numel(t) != pare_numel(&was->t) || pare_varies_at(varying, was, i)) &&
            !(shape && v >= -1 && v <= 1))
            return "a constant follows a free dimension and the channels";
    }
    return unknown > 1 ? "two axes of its result follow free dimensions" : NULL;
}

/* ---- shapes of which two elements or more follow free dimensions ----------------------------- */

/* Can the shape be a mix of what the file computes, where it follows free dimensions, and of new
 * constants elsewhere? */
static bool can_mix(const struct pare_shrunk *s, const struct pare_value *was,
                    const struct pare_tensor *t)
{
    int unknown = 0;

    if (!was || !pare_shrink_computed(was) || was->t.dtype != PARE_I64 ||
        pare_edit_version(s->k->e) < WHERE_OPSET || !pare_same_shape(&was->t, t) ||
        was->t.rank != 1)
        return false;
    for (int64_t i = 0; i < pare_numel(t); i++)
        unknown += !pare_varies_at(&s->k->s->varying, was, i) && pare_get_int(t, i) == -1;
    return unknown < 2;
}

/* Where(is_new, new, computed).  A computed element that comes out wrong is found when the sizes of
 * the smaller model are checked. */
static int mix(struct pare_shrunk *s, int input, struct pare_tensor *t)
{
    struct pare_edit *e = s->k->e;
    const struct pare_value *was = s->n->in[input];
    struct pare_tensor is_new = { .dtype = PARE_BOOL, .rank = 1, .dim = { t->dim[0] } };
    struct pare_edit_node where = { .type = "Where", .axis = -1 };

    PARE_TRY(pare_tensor_alloc(s->k->arena, &is_new, s->err));
    for (int64_t i = 0; i < t->dim[0]; i++)
        ((uint8_t *)is_new.data)[i] = !pare_varies_at(&s->k->s->varying, was, i);
    where.name = pare_edit_name(e, s->n->name, "_sizes");
    where.out = pare_edit_name(e, was->name, "_sizes");
    if (!where.name || !where.out)
        return pare_no_memory(s->err, "for a smaller model");
    PARE_TRY(pare_edit_add_constant(e, where.name, &is_new, &where.in[0], s->err));
    PARE_TRY(pare_edit_add_constant(e, where.out, t, &where.in[1], s->err));
    where.in[2] = was->name;
    PARE_TRY(pare_edit_insert(e, &where, s->err));
    return pare_edit_set_input(e, s->n, input, where.out, s->err);
}

/* A constant from the file is replaced now (copied first if shared).  A computed one may already
 * come out right: check_requests() tells. */
static int request(struct pare_shrunk *s, int input, struct pare_tensor *t, bool shape)
{
    struct pare_shrink *k = s->k;
    const struct pare_value *was = input < s->n->n_in ? s->n->in[input] : NULL;
    struct pare_request *r = pare_alloc(k->s->arena, 1, sizeof(*r));
    const char *name;

    if (!r)
        return pare_fail(s->err, PARE_ENOMEM, "no memory for a list of sizes");
    if (was && pare_shrink_computed(was) && !(k->s->materialize_input[s->n->id] >> input & 1)) {
        *r = (struct pare_request){ s->n, input, *t, shape, k->request };
        k->request = r;
        return 0;
    }
    if (was && same_list(&was->t, t) && !pare_varies(&k->s->varying, was))
        return 0;
    if (why_not(s, was, t, shape) && shape && can_mix(s, was, t))
        return mix(s, input, t);
    if (why_not(s, was, t, shape)) {
        pare_shrunk_fail(s, why_not(s, was, t, shape));
        return 0;
    }
    if (was && k->s->uses[was->id] == 1 && !pare_shrink_computed(was)) {
        k->replacement[was->id] = *t;
        return 0;
    }
    PARE_TRY(pare_edit_add_constant(k->e, was ? was->name : s->n->name, t, &name, s->err));
    return pare_edit_set_input(k->e, s->n, input, name, s->err);
}

/* The node stands for others of the file (graph/pattern/pattern_shuffle.c): write it in their
 * place.  They have no consumer then. */
static int write_gather(struct pare_shrunk *s, const struct pare_tensor *t)
{
    struct pare_edit *e = s->k->e;
    struct pare_edit_node n = { .type = s->n->type, .axis = pare_gather_axis(s->n) };
    const char *was = pare_edit_name(e, s->n->out[0]->name, "_unused");

    n.name = pare_edit_name(e, s->n->name, "_channels");
    if (!n.name || !was)
        return pare_no_memory(s->err, "for a smaller model");
    PARE_TRY(pare_edit_add_constant(e, n.name, t, &n.in[1], s->err));
    PARE_TRY(pare_edit_rename(e, s->n->out[0]->name, was, s->err));
    n.in[0] = s->n->in[0]->name;
    n.out = s->n->out[0]->name;
    return pare_edit_insert(e, &n, s->err);
}

static void set_list(struct pare_shrunk *s, int input, const int64_t *v, int64_t n, bool shape)
{
    const struct pare_value *was = input < s->n->n_in ? s->n->in[input] : NULL;
    struct pare_tensor t;

    if (s->rc || s->why)
        return;
    s->rc = make_list(s, was, v, n, &t);
    if (!s->rc)
        s->rc = s->n->n_parts ? write_gather(s, &t) : request(s, input, &t, shape);
}

void pare_shrunk_list(struct pare_shrunk *s, int input, const int64_t *v, int64_t n)
{
    set_list(s, input, v, n, false);
}

void pare_shrunk_shape(struct pare_shrunk *s, int input, const int64_t *v, int64_t n)
{
    set_list(s, input, v, n, true);
}

static bool is_affected(const struct pare_speedup *s, const struct pare_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && pare_shrink_is_smaller(s, n->in[i]))
            return true;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && pare_shrink_is_smaller(s, n->out[i]))
            return true;
    return false;
}

int pare_shrink_node(struct pare_shrink *k, const struct pare_node *n, struct pare_err *err)
{
    struct pare_shrunk s = { .k = k, .n = n, .err = err };

    if (!is_affected(k->s, n) && !k->s->materialize_input[n->id])
        return 0;
    if (!pare_model_has_node(k->s->from, n))
        return pare_speedup_cannot_shrink(k->s, n, "it is part of a function", err);
    if (n->op->shrink)
        n->op->shrink(n, &s);
    if (s.rc)
        return pare_at(err, s.rc, "node '%s' (%s)", n->name, n->type);
    return s.why ? pare_speedup_cannot_shrink(k->s, n, s.why, err) : 0;
}
