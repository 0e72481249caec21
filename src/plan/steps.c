/* steps.c - choose the kernel that runs each node, and insert layout conversions. */
#include "passes.h"
#include "tune/tune.h"

#include <string.h>

#include "../backend/fuse/int8_function.h"
#include "../graph/pattern/pattern.h"

/* ---- the graph as kernels see it ------------------------------------------------ */

static bool unknown(const struct pare_value *v)
{
    return v->t.dtype == PARE_NONE;
}

/* Mark the nodes that no output depends on as taken, from the last node to the first. */
static void mark_needed(struct pare_plan *p, bool *need_value)
{
    struct pare_graph *g = p->graph;

    for (int i = 0; i < g->n_out; i++)
        need_value[g->out[i]->id] = true;
    for (int i = 0; i < p->n_observed; i++)
        need_value[p->observed[i]->id] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        struct pare_node *n = g->node[i];
        bool needed = false;

        for (int k = 0; k < n->n_out; k++)
            needed |= n->out[k] && need_value[n->out[k]->id];
        p->view.claimed[i] = !needed || (n->n_out && pare_node_known(n));
        for (int k = 0; k < n->n_in && !p->view.claimed[i]; k++)
            if (n->in[k])
                need_value[n->in[k]->id] = true;
        for (int k = 0; k < n->n_cap && !p->view.claimed[i]; k++)
            need_value[n->cap[k]->id] = true;
    }
}

static int count_uses(struct pare_plan *p, struct pare_err *err)
{
    struct pare_graph *g = p->graph;
    struct pare_consumers *use = p->view.consumers;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < g->n_nodes; i++) {
            struct pare_node *n = g->node[i];

            for (int k = 0; k < n->n_in + n->n_cap && !p->view.claimed[i]; k++) {
                struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

                if (v && pass)
                    use[v->id].node[use[v->id].n] = n;
                if (v)
                    use[v->id].n++;
            }
        }
        for (int i = 0; i < g->n_values && !pass; i++) {
            use[i].node = pare_alloc(p->arena, (size_t)use[i].n, sizeof(*use[i].node));
            if (!use[i].node)
                return pare_no_memory(err, "for the plan");
            use[i].n = 0;
        }
    }
    return 0;
}

/* Lazy nodes: DequantizeLinear of int8 values, elementwise functions of one, and views of these. */
static bool is_lazy(const struct pare_match *v, const struct pare_node *n)
{
    const struct pare_value *x = n->n_in ? n->in[0] : NULL;

    if (n->n_in > 1 && x && pare_is_fixed(x) && n->op && n->op->map2)
        x = n->in[1];
    if (!n->op || !x || pare_is_fixed(x) || n->n_out != 1 || unknown(x) || unknown(n->out[0]) ||
        n->out[0]->t.rank < 0)
        return false;
    if (n->op->flags & PARE_OP_LAZY)
        return x->t.dtype == PARE_U8 || x->t.dtype == PARE_I8;
    if (n->op->flags & PARE_OP_VIEW)
        return x->maker && v->lazy[x->maker->id];
    return pare_int8_func_lazy(v, n);
}

static void mark_lazy(struct pare_plan *p)
{
    for (int i = 0; i < p->graph->n_nodes && !p->train && !p->reference; i++)
        if (!p->view.claimed[i])
            p->view.lazy[i] = is_lazy(&p->view, p->graph->node[i]);
}

static int make_view(struct pare_plan *p, struct pare_err *err)
{
    size_t values = (size_t)p->graph->n_values;
    bool *need = pare_alloc(p->arena, values, sizeof(*need));

    p->view = (struct pare_match){
        .train = p->train,
        .ignore_cost = p->without != NULL,
        .requires_grad = p->requires_grad,
        .graph = p->graph,
        .backend = &p->backend,
        .consumers = pare_alloc(p->arena, values, sizeof(struct pare_consumers)),
        .claimed = pare_alloc(p->arena, (size_t)p->graph->n_nodes, sizeof(bool)),
        .layout = pare_alloc(p->arena, values, sizeof(int)),
        .lazy = pare_alloc(p->arena, (size_t)p->graph->n_nodes, sizeof(bool)),
    };
    p->buf = pare_alloc(p->arena, values, sizeof(*p->buf));
    if (!need || !p->view.consumers || !p->view.claimed || !p->view.layout || !p->view.lazy ||
        !p->buf)
        return pare_no_memory(err, "for the plan");
    mark_needed(p, need);
    PARE_TRY(count_uses(p, err));
    mark_lazy(p);
    return pare_graph_attention(p->graph, &p->view.attention, err);
}

