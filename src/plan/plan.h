/* plan.h - a model compiled for one set of input shapes. */
#ifndef PARE_PLAN_PLAN_H
#define PARE_PLAN_PLAN_H

#include "../backend/backend.h"
#include "../graph/graph.h"
#include "../onnx/model.h"

struct pare_tuner;
struct pare_microbatch;

struct pare_plan {
    struct pare_arena *arena;   /* everything below; dies with the plan */
    struct pare_arena *dynamic; /* values whose shapes depend on data; emptied every run */
    struct pare_arena *scratch;
    const struct pare_model *model;
    struct pare_graph *graph; /* a clone with shapes and folded constants */
    struct pare_backend backend;
    struct pare_match view;
    struct pare_ctx ctx;
    struct pare_step **step;
    int n_steps, cap_steps;
    struct pare_buf **buf; /* by value id: its buffers */
    struct pare_buf **all; /* every buffer */
    int n_bufs, cap_bufs;
    unsigned char *memory;             /* one block; offsets by memory.c */
    size_t memory_bytes, needed_bytes; /* placed; and the most that is alive at once */
    bool reference, profile, train;
    bool finite; /* a run ends with an error at the first value that is not */
    int n_reorders;
    bool *learns;             /* training, by value id: its gradient is wanted */
    struct pare_param *param; /* training: what is learned */
    int n_params;
    const char *const *without; /* names of kernels not to use, ends with NULL; or NULL */
    struct pare_value *
        *observed; /* what outsiders look at, in the order they gave (observed_values.c) */
    int n_observed;
    struct pare_microbatch
        *microbatch;              /* it runs its batch in parts (microbatch.h); NULL: as a whole */
    const struct pare_plan *like; /* a part beside this one, with the same steps; or NULL */
    int like_at;                  /* while it is made: the step of it that comes next */
    void (*on_back)(void *user, int step); /* told after the back() of each step; or NULL */
    void *user;
    struct pare_tuner *tuner; /* while it is made; NULL: rules choose kernels */
    struct pare_tuned {
        int layers;     /* that several kernels could run */
        int measured;   /* of them; others are like one of these, or ... */
        int listed;     /* ... in the list of choices, or ... */
        int cached;     /* ... known, or too late to be measured */
        int changed;    /* that got another kernel than by the rules */
        int runs;       /* of kernels */
        double seconds; /* that it took */
    } tuned;
};

/* A parameter of a training plan. */
struct pare_param {
    struct pare_value *value; /* of the plan's graph; its data is the model's */
    struct pare_tensor grad;  /* made anew by pare_plan_backward */
    bool reached;             /* false: no gradient ever reaches it */
    bool assigned;            /* a step assigns it; else it is zeroed */
    int last;                 /* the step after whose back() it is whole; -1: none changes it */
};

/* What a training plan adds to struct pare_plan_build. */
struct pare_plan_train {
    const char *const *names; /* initializers to compute gradients for; see pare_model_own */
    int n_names;
    struct pare_tensor *grad; /* by name: where the gradient goes; NULL: the plan's own memory */
    bool *blocked; /* by name, in: the parameter and its gradient may be stored in the kernels'
                      blocks (blocked_filters.h) while the plan runs; out: they must be.
                      NULL: all are row-major */
    struct pare_rng *rng;                  /* for Dropout and other random operators */
    struct pare_dist *sync;                /* see struct pare_ctx */
    void (*on_back)(void *user, int step); /* called after the back() of each step; NULL: none */
    void *user;
};

/* Run the batch in micro-batches when the rules or tuning expect that to be faster. */
#define PARE_MICROBATCH_AUTO (-1)

/* Everything that a plan can be built with.  All fields but those named may be 0. */
struct pare_plan_build {
    const struct pare_plan_opts *opts; /* the caller's options; NULL: defaults */

    /* Names of kernels not to use, ends with NULL.  If it is not NULL, the other kernels run
     * wherever they can, not only where they are fast.  For tests. */
    const char *const *without;

    /* Rows (1, 4 or 8) of the blocks by which sparse kernels store weights, whether that is faster
     * or not; 0: the kernels choose; -1: all weights are dense.  For tests. */
    int sparse_rows;

