/* plan.h - a model compiled for one set of input shapes. */
#ifndef PARE_PLAN_PLAN_H
#define PARE_PLAN_PLAN_H

#include "../backend/backend.h"
#include "../graph/graph.h"
#include "../onnx/model.h"

struct pare_tuner;
struct pare_microbatch;
struct pare_dynamic_results;
struct pare_tail;
struct pare_body_plan;

/* pare_plan_new() and pare_plan_run() without checks: opts->in, in[] and out[] have as many tensors
 * as the model has inputs and outputs. */
int pare_plan_make(const struct pare_model *model, const struct pare_plan_opts *opts,
                   struct pare_plan **plan, struct pare_err *err);
int pare_plan_execute(struct pare_plan *plan, const struct pare_tensor *in, struct pare_tensor *out,
                      struct pare_err *err);

struct pare_plan {
    struct pare_arena *arena;   /* owns everything below */
    struct pare_arena *dynamic; /* results of bodies with known shapes; emptied by every run */
    struct pare_dynamic_results *results; /* values whose shapes depend on data; NULL: none */
    struct pare_arena *scratch;
    const struct pare_model *model;
    struct pare_tensor *out;  /* of pare_plan_run(): all outputs; NULL: not called yet */
    struct pare_graph *graph; /* a clone with concrete shapes and folded constants */
    struct pare_backend backend;
    struct pare_match view;
    struct pare_ctx ctx;
    struct pare_body_plan *bodies; /* plans of bodies of If, Loop and Scan (body_plans.c) */
    struct pare_tail *tails;       /* plans after shapes that depend on data (tail_plans.c) */
    int tail_depth;                /* in how many tails this plan is */
    int threads;                   /* the most; backend.threads is for the step that runs */
    bool short_plan;               /* all steps run on one thread */
    struct pare_team *team;        /* threads of the steps; NULL: OpenMP's */
    struct pare_step **step;
    int n_steps, cap_steps;
    struct pare_buf **buf; /* by value id: its buffers, one for each layout */
    struct pare_buf **all; /* every buffer */
    int n_bufs, cap_bufs;
    unsigned char *memory; /* one block for all buffers; memory.c assigns the offsets */
    size_t memory_bytes;   /* of that block */
    size_t needed_bytes;   /* the most that is alive at once, a lower bound of memory_bytes */
    bool reference, profile, train;
    double bf16_error; /* relative error of the outputs in bf16 (plan_precision.h); -1: unknown */
    bool finite;       /* fail at the first step that produces a NaN or an infinity */
    int n_reorders;
    bool *requires_grad;      /* training, by value id: it needs a gradient */
    struct pare_param *param; /* training: the parameters */
    int n_params;
    const char *const *without; /* see struct pare_plan_build */
    const char *const *without_rewrites;
    struct pare_value **observed; /* in the caller's order (observed_values.c) */
    int n_observed;
    struct pare_microbatch *microbatch;    /* runs the batch in micro-batches; NULL: as a whole */
    const struct pare_plan *like;          /* see struct pare_plan_slice; or NULL */
    int like_at;                           /* while planning: index of the next step of `like` */
    void (*on_back)(void *user, int step); /* see struct pare_plan_train */
    void *user;
    struct pare_tuner *tuner; /* while planning; NULL: the rules choose kernels */
    struct pare_tuned {
        int layers;     /* layers that several kernels can run */
        int measured;   /* layers whose candidates were timed */
        int listed;     /* layers whose kernel is in the list of kernel choices */
        int cached;     /* layers whose kernel an earlier race found */
        int changed;    /* layers whose kernel is not the rules' */
        int runs;       /* kernel runs that were timed */
        double seconds; /* spent on tuning */
    } tuned;
};

/* A parameter of a training plan. */
struct pare_param {
    struct pare_value *value; /* in the plan's graph; its data is the model's */
    struct pare_tensor grad;  /* filled by pare_plan_backward */
    bool reached;             /* some gradient reaches it */
    bool assigned;            /* a step assigns the gradient; else it is zeroed first */
    int last;                 /* the step whose backward() completes the gradient; -1: none */
};

/* What a training plan adds to struct pare_plan_build. */
struct pare_plan_train {
    const char *const *names; /* initializers to compute gradients for; see pare_model_own */
    int n_names;
    struct pare_tensor *grad; /* by name: where the gradient goes; NULL: the plan's own memory */
    bool *blocked; /* by name, in: the parameter and its gradient may be stored in the kernels'
                      blocks (blocked_filters.h) while the plan runs; out: they must be.
                      NULL: all are row-major */
    struct pare_rng *rng;   /* for Dropout and other random operators */
    struct pare_dist *sync; /* see struct pare_ctx */
    void (*on_back)(void *user,
                    int step); /* called after the backward() of each step; NULL: none */
    void *user;
};

