/* shrink_model.c - the smaller model: written, inferred again, and compared with what was expected.
 *
 * Constants of the file are gathered.  A constant that nodes compute, often a shape, may come out
 * right by itself from smaller parts; where it does not, it is written down, and the model is
 * made once more. A node whose result has another size than expected is stuck: its channels stay,
 * and all starts again.
 */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "speedup.h"

int pare_speedup_stick(struct pare_speedup *s, const struct pare_node *n, const char *why,
                       struct pare_err *err)
{
    struct pare_stuck *t = pare_alloc(s->arena, 1, sizeof(*t));

    if (!t)
        return pare_no_memory(err, "for the report");
    *t = (struct pare_stuck){ n->id, why, s->stuck };
    s->stuck = t;
    return 0;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* What was computed lives only as long as we do. */
static int copy_data(struct pare_shrink *k, struct pare_tensor *t, struct pare_err *err)
{
    const void *from = t->data;
    size_t bytes;

    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    PARE_TRY(pare_tensor_alloc(k->arena, t, err));
    if (bytes)
        memcpy(t->data, from, bytes);
    return 0;
}

/* Does it need other contents than the file has? */
static bool changes(const struct pare_shrink *k, const struct pare_value *v)
{
    return k->instead[v->id].data || k->s->must[v->id] || pare_shrink_loses(k->s, v);
}

/* What stays of it, or what it became, in the type of the file and in the new model's memory. */
static int new_contents(struct pare_shrink *k, const struct pare_value *v, struct pare_tensor *to,
                        struct pare_err *err)
{
    const struct pare_tensor *file = pare_speedup_file(k->s, v), *t = &k->instead[v->id];

    if (t->data && t->dtype != PARE_F32) {
        *to = *t;
        return 0;
    }
    if (!t->data && !file->data)
        return pare_fail(err, PARE_EUNSUPPORTED, "the contents of '%s' are not known", v->name);
    PARE_TRY(pare_shrink_gather(k, v, t->data ? t : file, to, err));
    if (t->data)
        return pare_speedup_narrow(k->arena, k->s, v, to, err);
    return to->data == file->data ? copy_data(k, to, err) : 0;
}

/* A constant of one node that the file does not have, or has together with others. */
static int write_fresh(struct pare_shrink *k, const struct pare_node *n, int input,
                       struct pare_err *err)
{
    const struct pare_value *v = n->in[input], *from = pare_map_get(&k->s->g->names, v->name);
    struct pare_tensor to;
    const char *name;

    if (from && !changes(k, from) && !changes(k, v))
        return 0;
    PARE_TRY(new_contents(k, v, &to, err));
    PARE_TRY(pare_edit_add_constant(k->e, v->name, &to, &name, err));
    return pare_edit_set_input(k->e, n, input, name, err);
}

static int write_const(struct pare_shrink *k, const struct pare_value *v, bool *done,
                       struct pare_err *err)
{
    const struct pare_tensor *t = &k->instead[v->id];
    struct pare_tensor to;

