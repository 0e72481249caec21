/* plan.c - compile a model for one set of input shapes, and run it. */
#include "batch/microbatch.h"
#include "plan_precision.h"
#include "tune/tune.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/limits.h"
#include "../base/team.h"
#include "../graph/output_logits.h"
#include "../graph/batch_independence.h"

/* ---- the operators' own kernels -------------------------------------------------- */

/* An operator that allocates its outputs, although their shapes are known: If. */
static int run_and_copy(struct pare_step *s, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor *place = pare_alloc(c->results, (size_t)s->n_out, sizeof(*place));
    int rc;

    if (!place)
        return pare_no_memory(err, "for the results of a body");
    for (int k = 0; k < s->n_out; k++)
        place[k] = s->out[k]->t;
    rc = pare_node_forward(s->node, c, err);
    for (int k = 0; k < s->n_out; k++) {
        struct pare_tensor got = s->out[k]->t;

        s->out[k]->t = place[k];
        if (!rc && (got.dtype != place[k].dtype || !pare_same_shape(&got, &place[k])))
            rc = pare_fail(err, PARE_ESHAPE, "the shape of result '%s' was inferred wrongly",
                           s->out[k]->name);
        if (!rc && !pare_is_fixed(s->out[k]) && pare_numel(&got))
            memcpy(place[k].data, got.data, (size_t)pare_numel(&got) * pare_dtype_size(got.dtype));
    }
    return rc;
}

static int run_plain(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    (void)b;
    return s->node->op->flags & PARE_OP_ALLOCS ? run_and_copy(s, s->state, err)
                                               : pare_node_forward(s->node, s->state, err);
}

static int run_dynamic(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    (void)b;
    return pare_node_eval(s->node, s->state, err);
}

/* The operator's backward() adds to gradients, so the first writer of one zeroes it. */
static int back_plain(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    (void)b;
    for (int k = 0; k < s->n_in; k++)
        if (s->grad_assign[k])
            memset(s->in_buf[k]->grad->t.data, 0, s->in_buf[k]->bytes);
    return s->node->op->backward ? s->node->op->backward(s->node, s->state, err) : 0;
}

const struct pare_kernel pare_kernel_plain = {
    .name = "plain",
    .doc = "The operator's own plain-C kernel.",
    .run = run_plain,
    .backward = back_plain,
};

const struct pare_kernel pare_kernel_dynamic = {
    .name = "dynamic",
    .doc = "The reference kernel, with shapes that are known only when it runs.",
    .run = run_dynamic,
};

/* ---- building -------------------------------------------------------------------- */

/* Whether the model declares input i as something other than a tensor: a sequence, an optional. */
static bool is_other(const struct pare_graph *g, int i)
{
    return g->in_type && g->in_type[i].dtype == PARE_NONE && g->in_type[i].rank < 0;
}

static int bind_inputs(struct pare_plan *p, const struct pare_plan_opts *o, struct pare_err *err)
{
    struct pare_graph *g = p->graph;
    char have[PARE_SHAPE_TEXT], want[PARE_SHAPE_TEXT];

    for (int i = 0; i < g->n_in && o->in; i++) {
        struct pare_tensor *t = &g->in[i]->t;
        const struct pare_tensor *in = &o->in[i];
        bool fits = t->rank < 0 || t->rank == in->rank;

        if (is_other(g, i) && !pare_is_tensor(in))
            continue;
        if (in->rank > PARE_MAX_RANK)
            return pare_fail(err, PARE_ELIMIT,
                             "input '%s' has %d dimensions, at most %d are handled", g->in[i]->name,
                             in->rank, PARE_MAX_RANK);
        for (int k = 0; fits && t->rank >= 0 && k < t->rank; k++)
            fits = t->dim[k] < 0 || t->dim[k] == in->dim[k];
        if (!fits) {
            bool one = t->rank == in->rank && t->rank > 0 && t->dim[0] == 1 && in->dim[0] > 1;
            const char *why = one ? p->model->one_batch : NULL;

            return pare_fail(err, PARE_ESHAPE, "input '%s' is %s, the model takes %s%s%s",
                             g->in[i]->name, pare_shape_text(in, have, sizeof(have)),
                             pare_shape_text(t, want, sizeof(want)), why ? "; " : "",
                             why   ? why
                             : one ? "; 'pare export --free-batch' frees a batch of 1"
                                   : "");
        }
        if (t->dtype != in->dtype && !is_other(g, i))
            return pare_fail(err, PARE_ESHAPE, "input '%s' is %s, the model takes %s",
                             g->in[i]->name, pare_dtype_name(in->dtype), pare_dtype_name(t->dtype));
        *t = *in;
        t->data = NULL;
    }
    pare_graph_bind(g, o->batch ? o->batch : 1);
    for (int i = 0; i < g->n_in; i++)
        if ((g->in[i]->t.rank < 0 || g->in[i]->t.dtype == PARE_NONE) &&
            !(o->in && is_other(g, i) && !pare_is_tensor(&o->in[i])))
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "input '%s' is not a tensor of known rank: specify its shape",
                             g->in[i]->name);
    return 0;
}