/* Run the batch in micro-batches when the rules or tuning expect that to be faster. */
#define PARE_MICROBATCH_AUTO (-1)

/* Everything that a plan can be built with; zeroed: an inference plan for the whole batch, with the
 * default options. */
struct pare_plan_build {
    const struct pare_plan_opts *opts; /* the caller's options; NULL: defaults */

    /* Names of kernels not to use, ends with NULL.  If it is not NULL, the other kernels run
     * wherever they can, not only where they are fast.  For tests. */
    const char *const *without;

    /* Names of graph rewrites not to run (graph/rewrite/rewrite.h); NULL: what the environment
     * variable PARE_REWRITES says. */
    const char *const *without_rewrites;

    /* Rows (1, 4 or 8) of the blocks by which sparse kernels store weights, whether that is faster
     * or not; 0: the kernels choose; -1: all weights are dense.  For tests. */
    int sparse_rows;

    /* Use no kernel that stores transformed weights in several times their bytes: for a few runs of
     * a large model. */
    bool compact;

    /* Intermediate values that the caller reads with pare_plan_value after a run. */
    struct pare_strs observe;

    /* Items of a micro-batch: 0: the whole batch at once; PARE_MICROBATCH_AUTO; N: exactly N, or
     * PARE_EUNSUPPORTED. */
    int64_t microbatch;

    /* Output 0 is the input of the last operator if that has one of these flags: PARE_OP_SOFTMAX,
     * PARE_OP_SIGMOID (graph/output_logits.h).  0: output 0 is that of the model. */
    unsigned logits;

    /* The model's graph, inferred for the shapes of opts->in, which lives longer than the plan: it
     * is cloned and not inferred again, unless nodes failed or shapes differ.  NULL: none. */
    const struct pare_graph *shaped;

    /* A body of If, Loop or Scan that stands alone, instead of the model's graph; or NULL. */
    const struct pare_graph *body;

    int tail; /* the body is the tail of a plan of this depth (tail_plans.c); 0: it is not */

    const struct pare_plan_slice *slice; /* a plan for one micro-batch of another; or NULL */
    const struct pare_plan_train *train; /* compute gradients, from output 0; NULL: inference */
};

/* A plan for `items` items of the batch of `whole`, of which only the graph is complete.  An error
 * other than PARE_ENOMEM means that micro-batches cannot be run separately. */
struct pare_plan_slice {
    const struct pare_plan *whole;
    const struct pare_plan *like; /* another slice: has the same steps and shares its weights */
    int64_t items;
    double *seconds; /* left for tuning; NULL: PARE_TUNE_LIMIT */
};

/* The only constructor: pare_plan_make() calls it with PARE_MICROBATCH_AUTO. */
int pare_plan_build(const struct pare_model *model, const struct pare_plan_build *build,
                    struct pare_plan **plan, struct pare_err *err);

/* Training, after pare_plan_execute(): the gradient of output 0, which the loss fills; then the
 * backward pass, which computes the gradients of all parameters. */
float *pare_plan_out_grad(struct pare_plan *p);
int pare_plan_backward(struct pare_plan *p, struct pare_err *err);

/* The i-th observed value: row-major, valid until the next run. */
const struct pare_tensor *pare_plan_value(const struct pare_plan *p, int i);

/* Training: the gradient of the i-th observed value; NULL: it has none, since no parameter precedes
 * it.  pare_plan_execute() zeroes it.  A loss that depends on the value adds to it, after it has
 * written output 0's gradient, which may be the same memory. */
float *pare_plan_value_grad(const struct pare_plan *p, int i);

/* Do the inputs have the types and shapes that the plan was built for? */
int pare_plan_check(const struct pare_plan *p, const struct pare_tensor *in, struct pare_err *err);

/* Times of the steps since profiling was turned on; for `pare bench -v`. */
struct pare_plan_stat {
    const char *kernel, *node, *type;
    int n_fused;
    double seconds, back_seconds;
    bool tuned; /* several kernels could run the step */
};
void pare_plan_profile(struct pare_plan *p, bool on);
int pare_plan_stats(const struct pare_plan *p, struct pare_arena *a, struct pare_plan_stat **stat);

/* The plan whose steps run: that of the first micro-batch, or p itself. */
const struct pare_plan *pare_plan_inner(const struct pare_plan *p);

/* ---- phases of planning, for plan.c -------------------------------------------------------- */

/* backward.c, in this order; pare_plan_first_writers() once views share memory, and
 * pare_plan_grad_values() once memory is placed. */