    if (done[v->id])
        return 0;
    done[v->id] = true;
    if (pare_shrink_computed(v) && !t->data && !k->s->must[v->id])
        return 0;
    if (!changes(k, v))
        return 0;
    PARE_TRY(new_contents(k, v, &to, err));
    return pare_at(err, pare_edit_set_constant(k->e, v->name, &to, err), "'%s'", v->name);
}

static int forget_shapes(struct pare_shrink *k, struct pare_err *err)
{
    for (int i = 0; i < k->s->g->n_values; i++) {
        const struct pare_value *v = k->s->g->value[i];

        if (v->t.rank > 0 && pare_shrink_loses(k->s, v))
            PARE_TRY(pare_edit_forget_shape(k->e, v->name, err));
    }
    return 0;
}

/* Oldest first: an input may have been changed twice. */
static int write_wires(struct pare_shrink *k, const struct pare_rewire *r, struct pare_err *err)
{
    if (!r)
        return 0;
    PARE_TRY(write_wires(k, r->next, err));
    return pare_speedup_fresh(k->s, r->v)
               ? 0
               : pare_edit_set_input(k->e, r->n, r->input, r->v->name, err);
}

static int write_inputs(struct pare_shrink *k, const struct pare_node *n, bool *done,
                        struct pare_err *err)
{
    for (int j = n->n_in - 1; j >= 0; j--) {
        const struct pare_value *v = n->in[j];

        if (!v)
            continue;
        if (pare_speedup_left_out(k->s, n, j))
            PARE_TRY(pare_edit_drop_input(k->e, n, j, err));
        else if (v->flags & PARE_V_CONST && pare_speedup_fresh(k->s, v))
            PARE_TRY(write_fresh(k, n, j, err));
        else if (v->flags & PARE_V_CONST)
            PARE_TRY(write_const(k, v, done, err));
    }
    return 0;
}

static int write_all(struct pare_shrink *k, struct pare_err *err)
{
    struct pare_speedup *s = k->s;
    const struct pare_stuck *before = s->stuck;
    bool *done = pare_alloc(s->arena, (size_t)s->g->n_values + 1, sizeof(*done));

    k->instead = pare_alloc(s->arena, (size_t)s->g->n_values + 1, sizeof(*k->instead));
    if (!done || !k->instead)
        return pare_no_memory(err, "for a smaller model");
    PARE_TRY(write_wires(k, s->rewire, err));
    for (int i = 0; i < s->g->n_nodes; i++) {
        struct pare_sum m;

        if (!s->live[i] || s->gone[i])
            continue;
        if (pare_sum_open(s->g->node[i], &m))
            PARE_TRY(pare_shrink_fold(k, &m, err));
        PARE_TRY(pare_shrink_ask(k, s->g->node[i], err));
    }
    if (s->stuck != before)
        return 0;
    for (int i = 0; i < s->g->n_nodes; i++)
        if (s->live[i] && !s->gone[i])
            PARE_TRY(write_inputs(k, s->g->node[i], done, err));
    return forget_shapes(k, err);
}

/* ---- looking again ------------------------------------------------------------------------- */

/* The graph of the smaller model, with the shapes of the inputs that s->g has. */
static int infer_smaller(const struct pare_speedup *s, const struct pare_model *m,
                         struct pare_graph **g, struct pare_err *err)
{
    *g = pare_graph_clone(s->arena, m->graph, err);
    if (!*g)
        return err->code;
    for (int i = 0; i < (*g)->n_in; i++) {
        const struct pare_value *was = pare_graph_find(s->g, (*g)->in[i]->name);

        if (was)
            (*g)->in[i]->t = *pare_speedup_file(s, was);
    }
    return pare_graph_infer(*g, true, err);
}

static bool same_contents(const struct pare_value *v, const struct pare_tensor *t)
{
    size_t bytes = (size_t)pare_numel(t) * pare_dtype_size(t->dtype);
    const void *data = v->t.data ? v->t.data : v->raw;

    if (v->t.dtype != t->dtype || !data || !pare_same_shape(&v->t, t))
        return false;
    if (pare_is_4bit(t->dtype) && !v->t.data) {
        for (int64_t i = 0; i < pare_numel(t); i++)
            if (pare_nibble(t->dtype, data, i) != (int)pare_get_int(t, i))
                return false;
        return true;
    }
    return !bytes || !memcmp(data, t->data, bytes);
}

/* Is it another number for another batch? */
static bool follows_batch(const struct pare_speedup *s, const struct pare_value *v)
{
    return s->more && v->id < s->more->n_values && v->t.data &&
           !same_contents(s->more->value[v->id], pare_speedup_file(s, v));
}

/* What nodes asked for: did the computed lists come out so? */
static bool check_requests(struct pare_shrink *k, const struct pare_graph *g)
{
    bool good = true;

    for (const struct pare_request *r = k->request; r; r = r->next) {
        const struct pare_value *v = pare_map_get(&g->names, r->n->in[r->input]->name);

        if (v && same_contents(v, &r->t))
            continue;
        k->s->forced[r->n->id] |= (uint64_t)1 << r->input;
        good = false;
    }
    return good;
}

static bool is_requested(const struct pare_shrink *k, const struct pare_node *n, int input)
{
    if (k->s->forced[n->id] >> input & 1)
        return true;
    for (const struct pare_request *r = k->request; r; r = r->next)
        if (r->n == n && r->input == input)
            return true;
    return false;
}

/* Other computed constants: still what they were, without what goes? */
static int check_const(struct pare_shrink *k, const struct pare_graph *g, const struct pare_node *n,
                       int input, bool *good, struct pare_err *err)
{
    const struct pare_value *was = n->in[input], *v;
    struct pare_tensor t;

    if (!was || !(was->flags & PARE_V_CONST) || !pare_shrink_computed(was) || input >= 64 ||
        k->s->must[was->id] || k->instead[was->id].data || is_requested(k, n, input))
        return 0;
    if (!was->t.data)
        return 0;
    PARE_TRY(pare_shrink_gather(k, was, pare_speedup_file(k->s, was), &t, err));
    v = pare_map_get(&g->names, was->name);
    if (v && same_contents(v, &t))
        return 0;
    *good = false;
    if (follows_batch(k->s, was) && n->op->shrink) { /* which can say it without the batch */
        k->s->forced[n->id] |= (uint64_t)1 << input;
        return 0;
    }
    if (follows_batch(k->s, was))
        return pare_speedup_stick(k->s, n, "a constant follows the batch and the channels", err);
    k->s->must[was->id] = true;
    return 0;
}

/* Has every result the size that is expected? */
static int check_sizes(struct pare_shrink *k, const struct pare_graph *g, const struct pare_node *n,
                       bool *good, struct pare_err *err)
{
    for (int j = 0; j < n->n_out; j++) {
        const struct pare_value *was = n->out[j], *v;
        bool same = true;

        if (!was || was->t.dtype == PARE_NONE)
            continue;
        v = pare_map_get(&g->names, was->name);
        if (!v)
            continue; /* nobody needs it any more */
        same = v->t.rank == was->t.rank;
        for (int i = 0; i < was->t.rank && same; i++)
            same = v->t.dim[i] == pare_keep_sets_count(k->s->kept, was, i);
        if (same)
            continue;
        *good = false;
        return pare_speedup_stick(k->s, n, "its result does not get smaller as expected", err);
    }
    return 0;
}

static int check_all(struct pare_shrink *k, const struct pare_graph *g, bool *good,
                     struct pare_err *err)
{
    const struct pare_speedup *s = k->s;

