/* shrink_model.c - build the smaller model and compare its shapes with the expected ones.
 *
 * Constants of the file are gathered.  A constant that nodes compute, often a shape, may come out
 * right from smaller inputs; if it does not, the next attempt stores it as an initializer.  A node
 * whose result has an unexpected size is unshrinkable: its channels are kept, and the analysis
 * starts again.
 */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "speedup.h"

#define MIN_ATTEMPTS 16

int pare_speedup_cannot_shrink(struct pare_speedup *s, const struct pare_node *n, const char *why,
                               struct pare_err *err)
{
    struct pare_unshrinkable *t = pare_alloc(s->arena, 1, sizeof(*t));

    if (!t)
        return pare_no_memory(err, "for the report");
    *t = (struct pare_unshrinkable){ n->id, why, s->unshrinkable };
    s->unshrinkable = t;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Copy a tensor whose memory is freed earlier than the new model's. */
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

/* Does the constant need other contents than it has in the file? */
static bool has_new_contents(const struct pare_shrink *k, const struct pare_value *v)
{
    return k->replacement[v->id].data || k->s->materialize[v->id] ||
           pare_shrink_is_smaller(k->s, v);
}

/* The kept part of a constant, or of its replacement, in the file's type and memory of the new
 * model. */
static int new_contents(struct pare_shrink *k, const struct pare_value *v, struct pare_tensor *to,
                        struct pare_err *err)
{
    const struct pare_tensor *file = pare_speedup_file(k->s, v), *t = &k->replacement[v->id];

    if (t->data && t->dtype != PARE_F32) {
        *to = *t;
        return 0;
    }
    if (!t->data && !file->data)
        return pare_fail(err, PARE_EUNSUPPORTED, "the contents of constant '%s' are not known",
                         v->name);
    PARE_TRY(pare_shrink_gather(k, v, t->data ? t : file, to, err));
    if (t->data)
        PARE_TRY(pare_speedup_narrow(k->arena, k->s, v, to, err));
    return to->data == file->data || to->data == t->data ? copy_data(k, to, err) : 0;
}

/* Store a constant of one node that is not in the file, or that other nodes share there. */
static int write_new_const(struct pare_shrink *k, const struct pare_node *n, int input,
                           struct pare_err *err)
{
    const struct pare_value *v = n->in[input], *from = pare_map_get(&k->s->g->names, v->name);
    struct pare_tensor to;
    const char *name;

    if (from && !has_new_contents(k, from) && !has_new_contents(k, v))
        return 0;
    PARE_TRY(new_contents(k, v, &to, err));
    PARE_TRY(pare_edit_add_constant(k->e, v->name, &to, &name, err));
    return pare_edit_set_input(k->e, n, input, name, err);
}

static int write_const(struct pare_shrink *k, const struct pare_value *v, bool *done,
                       struct pare_err *err)
{
    const struct pare_tensor *t = &k->replacement[v->id];
    struct pare_tensor to;

    if (done[v->id])
        return 0;
    done[v->id] = true;
    if (pare_shrink_computed(v) && !t->data && !k->s->materialize[v->id])
        return 0;
    if (!has_new_contents(k, v))
        return 0;
    PARE_TRY(new_contents(k, v, &to, err));
    return pare_at(err, pare_edit_set_constant(k->e, v->name, &to, err), "'%s'", v->name);
}

static int forget_shapes(struct pare_shrink *k, struct pare_err *err)
{
    for (int i = 0; i < k->s->g->n_values; i++) {
        const struct pare_value *v = k->s->g->value[i];

        if (v->t.rank > 0 && pare_shrink_is_smaller(k->s, v))
            PARE_TRY(pare_edit_forget_shape(k->e, v->name, err));
    }
    return 0;
}

/* Oldest first: an input may have been rewired twice. */
static int write_rewires(struct pare_shrink *k, const struct pare_rewire *r, struct pare_err *err)
{
    if (!r)
        return 0;
    PARE_TRY(write_rewires(k, r->next, err));
    return pare_speedup_is_new(k->s, r->v)
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
        if (pare_speedup_drops_input(k->s, n, j))
            PARE_TRY(pare_edit_drop_input(k->e, n, j, err));
        else if (v->flags & PARE_V_CONST && pare_speedup_is_new(k->s, v))
            PARE_TRY(write_new_const(k, n, j, err));
        else if (v->flags & PARE_V_CONST)
            PARE_TRY(write_const(k, v, done, err));
    }
    return 0;
}