int pare_plan_add_params(struct pare_plan *p, const struct pare_plan_train *t,
                         struct pare_err *err);
int pare_plan_mark_grads(struct pare_plan *p, struct pare_err *err);
int pare_plan_add_grads(struct pare_plan *p, struct pare_err *err);
void pare_plan_block_params(struct pare_plan *p, bool *blocked);
int pare_plan_first_writers(struct pare_plan *p, struct pare_err *err);
int pare_plan_grad_values(struct pare_plan *p, struct pare_err *err);

/* observed_values.c: look up the names; zero the gradients. */
int pare_plan_observe(struct pare_plan *p, struct pare_strs names, struct pare_err *err);
void pare_plan_observed_zero(const struct pare_plan *p);

/* rewrite/: change the plan's graph so that steps do less work, or so that it has gradients. */
int pare_plan_unroll_bodies(struct pare_plan *p, struct pare_err *err);
int pare_plan_split_fused(struct pare_plan *p, struct pare_err *err);
int pare_plan_gather_upstream(struct pare_plan *p, struct pare_err *err);
int pare_plan_rewrite(struct pare_plan *p, struct pare_err *err); /* all of them, in order */
int pare_plan_widen_int4(struct pare_plan *p, struct pare_err *err);
int pare_plan_sink_dequantize(struct pare_plan *p, struct pare_err *err);
void pare_plan_hoist_quantize(struct pare_plan *p);

/* steps.c: choose the kernel that runs each node; fills p->step. */
int pare_plan_steps(struct pare_plan *p, struct pare_err *err);

/* memory.c: the lifetime and the place of each buffer. */
int pare_plan_place(struct pare_plan *p, struct pare_err *err);

/* The kernel of nodes that no other kernel matches: the operator's own forward(). */
extern const struct pare_kernel pare_kernel_plain;

/* The same for nodes whose shapes are known only at run time. */
extern const struct pare_kernel pare_kernel_dynamic;

/* ---- threads of each step (step_threads.c) --------------------------------------------------- */

void pare_plan_count_us(struct pare_plan *p); /* sets p->short_plan */

/* Give the plan threads of its own, unless a step on several threads uses OpenMP's: two pools would
 * compete for the cores.  PARE_ENOMEM or 0. */
int pare_plan_add_team(struct pare_plan *p, struct pare_err *err);

/* How many threads run the step of this node, and a layout conversion of this value. */
int pare_plan_threads_for(const struct pare_plan *p, const struct pare_node *n);
int pare_plan_reorder_threads(const struct pare_plan *p, const struct pare_value *v);

/* Use this many from here on. */
void pare_plan_use_threads(struct pare_plan *p, int threads);

/* ---- plans after shapes that depend on data (tail_plans.c) ----------------------------------- */

int pare_plan_split_tail(struct pare_plan *p, struct pare_err *err);

/* The plan that ran last for this node; NULL: it is another node, or has not run. */
struct pare_plan *pare_tail_plan(const struct pare_node *n);
void pare_tail_plans_free(struct pare_plan *p);

/* ---- results whose shapes depend on data (dynamic_results.c) --------------------------------- */

/* Find the last use of each; the steps are complete. */
int pare_plan_add_dynamic(struct pare_plan *p, struct pare_err *err);

/* At the start of a run: free the results of the last one. */
void pare_plan_dynamic_start(const struct pare_plan *p);

/* Before step i: choose the memory of its results; after it: free what no later step reads. */
void pare_plan_dynamic_before(struct pare_plan *p, int i);
void pare_plan_dynamic_after(const struct pare_plan *p, int i);
void pare_plan_dynamic_free(struct pare_plan *p);

/* ---- for tune/ ----------------------------------------------------------------------------- */

/* May the plan use the kernel? */
bool pare_plan_allows(const struct pare_plan *p, const struct pare_kernel *k);

/* Can a step read v in this layout without a conversion? */
bool pare_plan_has_layout(const struct pare_plan *p, const struct pare_value *v, int block);

/* Load the constants that a step reads, once its buffers exist; let the system drop the pages of
 * weights that the step has packed. */
int pare_plan_load_constants(struct pare_arena *a, struct pare_step *s, struct pare_err *err);
void pare_plan_release_weights(const struct pare_plan *p, const struct pare_step *s);

/* pare_ctx.call in plans: its own plan or reference kernels run the body (body_plans.c). */
int pare_plan_call(struct pare_ctx *c, const struct pare_graph *body, const struct pare_tensor *in,
                   int n_in, struct pare_tensor *out, int n_out, struct pare_err *err);
void pare_body_plans_free(struct pare_plan *p);
int pare_body_plans_count(const struct pare_plan *p); /* bodies that have plans now */

#endif