/* ---- buffers -------------------------------------------------------------------- */

static struct pare_buf *add_buf(struct pare_plan *p, struct pare_value *v, int block,
                                struct pare_err *err)
{
    struct pare_buf *b = pare_alloc(p->arena, 1, sizeof(*b));
    struct pare_buf **all = pare_grow(p->arena, p->all, p->n_bufs, &p->cap_bufs, sizeof(*all));

    if (!b || !all) {
        pare_no_memory(err, "for the plan");
        return NULL;
    }
    p->all = all;
    p->all[p->n_bufs++] = b;
    *b = (struct pare_buf){ .value = v, .t = v->t, .block = block, .root = b, .born = -1 };
    b->fixed = pare_is_fixed(v);
    if (!b->fixed)
        b->t.data = NULL;
    if (!unknown(v))
        b->bytes = (size_t)pare_block_numel(&v->t, block) * pare_dtype_size(v->t.dtype);
    b->next = p->buf[v->id];
    p->buf[v->id] = b;
    return b;
}

static struct pare_step *add_step(struct pare_plan *p, struct pare_err *err)
{
    struct pare_step *s = pare_alloc(p->arena, 1, sizeof(*s));
    struct pare_step **list = pare_grow(p->arena, p->step, p->n_steps, &p->cap_steps,
                                        sizeof(*list));

    if (!s || !list) {
        pare_no_memory(err, "for the plan");
        return NULL;
    }
    p->step = list;
    p->step[p->n_steps++] = s;
    return s;
}

/* The layouts are the same bytes if there is no spatial extent and all blocks are full. */
static bool same_bytes(const struct pare_tensor *t, int a, int b)
{
    int block = a > b ? a : b;

    return t->rank >= 2 && t->dim[0] > 0 && t->dim[1] > 0 &&
           pare_numel(t) == t->dim[0] * t->dim[1] && t->dim[1] % block == 0;
}

bool pare_plan_has_layout(const struct pare_plan *p, const struct pare_value *v, int block)
{
    if (!p->buf[v->id])
        return true; /* a constant, or computed on demand */
    for (const struct pare_buf *b = p->buf[v->id]; b; b = b->next)
        if (b->block == block || same_bytes(&v->t, b->block, block))
            return true;
    return false;
}

static int add_node(struct pare_plan *p, struct pare_node *n, struct pare_err *err);

/* Add the step of a lazy node whose result is needed in this layout. */
static int add_lazy(struct pare_plan *p, struct pare_value *v, int block, struct pare_err *err)
{
    struct pare_node *n = v->maker;
    int rc;

    if (pare_is_fixed(v) || !n || !p->view.lazy[n->id] || p->view.claimed[n->id])
        return 0;
    p->view.lazy_layout = block;
    rc = add_node(p, n, err);
    p->view.lazy_layout = 0;
    return rc;
}

/* The value's buffer in this layout, converted if it exists only in another. */
static struct pare_buf *get_buffer(struct pare_plan *p, struct pare_value *v, int block,
                                   struct pare_err *err)
{
    struct pare_buf *b, *from;
    struct pare_step *s;

    if (!p->buf[v->id] && add_lazy(p, v, block, err))
        return NULL;
    from = p->buf[v->id];
    for (b = from; b; b = b->next)
        if (b->block == block)
            return b;
    if (!from)
        from = add_buf(p, v, 1, err); /* a constant */
    if (!from || from->block == block)
        return from;
    if (!from->fixed && same_bytes(&v->t, from->block, block)) {
        b = add_buf(p, v, block, err);
        if (b)
            b->root = from;
        return b;
    }
    s = add_step(p, err);
    b = s ? add_buf(p, v, block, err) : NULL;
    if (!b || !pare_step_lists(s, &p->view, 1, 1, 0))
        return NULL;
    b->fixed = false;
    b->t.data = NULL;
    s->kernel = &pare_kernel_reorder;
    s->threads = pare_plan_reorder_threads(p, v);
    s->in[0] = s->out[0] = v;
    s->in_block[0] = from->block;
    s->out_block[0] = block;
    s->in_buf[0] = from;
    s->out_buf[0] = b;
    s->unsaved_in = s->unsaved_out = ~0u;
    p->n_reorders++;
    return b;
}