    /* Intermediate values that the caller reads with pare_plan_value after a run. */
    struct pare_strs observe;

    /* Items of a micro-batch: 0: the whole batch at once; PARE_MICROBATCH_AUTO; N: exactly N, or
     * PARE_EUNSUPPORTED. */
    int64_t microbatch;

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

/* The only constructor: pare_plan_new() calls it with the public options and
 * PARE_MICROBATCH_AUTO. */
int pare_plan_build(const struct pare_model *model, const struct pare_plan_build *build,
                    struct pare_plan **plan, struct pare_err *err);

/* After pare_plan_run: output 0's gradient, to be filled by the loss; then back to the params. */
float *pare_plan_out_grad(struct pare_plan *p);
int pare_plan_backward(struct pare_plan *p, struct pare_err *err);

/* Steps of making one, in backward.c. */
int pare_plan_add_params(struct pare_plan *p, const struct pare_plan_train *t,
                         struct pare_err *err);
int pare_plan_mark_grads(struct pare_plan *p, struct pare_err *err);
int pare_plan_add_grads(struct pare_plan *p, struct pare_err *err);
int pare_plan_first_writers(struct pare_plan *p,
                            struct pare_err *err); /* once views share memory */
void pare_plan_block_params(struct pare_plan *p, bool *blocked);
int pare_plan_grad_values(struct pare_plan *p, struct pare_err *err);

/* The i-th value that was to be kept: row-major, valid from one run to the next. */
const struct pare_tensor *pare_plan_value(const struct pare_plan *p, int i);

/* Training: its gradient, or NULL when nothing before it learns.  A run leaves zeros; whoever wants
 * the loss to depend on it adds to them, after output 0's gradient was written, since it may be the
 * same memory. */
float *pare_plan_value_grad(const struct pare_plan *p, int i);

/* Steps of making and running one, in observed_values.c. */
int pare_plan_observe(struct pare_plan *p, struct pare_strs names, struct pare_err *err);
void pare_plan_observed_zero(const struct pare_plan *p);

/* Bring QuantizeLinear in front of what keeps the order of numbers (quantize_hoist.c). */
void pare_plan_hoist_quantize(struct pare_plan *p);

/* Bring Gather in front of what works on rows (gather_upstream.c). */
int pare_plan_gather_upstream(struct pare_plan *p, struct pare_err *err);

/* Are these the inputs that the plan was made for? */
int pare_plan_check(const struct pare_plan *p, const struct pare_tensor *in, struct pare_err *err);

/* Bring DequantizeLinear behind what only moves numbers (dequantize_sink.c). */
int pare_plan_sink_dequantize(struct pare_plan *p, struct pare_err *err);

/* Which kernels run what: fills plan->step (steps.c). */
int pare_plan_steps(struct pare_plan *p, struct pare_err *err);

/* For tune.c: may the plan use the kernel, can a step read the value in this layout without a
 * conversion, load the constants of a step whose buffers are there, give them back. */
bool pare_plan_allows(const struct pare_plan *p, const struct pare_kernel *k);
bool pare_plan_has_layout(const struct pare_plan *p, const struct pare_value *v, int block);
int pare_plan_load_constants(struct pare_arena *a, struct pare_step *s, struct pare_err *err);
void pare_plan_release_weights(const struct pare_plan *p, const struct pare_step *s);

/* When each buffer lives and where (memory.c). */
int pare_plan_place(struct pare_plan *p, struct pare_err *err);

/* The step kernel of nodes that nobody else takes: the operator's own forward(). */
extern const struct pare_kernel pare_kernel_plain;

/* ... and of those whose shapes are known only at run time. */
extern const struct pare_kernel pare_kernel_dynamic;

/* Per-step times of the runs since the last call of it; for `pare bench -v`. */
struct pare_plan_stat {
    const char *kernel, *node, *type;
    int n_fused;
    double seconds, back_seconds;
    bool tuned; /* its kernel has rivals */
};

/* The plan whose steps run: of its parts, when it has some, else itself. */
const struct pare_plan *pare_plan_inner(const struct pare_plan *p);
void pare_plan_profile(struct pare_plan *p, bool on);
int pare_plan_stats(const struct pare_plan *p, struct pare_arena *a, struct pare_plan_stat **stat);

#endif