    *good = check_requests(k, g);
    for (int i = 0; i < s->g->n_nodes; i++)
        for (int j = 0; s->live[i] && !s->gone[i] && j < s->g->node[i]->n_in; j++)
            PARE_TRY(check_const(k, g, s->g->node[i], j, good, err));
    for (int i = 0; i < s->g->n_nodes && *good; i++)
        if (s->live[i] && !s->gone[i])
            PARE_TRY(check_sizes(k, g, s->g->node[i], good, err));
    return 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

static int attempt(struct pare_speedup *s, struct pare_model **out, struct pare_err *err)
{
    const struct pare_stuck *before = s->stuck;
    struct pare_shrink k = { .s = s };
    bool good = false;
    int rc;

    *out = NULL;
    PARE_TRY(pare_edit_new(s->from, &k.e, err));
    k.arena = pare_edit_arena(k.e);
    rc = write_all(&k, err);
    if (!rc && s->stuck == before)
        rc = pare_edit_sweep(k.e, err);
    if (rc || s->stuck != before) {
        pare_edit_free(k.e);
        return rc;
    }
    PARE_TRY(pare_edit_model(k.e, out, err));
    rc = infer_smaller(s, *out, &s->now, err);
    k.e = NULL;
    k.arena = s->arena;
    if (!rc)
        rc = check_all(&k, s->now, &good, err);
    if (!rc && good)
        return 0;
    pare_model_free(*out);
    *out = NULL;
    return rc;
}

int pare_speedup_shrink(struct pare_speedup *s, struct pare_model **out, struct pare_err *err)
{
    const struct pare_stuck *before = s->stuck;

    s->must = pare_alloc(s->arena, (size_t)s->g->n_values + 1, sizeof(*s->must));
    s->forced = pare_alloc(s->arena, (size_t)s->g->n_nodes + 1, sizeof(*s->forced));
    *out = NULL;
    if (!s->must || !s->forced)
        return pare_no_memory(err, "for a smaller model");
    for (int i = 0; i < 16 && !*out && s->stuck == before; i++)
        PARE_TRY(attempt(s, out, err));
    if (!*out && s->stuck == before)
        return pare_fail(err, PARE_EUNSUPPORTED, "the smaller model does not come to rest");
    return 0;
}
