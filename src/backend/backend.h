/* backend.h - the kernel interface: fused, layout-aware implementations of operators.
 *
 * Kernels.  A plan is a list of steps; each step runs one kernel on one node or on several fused
 * nodes.  The planner visits the nodes in topological order and offers each one to the kernels of
 * kernels.def, in the order of that file.  The first kernel whose match() returns true gets the
 * node, called the fusion root, and all nodes that match() listed in step.fused.  A node that no
 * kernel takes runs the reference forward() of its operator (op/op.h), in row-major layout.
 *
 * Layouts.  A value has one buffer per layout in which some step needs it:
 *     1                    row-major, as in ONNX
 *     8 or 16 (block b)    (N, ceil(C / b), spatial..., b), oneDNN's nChw8c and nChw16c; the lanes
 *                          beyond C are always zero
 *     PARE_CHANNELS_LAST   (N, spatial..., C), for int8 convolutions
 * match() specifies the layout of each input and output; the planner inserts reorder steps where
 * producer and consumer differ.
 *
 * Lazy nodes.  A dequantized float value (DequantizeLinear and elementwise functions of it) is not
 * computed until a step reads it.  Kernels that compute in int8 read the quantized tensor instead
 * (fuse/int8_operands.h), and then the float values are never computed.
 *
 * Training.  A step has up to three passes: forward, backward_data (gradient of in[0]) and
 * backward_weights (gradients of the other inputs).  A kernel without backward() is not used in
 * training.  A kernel that passes nothing from run() to backward() except the contents of the
 * step's buffers sets step.pass_independent; then every pass of the node may use another kernel, in
 * the same layouts (plan/tune/passes.h).
 *
 * Memory.  match() only describes: shapes and layouts are known, buffers are not.  The planner then
 * places all buffers in one arena by lifetime and calls init(), which creates primitives and packs
 * weights.  run() and backward() do not allocate: scratch memory is step.work, whose size match()
 * specifies in step.work_bytes.
 *
 * Tuning.  match() also decides whether the kernel is expected to be the fastest.  For kernels with
 * .candidate, a tuned plan ignores that (match.ignore_cost) and measures (plan/tune/tune.c).
 *
 * To add a kernel: one file in a subfolder of backend/, one line in kernels.def.
 */
#ifndef PARE_BACKEND_BACKEND_H
#define PARE_BACKEND_BACKEND_H

#include "../base/arena.h"
#include "../op/operator.h"
#include "../tensor/tensor.h"

#define PARE_CHANNELS_LAST (-1) /* the layout (N, spatial..., C) */

/* A value in one layout, the gradient of a value, or scratch memory of a step. */
struct pare_buf {
    struct pare_value *value;
    struct pare_tensor t; /* logical shape; t.data is set once memory is placed */
    int block;            /* layout; 0: scratch memory */
    int last;             /* of a root: last step that reads this memory; see plan/memory.c */
    struct pare_buf
        *root; /* owner of the memory: itself, or the source of a view or in-place step */
    struct pare_buf *next; /* the same value in another layout, or NULL */
    int born, dies;        /* first and last step that needs the memory */
    size_t bytes, offset;
    bool fixed;            /* a constant or parameter: not in the plan's memory */
    struct pare_buf *grad; /* training: d loss / d this, in the same layout; NULL: not needed */
    bool is_grad, written; /* it is a gradient; while planning: a step writes it */
};

#define PARE_STEP_IN 8 /* most inputs of a step that tuning measures */

/* The passes of a step, as bits. */
#define PARE_PASS_FORWARD 1u
#define PARE_PASS_BACKWARD_DATA 2u    /* gradient of in[0] from the gradients of the outputs */
#define PARE_PASS_BACKWARD_WEIGHTS 4u /* gradients of the other inputs */
#define PARE_ALL_PASSES 7u
#define PARE_PASSES 3

struct pare_step {
    const struct pare_kernel *kernel;
    struct pare_node *node;   /* the fusion root */
    struct pare_node **fused; /* nodes fused after it, in order */
    int n_fused;

    /* Set by the plan before match(). */
    unsigned passes; /* passes to run.  Without PARE_PASS_FORWARD run() is not called, and
                        backward() computes only the gradients of these passes. */
    const struct pare_step *layout_from; /* if passes are split over kernels: the step whose inputs,
                                            outputs and layouts this one must have; else NULL */