/* ---- steps ---------------------------------------------------------------------- */

static bool is_dynamic_node(const struct pare_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && unknown(n->in[k]))
            return true;
    for (int k = 0; k < n->n_cap; k++)
        if (unknown(n->cap[k]))
            return true;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && unknown(n->out[k]))
            return true;
    return false;
}

/* Fast kernels loop over rows, channels and tiles, of which an empty tensor can have billions.
 * Reference kernels check the number of elements first. */
static bool is_empty_node(const struct pare_node *n)
{
    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const struct pare_value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];

        if (v && v->t.rank > 1 && !pare_numel(&v->t))
            return true;
    }
    return false;
}

/* Reference kernels read and write row-major tensors. */
static bool match_plain(struct pare_plan *p, struct pare_node *n, struct pare_step *s)
{
    int at = 0, out = 0;

    if (!pare_step_lists(s, &p->view, n->n_in + n->n_cap, n->n_out, 0))
        return false;
    for (int k = 0; k < n->n_in + n->n_cap; k++) {
        struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

        if (v)
            s->in[at++] = v;
    }
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            s->out[out++] = n->out[k];
    s->n_in = at;
    s->n_out = out;
    s->kernel = is_dynamic_node(n) ? &pare_kernel_dynamic : &pare_kernel_plain;
    if (n->op && n->op->flags & PARE_OP_LINEAR)
        s->unsaved_in = s->unsaved_out = ~0u;
    else if (n->op && n->op->flags & PARE_OP_BY_Y)
        s->unsaved_in = ~0u;
    return true;
}

bool pare_plan_allows(const struct pare_plan *p, const struct pare_kernel *k)
{
    for (const char *const *w = p->without; w && *w; w++)
        if (!strcmp(*w, k->name))
            return false;
    return !p->train || k->backward;
}

/* Choose as the plan p->like did. */
static int choose_like(struct pare_plan *p, struct pare_node *n, struct pare_step *s,
                       struct pare_err *err)
{
    const struct pare_step *like = NULL;
    bool any = p->view.ignore_cost, yes;

    for (int i = 0, steps = p->like->n_steps; i < steps && !like; i++) { /* usually the next one */
        const struct pare_step *next = p->like->step[(p->like_at + i) % steps];

        if (next->node && next->node->id == n->id) {
            like = next;
            p->like_at = (p->like_at + i + 1) % steps;
        }
    }
    if (!like || like->kernel == &pare_kernel_plain || like->kernel == &pare_kernel_dynamic)
        return match_plain(p, n, s) ? 0 : pare_no_memory(err, "for the plan");
    p->view.ignore_cost = like->ignore_cost;
    yes = like->kernel->match(&p->view, n, s);
    p->view.ignore_cost = any;
    s->kernel = yes ? like->kernel : NULL;
    s->tuned = like->tuned;
    if (yes)
        return 0;
    return pare_arena_failed(p->arena) || pare_arena_failed(p->scratch)
               ? pare_no_memory(err, "for the plan")
               : pare_fail(err, PARE_EUNSUPPORTED,
                           "kernel '%s' matched node '%s' before but does not match it now",
                           like->kernel->name, n->name);
}

/* By the rules or, for inference, by tuning; each pass of a training step may get a kernel of its
 * own. */
static int choose_passes(struct pare_plan *p, struct pare_step *s, struct pare_err *err)
{
    struct pare_passes passes;
    bool tuned;

    PARE_TRY(pare_passes_rule(p, s, &passes, err));
    PARE_TRY(pare_tune_step(p, s, &passes.k[0], err));
    if (passes.k[0] == s->kernel && pare_passes_one(&passes))
        return 0;
    tuned = s->tuned;
    pare_passes_drop(s);
    PARE_TRY(pare_passes_step(p, s->node, &passes, s, err));
    s->tuned = tuned;
    return 0;
}

