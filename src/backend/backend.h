/* backend.h - the fast ways to run operators.
 *
 * A plan is a list of steps.  Each step runs one kernel: a way to compute one operator, or several
 * fused ones, faster than their plain forward().  While the plan is made, the kernels of
 * kernels.def are asked in order, node by node; the first whose match() says yes gets the node and
 * whatever it fused behind it.  A node that nobody wants runs its plain kernel.
 *
 * Layouts.  A value lives in one or more buffers.  block 1 is the ordinary row-major tensor; block
 * b (8 or 16, what the machine's convolutions want) is (N, ceil(C / b), spatial..., b), where the
 * lanes beyond C are zero, always.  PARE_CHANNELS_LAST is (N, spatial..., C), what 8-bit convolutions want.
 * match() states the layout it wants of each input and the one it makes; the plan puts conversions
 * where they differ.
 *
 * Late nodes.  Real numbers that are only another face of 8-bit integers (DequantizeLinear, and a
 * Reshape behind it) are made when the first step asks for them.  Kernels that compute with the
 * integers ask for those instead (int8_operands.h), and then nobody makes the real ones.
 *
 * Ways.  A training step has three: forward, and back to the gradients of the data and of the
 * weights.  A kernel that keeps nothing from run() to back() but what the step's buffers hold says
 * so (apart), and then each way may be another kernel's, in the same layouts (plan/tune/passes.h).
 *
 * To add a kernel: one file in backend/cpu/ or backend/onednn/, one line in kernels.def.
 */
#ifndef PARE_BACKEND_BACKEND_H
#define PARE_BACKEND_BACKEND_H

#include "../base/arena.h"
#include "../op/operator.h"
#include "../tensor/tensor.h"

#define PARE_CHANNELS_LAST (-1) /* the layout with channels last */

struct pare_buf {
    struct pare_value *value;
    struct pare_tensor t; /* logical shape; t.data is set once memory is placed */
    int block;            /* layout; 0: a step's working memory */
    int last; /* of a root: when anybody needs what is in this memory; see plan/memory.c */
    struct pare_buf *root; /* whose memory it uses: its own, or a view's or in-place source */
    struct pare_buf *next; /* another buffer of the same value, in another layout */
    int born, dies;        /* first and last step that needs its memory */
    size_t bytes, offset;
    bool fixed;            /* a constant or parameter: not in the plan's memory */
    struct pare_buf *grad; /* training: d loss / d this, in the same layout; or NULL */
    bool is_grad, written; /* it is such a gradient; while planning: somebody writes it */
};

#define PARE_STEP_IN 8

/* The ways of a step, as bits. */
#define PARE_PASS_FORWARD 1u
#define PARE_PASS_BACKWARD_DATA 2u    /* from the gradients of the results to that of in[0], ... */
#define PARE_PASS_BACKWARD_WEIGHTS 4u /* ... and to those of its other inputs */
#define PARE_ALL_PASSES 7u
#define PARE_PASSES 3

struct pare_step {
    const struct pare_kernel *kernel;
    struct pare_node *node;   /* the operator, or the first of those fused */
    struct pare_node **fused; /* those behind it, in order */
    int n_fused;
    unsigned
        ways; /* by the plan, before match(): what it is to do.  Without PARE_PASS_FORWARD run()
                        is not called, and back() makes only these gradients */
    const struct pare_step *beside; /* by the plan, before match(), with some of the ways: the step
                                       whose inputs, results and layouts it must have; or NULL */
    bool apart;                     /* training, by match(): other kernels may have some of the
                                       ways, since they share nothing but buffers; ... */
    unsigned pays;                  /* ... and those that it expects to do fast */
    int n_in, n_out;
    struct pare_value **in, **out; /* what it reads and makes, by match(); no weights needed */
    int *in_block, *out_block;     /* in which layouts */
    struct pare_buf **in_buf, **out_buf; /* by the plan, before init() */
    int inplace;                  /* k + 1: out[0] may take in[k]'s memory if nobody else needs
                                       it; 0: no.  run() must still work when it did not. */
    unsigned drop_in, drop_out;   /* training, bit k: back() does not read what in[k] and
                                       out[k] held, only their gradients; beyond bit 31 all is
                                       kept */
    int grad_inplace;             /* training, k + 1: back() may assign in[k]'s gradient over
                                       out[0]'s, element by element; 0: no.  It must still work
                                       when they are apart. */
    size_t work_bytes[2];         /* memory that only run(), only back() needs, by match() ... */
    size_t add_bytes;             /* ... and back() besides, when it is not the first to write
                                       in[0]'s gradient ... */
    struct pare_buf *work[2];     /* ... by the plan, before init(); NULL where 0 bytes */
    bool *first;                  /* training, by input: back() is the first to write its
                                       gradient, so that it assigns instead of adding */
    bool laid;                    /* training, by the plan, before init(): in[1] and its gradient
                                       are filters in blocks (blocked_filters.h) */
    void *state;                  /* the kernel's own, from backend->arena */
    double seconds, back_seconds; /* spent so far, when the plan is profiled */
    bool tuned;                   /* there were rivals, and the plan was tuned */
    bool any;                     /* it was matched with view.any */
    bool goes_back;               /* training, by the plan: back() is called */
    const struct pare_step *like; /* by the plan, before init(): the same step of a plan for the
                                       same shapes that lives longer, so that init() can share
                                       what it packed and nobody writes; or NULL */
};