/* Reference kernels read and write the tensors of the node's values. */
static int point_values(struct pare_plan *p, struct pare_err *err)
{
    for (int i = 0; i < p->n_bufs; i++) {
        struct pare_buf *b = p->all[i];

        if (b->block == 1 && !b->fixed && !b->is_grad && b->t.data)
            b->value->t.data = b->t.data;
    }
    for (int i = 0; i < p->n_steps; i++) {
        struct pare_step *s = p->step[i];

        if (s->kernel != &pare_kernel_plain && s->kernel != &pare_kernel_dynamic)
            continue;
        s->state = &p->ctx;
        for (int k = 0; k < s->n_in; k++)
            PARE_TRY(pare_value_load(p->arena, s->in[k], err));
    }
    for (int i = 0; i < p->graph->n_out; i++)
        PARE_TRY(pare_value_load(p->arena, p->graph->out[i], err));
    for (int i = 0; i < p->n_observed; i++)
        PARE_TRY(pare_value_load(p->arena, p->observed[i], err));
    return 0;
}

/* Weights that a step has packed need not stay in memory in their original form. */
void pare_plan_release_weights(const struct pare_plan *p, const struct pare_step *s)
{
    struct pare_err err;

    for (int i = 0; s->node && i < s->node->n_in; i++) {
        const struct pare_value *v = s->node->in[i];

        if (v && pare_is_const(v) && !v->t.data && !v->raw && v->maker && v->maker->n_in)
            v = v->maker
                    ->in[0]; /* the quantized weights; their dequantized form was never computed */
        if (v && pare_is_const(v) && !pare_tensor_size(&v->t, NULL, NULL, &err))
            pare_model_release(p->model, v->raw ? v->raw : v->t.data, pare_packed_size(&v->t));
    }
}

/* Dequantized constants are computed here, if the step's kernel reads them. */
static int load_late(struct pare_arena *a, const struct pare_node *n, struct pare_err *err)
{
    for (int i = 0; n && i < n->n_in; i++)
        if (n->in[i] && pare_is_const(n->in[i]) && !n->in[i]->raw)
            PARE_TRY(pare_value_load(a, n->in[i], err));
    return 0;
}

int pare_plan_load_constants(struct pare_arena *a, struct pare_step *s, struct pare_err *err)
{
    for (int k = 0; k < s->n_in; k++)
        if (s->in_buf[k]->fixed) { /* a constant read as a tensor */
            PARE_TRY(pare_value_load(a, s->in[k], err));
            s->in_buf[k]->t.data = s->in[k]->t.data;
        }
    if (s->kernel->reads_int8)
        return 0;
    PARE_TRY(load_late(a, s->node, err));
    for (int k = 0; k < s->n_fused; k++)
        PARE_TRY(load_late(a, s->fused[k], err));
    return 0;
}

/* The step of p->like that does the same. */
static const struct pare_step *like_step(const struct pare_plan *p, int i)
{
    const struct pare_step *s = p->step[i], *o;

    if (!p->like || p->like->n_steps != p->n_steps)
        return NULL;
    o = p->like->step[i];
    return o->kernel == s->kernel && o->node && s->node && o->node->id == s->node->id &&
                   o->n_fused == s->n_fused && o->in_block[0] == s->in_block[0] &&
                   o->out_block[0] == s->out_block[0]
               ? o
               : NULL;
}

static int init_steps(struct pare_plan *p, struct pare_err *err)
{
    for (int i = 0; i < p->n_steps; i++) {
        struct pare_step *s = p->step[i];
        struct pare_mark mark = pare_mark(p->scratch);
        int rc = pare_plan_load_constants(p->arena, s, err);

        pare_plan_use_threads(p, s->threads);
        s->share_from = s->n_in && s->n_out ? like_step(p, i) : NULL;
        if (!rc)
            rc = s->kernel->init ? s->kernel->init(s, &p->backend, err) : 0;
        pare_reset(p->scratch, mark);
        pare_plan_release_weights(p, s);
        if (rc)
            return pare_at(err, rc, "node '%s' (%s)", s->node ? s->node->name : s->in[0]->name,
                           s->node ? s->node->type : "reorder");
    }
    return 0;
}