    /* Set by match(). */
    bool openmp;           /* run() uses OpenMP's threads: not pare_parallel() (base/team.h) */
    bool pass_independent; /* training: other kernels may run some of the passes, since the passes
                              share nothing but buffers */
    unsigned fast_passes;  /* with pass_independent: passes expected to be fast */
    int n_in, n_out;
    struct pare_value **in, **out; /* values read and computed; constants need not be listed */
    int *in_block, *out_block;     /* their layouts */
    int inplace;      /* k + 1: out[0] may take the memory of in[k] if nothing else reads it; 0: no.
                         run() must also work if it did not. */
    int grad_inplace; /* training, k + 1: backward() may write the gradient of in[k] over that of
                         out[0], element by element; 0: no.  It must also work if they differ. */
    unsigned unsaved_in, unsaved_out; /* training, bit k: backward() does not read the contents of
                                         in[k] or out[k], only their gradients; inputs and outputs
                                         beyond bit 31 are always saved */
    size_t work_bytes[2];             /* scratch memory of run() and of backward() */
    size_t accumulate_bytes; /* more scratch memory of backward() when it adds to the gradient of
                                in[0] (grad_assign[0] is false) */

    /* Set by the plan before init(). */
    struct pare_buf **in_buf, **out_buf;
    struct pare_buf *work[2]; /* scratch memory; NULL where 0 bytes */
    bool *grad_assign;        /* training, by input: backward() is the first to write its gradient,
                                 so that it assigns instead of adding */
    bool blocked_filters;     /* training: in[1] and its gradient are blocked (blocked_filters.h) */
    bool runs_backward;       /* training: backward() is called */
    const struct pare_step *share_from; /* the same step of a longer-lived plan for the same shapes,
                                           whose packed weights init() may share; or NULL */

    void *state;                      /* private to the kernel, from backend->arena */
    double seconds, backward_seconds; /* time spent so far, if the plan is profiled */
    int threads;                      /* that run it (plan/step_threads.c) */
    bool tuned;                       /* the kernel was chosen by measuring several candidates */
    bool ignore_cost;                 /* matched with match.ignore_cost */
};

/* The match context: the graph and the state of the plan, read-only for match(). */
struct pare_match {
    struct pare_graph *graph;
    struct pare_backend *backend;
    struct pare_consumers {
        struct pare_node **node;
        int n;           /* graph outputs are not counted: PARE_V_OUTPUT of the value */
    } * consumers;       /* by value id */
    bool *claimed;       /* by node id: already in a step, or not needed */
    int *layout;         /* by value id: layout in which it was first computed; 0: not yet */
    bool *lazy;          /* by node id: computed only when a step reads its result */
    int lazy_layout;     /* while a lazy node is matched: the requested layout; else 0 */
    bool train;          /* only kernels with backward() are offered nodes */
    bool ignore_cost;    /* match() is about what the kernel can do, not about what it does fast */
    bool *requires_grad; /* training, by value id: its gradient is needed */

    /* By node id: the attention that it is a part of; NULL: none. */
    const struct pare_attention_parts **attention;
};

/* What the kernels of one plan share. */
struct pare_backend {
    struct pare_arena *arena;
    struct pare_arena *scratch; /* emptied after each init() */
    int threads;
    int block;       /* channel block of the machine's vectors: 8 or 16 */
    bool vnni;       /* the CPU sums int8 products without saturating (VNNI) */
    bool has_bf16;   /* the CPU multiplies bf16 (AVX512_BF16) */
    bool bf16;       /* operands of products are rounded to bf16 (gemm/bf16_pairs.h) */
    int sparse_rows; /* rows of a block of sparse weights; 0: the fastest; -1: dense */
    bool compact;    /* no weights that are stored in several times their bytes */
    unsigned
        isa; /* bits of the instruction sets in use (oneDNN: dnnl_cpu_isa_t); part of tuning keys */
    struct pare_onednn *onednn; /* engine and stream; NULL without oneDNN */
    struct pare_dist *sync;     /* see struct pare_ctx; or NULL */
};

struct pare_kernel {
    const char *name, *doc;
    bool reads_int8;         /* reads the quantized constants, never their dequantized values */
    bool candidate;          /* tuned plans measure all candidates that match (plan/tune/tune.c) */
    bool blocked_filters;    /* training: accepts row-major and blocked filters */
    bool sparsity_dependent; /* a candidate whose time depends on the zeros among its constants */
    bool openmp;             /* all of its steps do (pare_step.openmp) */

    /* Take node n?  If so, fill in s (lists from backend->arena, see pare_step_lists()) and return
     * true. */
    bool (*match)(const struct pare_match *v, struct pare_node *n, struct pare_step *s);

