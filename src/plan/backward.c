/* backward.c - training plans: which values need gradients, their buffers, and the backward pass.
 */
#include "plan.h"

#include <omp.h>
#include <string.h>

#include "../base/arena.h"
#include "../backend/conv/blocked_filters.h"
#include "../base/clock.h"

/* ---- which values need gradients --------------------------------------------------- */

/* Parameters are not constants of the plan's graph, so nothing computed from them is folded. */
int pare_plan_add_params(struct pare_plan *p, const struct pare_plan_train *o, struct pare_err *err)
{
    p->param = pare_alloc(p->arena, (size_t)o->n_names, sizeof(*p->param));
    if (!p->param)
        return pare_no_memory(err, "for the plan");
    for (int i = 0; i < o->n_names; i++) {
        struct pare_value *v = pare_graph_find(p->graph, o->names[i]);

        if (!v || !(v->flags & PARE_V_OWNED) || v->t.dtype != PARE_F32)
            return pare_fail(err, PARE_ECONFIG,
                             "'%s' is not a float32 initializer that can be trained", o->names[i]);
        v->flags = (v->flags & ~(unsigned)PARE_V_CONST) | PARE_V_PARAM;
        if (o->grad)
            p->param[p->n_params].grad = o->grad[i];
        p->param[p->n_params++].value = v;
    }
    return 0;
}

static bool is_float(const struct pare_value *v)
{
    return v && v->t.dtype == PARE_F32;
}

/* Whether a node with bodies reads a parameter or what is computed from one. */
static bool learns_in_body(const struct pare_plan *p, const struct pare_node *n)
{
    bool any = false;

    for (int k = 0; k < n->n_in && pare_node_body(n, 0, NULL); k++)
        any |= n->in[k] && is_float(n->in[k]) && p->requires_grad[n->in[k]->id];
    for (int k = 0; k < n->n_cap; k++)
        any |= is_float(n->cap[k]) && p->requires_grad[n->cap[k]->id];
    return any;
}

/* Bodies that were not unrolled have no gradient: a node that output 0 depends on must not read
 * parameters. */
static int check_bodies(const struct pare_plan *p, struct pare_err *err)
{
    const struct pare_graph *g = p->graph;
    bool *needed = pare_alloc(p->scratch, (size_t)g->n_values + 1, sizeof(*needed));

    if (!needed)
        return pare_no_memory(err, "for the plan");
    if (g->n_out)
        needed[g->out[0]->id] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const struct pare_node *n = g->node[i];
        bool any = false;

        for (int k = 0; k < n->n_out; k++)
            any |= n->out[k] && needed[n->out[k]->id];
        if (any && learns_in_body(p, n))
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "node '%s' (%s) has no gradient, because data decide which body runs "
                             "or how often: freeze the layers in it ('%s/...') and before it",
                             n->name, n->type, n->name);
        for (int k = 0; k < n->n_in + n->n_cap && any; k++) {
            const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            if (v)
                needed[v->id] = true;
        }
    }
    return 0;
}

/* A value needs a gradient if it depends on a parameter and the loss depends on it. */
int pare_plan_mark_grads(struct pare_plan *p, struct pare_err *err)
{
    struct pare_graph *g = p->graph;
    bool *feeds = pare_alloc(p->scratch, (size_t)g->n_values, sizeof(*feeds));

    p->requires_grad = pare_alloc(p->arena, (size_t)g->n_values, sizeof(*p->requires_grad));
    if (!feeds || !p->requires_grad)
        return pare_no_memory(err, "for the plan");
    for (int i = 0; i < p->n_params; i++)
        p->requires_grad[p->param[i].value->id] = true;
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];
        bool any = false;

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] && is_float(n->in[k])) {
                p->requires_grad[n->in[k]->id] |= n->op && n->op->flags & PARE_OP_LEARNS;
                any |= p->requires_grad[n->in[k]->id];
            }
        for (int k = 0; k < n->n_out; k++)
            if (any && n->op && n->op->backward && is_float(n->out[k]))
                p->requires_grad[n->out[k]->id] = true;
    }
    PARE_TRY(check_bodies(p, err));
    if (!g->n_out || !p->requires_grad[g->out[0]->id])
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "no parameter has a gradient: output '%s' cannot be traced back to one",
                         g->n_out ? g->out[0]->name : "");
    feeds[g->out[0]->id] = true;
    for (int i = 0; i < p->n_observed; i++)
        feeds[p->observed[i]->id] |= is_float(p->observed[i]);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        struct pare_node *n = g->node[i];
        bool any = false;

        for (int k = 0; k < n->n_out; k++)
            any |= n->out[k] && feeds[n->out[k]->id] && p->requires_grad[n->out[k]->id];
        for (int k = 0; k < n->n_in; k++)
            if (any && n->in[k] && is_float(n->in[k]))
                feeds[n->in[k]->id] = true;
    }
    for (int i = 0; i < g->n_values; i++)
        p->requires_grad[i] &= feeds[i];
    for (int i = 0; i < p->n_params; i++)
        p->param[i].reached = p->requires_grad[p->param[i].value->id];
    return 0;
}