/* The graph for some items of a batch; an error unless the items are independent. */
static int slice_graph(struct pare_plan *p, const struct pare_plan_slice *o, struct pare_err *err)
{
    const struct pare_graph *whole = o->whole->graph;
    bool independent = true;

    for (int i = 0; i < p->graph->n_in; i++) {
        p->graph->in[i]->t = whole->in[i]->t;
        p->graph->in[i]->t.data = NULL;
        if (p->graph->in[i]->t.rank > 0)
            p->graph->in[i]->t.dim[0] = o->items;
    }
    if (whole->n_out) /* perhaps the logits */
        p->graph->out[0] = pare_graph_find(p->graph, whole->out[0]->name);
    PARE_TRY(pare_graph_infer(p->graph, false, err));
    if (o->items != whole->in[0]->t.dim[0])
        PARE_TRY(pare_batch_independent(whole, p->graph, &independent, err));
    return independent ? 0 : pare_fail(err, PARE_EUNSUPPORTED, "the model mixes batch items");
}

/* The graph of another slice: its folded and loaded constants are shared. */
static int like_graph(struct pare_plan *p, const struct pare_plan *like, struct pare_err *err)
{
    p->like = like;
    p->graph = pare_graph_clone(p->arena, like->graph, err);
    if (!p->graph)
        return err->code;
    p->graph->late = true;
    for (int i = 0; i < p->graph->n_values; i++)
        if (!pare_is_fixed(p->graph->value[i]))
            p->graph->value[i]->t.data = NULL;
    return 0;
}

/* Nodes that only the model's output 0 needs are not computed. */
static void take_logits(struct pare_graph *g, unsigned flags)
{
    struct pare_value *v = pare_graph_logits(g, flags, NULL);

    if (!v)
        return;
    v->flags |= PARE_V_OUTPUT;
    g->out[0] = v;
}

/* Has the graph been inferred completely, for these inputs? */
static bool is_inferred_for(const struct pare_graph *g, const struct pare_tensor *in)
{
    bool same = g && in && !g->failed;

    for (int i = 0; same && i < g->n_in; i++)
        same = g->in[i]->t.dtype == in[i].dtype && pare_is_tensor(&in[i]) &&
               pare_same_shape(&g->in[i]->t, &in[i]);
    return same;
}

/* The graph with concrete shapes. */
static int make_graph(struct pare_plan *p, const struct pare_plan_opts *o,
                      const struct pare_plan_build *b, struct pare_err *err)
{
    bool inferred = !b->slice && !b->train && !b->body && is_inferred_for(b->shaped, o->in);

    if (b->slice && b->slice->like)
        return like_graph(p, b->slice->like, err);
    p->graph = pare_graph_clone(p->arena,
                                b->body    ? b->body
                                : inferred ? b->shaped
                                           : p->model->graph,
                                err);
    if (!p->graph)
        return err->code;
    PARE_TRY(pare_graph_drop_unknown(p->graph, err));
    p->graph->late = !o->reference && !b->train;
    if (b->slice)
        return slice_graph(p, b->slice, err);
    PARE_TRY(bind_inputs(p, o, err));
    PARE_TRY(pare_plan_observe(p, b->observe, err));
    if (b->train)
        PARE_TRY(pare_plan_add_params(p, b->train, err));
    if (!inferred)
        PARE_TRY(pare_graph_infer(p->graph, false, err));
    if (b->train)
        PARE_TRY(pare_plan_unroll_bodies(p, err));
    take_logits(p->graph, b->logits);
    return 0;
}

static int make(struct pare_plan *p, const struct pare_plan_opts *o,
                const struct pare_plan_build *b, struct pare_err *err)
{
    const struct pare_plan_train *t = b->train;
    int rc;

    PARE_TRY(make_graph(p, o, b, err));
    if (!o->reference)
        PARE_TRY(pare_backend_open(&p->backend, err));
    p->backend.bf16 = o->precision == PARE_PRECISION_BF16 && !o->reference;
    if (b->microbatch && !o->reference) {
        PARE_TRY(pare_microbatch_make(p, o, b->microbatch, err));
        if (p->microbatch)
            return 0;
    }
    PARE_TRY(pare_plan_split_tail(p, err));
    PARE_TRY(pare_plan_rewrite(p, err));
    if (t)
        PARE_TRY(pare_plan_mark_grads(p, err));
    if (!p->like)
        PARE_TRY(pare_tune_start(p, o, b->slice ? b->slice->seconds : NULL, err));
    PARE_TRY(pare_plan_steps(p, err));
    PARE_TRY(pare_tune_end(p, err));
    if (t)
        PARE_TRY(pare_plan_add_grads(p, err));
    if (t && t->blocked)
        pare_plan_block_params(p, t->blocked);
    PARE_TRY(pare_plan_place(p, err));
    PARE_TRY(pare_plan_add_dynamic(p, err));
    PARE_TRY(point_values(p, err));
    if (t)
        PARE_TRY(pare_plan_grad_values(p, err));
    rc = init_steps(p, err);
    pare_plan_use_threads(p, p->threads);
    return rc ? rc : pare_plan_add_team(p, err);
}

