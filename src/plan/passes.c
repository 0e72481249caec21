/* passes.c - training steps whose forward, data and weight passes are run by different kernels. */
#include "passes.h"

unsigned pare_passes_of(const struct pare_plan *p, const struct pare_node *n)
{
    bool back = !p->train;

    for (int k = 0; k < n->n_out && !back; k++)
        back = n->out[k] && p->requires_grad[n->out[k]->id];
    return back ? PARE_ALL_PASSES : PARE_PASS_FORWARD;
}

/* The passes that the step has: those whose gradients are needed. */
static unsigned passes_wanted(const struct pare_plan *p, const struct pare_step *s)
{
    unsigned passes = PARE_PASS_FORWARD;

    for (int k = 0; p->train && k < s->n_in; k++)
        if (p->requires_grad[s->in[k]->id])
            passes |= k ? PARE_PASS_BACKWARD_WEIGHTS : PARE_PASS_BACKWARD_DATA;
    return passes & pare_passes_of(p, s->node);
}

bool pare_passes_one(const struct pare_passes *w)
{
    bool one = true;

    for (int i = 1; i < PARE_PASSES; i++)
        one &= !w->k[i] || w->k[i] == w->k[0];
    return one;
}

bool pare_passes_match(struct pare_plan *p, const struct pare_pass_query *a, struct pare_step *s)
{
    struct pare_mark m = pare_mark(p->scratch);
    struct pare_arena *own = p->backend.arena;
    bool any = p->view.ignore_cost, yes;

    *s = (struct pare_step){ .node = a->node,
                             .passes = a->passes & pare_passes_of(p, a->node),
                             .layout_from = a->layout_from };
    p->backend.arena = a->arena;
    p->view.ignore_cost = true;
    yes = a->k->match(&p->view, a->node, s);
    p->view.ignore_cost = any;
    p->backend.arena = own;
    pare_rewind(p->scratch, m);
    s->kernel = yes ? a->k : NULL;
    s->layout_from = NULL;
    s->ignore_cost = yes;
    return yes;
}

void pare_passes_drop(struct pare_step *s)
{
    if (s->kernel && s->kernel->destroy && s->state)
        s->kernel->destroy(s);
    s->state = NULL;
}

/* ---- rules --------------------------------------------------------------------------------- */

/* Does the kernel expect to be fast on this pass, in the layouts of s? */
static bool expects_fast(struct pare_plan *p, const struct pare_kernel *k,
                         const struct pare_step *s, unsigned pass)
{
    struct pare_mark m = pare_mark(p->scratch);
    struct pare_step t = { .node = s->node, .passes = pass, .layout_from = s };
    bool yes = k->match(&p->view, s->node, &t);

    pare_rewind(p->scratch, m);
    t.kernel = yes ? k : NULL;
    pare_passes_drop(&t);
    return yes;
}

int pare_passes_rule(struct pare_plan *p, const struct pare_step *s, struct pare_passes *w,
                     struct pare_err *err)
{
    unsigned wanted = passes_wanted(p, s);

    for (int i = 0; i < PARE_PASSES; i++)
        w->k[i] = wanted >> i & 1 ? s->kernel : NULL;
    for (int i = 1; i < PARE_PASSES && p->train && s->pass_independent; i++)
        for (int k = 0; w->k[i] && pare_kernels[k]; k++) {
            const struct pare_kernel *other = pare_kernels[k];
            bool own = other == s->kernel;

            if (!other->candidate || !pare_plan_allows(p, other))
                continue;
            if (own ? s->fast_passes >> i & 1 : expects_fast(p, other, s, 1u << i)) {
                w->k[i] = other;
                break;
            }
        }
    return pare_arena_failed(p->arena) || pare_arena_failed(p->scratch)
               ? pare_no_memory(err, "for the plan")
               : 0;
}

/* ---- a step of several kernels ------------------------------------------------------------- */

struct combined {
    struct pare_kernel kernel;          /* named after the kernels of all passes */
    struct pare_step step[PARE_PASSES]; /* by pass; .kernel NULL: no such pass */
};

static int init_combined(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct combined *x = s->state;

    for (int w = 0; w < PARE_PASSES; w++) {
        struct pare_step *q = &x->step[w];

        if (!q->kernel)
            continue;
        q->in_buf = s->in_buf;
        q->out_buf = s->out_buf;
        q->grad_assign = s->grad_assign;
        q->blocked_filters = s->blocked_filters;
        q->work[0] = s->work[0];
        q->work[1] = s->work[1];
        if (q->kernel->init)
            PARE_TRY(q->kernel->init(q, b, err));
    }
    return 0;
}

