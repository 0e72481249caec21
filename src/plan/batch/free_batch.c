/* free_batch.c - a model with a fixed batch of 1, changed so that it accepts any batch.
 *
 * torch.onnx.export without dynamic_axes fixes the batch of its example input, also in the constant
 * shapes of Reshape: (1, 64, -1).  The first element becomes 0, which copies the input's dimension
 * 0, if that is the batch, else -1 if the shape has no -1 yet.
 */
#include "free_batch.h"

#include <math.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../onnx/edit.h"
#include "../../tensor/tensor.h"
#include "../plan.h"

#define TOLERANCE 1e-4 /* of the largest element: kernels for other sizes sum in another order */

/* ---- the change ------------------------------------------------------------------------------ */

static int check_inputs(const struct pare_model *m, struct pare_err *err)
{
    if (!m->n_in || !m->n_out)
        return pare_fail(err, PARE_EUNSUPPORTED, "the model has no inputs or no outputs");
    for (int i = 0; i < m->n_in; i++) {
        const struct pare_io *io = &m->in[i];

        if (io->rank > 0 && io->dim[0] < 0)
            return pare_fail(err, PARE_EUNSUPPORTED, "the batch of input '%s' is free already",
                             io->name);
        if (io->rank < 1 || io->dim[0] != 1)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "dimension 0 of input '%s' is not 1, so it cannot be freed", io->name);
    }
    return 0;
}

/* The constant shape of a Reshape that contains the batch; NULL: none. */
static const struct pare_tensor *batch_shape(const struct pare_model *m, const struct pare_node *n)
{
    const struct pare_value *s = n->n_in > 1 ? n->in[1] : NULL;

    if (!n->op || strcmp(n->type, "Reshape") || !s || !(s->flags & PARE_V_CONST) || !s->t.data ||
        s->t.dtype != PARE_I64 || pare_numel(&s->t) < 1 || pare_i64(&s->t)[0] != 1 ||
        n->in[0]->flags & PARE_V_CONST || !pare_model_has_node(m, n))
        return NULL;
    return &s->t;
}

static int free_reshape(struct pare_edit *e, const struct pare_node *n,
                        const struct pare_tensor *shape, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor to = *shape;
    const char *name;
    bool open = false;

    for (int64_t i = 0; i < pare_numel(shape); i++)
        open |= pare_i64(shape)[i] == -1;
    if (open && (x->rank < 1 || x->dim[0] != 1))
        return 0;
    PARE_TRY(pare_tensor_alloc(pare_edit_arena(e), &to, err));
    memcpy(to.data, shape->data, (size_t)pare_numel(shape) * sizeof(int64_t));
    pare_i64(&to)[0] = x->rank > 0 && x->dim[0] == 1 ? 0 : -1;
    PARE_TRY(pare_edit_add_constant(e, "free_batch.shape", &to, &name, err));
    return pare_edit_set_input(e, n, 1, name, err);
}

static int change(const struct pare_model *m, struct pare_edit *e, struct pare_err *err)
{
    struct pare_graph *g = pare_graph_clone(pare_edit_arena(e), m->graph, err);

    if (!g)
        return err->code;
    pare_graph_bind(g, 1);
    PARE_TRY(pare_graph_infer(g, false, err));
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_tensor *shape = batch_shape(m, g->node[i]);

        if (shape)
            PARE_TRY(free_reshape(e, g->node[i], shape, err));
    }
    PARE_TRY(pare_edit_free_batch(e, "N", err));
    return pare_edit_sweep(e, err);
}

/* ---- the check ------------------------------------------------------------------------------- */

/* Two runs of m with one item each, and one run of the changed model with both. */
struct check {
    struct pare_arena *arena;
    struct pare_plan *one, *two;
    struct pare_tensor *in, *both; /* inputs of a run of `one`, of `two` */
    struct pare_tensor *out, *all; /* outputs */
};

static int fill(struct pare_arena *a, struct pare_tensor *t, struct pare_err *err)
{
    bool real = t->dtype == PARE_F32 || t->dtype == PARE_F16 || t->dtype == PARE_F64;
    int64_t n = pare_numel(t);
    float *v = pare_alloc_raw(a, (size_t)n + 1, sizeof(*v));

    if (!v)
        return pare_no_memory(err, "to compare models");
    for (int64_t i = 0; i < n; i++)
        v[i] = real ? (float)sin(12.9898 * (double)i) : (float)(i % 2);
    return pare_convert(t->dtype, t->data, PARE_F32, v, n, err);
}