/* An empty plan; NULL: out of memory. */
static struct pare_plan *create(int threads)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_plan *p = a ? pare_alloc(a, 1, sizeof(*p)) : NULL;

    if (!p) {
        pare_arena_free(a);
        return NULL;
    }
    p->arena = a;
    p->bf16_error = -1;
    p->dynamic = pare_arena_new(1 << 16);
    p->scratch = pare_arena_new(1 << 16);
    p->backend = (struct pare_backend){ .arena = a, .scratch = p->scratch, .block = 1 };
    p->threads = p->backend.threads = threads > 0 ? threads : omp_get_num_procs();
    p->ctx = (struct pare_ctx){ .scratch = p->scratch,
                                .results = p->dynamic,
                                .threads = p->backend.threads,
                                .call = pare_graph_call,
                                .declared = pare_graph_declared };
    if (!p->dynamic || !p->scratch) {
        pare_plan_free(p);
        return NULL;
    }
    return p;
}

static int compile(struct pare_plan *p, const struct pare_plan_opts *opts,
                   const struct pare_plan_build *b, struct pare_err *err)
{
    int rc, threads = omp_get_max_threads();

    err->code = 0;
    omp_set_num_threads(p->backend.threads);
    rc = make(p, opts, b, err);
    omp_set_num_threads(threads);
    return rc && p->model->path ? pare_at(err, rc, "%s", p->model->path) : rc;
}

int pare_plan_build(const struct pare_model *model, const struct pare_plan_build *b,
                    struct pare_plan **plan, struct pare_err *err)
{
    static const struct pare_plan_opts none;
    const struct pare_plan_opts *opts = b->opts ? b->opts : &none;
    const struct pare_plan_train *t = b->train;
    struct pare_plan *p;
    int rc;

    *plan = NULL;
    if (opts->precision == PARE_PRECISION_AUTO && !t)
        return pare_plan_build_auto(model, b, plan, err);
    p = create(opts->threads);
    if (!p)
        return pare_no_memory(err, "for a plan");
    p->model = model;
    pare_model_retain((struct pare_model *)model);
    p->reference = opts->reference;
    p->without = b->without;
    p->without_rewrites = b->without_rewrites;
    p->tail_depth = b->tail;
    p->backend.sparse_rows = b->sparse_rows;
    p->backend.compact = b->compact;
    p->train = p->ctx.train = t != NULL;
    if (!p->reference && !p->train) {
        p->ctx.owner = p;
        p->ctx.call = pare_plan_call;
    }
    p->ctx.rng = t ? t->rng : NULL;
    rc = compile(p, opts, b, err);
    if (t) { /* set last: tuning must not wait for other processes */
        p->ctx.sync = p->backend.sync = t->sync;
        p->on_back = t->on_back;
        p->user = t->user;
    }
    if (rc)
        pare_plan_free(p);
    else
        *plan = p;
    return rc;
}

int pare_plan_make(const struct pare_model *model, const struct pare_plan_opts *opts,
                   struct pare_plan **plan, struct pare_err *err)
{
    struct pare_plan_build b = { .opts = opts, .microbatch = PARE_MICROBATCH_AUTO };

    return pare_plan_build(model, &b, plan, err);
}

void pare_plan_free(struct pare_plan *p)
{
    struct pare_model *model;

    if (!p)
        return;
    pare_team_stop(p->team);
    pare_microbatch_free(p->microbatch);
    pare_body_plans_free(p);
    pare_tail_plans_free(p);
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i]->kernel && p->step[i]->kernel->destroy && p->step[i]->state)
            p->step[i]->kernel->destroy(p->step[i]);
    pare_backend_close(&p->backend);
    pare_tune_free(p);
    model = (struct pare_model *)p->model;
    pare_plan_dynamic_free(p);
    pare_arena_free(p->dynamic);
    pare_arena_free(p->scratch);
    pare_arena_free(p->arena);
    pare_model_free(model);
}