static int run_combined(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct pare_step *q = ((struct combined *)s->state)->step;

    return q->kernel->run(q, b, err);
}

/* The weights' gradient first, as in kernels that compute both. */
static int back_combined(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct combined *x = s->state;

    for (int w = PARE_PASSES - 1; w > 0; w--)
        if (x->step[w].kernel)
            PARE_TRY(x->step[w].kernel->backward(&x->step[w], b, err));
    return 0;
}

static void quit_combined(struct pare_step *s)
{
    struct combined *x = s->state;

    for (int w = 0; w < PARE_PASSES; w++)
        pare_passes_drop(&x->step[w]);
}

/* ---- building ------------------------------------------------------------------------------ */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The needs of the combined step; passes run one after the other, so they share working memory. */
static void combine_needs(struct combined *x, struct pare_step *s)
{
    s->unsaved_in = s->unsaved_out = ~0u;
    for (int w = 0; w < PARE_PASSES; w++) {
        const struct pare_step *q = &x->step[w];

        if (!q->kernel)
            continue;
        s->unsaved_in &= q->unsaved_in;
        s->unsaved_out &= q->unsaved_out;
        for (int i = 0; i < 2; i++)
            s->work_bytes[i] = larger(s->work_bytes[i], q->work_bytes[i]);
        s->accumulate_bytes = larger(s->accumulate_bytes, q->accumulate_bytes);
    }
}

static bool make_kernel(struct pare_plan *p, const struct pare_passes *w, struct combined *x)
{
    x->kernel = (struct pare_kernel){
        .doc = "A kernel for each pass of a training step.",
        .candidate = true,
        .blocked_filters = true,
        .init = init_combined,
        .run = run_combined,
        .backward = back_combined,
        .destroy = quit_combined,
    };
    for (int i = 0; i < PARE_PASSES; i++)
        x->kernel.blocked_filters &= !w->k[i] || w->k[i]->blocked_filters;
    x->kernel.name = pare_sprintf(p->arena, "%s|%s|%s", w->k[0]->name,
                                  w->k[1] ? w->k[1]->name : "-", w->k[2] ? w->k[2]->name : "-");
    return x->kernel.name;
}

/* Match the kernel of each pass in the layouts of `whole`. */
static bool match_each_pass(struct pare_plan *p, const struct pare_passes *w,
                            const struct pare_step *whole, struct combined *x)
{
    for (int i = 0; i < PARE_PASSES; i++) {
        struct pare_pass_query ask = { w->k[i], whole->node, 1u << i, whole, p->arena };

        if (w->k[i] && !pare_passes_match(p, &ask, &x->step[i]))
            return false;
    }
    return true;
}

static int combine(struct pare_plan *p, const struct pare_passes *w, struct pare_step *s,
                   bool *fits, struct pare_err *err)
{
    struct combined *x = pare_alloc(p->arena, 1, sizeof(*x));
    struct pare_step whole = *s;

    *fits = x && whole.pass_independent && make_kernel(p, w, x) && match_each_pass(p, w, &whole, x);
    if (x && !*fits)
        for (int i = 0; i < PARE_PASSES; i++)
            pare_passes_drop(&x->step[i]);
    pare_passes_drop(&whole); /* its lists are in the arena */
    *s = (struct pare_step){
        .kernel = *fits ? &x->kernel : NULL,
        .node = whole.node,
        .fused = whole.fused,
        .n_fused = whole.n_fused,
        .passes = PARE_ALL_PASSES,
        .pass_independent = true,
        .n_in = whole.n_in,
        .n_out = whole.n_out,
        .in = whole.in,
        .out = whole.out,
        .in_block = whole.in_block,
        .out_block = whole.out_block,
        .in_buf = whole.in_buf,
        .out_buf = whole.out_buf,
        .state = *fits ? x : NULL,
        .ignore_cost = true,
    };
    if (*fits)
        combine_needs(x, s);
    return x ? 0 : pare_no_memory(err, "for the plan");
}

int pare_passes_step(struct pare_plan *p, struct pare_node *n, const struct pare_passes *w,
                     struct pare_step *s, struct pare_err *err)
{
    struct pare_pass_query ask = { w->k[0], n, PARE_ALL_PASSES, NULL, p->arena };
    bool yes = pare_passes_match(p, &ask, s);

    if (yes && !pare_passes_one(w))
        PARE_TRY(combine(p, w, s, &yes, err));
    if (yes)
        return 0;
    return pare_arena_failed(p->arena) || pare_arena_failed(p->scratch)
               ? pare_no_memory(err, "for the plan")
               : pare_fail(err, PARE_EUNSUPPORTED,
                           "kernel '%s' matched node '%s' before but does not match it now",
                           w->k[0]->name, n->name);
}