static int write_all(struct pare_shrink *k, struct pare_err *err)
{
    struct pare_speedup *s = k->s;
    const struct pare_unshrinkable *before = s->unshrinkable;
    bool *done = pare_alloc(s->arena, (size_t)s->g->n_values + 1, sizeof(*done));

    k->replacement = pare_alloc(s->arena, (size_t)s->g->n_values + 1, sizeof(*k->replacement));
    if (!done || !k->replacement)
        return pare_no_memory(err, "for a smaller model");
    PARE_TRY(write_rewires(k, s->rewire, err));
    for (int i = 0; i < s->g->n_nodes; i++) {
        struct pare_linear_node m;

        if (!s->live[i] || s->removed[i])
            continue;
        if (pare_linear_node_open(s->g->node[i], &m))
            PARE_TRY(pare_shrink_fold(k, &m, err));
        PARE_TRY(pare_shrink_node(k, s->g->node[i], err));
    }
    if (s->unshrinkable != before)
        return 0;
    for (int i = 0; i < s->g->n_nodes; i++)
        if (s->live[i] && !s->removed[i] && !s->g->node[i]->n_parts)
            PARE_TRY(write_inputs(k, s->g->node[i], done, err));
    return forget_shapes(k, err);
}

/* ---- checking -------------------------------------------------------------------------------- */