static int make_inputs(struct check *c, struct pare_err *err)
{
    int n = c->two->graph->n_in;

    c->in = pare_alloc(c->arena, (size_t)n + 1, sizeof(*c->in));
    c->both = pare_alloc(c->arena, (size_t)n + 1, sizeof(*c->both));
    c->out = pare_alloc(c->arena, (size_t)c->one->graph->n_out + 1, sizeof(*c->out));
    c->all = pare_alloc(c->arena, (size_t)c->one->graph->n_out + 1, sizeof(*c->all));
    if (!c->in || !c->both || !c->out || !c->all)
        return pare_no_memory(err, "to compare models");
    for (int i = 0; i < n; i++) {
        c->both[i] = c->two->graph->in[i]->t;
        if (c->both[i].dtype == PARE_STR)
            return pare_fail(err, PARE_EUNSUPPORTED, "an input holds strings");
        PARE_TRY(pare_tensor_alloc(c->arena, &c->both[i], err));
        PARE_TRY(fill(c->arena, &c->both[i], err));
        c->in[i] = c->both[i];
        c->in[i].dim[0] = 1;
    }
    return 0;
}

static size_t item_bytes(const struct pare_tensor *t)
{
    return (size_t)pare_numel(t) * pare_dtype_size(t->dtype);
}

static bool same_item(const struct pare_tensor *one, const struct pare_tensor *all, int item)
{
    struct pare_tensor part = *all;
    double most = 0, off = 0;

    if (one->rank < 1 || all->rank != one->rank || one->dim[0] != 1 || all->dim[0] != 2 ||
        one->dtype != all->dtype)
        return false;
    part.dim[0] = 1;
    if (!pare_same_shape(&part, one) || one->dtype == PARE_STR)
        return false;
    part.data = (char *)all->data + (size_t)item * item_bytes(one);
    for (int64_t i = 0; i < pare_numel(one); i++) {
        double a = pare_get(one, i), d = fabs(a - pare_get(&part, i));

        if (isnan(a) && isnan(pare_get(&part, i)))
            continue;
        most = fabs(a) > most ? fabs(a) : most;
        off = d > off || isnan(d) ? d : off;
    }
    return off <= TOLERANCE * most;
}

static int compare(struct check *c, struct pare_err *err)
{
    PARE_TRY(make_inputs(c, err));
    PARE_TRY(pare_plan_execute(c->two, c->both, c->all, err));
    for (int item = 0; item < 2; item++) {
        for (int i = 0; i < c->one->graph->n_in; i++)
            c->in[i].data = (char *)c->both[i].data + (size_t)item * item_bytes(&c->in[i]);
        PARE_TRY(pare_plan_execute(c->one, c->in, c->out, err));
        for (int i = 0; i < c->one->graph->n_out; i++)
            if (!same_item(&c->out[i], &c->all[i], item))
                return pare_fail(err, PARE_EUNSUPPORTED,
                                 "with two items, output '%s' differs from the outputs of single "
                                 "items",
                                 c->one->graph->out[i]->name);
    }
    return 0;
}

static int verify(const struct pare_model *m, const struct pare_model *freed, struct pare_err *err)
{
    struct check c = { .arena = pare_arena_new(1 << 16) };
    struct pare_plan_opts one = { .batch = 1 }, two = { .batch = 2 };
    int rc = c.arena ? pare_plan_make(m, &one, &c.one, err)
                     : pare_no_memory(err, "to compare models");

    if (!rc)
        rc = pare_plan_make(freed, &two, &c.two, err);
    if (!rc)
        rc = compare(&c, err);
    pare_plan_free(c.one);
    pare_plan_free(c.two);
    pare_arena_free(c.arena);
    return rc;
}

int pare_model_free_batch(const struct pare_model *m, struct pare_model **freed,
                          struct pare_err *err)
{
    struct pare_edit *e;
    int rc;

    *freed = NULL;
    PARE_TRY(check_inputs(m, err));
    PARE_TRY(pare_edit_new(m, &e, err));
    rc = change(m, e, err);
    if (rc) {
        pare_edit_free(e);
        return pare_at(err, rc, "the batch cannot be freed");
    }
    PARE_TRY(pare_edit_model(e, freed, err));
    rc = verify(m, *freed, err);
    if (!rc)
        return 0;
    pare_model_free(*freed);
    *freed = NULL;
    return pare_at(err, rc, "the batch cannot be freed");
}