/* The graph while a plan is made. */
struct pare_match {
    struct pare_graph *graph;
    struct pare_backend *backend;
    struct pare_uses {
        struct pare_node **node;
        int n;    /* that the graph itself gives a value out is a flag of the value */
    } * use;      /* by value id */
    bool *taken;  /* by node id: in a step already, or not needed */
    int *block;   /* by value id: layout it was first made in; 0: not made yet */
    bool *late;   /* by node id: runs when somebody reads its result */
    int wanted;   /* while a late node is matched: the layout that is asked for; else 0 */
    bool train;   /* only kernels with back() are asked */
    bool any;     /* match() says what a kernel can do, not only what it expects to do fast */
    bool *learns; /* training, by value id: its gradient is wanted */
};

/* What the kernels of one plan share. */
struct pare_backend {
    struct pare_arena *arena;
    struct pare_arena *scratch; /* emptied after each init() */
    int threads;
    int block;                  /* the machine's channel block */
    bool vnni;                  /* it sums products of 8-bit integers without saturating */
    int sparse;                 /* weights by blocks of so many rows; 0: where it pays; -1: never */
    unsigned isa;               /* the instructions that it may use, as a number */
    struct pare_onednn *onednn; /* engine and stream */
    struct pare_dist *sync;     /* see struct pare_ctx; or NULL */
};

struct pare_kernel {
    const char *name, *doc;
    bool integers; /* reads the integers behind real constants, never those */
    bool rival;    /* where several such kernels match, those that plans tune are timed (tune.c) */
    bool lays;     /* training: takes row-major filters and those in blocks (step.laid) */
    bool by_zeros; /* a rival whose time depends on the zeros among the constants */

    /* Take node n?  Fill in s (lists from backend->arena, see pare_step_lists) and say true.  It
     * may look at the view, not change it. */
    bool (*match)(const struct pare_match *v, struct pare_node *n, struct pare_step *s);

    /* Once, when all buffers have memory: primitives, packed weights. */
    int (*init)(struct pare_step *s, struct pare_backend *b, struct pare_err *err);
    int (*run)(struct pare_step *s, struct pare_backend *b, struct pare_err *err);
    void (*quit)(struct pare_step *s); /* (optional) give back what is not arena memory */

    /* (optional) From the gradients of the results to those of the inputs: in_buf[k]->grad, where
     * it is not NULL, is assigned (s->first[k]) or added to.  Without it the kernel is not used
     * in training.  Buffers still hold what run() left, but for those that drop_in and drop_out
     * gave up. */
    int (*back)(struct pare_step *s, struct pare_backend *b, struct pare_err *err);
};

extern const struct pare_kernel *const pare_kernels[]; /* ends with NULL */

/* From one layout to another; not in the list, the plan itself asks for it. */
extern const struct pare_kernel pare_kernel_reorder;

/* ---- for match() -------------------------------------------------------------- */

/* Room for the lists of a step; false when out of memory. */
bool pare_step_lists(struct pare_step *s, const struct pare_match *v, int n_in, int n_out,
                     int n_fused);

/* The only node that uses this value, or NULL; graph outputs have another user. */
struct pare_node *pare_only_use(const struct pare_match *v, const struct pare_value *val);

/* Has it the layouts of the step beside it, if there is one? */
bool pare_step_fits(const struct pare_step *s);

/* Already made (or constant, or an input) when a step at this point of the list runs? */
bool pare_is_made(const struct pare_match *v, const struct pare_value *val);

bool pare_is_const(const struct pare_value *v);
bool pare_is_fixed(const struct pare_value *v); /* a constant or a trained parameter */
bool pare_is_f32(const struct pare_value *v);   /* float32 of a known shape */

/* The block of the layout val exists in; 1 for constants, inputs and channels last. */
int pare_block_of(const struct pare_match *v, const struct pare_value *val);

/* The same, but PARE_CHANNELS_LAST where that is the layout. */
int pare_layout_of(const struct pare_match *v, const struct pare_value *val);

/* Elements of a value in a layout, padding lanes included. */
int64_t pare_block_numel(const struct pare_tensor *t, int block);

/* Where a constant's bytes are, perhaps not aligned: only to be copied or handed to a library that
 * does not mind. */
const void *pare_const_raw(const struct pare_value *v);

/* A constant's contents for init(): aligned float32, loaded from the file when need be. */
const float *pare_const_f32(struct pare_backend *b, struct pare_value *v, struct pare_err *err);

/* Columns of a product: y (M, N), rows `stride` apart, = x (M, K) w (N, K) transposed, or that
 * added to y.  On one thread inside of a parallel region.  0, or PARE_ENOMEM. */
struct pare_strip {
    const float *x, *w;
    float *y;
    int64_t M, N, K, stride;
    bool add;
};
int pare_product_strip(const struct pare_strip *s);

/* ---- oneDNN's side -------------------------------------------------------------- */

int pare_onednn_open(struct pare_backend *b, struct pare_err *err); /* sets onednn, block */
void pare_onednn_close(struct pare_backend *b);

#endif
