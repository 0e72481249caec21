/* passes.c - training steps whose ways are different kernels'. */
#include "passes.h"

const char *const pare_way_names[PARE_PASSES] = { "forward", "data", "weights" };

unsigned pare_passes_of(const struct pare_plan *p, const struct pare_node *n)
{
    bool back = !p->train;

    for (int k = 0; k < n->n_out && !back; k++)
        back = n->out[k] && p->learns[n->out[k]->id];
    return back ? PARE_ALL_PASSES : PARE_PASS_FORWARD;
}

unsigned pare_passes_wanted(const struct pare_plan *p, const struct pare_step *s)
{
    unsigned ways = PARE_PASS_FORWARD;

    for (int k = 0; p->train && k < s->n_in; k++)
        if (p->learns[s->in[k]->id])
            ways |= k ? PARE_PASS_BACKWARD_WEIGHTS : PARE_PASS_BACKWARD_DATA;
    return ways & pare_passes_of(p, s->node);
}

bool pare_passes_one(const struct pare_passes *w)
{
    bool one = true;

    for (int i = 1; i < PARE_PASSES; i++)
        one &= !w->k[i] || w->k[i] == w->k[0];
    return one;
}

bool pare_passes_same(const struct pare_passes *a, const struct pare_passes *b)
{
    bool same = true;

    for (int w = 0; w < PARE_PASSES; w++)
        same &= a->k[w] == b->k[w];
    return same;
}

bool pare_passes_match(struct pare_plan *p, const struct pare_ask *a, struct pare_step *s)
{
    struct pare_mark m = pare_mark(p->scratch);
    struct pare_arena *own = p->backend.arena;
    bool any = p->view.ignore_cost, yes;

    *s = (struct pare_step){ .node = a->node,
                             .passes = a->ways & pare_passes_of(p, a->node),
                             .layout_from = a->beside };
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

/* Does it say that it is fast there? */
static bool expects(struct pare_plan *p, const struct pare_kernel *k, const struct pare_step *s,
                    unsigned way)
{
    struct pare_mark m = pare_mark(p->scratch);
    struct pare_step t = { .node = s->node, .passes = way, .layout_from = s };
    bool yes = k->match(&p->view, s->node, &t);

    pare_rewind(p->scratch, m);
    t.kernel = yes ? k : NULL;
    pare_passes_drop(&t);
    return yes;
}

int pare_passes_rule(struct pare_plan *p, const struct pare_step *s, struct pare_passes *w,
                     struct pare_err *err)
{
    unsigned wanted = pare_passes_wanted(p, s);

    for (int i = 0; i < PARE_PASSES; i++)
        w->k[i] = wanted >> i & 1 ? s->kernel : NULL;
    for (int i = 1; i < PARE_PASSES && p->train && s->pass_independent; i++)
        for (int k = 0; w->k[i] && pare_kernels[k]; k++) {
            const struct pare_kernel *other = pare_kernels[k];
            bool own = other == s->kernel;

            if (!other->candidate || !pare_plan_uses(p, other))
                continue;
            if (own ? s->fast_passes >> i & 1 : expects(p, other, s, 1u << i)) {
                w->k[i] = other;
                break;
            }
        }
    return pare_arena_failed(p->arena) || pare_arena_failed(p->scratch)
               ? pare_no_memory(err, "for the plan")
               : 0;
}

/* ---- several kernels as one ---------------------------------------------------------------- */

struct mixed {
    struct pare_kernel kernel;          /* with a name of its own */
    struct pare_step part[PARE_PASSES]; /* by way; without a kernel where nobody wants it */
};

static int init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct mixed *x = s->state;

    for (int w = 0; w < PARE_PASSES; w++) {
        struct pare_step *q = &x->part[w];

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

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct pare_step *q = ((struct mixed *)s->state)->part;

    return q->kernel->run(q, b, err);
}

/* The weights' gradient first, as kernels do it that make both. */
static int backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct mixed *x = s->state;

    for (int w = PARE_PASSES - 1; w > 0; w--)
        if (x->part[w].kernel)
            PARE_TRY(x->part[w].kernel->backward(&x->part[w], b, err));
    return 0;
}

static void destroy(struct pare_step *s)
{
    struct mixed *x = s->state;

    for (int w = 0; w < PARE_PASSES; w++)
        pare_passes_drop(&x->part[w]);
}

/* ---- making -------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What the whole needs: memory that only one way has is shared. */
static void sum_up(struct mixed *x, struct pare_step *s)
{
    s->unsaved_in = s->unsaved_out = ~0u;
    for (int w = 0; w < PARE_PASSES; w++) {
        const struct pare_step *q = &x->part[w];

        if (!q->kernel)
            continue;
        s->unsaved_in &= q->unsaved_in;
        s->unsaved_out &= q->unsaved_out;
        for (int i = 0; i < 2; i++)
            s->work_bytes[i] = larger(s->work_bytes[i], q->work_bytes[i]);
        s->accumulate_bytes = larger(s->accumulate_bytes, q->accumulate_bytes);
    }
}

static bool add_name(struct pare_plan *p, const struct pare_passes *w, struct mixed *x)
{
    x->kernel = (struct pare_kernel){
        .doc = "Kernels for each way of a step.",
        .candidate = true,
        .blocked_filters = true,
        .init = init,
        .run = run,
        .backward = backward,
        .destroy = destroy,
    };
    for (int i = 0; i < PARE_PASSES; i++)
        x->kernel.blocked_filters &= !w->k[i] || w->k[i]->blocked_filters;
    x->kernel.name = pare_sprintf(p->arena, "%s|%s|%s", w->k[0]->name,
                                  w->k[1] ? w->k[1]->name : "-", w->k[2] ? w->k[2]->name : "-");
    return x->kernel.name;
}

/* Its parts, in the layouts of `whole`. */
static bool match_parts(struct pare_plan *p, const struct pare_passes *w,
                        const struct pare_step *whole, struct mixed *x)
{
    for (int i = 0; i < PARE_PASSES; i++) {
        struct pare_ask ask = { w->k[i], whole->node, 1u << i, whole, p->arena };

        if (w->k[i] && !pare_passes_match(p, &ask, &x->part[i]))
            return false;
    }
    return true;
}

static int mix(struct pare_plan *p, const struct pare_passes *w, struct pare_step *s, bool *fits,
               struct pare_err *err)
{
    struct mixed *x = pare_alloc(p->arena, 1, sizeof(*x));
    struct pare_step whole = *s;

    *fits = x && whole.pass_independent && add_name(p, w, x) && match_parts(p, w, &whole, x);
    if (x && !*fits)
        for (int i = 0; i < PARE_PASSES; i++)
            pare_passes_drop(&x->part[i]);
    pare_passes_drop(&whole); /* its lists stay */
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
        sum_up(x, s);
    return x ? 0 : pare_no_memory(err, "for the plan");
}

int pare_passes_step(struct pare_plan *p, struct pare_node *n, const struct pare_passes *w,
                     struct pare_step *s, struct pare_err *err)
{
    struct pare_ask ask = { w->k[0], n, PARE_ALL_PASSES, NULL, p->arena };
    bool yes = pare_passes_match(p, &ask, s);

    if (yes && !pare_passes_one(w))
        PARE_TRY(mix(p, w, s, &yes, err));
    if (yes)
        return 0;
    return pare_arena_failed(p->arena) || pare_arena_failed(p->scratch)
               ? pare_no_memory(err, "for the plan")
               : pare_fail(err, PARE_EUNSUPPORTED, "'%s' takes node '%s' only at times",
                           w->k[0]->name, n->name);
}