/* ---- buffers of gradients ----------------------------------------------------------- */

/* The gradients of parameters outlive a step, so they have memory of their own. */
static int param_grads(struct pare_plan *p, struct pare_err *err)
{
    for (int i = 0; i < p->n_params; i++) {
        struct pare_param *q = &p->param[i];

        if (!q->grad.data)
            PARE_TRY(pare_tensor_new(p->arena, &q->grad, PARE_F32, q->value->t.rank,
                                     q->value->t.dim, err));
        for (struct pare_buf *b = p->buf[q->value->id]; b && q->reached; b = b->next)
            if (b->grad && b->block == 1) {
                b->grad->fixed = true;
                b->grad->t.data = q->grad.data;
            }
    }
    return 0;
}

static int add_grad(struct pare_plan *p, struct pare_buf *b, struct pare_err *err)
{
    struct pare_buf *g = pare_alloc(p->arena, 1, sizeof(*g));
    struct pare_buf **all = pare_grow(p->arena, p->all, p->n_bufs, &p->cap_bufs, sizeof(*all));

    if (!g || !all)
        return pare_no_memory(err, "for the plan");
    *g = *b;
    g->root = g;
    g->next = g->grad = NULL;
    g->born = -1;
    g->dies = 0;
    g->fixed = false;
    g->is_grad = true;
    g->t.data = NULL;
    p->all = all;
    p->all[p->n_bufs++] = g;
    b->grad = g;
    return 0;
}

static struct pare_buf *root_of(struct pare_buf *b)
{
    while (b->root != b)
        b = b->root;
    return b;
}

/* The last step of the backward pass that writes this value's gradient in any layout.  Views that
 * share its memory come after the steps that write it. */
static int last_writer(const struct pare_plan *p, const struct pare_value *v)
{
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; p->step[i]->runs_backward && k < p->step[i]->n_in; k++)
            if (p->step[i]->in_buf[k]->value == v && p->step[i]->in_buf[k]->grad)
                return i;
    return -1;
}

/* Does the step take part in the backward pass?  Only if a gradient of its results has been written
 * by a later step: otherwise the loss does not depend on it. */
static bool has_work(const struct pare_step *s)
{
    bool from = false, to = false;

    for (int k = 0; k < s->n_out; k++)
        from |= s->out_buf[k]->grad && root_of(s->out_buf[k]->grad)->written;
    for (int k = 0; k < s->n_in; k++)
        to |= s->in_buf[k]->grad != NULL;
    return from && to;
}

/* For each gradient, the first step of the backward pass that writes it.  The loss writes those of
 * output 0 and of observed values.  Views do not write when they share memory. */
int pare_plan_first_writers(struct pare_plan *p, struct pare_err *err)
{
    for (int i = 0; i < p->n_steps; i++) {
        struct pare_step *s = p->step[i];

        s->grad_assign = pare_alloc(p->arena, (size_t)s->n_in, sizeof(bool));
        if (!s->grad_assign)
            return pare_no_memory(err, "for the plan");
    }
    for (int i = 0; i < p->n_bufs; i++)
        p->all[i]->written = false;
    for (int i = -1; i < p->n_observed; i++)
        for (struct pare_buf *b = p->buf[(i < 0 ? p->graph->out[0] : p->observed[i])->id]; b;
             b = b->next)
            if (b->grad && b->block == 1 && !b->grad->fixed)
                root_of(b->grad)->written = true;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        struct pare_step *s = p->step[i];

        s->runs_backward = has_work(s);
        for (int k = 0; k < s->n_in && s->runs_backward; k++) {
            struct pare_buf *g = s->in_buf[k]->grad;

            if (!g || root_of(g)->written)
                continue;
            root_of(g)->written = true;
            s->grad_assign[k] = true;
        }
    }
    for (int i = 0; i < p->n_params; i++) {
        for (struct pare_buf *b = p->buf[p->param[i].value->id]; b; b = b->next)
            p->param[i].assigned |= b->grad && b->grad->fixed && b->grad->written;
        p->param[i].last = last_writer(p, p->param[i].value);
    }
    return 0;
}