    /* (optional) Called once, when all buffers have memory: create primitives, pack weights. */
    int (*init)(struct pare_step *s, struct pare_backend *b, struct pare_err *err);
    int (*run)(struct pare_step *s, struct pare_backend *b, struct pare_err *err);
    void (*destroy)(struct pare_step *s); /* (optional) release what is not arena memory */

    /* (optional) The backward pass: in_buf[k]->grad, where not NULL, is assigned
     * (s->grad_assign[k]) or added to.  Buffers still hold what run() left there, except those of
     * unsaved_in and unsaved_out. */
    int (*backward)(struct pare_step *s, struct pare_backend *b, struct pare_err *err);
};

extern const struct pare_kernel *const pare_kernels[]; /* ends with NULL */

/* Conversion between layouts; not in the list, the planner inserts it. */
extern const struct pare_kernel pare_kernel_reorder;

/* ---- for match() -------------------------------------------------------------- */

/* Allocate the lists of a step, row-major by default; false when out of memory. */
bool pare_step_lists(struct pare_step *s, const struct pare_match *v, int n_in, int n_out,
                     int n_fused);

/* The only consumer of this value; NULL if it has several or is a graph output. */
struct pare_node *pare_only_consumer(const struct pare_match *v, const struct pare_value *val);

/* Does it have the values and layouts of s->layout_from?  True if that is NULL. */
bool pare_step_layouts_match(const struct pare_step *s);

/* Is val a constant, an input, or the result of a step before the one that is matched now? */
bool pare_is_computed(const struct pare_match *v, const struct pare_value *val);

bool pare_is_const(const struct pare_value *v);
bool pare_is_fixed(const struct pare_value *v); /* a constant or a trained parameter */
bool pare_is_f32(const struct pare_value *v);   /* float32 of a known shape */

/* The block of the layout in which val was computed; 1 for constants, inputs and channels last. */
int pare_block_of(const struct pare_match *v, const struct pare_value *val);

/* The same, but PARE_CHANNELS_LAST if that is the layout. */
int pare_layout_of(const struct pare_match *v, const struct pare_value *val);

/* Elements of a value in a layout, padding lanes included. */
int64_t pare_block_numel(const struct pare_tensor *t, int block);

/* The bytes of a constant, perhaps unaligned: only to be copied, or passed to code that accepts
 * unaligned data. */
const void *pare_const_raw(const struct pare_value *v);

/* The contents of a constant for init(): aligned float32, loaded from the file if necessary; NULL:
 * see err. */
const float *pare_const_f32(struct pare_backend *b, struct pare_value *v, struct pare_err *err);

/* Y (M, N) = X (M, K) W' or, with add, += that; W is (N, K), `stride` is the row stride of Y.
 * Runs on one thread inside a parallel region.  0, or PARE_ENOMEM. */
struct pare_strip {
    const float *x, *w;
    float *y;
    int64_t M, N, K, stride;
    bool add;
};
int pare_product_strip(const struct pare_strip *s);

/* ---- oneDNN, or what replaces it ------------------------------------------------- */

/* backend/onednn/ defines the following, or backend/portable/ in a build without oneDNN. */

extern const bool pare_has_onednn;

/* Is it the name of a kernel that only builds with oneDNN have? */
bool pare_is_onednn_kernel(const char *name);

/* Set block, vnni, has_bf16, isa and onednn. */
int pare_backend_open(struct pare_backend *b, struct pare_err *err);
void pare_backend_close(struct pare_backend *b);

/* C (M, N) = op(A) op(B) or, with add, += that.  op(A) is A (M, K) or, with ta, the transpose of A
 * (K, M); op(B) is B (K, N) or, with tb, the transpose of B (N, K).  lda, ldb and ldc are row
 * strides.  Runs on all threads, inside a parallel region on one.  0, or PARE_ENOMEM. */
struct pare_sgemm {
    bool ta, tb, add;
    int64_t M, N, K;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc;
};
int pare_sgemm(const struct pare_sgemm *p);

/* acc (M, N) = (x - zero) w, x (M, K) uint8 or int8, w (K, N) or, with tb, (N, K).  Only with
 * oneDNN. */
struct pare_onednn_int8 {
    bool is_signed, tb;
    int64_t M, N, K;
    const void *x;
    int zero;
    const int8_t *w;
    int32_t *acc;
};
int pare_onednn_int8(const struct pare_onednn_int8 *p, struct pare_err *err);

#endif