/* The graph of the smaller model, with the shapes of the inputs that `as` has. */
static int infer_smaller(const struct pare_speedup *s, const struct pare_model *m,
                         const struct pare_graph *as, struct pare_graph **g, struct pare_err *err)
{
    *g = pare_graph_clone(as == s->before ? s->graphs : s->others, m->graph, err);
    if (!*g)
        return err->code;
    for (int i = 0; i < (*g)->n_in; i++) {
        const struct pare_value *was = pare_graph_find(as, (*g)->in[i]->name);

        if (was)
            (*g)->in[i]->t = was->t;
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

/* Has the value the size that remains of v?  `as`: the graph of v's model that was inferred for the
 * same input shapes.  A size that follows a free dimension shrinks in proportion. */
static bool has_size(const struct pare_shrink *k, const struct pare_graph *as,
                     const struct pare_value *v, const struct pare_value *small)
{
    const struct pare_value *was = v->id < as->n_values ? as->value[v->id] : v;
    bool same = small->t.rank == v->t.rank && was->t.rank == v->t.rank;

    if (was->t.dtype == PARE_NONE && small->t.dtype == PARE_NONE)
        return true; /* at these sizes it depends on data */
    for (int i = 0; i < v->t.rank && same; i++)
        same = small->t.dim[i] * v->t.dim[i] ==
               was->t.dim[i] * pare_keep_sets_count(k->s->kept, v, i);
    return same;
}

/* Do the computed constants have the contents that nodes requested? */
static bool check_requests(struct pare_shrink *k, const struct pare_graph *g)
{
    bool good = true;

    for (const struct pare_request *r = k->request; r; r = r->next) {
        const struct pare_value *v = pare_map_get(&g->names, r->n->in[r->input]->name);
        const struct pare_value *y = pare_map_get(&g->names, r->n->out[0]->name);

        if (r->shape ? y && has_size(k, k->s->g, r->n->out[0], y) : v && same_contents(v, &r->t))
            continue;
        k->s->materialize_input[r->n->id] |= (uint64_t)1 << r->input;
        good = false;
    }
    return good;
}

static bool is_requested(const struct pare_shrink *k, const struct pare_node *n, int input)
{
    if (k->s->materialize_input[n->id] >> input & 1)
        return true;
    for (const struct pare_request *r = k->request; r; r = r->next)
        if (r->n == n && r->input == input)
            return true;
    return false;
}

/* Do other computed constants have their old contents, without the removed channels? */
static int check_const(struct pare_shrink *k, const struct pare_graph *g, const struct pare_node *n,
                       int input, bool *good, struct pare_err *err)
{
    const struct pare_value *was = n->in[input], *v;
    struct pare_tensor t;

    if (!was || !(was->flags & PARE_V_CONST) || !pare_shrink_computed(was) || input >= 64 ||
        k->s->materialize[was->id] || k->replacement[was->id].data || is_requested(k, n, input))
        return 0;
    if (!was->t.data)
        return 0;
    PARE_TRY(pare_shrink_gather(k, was, pare_speedup_file(k->s, was), &t, err));
    v = pare_map_get(&g->names, was->name);
    if (v && same_contents(v, &t))
        return 0;
    if (v && !v->t.data && !v->raw && !*good) /* unknown, because an earlier one is wrong */
        return 0;
    *good = false;
    if (pare_varies(&k->s->varying, was) && n->op->shrink && !(n->op->flags & PARE_OP_PRODUCT)) {
        /* shrink() may express it without the size */
        k->s->materialize_input[n->id] |= (uint64_t)1 << input;
        return 0;
    }
    if (pare_varies(&k->s->varying, was))
        return pare_speedup_cannot_shrink(k->s, n,
                                          "a constant follows a free dimension and the channels",
                                          err);
    k->s->materialize[was->id] = true;
    return 0;
}

/* Store the shapes that the node requested, instead of computing them; false: none. */
static bool store_requests(const struct pare_shrink *k, const struct pare_node *n)
{
    bool any = false;

    for (const struct pare_request *r = k->request; r; r = r->next)
        if (r->n == n && !(k->s->materialize_input[n->id] >> r->input & 1)) {
            k->s->materialize_input[n->id] |= (uint64_t)1 << r->input;
            any = true;
        }
    return any;
}

/* Does every output of the node have the expected size? */
static int check_sizes(struct pare_shrink *k, const struct pare_graph *as,
                       const struct pare_graph *g, const struct pare_node *n, bool *good,
                       struct pare_err *err)
{
    for (int j = 0; j < n->n_out; j++) {
        const struct pare_value *was = n->out[j], *v;

        if (!was || was->t.dtype == PARE_NONE)
            continue;
        v = pare_map_get(&g->names, was->name);
        if (!v || has_size(k, as, was, v)) /* NULL: swept, no output depends on it */
            continue;
        *good = false;
        return store_requests(k, n)
                   ? 0
                   : pare_speedup_cannot_shrink(k->s, n, "its result does not shrink as expected",
                                                err);
    }
    return 0;
}

static int check_all_sizes(struct pare_shrink *k, const struct pare_graph *as,
                           const struct pare_graph *g, bool *good, struct pare_err *err)
{
    const struct pare_speedup *s = k->s;

    for (int i = 0; i < s->g->n_nodes && *good; i++)
        if (s->live[i] && !s->removed[i])
            PARE_TRY(check_sizes(k, as, g, s->g->node[i], good, err));
    return 0;
}

/* Set s->after to the graph for the sizes of s->before; g is the one for those of the analysis. */
static int add_first_sizes(struct pare_speedup *s, const struct pare_model *m, struct pare_graph *g,
                           struct pare_err *err)
{
    s->after = g;
    if (!s->before->other[0])
        return 0;
    PARE_TRY(infer_smaller(s, m, s->before, &s->after, err));
    s->after->other[0] = g;
    return 0;
}

/* Infer the smaller model for the sizes of the analysis, and for those of s->before; compare. */
static int check_all(struct pare_shrink *k, const struct pare_model *m, bool *good,
                     struct pare_err *err)
{
    struct pare_speedup *s = k->s;
    struct pare_graph *g;

    PARE_TRY(infer_smaller(s, m, pare_graph_to_analyze(s->before), &g, err));
    *good = check_requests(k, g);
    if (!*good) /* the next attempt stores them; until then, values after them have no shapes */
        return 0;
    for (int i = 0; i < s->g->n_nodes; i++)
        for (int j = 0; s->live[i] && !s->removed[i] && j < s->g->node[i]->n_in; j++)
            PARE_TRY(check_const(k, g, s->g->node[i], j, good, err));
    PARE_TRY(check_all_sizes(k, s->g, g, good, err));
    if (!*good)
        return 0;
    PARE_TRY(add_first_sizes(s, m, g, err));
    return s->after == g ? 0 : check_all_sizes(k, s->before, s->after, good, err);
}

int pare_speedup_infer_after(struct pare_speedup *s, const struct pare_model *m,
                             struct pare_err *err)
{
    struct pare_graph *g;

    PARE_TRY(infer_smaller(s, m, pare_graph_to_analyze(s->before), &g, err));
    return add_first_sizes(s, m, g, err);
}

int pare_speedup_second(struct pare_speedup *s, const struct pare_model *m, struct pare_err *err)
{
    struct pare_graph *small = NULL, *after;
    const struct pare_io *io;

    s->second[0] = s->before->other[0];
    s->second[1] = s->after->other[0];
    if (!s->second[0] || !(s->rewritten || pare_graph_depends_on_data(s->before)))
        return 0;
    pare_model_inputs(s->from, &io);
    PARE_TRY(pare_graph_infer_small(s->others, s->from->graph, io, s->before, &small, err));
    if (!small)
        return 0;
    PARE_TRY(infer_smaller(s, m, small, &after, err));
    s->second[0] = small;
    s->second[1] = after;
    return 0;
}

/* ---- attempts -------------------------------------------------------------------------------- */

static int attempt(struct pare_speedup *s, struct pare_model **out, struct pare_err *err)
{
    const struct pare_unshrinkable *before = s->unshrinkable;
    struct pare_mark m = pare_mark(s->graphs), others = pare_mark(s->others);
    struct pare_shrink k = { .s = s };
    bool good = false;
    int rc;

    *out = NULL;
    PARE_TRY(pare_edit_new(s->from, &k.e, err));
    k.arena = pare_edit_arena(k.e);
    k.writing = pare_arena_new(1 << 16);
    rc = k.writing ? write_all(&k, err) : pare_no_memory(err, "for a smaller model");
    pare_arena_free(k.writing);
    if (!rc && s->unshrinkable == before)
        rc = pare_edit_sweep(k.e, err);
    if (rc || s->unshrinkable != before) {
        pare_edit_free(k.e);
        return rc;
    }
    PARE_TRY(pare_edit_model(k.e, out, err));
    k.e = NULL;
    k.arena = s->arena;
    rc = check_all(&k, *out, &good, err);
    if (!rc && good)
        return 0;
    pare_reset(s->graphs, m);
    pare_reset(s->others, others);
    s->after = NULL;
    pare_model_free(*out);
    *out = NULL;
    return rc;
}

int pare_speedup_shrink(struct pare_speedup *s, struct pare_model **out, struct pare_err *err)
{
    const struct pare_unshrinkable *before = s->unshrinkable;

    s->materialize = pare_alloc(s->arena, (size_t)s->g->n_values + 1, sizeof(*s->materialize));
    s->materialize_input = pare_alloc(s->arena, (size_t)s->g->n_nodes + 1,
                                      sizeof(*s->materialize_input));
    *out = NULL;
    if (!s->materialize || !s->materialize_input)
        return pare_no_memory(err, "for a smaller model");
    /* Each attempt finds at least one more constant to be stored, or the last one was good. */
    for (int i = 0; i < s->g->n_nodes + MIN_ATTEMPTS && !*out && s->unshrinkable == before; i++)
        PARE_TRY(attempt(s, out, err));
    if (!*out && s->unshrinkable == before)
        return pare_fail(err, PARE_EUNSUPPORTED, "shrinking the model did not converge");
    return 0;
}
