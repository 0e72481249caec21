/* fold_norm.c - fold BatchNormalization into the weights of the preceding Conv. */
#include "fold_norm.h"

#include <math.h>
#include <string.h>

#include "../tensor/tensor.h"
#include "edit_internal.h"

enum { X, SCALE, SHIFT, MEAN, VARIANCE, NORM_INPUTS };

struct fold {
    const struct pare_model *m;
    const struct pare_graph *g;
    struct pare_arena *a; /* temporary copies of the norm's parameters */
    struct pare_edit *e;
};

/* Is v an initializer of n floats? */
static bool is_list(const struct pare_value *v, int64_t n)
{
    return v && v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32 && v->t.rank == 1 &&
           v->t.dim[0] == n;
}

static double attr(const struct pare_node *n, const char *name)
{
    const struct pare_opt *o = n->op ? pare_opt_find(n->op->attrs, name) : NULL;
    const void *at = o ? (const char *)n->attr + o->offset : NULL;

    if (!o)
        return 0;
    return o->type == PARE_OPT_FLOAT ? *(const double *)at : (double)*(const int64_t *)at;
}

bool pare_norm_folds(const struct pare_graph *g, const struct pare_node *norm)
{
    const struct pare_node *conv = norm->n_in == NORM_INPUTS && norm->in[X] ? norm->in[X]->maker
                                                                            : NULL;
    const struct pare_value *w = conv && conv->n_in > 1 ? conv->in[1] : NULL;
    const struct pare_value *b = conv && conv->n_in > 2 ? conv->in[2] : NULL;
    int64_t n = w && w->t.rank > 0 ? w->t.dim[0] : 0;

    if (!pare_node_is(norm, &pare_op_batch_normalization) || !pare_node_is(conv, &pare_op_conv) ||
        !conv->op || !norm->op || !pare_graph_only_consumer(g, conv->out[0]) ||
        attr(norm, "training_mode") != 0)
        return false;
    if (!w || !(w->flags & PARE_V_CONST) || w->maker || w->t.dtype != PARE_F32 ||
        !pare_graph_only_consumer(g, w))
        return false;
    if (b && (!is_list(b, n) || !pare_graph_only_consumer(g, b)))
        return false;
    for (int k = SCALE; k < NORM_INPUTS; k++)
        if (!is_list(norm->in[k], n))
            return false;
    return n > 0;
}

/* A copy of an initializer's floats, in memory of the new model that can be paged out. */
static int copy_floats(const struct fold *f, const struct pare_value *v, struct pare_tensor *t,
                       struct pare_err *err)
{
    const void *from = v->t.data ? v->t.data : v->raw;
    size_t bytes = (size_t)pare_numel(&v->t) * sizeof(float);

    *t = v->t;
    PARE_TRY(pare_tensor_scratch(f->e->a, t, &f->e->to->pages, err));
    if (bytes)
        memcpy(t->data, from, bytes);
    pare_model_release(f->m, from, bytes);
    return 0;
}

static int fold_numbers(const struct fold *f, const struct pare_node *norm, struct pare_tensor *w,
                        struct pare_tensor *b, struct pare_err *err)
{
    double eps = attr(norm, "epsilon");
    struct pare_value p[NORM_INPUTS];
    int64_t n = w->dim[0], each = pare_numel(w) / n;

    for (int k = SCALE; k < NORM_INPUTS; k++) {
        p[k] = *norm->in[k];
        PARE_TRY(pare_value_load(f->a, &p[k], err));
    }
    for (int64_t c = 0; c < n; c++) {
        double g = (double)pare_f32(&p[SCALE].t)[c] /
                   sqrt((double)pare_f32(&p[VARIANCE].t)[c] + eps);

        for (int64_t i = c * each; i < (c + 1) * each; i++)
            pare_f32_mut(w)[i] = (float)((double)pare_f32(w)[i] * g);
        pare_f32_mut(b)[c] = (float)((double)pare_f32(&p[SHIFT].t)[c] +
                                     ((double)pare_f32(b)[c] - (double)pare_f32(&p[MEAN].t)[c]) *
                                         g);
    }
    pare_model_release(f->e->to, w->data, (size_t)pare_numel(w) * sizeof(float));
    return 0;
}

