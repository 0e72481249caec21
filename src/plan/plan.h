/* plan.h - a model compiled for one set of input shapes. */
#ifndef PARE_PLAN_PLAN_H
#define PARE_PLAN_PLAN_H

#include "../backend/backend.h"
#include "../graph/graph.h"
#include "../onnx/model.h"

struct pare_tuner;
struct pare_microbatch;

/* pare_plan_new() and pare_plan_run() without checks: opts->in, in[] and out[] have as many tensors
 * as the model has inputs and outputs. */
int pare_plan_make(const struct pare_model *model, const struct pare_plan_opts *opts,
                   struct pare_plan **plan, struct pare_err *err);
int pare_plan_execute(struct pare_plan *plan, const struct pare_tensor *in, struct pare_tensor *out,
                      struct pare_err *err);

struct pare_plan {
    struct pare_arena *arena;   /* everything below; dies with the plan */
    struct pare_arena *dynamic; /* values whose shapes depend on data; emptied every run */
    struct pare_arena *scratch;
    const struct pare_model *model;
    struct pare_tensor *out;  /* of pare_plan_run(): all outputs; NULL: not called yet */
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
        *kept; /* what outsiders look at, in the order they gave (observed_values.c) */
    int n_kept;
    struct pare_microbatch *split; /* it runs its batch in parts (microbatch.h); NULL: as a whole */
    const struct pare_plan *like;  /* a part beside this one, with the same steps; or NULL */
    int like_at;                   /* while it is made: the step of it that comes next */
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

/* Training plans: compile the model with gradients for `names` (initializers, which must be owned,
 * see pare_model_own).  Gradients start at output 0.  `rng` is for operators that draw. */
struct pare_train_opts {
    int threads;
    int64_t batch;
    const struct pare_tensor *in; /* shapes of the inputs, or NULL */
    const char *const *names;
    int n_names;
    struct pare_tensor *grad; /* by name: where gradients go; NULL: the plan's own memory */
    bool *laid; /* by name: it and its gradient may be in blocks (blocked_filters.h) when the
                                 plan runs; after that, whether they must.  NULL: all row-major */
    bool reference;
    const char *const *without; /* for tests, see pare_plan_new_without; or NULL */
    bool tune;                  /* these three as in struct pare_plan_opts */
    const char *choices, *cache;
    struct pare_rng *rng;
    struct pare_strs keep;                 /* values to look at, see pare_plan_value */
    struct pare_dist *sync;                /* see struct pare_ctx */
    void (*on_back)(void *user, int step); /* see struct pare_plan */
    void *user;
};
int pare_plan_train(const struct pare_model *m, const struct pare_train_opts *o,
                    struct pare_plan **plan, struct pare_err *err);

/* After pare_plan_execute: output 0's gradient, to be filled by the loss; then back to the params. */
float *pare_plan_out_grad(struct pare_plan *p);
int pare_plan_backward(struct pare_plan *p, struct pare_err *err);

/* Steps of making one, in backward.c. */
int pare_plan_learns(struct pare_plan *p, const struct pare_train_opts *o, struct pare_err *err);
int pare_plan_reach(struct pare_plan *p, struct pare_err *err);
int pare_plan_grads(struct pare_plan *p, struct pare_err *err);
int pare_plan_first(struct pare_plan *p, struct pare_err *err); /* once views share memory */
void pare_plan_block_params(struct pare_plan *p, bool *laid);
int pare_plan_grad_values(struct pare_plan *p, struct pare_err *err);

/* pare_plan_make() that leaves out some kernels of kernels.def, so that tests reach those that
 * would have come after them.  `without` ends with NULL. */
int pare_plan_new_without(const struct pare_model *model, const struct pare_plan_opts *opts,
                          const char *const *without, struct pare_plan **plan,
                          struct pare_err *err);

/* pare_plan_make() that runs weights by the blocks of so many rows (1, 4 or 8) that are not zero,
 * whether that is faster or not; -1: all weights as dense ones. */
int pare_plan_new_sparse(const struct pare_model *model, const struct pare_plan_opts *opts,
                         int rows, struct pare_plan **plan, struct pare_err *err);

/* pare_plan_make() that keeps the values of these names, such as the inputs and outputs of layers:
 * see pare_layer_info. */
int pare_plan_new_observed(const struct pare_model *model, const struct pare_plan_opts *opts,
                           struct pare_strs keep, struct pare_plan **plan, struct pare_err *err);

/* The i-th value that was to be kept: row-major, valid from one run to the next. */
const struct pare_tensor *pare_plan_value(const struct pare_plan *p, int i);

/* Training: its gradient, or NULL when nothing before it learns.  A run leaves zeros; whoever wants
 * the loss to depend on it adds to them, after output 0's gradient was written, since it may be the
 * same memory. */
float *pare_plan_value_grad(const struct pare_plan *p, int i);

/* pare_plan_make() in parts of so many items, for tests; PARE_EUNSUPPORTED when it cannot be. */
int pare_plan_new_microbatches(const struct pare_model *model, const struct pare_plan_opts *opts,
                               int64_t items, struct pare_plan **plan, struct pare_err *err);

/* pare_plan_make() for `items` items of the batch of `whole`, which has only its graph: results are
 * those of a part of the batch, or it is an error other than PARE_ENOMEM.  With `like`, another
 * part of the same options, it has the same steps and shares that one's weights. */
struct pare_microbatch_opts {
    const struct pare_plan *whole, *like;
    int64_t items;
    int threads;
    double *seconds; /* that are left for trials; or NULL */
};
int pare_plan_new_microbatch(const struct pare_plan_opts *opts,
                             const struct pare_microbatch_opts *part, struct pare_plan **plan,
                             struct pare_err *err);

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
bool pare_plan_uses(const struct pare_plan *p, const struct pare_kernel *k);
bool pare_plan_has(const struct pare_plan *p, const struct pare_value *v, int block);
int pare_plan_load(struct pare_arena *a, struct pare_step *s, struct pare_err *err);
void pare_plan_release(const struct pare_plan *p, const struct pare_step *s);

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