/* ---- running --------------------------------------------------------------------- */

/* An input that the plan was built for as a sequence or as an optional without a value. */
static bool is_list(const struct pare_value *v)
{
    return v->t.dtype == PARE_NONE || !pare_is_tensor(&v->t);
}

int pare_plan_check(const struct pare_plan *p, const struct pare_tensor *in, struct pare_err *err)
{
    char have[PARE_SHAPE_TEXT], want[PARE_SHAPE_TEXT];

    for (int i = 0; i < p->graph->n_in; i++) {
        const struct pare_value *v = p->graph->in[i];
        size_t bytes;

        if (is_list(v) && !pare_is_tensor(&in[i]))
            continue;
        if (in[i].dtype != v->t.dtype || !pare_same_shape(&in[i], &v->t))
            return pare_fail(err, PARE_ESHAPE, "input '%s' is %s %s, the plan was made for %s %s",
                             v->name, pare_dtype_name(in[i].dtype),
                             pare_shape_text(&in[i], have, sizeof(have)),
                             pare_dtype_name(v->t.dtype),
                             pare_shape_text(&v->t, want, sizeof(want)));
        PARE_TRY(pare_tensor_size(&v->t, NULL, &bytes, err));
        if (bytes && !in[i].data)
            return pare_fail(err, PARE_ECONFIG, "input '%s' has no data", v->name);
    }
    return 0;
}

static int take_inputs(struct pare_plan *p, const struct pare_tensor *in, struct pare_err *err)
{
    PARE_TRY(pare_plan_check(p, in, err));
    for (int i = 0; i < p->graph->n_in; i++) {
        struct pare_value *v = p->graph->in[i];
        struct pare_buf *b = p->buf[v->id];
        size_t bytes;

        if (is_list(v)) {
            v->t = in[i];
            continue;
        }
        while (b->block != 1)
            b = b->next;
        PARE_TRY(pare_tensor_size(&v->t, NULL, &bytes, err));
        if (b->t.data && bytes)
            memcpy(b->t.data, in[i].data, bytes);
    }
    return 0;
}

/* For a trainer that looks for the first node with a bad result. */
static int check_finite(const struct pare_step *s, struct pare_err *err)
{
    for (int k = 0; k < s->n_out; k++) {
        const struct pare_buf *b = s->out_buf[k];
        const float *y = b ? pare_f32(&b->t) : NULL;
        size_t n = y && b->t.dtype == PARE_F32 ? b->bytes / sizeof(*y) : 0;

        for (size_t i = 0; i < n; i++)
            if (!isfinite(y[i]))
                return pare_fail(err, PARE_ELIMIT, "the result is not finite");
    }
    return 0;
}

static int run_steps(struct pare_plan *p, struct pare_err *err)
{
    for (int i = 0; i < p->n_steps; i++) {
        struct pare_step *s = p->step[i];
        double start = p->profile ? pare_now() : 0;
        int rc;

        pare_plan_dynamic_before(p, i);
        pare_plan_use_threads(p, s->threads);
        rc = s->kernel->run(s, &p->backend, err);

        if (p->profile)
            s->seconds += pare_now() - start;
        if (!rc && p->finite)
            rc = check_finite(s, err);
        if (rc)
            return pare_at(err, rc, "node '%s' (%s)", s->node ? s->node->name : s->in[0]->name,
                           s->node ? s->node->type : "reorder");
        pare_plan_dynamic_after(p, i);
    }
    return 0;
}

int pare_plan_execute(struct pare_plan *p, const struct pare_tensor *in, struct pare_tensor *out,
                      struct pare_err *err)
{
    int rc, threads = omp_get_max_threads();
    struct pare_team *before;

    if (p->microbatch)
        return pare_microbatch_run(p, in, out, err);
    PARE_TRY(take_inputs(p, in, err));
    pare_rewind(p->dynamic, (struct pare_mark){ NULL, 0 });
    pare_plan_dynamic_start(p);
    p->ctx.calls_left = PARE_MAX_ITERATIONS;
    if (threads != p->backend.threads)
        omp_set_num_threads(p->backend.threads);
    before = pare_team_enter(p->team);
    rc = run_steps(p, err);
    pare_team_leave(before);
    pare_plan_use_threads(p, p->threads);
    if (threads != p->backend.threads)
        omp_set_num_threads(threads);
    for (int i = 0; i < p->graph->n_out && !rc; i++)
        out[i] = p->graph->out[i]->t;
    if (p->train)
        pare_plan_observed_zero(p);
    return rc;
}
