/* free_batch.c - a model with a fixed batch of 1, changed so that it accepts any batch.
 *
 * torch.onnx.export without dynamic_axes fixes the batch of its example input, also in constant
 * shapes such as (1, 64, -1), which batch_constants.c rewrites.
 */
#include "free_batch.h"

#include <math.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../tensor/tensor.h"
#include "../plan.h"

#define TOLERANCE 1e-4 /* of the largest element: kernels for other sizes sum in another order */

/* ---- the change ------------------------------------------------------------------------------ */

/* Inputs without a batch of 1, such as a sampling rate, are the same for all items. */
static int check_inputs(const struct pare_model *m, struct pare_err *err)
{
    int found = 0;

    if (!m->n_in || !m->n_out)
        return pare_fail(err, PARE_EUNSUPPORTED, "the model has no inputs or no outputs");
    for (int i = 0; i < m->n_in; i++) {
        const struct pare_io *io = &m->in[i];

        if (io->rank > 0 && io->dim[0] < 0)
            return pare_fail(err, PARE_EUNSUPPORTED, "the batch of input '%s' is free already",
                             io->name);
        found += io->rank > 0 && io->dim[0] == 1;
    }
    if (!found)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "dimension 0 of input '%s' is not 1, so it cannot be freed",
                         m->in[0].name);
    return 0;
}

static int change(const struct pare_model *m, struct pare_model **freed, int64_t *count,
                  struct pare_err *err)
{
    struct pare_edit *e;
    int rc;

    PARE_TRY(pare_edit_new(m, &e, err));
    rc = pare_batch_constants(m, e, count, err);
    pare_edit_any_batch(e);
    if (!rc)
        rc = pare_edit_sweep(e, err);
    if (!rc)
        return pare_edit_model(e, freed, err);
    pare_edit_free(e);
    return rc;
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
        c->in[i].dim[0] = c->one->graph->in[i]->t.rank ? c->one->graph->in[i]->t.dim[0] : 0;
    }
    return 0;
}

static size_t item_bytes(const struct pare_tensor *t)
{
    return (size_t)pare_numel(t) * pare_dtype_size(t->dtype);
}

/* Whether input i has one row for each item. */
static bool is_item(const struct check *c, int i)
{
    return c->in[i].rank > 0 && c->in[i].dim[0] != c->both[i].dim[0];
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
            c->in[i].data = (char *)c->both[i].data +
                            (is_item(c, i) ? (size_t)item * item_bytes(&c->in[i]) : 0);
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

/* Shapes that the nodes accept; the batch is `batch`. */
static int find_shapes(const struct pare_model *m, struct pare_arena *a, int64_t batch,
                       struct pare_tensor *in, struct pare_err *err)
{
    struct pare_graph *g;

    PARE_TRY(pare_graph_infer_free(a, m->graph, m->in, NULL, &g, err));
    for (int i = 0; i < m->n_in; i++) {
        in[i] = g->in[i]->t;
        if (in[i].rank > 0 && m->in[i].dim[0] == 1)
            in[i].dim[0] = batch;
    }
    return 0;
}

static int verify(const struct pare_model *m, const struct pare_model *freed, struct pare_err *err)
{
    struct check c = { .arena = pare_arena_new(1 << 16) };
    struct pare_tensor *in = c.arena ? pare_alloc(c.arena, (size_t)m->n_in, sizeof(*in)) : NULL;
    struct pare_plan_opts o = { .in = in, .n_in = m->n_in };
    int rc = in ? find_shapes(m, c.arena, 1, in, err) : pare_no_memory(err, "to compare models");

    if (!rc)
        rc = pare_plan_make(m, &o, &c.one, err);
    if (!rc)
        rc = find_shapes(m, c.arena, 2, in, err);
    if (!rc)
        rc = pare_plan_make(freed, &o, &c.two, err);
    if (!rc)
        rc = compare(&c, err);
    pare_plan_free(c.one);
    pare_plan_free(c.two);
    pare_arena_free(c.arena);
    return rc;
}

int pare_model_free_batch(struct pare_model *m, struct pare_err *err)
{
    struct pare_model *freed = NULL;
    int64_t count = 0;
    int rc;

    PARE_TRY(check_inputs(m, err));
    rc = change(m, &freed, &count, err);
    if (!rc)
        rc = verify(m, freed, err);
    if (rc) {
        pare_model_free(freed);
        return pare_at(err, rc, "the batch cannot be freed");
    }
    pare_model_adopt(m, freed);
    pare_model_counted(m, "fixed_batch", count + 1);
    return 0;
}

int pare_model_try_batch(struct pare_model *m, struct pare_err *err)
{
    int rc;

    for (int i = 0; i < m->n_in; i++)
        if (m->one_batch || (m->in[i].rank > 0 && m->in[i].dim[0] < 0))
            return 0;
    rc = pare_model_free_batch(m, err);
    if (rc == PARE_ENOMEM || !rc)
        return rc;
    m->one_batch = pare_strdup(m->arena, err->msg);
    return m->one_batch ? 0 : pare_no_memory(err, "to free the batch");
}

int pare_model_try_batch_of_all(struct pare_model *m, struct pare_err *err)
{
    for (int i = 0; i < m->n_in; i++)
        if (m->in[i].rank < 1 || m->in[i].dim[0] != 1)
            return 0;
    return pare_model_try_batch(m, err);
}

int pare_model_declare_batch(const struct pare_model *m, struct pare_model **declared,
                             struct pare_err *err)
{
    struct pare_edit *e;
    int rc;

    *declared = NULL;
    PARE_TRY(pare_edit_new(m, &e, err));
    rc = pare_edit_free_batch(e, "N", err);
    if (!rc)
        return pare_edit_model(e, declared, err);
    pare_edit_free(e);
    return rc;
}