/* "conv1.bias" for "conv1.weight"; else weight + "_bias". */
static const char *bias_name(struct pare_edit *e, const char *weight)
{
    size_t n = strlen(weight);
    char *base;

    if (n < 8 || strcmp(weight + n - 7, ".weight") != 0)
        return pare_edit_name(e, weight, "_bias");
    base = pare_strndup(e->a, weight, n - 7);
    return base ? pare_edit_name(e, base, ".bias") : NULL;
}

int pare_edit_fold_norm(struct pare_edit *e, struct pare_norm_fold *f, struct pare_err *err)
{
    const struct pare_node *conv = f->norm->in[X]->maker;
    const struct pare_value *old = conv->n_in > 2 ? conv->in[2] : NULL;

    f->bias = old ? old->name : bias_name(e, conv->in[1]->name);
    if (!f->bias)
        return pare_no_memory(err, "to fold normalizations");
    PARE_TRY(pare_edit_drop_constant(e, conv->in[1]->name, err));
    PARE_TRY(pare_edit_constant(e, conv->in[1]->name, &f->w, err));
    if (old)
        PARE_TRY(pare_edit_drop_constant(e, f->bias, err));
    PARE_TRY(pare_edit_constant(e, f->bias, &f->b, err));
    if (!old)
        PARE_TRY(pare_edit_rewire(e, conv->out[0]->name, 2, f->bias, err));
    PARE_TRY(pare_edit_remove(e, f->made, err));
    PARE_TRY(pare_edit_rename(e, conv->out[0]->name, f->made, err));
    for (int k = SCALE; k < NORM_INPUTS; k++)
        if (pare_graph_only_consumer(f->g, f->norm->in[k]))
            PARE_TRY(pare_edit_drop_constant(e, f->norm->in[k]->name, err));
    return 0;
}

static int fold(struct fold *f, const struct pare_node *norm, struct pare_err *err)
{
    const struct pare_node *conv = norm->in[X]->maker;
    const struct pare_value *old = conv->n_in > 2 ? conv->in[2] : NULL;
    struct pare_norm_fold n = { .g = f->g, .norm = norm, .made = norm->out[0]->name };

    PARE_TRY(copy_floats(f, conv->in[1], &n.w, err));
    if (old)
        PARE_TRY(copy_floats(f, old, &n.b, err));
    else
        PARE_TRY(pare_tensor_new(f->e->a, &n.b, PARE_F32, 1, n.w.dim, err));
    PARE_TRY(fold_numbers(f, norm, &n.w, &n.b, err));
    return pare_edit_fold_norm(f->e, &n, err);
}

static int fold_all(struct fold *f, int *n, struct pare_err *err)
{
    for (int i = 0; i < f->g->n_nodes; i++) {
        const struct pare_node *norm = f->g->node[i];

        if (!pare_norm_folds(f->g, norm) || !pare_edit_maker(f->e, norm->out[0]->name) ||
            !pare_edit_maker(f->e, norm->in[X]->name))
            continue;
        PARE_TRY(fold(f, norm, err));
        ++*n;
    }
    return 0;
}

int pare_model_fold_norm(const struct pare_model *m, struct pare_model **folded, int *n,
                         struct pare_err *err)
{
    struct fold f = { .m = m, .g = m->graph, .a = pare_arena_new(1 << 16) };
    int rc;

    *n = 0;
    *folded = NULL;
    rc = f.a ? pare_edit_new(m, &f.e, err) : pare_no_memory(err, "to fold normalizations");
    if (!rc)
        rc = fold_all(&f, n, err);
    if (!rc && *n)
        rc = pare_edit_model(f.e, folded, err);
    else
        pare_edit_free(f.e);
    pare_arena_free(f.a);
    return rc;
}