static int choose(struct pare_plan *p, struct pare_node *n, struct pare_step *s,
                  struct pare_err *err)
{
    bool plain = p->reference || is_dynamic_node(n) || is_empty_node(n);
    struct pare_mark m = pare_mark(p->scratch);

    *s = (struct pare_step){ .node = n, .passes = pare_passes_of(p, n) };
    if (p->like) {
        int rc = choose_like(p, n, s, err);

        pare_rewind(p->scratch, m);
        return rc;
    }
    for (int i = 0; pare_kernels[i] && !plain; i++) {
        struct pare_step t = { .node = n, .passes = pare_passes_of(p, n) };
        bool yes = pare_plan_allows(p, pare_kernels[i]) && pare_kernels[i]->match(&p->view, n, &t);

        pare_rewind(p->scratch, m);
        if (yes) {
            t.kernel = pare_kernels[i];
            t.ignore_cost = p->view.ignore_cost;
            *s = t;
            return choose_passes(p, s, err);
        }
        if (pare_arena_failed(p->arena) || pare_arena_failed(p->scratch))
            return pare_no_memory(err, "for the plan"); /* not a slow plan without a message */
    }
    return match_plain(p, n, s) ? 0 : pare_no_memory(err, "for the plan");
}

static int connect_buffers(struct pare_plan *p, struct pare_step *s, struct pare_err *err)
{
    for (int k = 0; k < s->n_in; k++) {
        s->in_buf[k] = get_buffer(p, s->in[k], s->in_block[k], err);
        if (!s->in_buf[k])
            return err->code ? err->code : pare_no_memory(err, "for the plan");
    }
    for (int k = 0; k < s->n_out; k++) {
        s->out_buf[k] = add_buf(p, s->out[k], s->out_block[k], err);
        if (!s->out_buf[k])
            return err->code;
        p->view.layout[s->out[k]->id] = s->out_block[k];
    }
    p->view.claimed[s->node->id] = true;
    for (int k = 0; k < s->n_fused; k++)
        p->view.claimed[s->fused[k]->id] = true;
    return 0;
}

/* Add the step of a node, after the conversions that it needs. */
static int add_node(struct pare_plan *p, struct pare_node *n, struct pare_err *err)
{
    struct pare_step s = { 0 }, *slot;

    pare_plan_use_threads(p, pare_plan_threads_for(p, n));
    slot = choose(p, n, &s, err) || connect_buffers(p, &s, err) ? NULL : add_step(p, err);
    if (!slot) {
        if (s.kernel && s.kernel->destroy && s.state)
            s.kernel->destroy(&s);
        return err->code;
    }
    s.threads = p->backend.threads;
    *slot = s;
    return 0;
}

/* Provide observed values row-major as soon as they are computed, so that their other layout need
 * not live on; at the end (`all`) also inputs and constants. */
static int add_observed(struct pare_plan *p, bool all, struct pare_err *err)
{
    for (int i = 0; i < p->n_observed; i++)
        if ((all || p->buf[p->observed[i]->id]) && !get_buffer(p, p->observed[i], 1, err))
            return err->code ? err->code : pare_no_memory(err, "for the plan");
    return 0;
}

static int add_steps(struct pare_plan *p, struct pare_err *err)
{
    struct pare_graph *g = p->graph;

    PARE_TRY(make_view(p, err));
    for (int i = 0; i < g->n_in; i++) {
        p->view.layout[g->in[i]->id] = 1;
        if (!add_buf(p, g->in[i], 1, err))
            return err->code;
    }
    for (int i = 0; i < g->n_nodes; i++)
        if (!p->view.claimed[i] && !p->view.lazy[i]) {
            PARE_TRY(add_node(p, g->node[i], err));
            PARE_TRY(add_observed(p, false, err));
        }
    for (int i = 0; i < g->n_out; i++) /* outputs are returned row-major */
        if (!get_buffer(p, g->out[i], 1, err))
            return err->code ? err->code : pare_no_memory(err, "for the plan");
    return add_observed(p, true, err);
}

int pare_plan_steps(struct pare_plan *p, struct pare_err *err)
{
    int rc;

    pare_plan_count_us(p);
    rc = add_steps(p, err);
    pare_plan_use_threads(p, p->threads);
    return rc;
}