int pare_plan_add_grads(struct pare_plan *p, struct pare_err *err)
{
    int n = p->n_bufs;

    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i]->kernel == &pare_kernel_dynamic)
            for (int k = 0; k < p->step[i]->n_out; k++)
                if (p->requires_grad[p->step[i]->out[k]->id])
                    return pare_fail(err, PARE_EUNSUPPORTED,
                                     "node '%s' (%s) cannot be trained: its shape depends on data",
                                     p->step[i]->node->name, p->step[i]->node->type);
    for (int i = 0; i < n; i++)
        if (p->requires_grad[p->all[i]->value->id])
            PARE_TRY(add_grad(p, p->all[i], err));
    for (int i = 0; i < n; i++) /* layouts that are the same bytes */
        if (p->all[i]->grad && p->all[i]->root != p->all[i] && p->all[i]->root->grad)
            p->all[i]->grad->root = p->all[i]->root->grad;
    return param_grads(p, err);
}

/* The only step that reads this parameter, if it reads it as filters and its kernel accepts them in
 * blocks; else NULL. */
static struct pare_step *blockable_reader(const struct pare_plan *p, const struct pare_value *v)
{
    struct pare_step *found = NULL;
    int n = p->view.consumers[v->id].n;

    for (int i = 0; i < p->n_observed; i++)
        n += p->observed[i] == v;
    for (int i = 0; i < p->n_steps && n == 1; i++)
        for (int k = 0; k < p->step[i]->n_in; k++)
            if (p->step[i]->in[k] == v && !found && k == 1)
                found = p->step[i];
            else if (p->step[i]->in[k] == v)
                return NULL;
    return found && found->kernel->blocked_filters && !(v->flags & PARE_V_OUTPUT) &&
                   pare_filters_fit(&v->t, p->backend.block) && found->in[0]->t.rank == 4 &&
                   found->in[0]->t.dim[1] == v->t.dim[1]
               ? found
               : NULL;
}

void pare_plan_block_params(struct pare_plan *p, bool *blocked)
{
    for (int i = 0; i < p->n_params; i++) {
        struct pare_step *s = blocked[i] ? blockable_reader(p, p->param[i].value) : NULL;

        blocked[i] = s != NULL;
        if (s)
            s->blocked_filters = true;
    }
}

/* Once memory is placed: reference kernels find gradients in the values, and operators their saved
 * state. */
int pare_plan_grad_values(struct pare_plan *p, struct pare_err *err)
{
    for (int i = 0; i < p->n_bufs; i++) {
        struct pare_buf *b = p->all[i];

        if (b->grad && b->block == 1)
            b->value->grad = b->grad->t;
    }
    for (int i = 0; i < p->n_steps; i++) {
        struct pare_node *n = p->step[i]->node;

        if (!n || !n->op->save)
            continue;
        n->save = pare_alloc(p->arena, n->op->save(n), 1);
        if (!n->save)
            return pare_no_memory(err, "for the plan");
    }
    return 0;
}

/* ---- running ------------------------------------------------------------------------ */

float *pare_plan_out_grad(struct pare_plan *p)
{
    return pare_f32_mut(&p->graph->out[0]->grad);
}

int pare_plan_backward(struct pare_plan *p, struct pare_err *err)
{
    int rc = 0, threads = omp_get_max_threads();

    for (int i = 0; i < p->n_params; i++)
        if (!p->param[i].assigned)
            memset(p->param[i].grad.data, 0, (size_t)pare_numel(&p->param[i].grad) * sizeof(float));
    omp_set_num_threads(p->backend.threads);
    for (int i = p->n_steps - 1; i >= 0 && !rc; i--) {
        struct pare_step *s = p->step[i];
        struct pare_mark mark = pare_mark(p->scratch);
        double start = p->profile ? pare_now() : 0;

        if (!s->runs_backward)
            continue;
        rc = s->kernel->backward(s, &p->backend, err);
        pare_rewind(p->scratch, mark);
        if (p->profile)
            s->backward_seconds += pare_now() - start;
        if (rc)
            pare_at(err, rc, "gradient of node '%s' (%s)", s->node ? s->node->name : s->in[0]->name,
                    s->node ? s->node->type : "reorder");
        else if (p->on_back)
            p->on_back(p->user, i);
    }
    omp_set_num_threads(threads);
    return rc;
}
