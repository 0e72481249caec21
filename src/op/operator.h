/* operator.h - the descriptor of an operator; nodes and values as operators see them.
 *
 * An operator is src/op/<section>/<name>.c and one line in src/op/ops.def; docs/adding-an-op.md
 * shows how to write one.  Code outside src/op reads the descriptor and keeps no lists of operator
 * types.
 */
#ifndef PARE_OP_OPERATOR_H
#define PARE_OP_OPERATOR_H

#include <pare/option.h>

#include "channels.h"

struct pare_dist;
struct pare_pick;
struct pare_taps;
struct pare_rng;

/* ---- values and nodes --------------------------------------------------------------------- */

enum pare_value_flag {
    PARE_V_CONST = 1,  /* an initializer or a folded value: the same in every run */
    PARE_V_INPUT = 2,  /* a graph input */
    PARE_V_OUTPUT = 4, /* a graph output */
    PARE_V_PARAM = 8,  /* a trained parameter: not constant, although no node produces it */
    PARE_V_OWNED = 16, /* an initializer in writable memory */
};

struct pare_value {
    const char *name;
    struct pare_tensor t;    /* t.data is NULL while the contents are unknown */
    struct pare_tensor grad; /* grad.data is NULL when no gradient is required */
    unsigned flags;          /* enum pare_value_flag */
    int id;                  /* index in its graph */
    const void *raw;         /* a large constant's bytes in the file, possibly unaligned; or NULL */
    struct pare_node *maker; /* the node that produces it; NULL for inputs and initializers */
};

struct pare_node {
    const struct pare_op *op; /* NULL: the node is kept and saved but cannot run */
    const char *name, *type, *domain;
    const char *why;  /* why the node cannot run, for messages; NULL when op is not NULL */
    int version;      /* imported opset version of its domain */
    const void *attr; /* op->attr_size bytes, filled from op->attrs */
    int n_in, n_out;
    struct pare_value **in, **out;  /* NULL for an absent optional input or output */
    int n_cap;                      /* number of values of the outer graph that subgraphs use */
    struct pare_value **cap;        /* those values */
    const void *proto;              /* the NodeProto it was built from; private to src/onnx/ */
    int id;                         /* index in its graph */
    void *save;                     /* op->save() bytes, from forward to backward; else NULL */
    struct pare_node *const *parts; /* nodes that this one replaces in a clone (graph/pattern/), the
                                     * one with its output first; NULL: none */
    int n_parts;
    bool replaced; /* another node of the clone replaces it */
};

/* The environment of a running operator. */
struct pare_ctx {
    struct pare_arena *scratch; /* emptied when the callback returns */
    struct pare_arena *results; /* for operators that allocate their own outputs */
    int threads;

    /* Run a body, a graph attribute of the running node: in[] are its inputs, out[] become its
     * first n_out outputs.  Results are in c->results, or are in[] unchanged. */
    int (*call)(struct pare_ctx *c, const struct pare_graph *body, const struct pare_tensor *in,
                int n_in, struct pare_tensor *out, int n_out, struct pare_err *err);
    int64_t calls_left; /* number of times that bodies may still run */
    void *owner;        /* of call(): the plan; NULL: none */

    /* The declared type of input or output i of a body; rank -1: not declared, dim -1: free. */
    void (*declared)(const struct pare_graph *body, bool input, int i, struct pare_tensor *t);

    /* Training: BatchNormalization normalizes with batch statistics and updates the running
     * statistics (inputs 3 and 4) in place; Dropout drops. */
    bool train;
    struct pare_rng *rng; /* for operators that draw at random; NULL outside training */

    /* Synchronize batch statistics between these processes; NULL: each process has its own. */
    struct pare_dist *sync;
};

/* ---- descriptors -------------------------------------------------------------------------- */

#define PARE_T(dtype) (1u << (dtype))
#define PARE_T_FLOAT PARE_T(PARE_F32)
#define PARE_T_FLOATS (PARE_T(PARE_F32) | PARE_T(PARE_F64))
#define PARE_T_INTS                                                                               \
    (PARE_T(PARE_U8) | PARE_T(PARE_I8) | PARE_T(PARE_U16) | PARE_T(PARE_I16) | PARE_T(PARE_I32) | \
     PARE_T(PARE_I64) | PARE_T(PARE_U32) | PARE_T(PARE_U64))
#define PARE_T_NUMERIC (PARE_T_FLOATS | PARE_T_INTS)
#define PARE_T_ALL 0u

#define PARE_IN(i) (1u << (i)) /* input i, in masks of inputs */

enum pare_op_flag {
    PARE_OP_VIEW = 1 << 0,    /* output 0 has the bytes of input 0 under another shape */
    PARE_OP_RANDOM = 1 << 1,  /* results differ between runs: never folded */
    PARE_OP_ALLOCS = 1 << 2,  /* forward() allocates its outputs, at run time; infer is NULL */
    PARE_OP_SHAPES = 1 << 3,  /* reads only shapes and types of its inputs, never the contents */
    PARE_OP_BY_Y = 1 << 4,    /* dmap() and backward() read y and gradients; x may be overwritten */
    PARE_OP_LINEAR = 1 << 5,  /* dmap(), dmap2() and backward() read gradients only */
    PARE_OP_LAZY = 1 << 6,    /* dequantizes: runs only if a consumer cannot read the integers */
    PARE_OP_LEARNS = 1 << 7,  /* backward() is called in training even if no input is trained */
    PARE_OP_JOINS = 1 << 8,   /* concatenates its inputs: an empty input may be left out */
    PARE_OP_PRODUCT = 1 << 9, /* sums of products of elements of its two inputs */
    PARE_OP_ANY_LAYOUT = 1 << 10,  /* has map_tensor(), and dmap_tensor() or PARE_OP_OBSERVES */
    PARE_OP_OBSERVES = 1 << 11,    /* output 0 is input 0: map_tensor() with y == x only reads */
    PARE_OP_HOMOGENEOUS = 1 << 12, /* f(a x) = a f(x) for a > 0, channel by channel */
    PARE_OP_POOL = 1 << 13,        /* combines spatial positions; channels are axis 1 */
    PARE_OP_FUSED_ACT = 1 << 14,   /* activation that int8 runtimes fuse into the layer before it */
    PARE_OP_INT8_JOIN = 1 << 15,   /* int8 runtimes run it in int8 if its output is quantized */
    PARE_OP_MOVES = 1 << 16,       /* outputs hold elements of input 0, moved, or some of them */
    PARE_OP_STORAGE = 1 << 17,     /* output 0 is input 0 in another order or element type */
    PARE_OP_SOFTMAX = 1 << 18,     /* probabilities of classes, or their logarithms, from logits */
    PARE_OP_SIGMOID = 1 << 19,     /* probability of each element, from its logit */
    PARE_OP_PASSES = 1 << 20,      /* output 0 is input 0, also if that is not a tensor */
    PARE_OP_CHOOSES = 1 << 21,    /* runs one of its bodies, whose outputs are the node's outputs */
    PARE_OP_COPIES = 1 << 22,     /* every result is one element of input 0 (PARE_OP_JOINS: of any
                                    * input), copied or converted; other inputs select it */
    PARE_OP_STEPS = 1 << 23,      /* discontinuous: an input that changes by a rounding error may
                                    * change the result by a whole step (Cast: if to integers) */
    PARE_OP_FLOAT_ONLY = 1 << 24, /* half-precision models run it in float32: runtimes or ONNX
                                    * have no half-precision form, or it needs the precision */
    PARE_OP_WIDE = 1 << 25,       /* half-precision models run it in float32: results overflow */
    PARE_OP_MEAN = 1 << 26,       /* means of elements of input 0 */
    PARE_OP_GLOBAL = 1 << 27,     /* with PARE_OP_POOL: combines all spatial positions */
    PARE_OP_ELEMENTWISE = 1 << 28, /* element i of output 0 depends on element i of input 0 and on
                                    * other inputs, if those are scalars; implied by map() */
    PARE_OP_KEEPS_AXES = 1 << 29,  /* axis i of output 0 is axis i of input 0, maybe of another
                                    * size; implied by map() and map2() */
};

/* What a layer computes. */
enum pare_layer_kind {
    PARE_LAYER_OTHER,
    PARE_LAYER_CONV,   /* a convolution: channels of input and output are axis 1 */
    PARE_LAYER_LINEAR, /* a product: channels are the last axis */
    PARE_LAYER_RECURRENT,
    PARE_LAYER_EMBEDDING, /* rows of the weight, selected by index */
};

/* The weights of an operator.  A node whose weight is constant is a layer, which can be pruned and
 * quantized (graph/layer.h). */
struct pare_op_weights {
    enum pare_layer_kind kind;
    unsigned params; /* PARE_IN() of trained inputs; 0: the operator has no weights */
    int weight;      /* index of the input with the weight */
    int bias;        /* index of the input with the bias; 0: none */
    int second;      /* index of a second weight, as an LSTM's R, which is pruned and quantized
                      * like the first; 0: none */
    int gates;       /* number of parts of the weights' output axis, each of which has all output
                      * channels: the gates of an LSTM; 0: 1 */
    int scale_axis;  /* axis of the weights' per-channel scales if axes() names none; 0: none */
    bool bias_add;   /* a following Add with a constant is the bias (MatMul) */
    bool by_default; /* "default" in a config_list's op_types selects it */
    bool follows;    /* dependency-aware pruning masks its channels with those of coupled layers */
    bool norm;       /* input 0 is normalized, multiplied by the weight and added to the bias: where
                      * both are 0, so is the result */

    /* Whether the node's constant weight makes it a layer; NULL: always. */
    bool (*is_layer)(const struct pare_node *n);

    /* Why an output channel without weights and bias is not 0 everywhere: a few words.  Returns
     * NULL if it is; the callback is NULL if it always is. */
    const char *(*not_zero)(const struct pare_node *n);
};

/* Output k of an operator that selects or permutes elements of input 0: index i along axis a of the
 * output is index first[a] + i step[a] along axis axis[a] of the input; `offset`, in elements, is
 * added. */
struct pare_index_map {
    int axis[PARE_MAX_RANK];
    int64_t first[PARE_MAX_RANK], step[PARE_MAX_RANK], offset;
};

/* The scales of an operator on quantized tensors: indices of inputs, each followed by the zero
 * point.  The pairs of further operands follow x's. */
struct pare_op_scales {
    int x; /* 0: x and y have no scales */
    int w; /* 0: none */
    int y;
    int w_zero;      /* zero point of the weight, if it does not follow the scale; with w 0 the
                      * results are sums of products of integers.  0: it follows */
    int r, r_weight; /* scale and index of a second weight; 0: none */
    bool dynamic;    /* the operator quantizes x by its range */
    bool packed;     /* weights are packed as nbits.h describes */
};

/* A body that runs a known number of times.  From `first_in` on, the inputs of the node and of its
 * body are n_state states and the n_scan scanned inputs (the body gets a slice of each); from
 * first_out on, the outputs of the body are the next states and results that are stacked, and from
 * 0 on those of the node. */
struct pare_body_runs {
    const struct pare_graph *body;
    int64_t runs;
    int first_in, first_out, n_state, n_scan, n_stack;
    bool condition; /* the body's input 0 is the number of the run; its input 1, and output 0 for
                     * the next run, are conditions: the body runs less often if one is false */
    struct pare_ints scan_axis, scan_from_end, stack_axis, stack_reversed; /* 0 where too short */
};

struct pare_op {
    const char *type, *doc; /* ONNX op_type; one sentence */
    const char *domain;     /* NULL: the standard domain */
    int since;              /* first supported opset */

    /* The inputs, one letter each, checked before any callback runs:
     *   T  the main type: all T's agree, and it is one of `types`
     *   U  a second type: all U's agree       A  any type
     *   I  int32 or int64   L  int64   B  bool   F  float32
     *   S  a sequence       V  any value: a tensor, a sequence or an optional
     * followed by ? if optional, or (last) by * for any number, + for one or more.
     * Callbacks can rely on it: an input without ? is never NULL. */
    const char *in;

    /* PARE_T() of the types that forward() handles; 0: all.  float16 and bfloat16 (and float64,
     * if only float32 is handled) are converted around the call. */
    uint32_t types;
    int min_out, max_out; /* number of outputs; max_out -1: any number */
    const struct pare_opt *attrs;
    size_t attr_size;
    unsigned flags; /* enum pare_op_flag */

    /* PyTorch's name of the module, for example "Linear"; '#' stands for the number of spatial
     * axes: "Conv#d".  NULL: the ONNX type. */
    const char *torch;
    struct pare_op_weights layer;

    /* Operator that computes the same sums of products from 8-bit integers, in int32, with the
     * inputs (x, w, x_zero_point, w_zero_point).  NULL: none. */
    const char *integer_type;

    /* Operator of com.microsoft that quantizes inputs and states at run time: with 8-bit weights
     * (directions, inputs, gates), turned compared to this operator's, and further inputs from
     * number 8 on: scale and zero point of the first weight and of the second.  NULL: none. */
    const char *dynamic_type;

    /* Operator of 8-bit integers with scales for all operands and the result (`scales`), in ONNX or
     * com.microsoft.  NULL: none. */
    const char *qlinear_type;
    struct pare_op_scales scales; /* of such an operator */

    /* First opset in which an operator that only moves data accepts 8-bit integers; 0: none. */
    int int8_since;

    /* Set dtype, rank and dim of every out[] that is not NULL.  If the shape depends on the
     * contents of an input, call pare_need(); PARE_EDYNAMIC means: infer again at run time. */
    int (*infer)(struct pare_node *n, struct pare_err *err);

    /* The plain C kernel: correct before fast.  Inputs are const. */
    int (*forward)(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

    /* For every in[i] whose grad.data is not NULL: in[i]->grad += d loss / d in[i], given
     * out[k]->grad (data NULL: the loss does not depend on that output).  float32.  Gradients
     * accumulate, so a value used twice needs no special case, and in[i] may be in[k].  Inputs and
     * outputs have the contents of forward().  NULL: the operator has no gradient. */
    int (*backward)(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

    /* Axis relations, see channels.h.  NULL: all axes are frozen. */
    void (*ties)(const struct pare_node *n, struct pare_ties *t);

    /* Multiply-accumulates of one run; NULL: 0.
     * nni_ops: operations that NNI's counter counts in addition; -1: unknown.  NULL: none. */
    double (*macs)(const struct pare_node *n);
    double (*nni_ops)(const struct pare_node *n);

    /* The float32 function of an elementwise operator, so that plans can apply it to any layout, in
     * threads, or as a post-op.
     * map:  y[i] = f(x[i]) for i < count; x may be y.
     * map2: y[i] = f(a[i * sa], b[i * sb]) with strides 0 or 1; y may be a or b. */
    void (*map)(const struct pare_node *n, const float *x, float *y, int64_t count);
    void (*map2)(const struct pare_node *n, const float *a, int sa, const float *b, int sb,
                 float *y, int64_t count);

    /* y = min(max(x, lo), hi): sets the bounds; false: they are unknown.  NULL: it is something
     * else. */
    bool (*clamp)(const struct pare_node *n, double *lo, double *hi);

    /* Describe output k as a selection or permutation of input 0; the map is the identity at first
     * (pare_index_map).  False: it is not linear along each axis.  NULL: it is something else. */
    bool (*index_map)(const struct pare_node *n, int k, struct pare_index_map *m);

    /* Describe output 0 as elements of input 0 that are chosen along each axis, with lists and fill
     * from the arena (movement.h); inputs after the first are constants.  False: it is something
     * else, or there is no memory.  NULL: it is something else. */
    bool (*pick)(const struct pare_node *n, struct pare_arena *a, struct pare_pick *p);

    /* The same for weighted sums of elements along each axis: one pare_taps per axis
     * (resize_family.h). */
    bool (*taps)(const struct pare_node *n, struct pare_arena *a, struct pare_taps *axis);

    /* The first axis of the rows that it computes independently of each other: slices of input 0
     * along all axes before it; -1: unknown.  NULL: unknown. */
    int (*row_axis)(const struct pare_node *n);

    /* Its derivatives.
     * dmap:  gx[i] += f'(x[i]) gy[i]; y[i] = f(x[i]).
     * dmap2: ga[i] = df/da gy[i], gb[i] = df/db gy[i]; ga or gb may be NULL.  The caller sums over
     *        broadcast axes. */
    void (*dmap)(const struct pare_node *n, const float *x, const float *y, const float *gy,
                 float *gx, int64_t count);
    void (*dmap2)(const struct pare_node *n, const float *a, int sa, const float *b, int sb,
                  const float *gy, float *ga, float *gb, int64_t count);

    /* Size in bytes of node->save, which passes data from forward() to backward() in training;
     * NULL: none. */
    size_t (*save)(const struct pare_node *n);

    /* PARE_IN() of inputs that are settings or statistics (Clip's bounds, BatchNormalization's mean
     * and variance), never trained parameters. */
    unsigned settings;
    unsigned statistics; /* those of `settings` that training updates: running statistics */

    /* The weight's axes of output channels and of input channels (per group); -1: none.  NULL:
     * neither exists. */
    void (*axes)(const struct pare_node *n, int *out, int *in);

    /* PARE_IN() of inputs that only specify the shape of the output or a range of input 0, so they
     * change with the sizes of axes. */
    unsigned sizes;

    /* PARE_IN() of optional inputs of which an absent one is the same as zeros. */
    unsigned zero_if_absent;

    /* Whether all elements of output 0 are 0, whatever the inputs are.  NULL: unknown. */
    bool (*zeros)(const struct pare_node *n);

    /* Upper bound (exclusive) of the indices in an input; 0: the input has no indices.  NULL: no
     * input has. */
    int64_t (*index_limit)(const struct pare_node *n, int input);

    /* Removal of channels, see channels.h.
     * linear:           describe a sum over channels; false: it has no such form.
     * constant_channel: a tie connects an axis of input 0 (of any input for
     *                   pare_constant_channel_same) with `axis` of an output, and index `channel`
     *                   is constant x.  Returns its value in the output, NAN if it is not constant.
     *                   NULL: unknown, except with map and map2.
     * shrink:           new attributes and constant inputs when channels are removed.  NULL: none
     *                   depend on the number of channels.
     * constant_output:  the value of index i of an axis of output k if it is constant because of
     *                   the node's weights or of several input channels; NAN if it is not
     *                   constant.  NULL: unknown.
     * needed_channels:  input channels that the needed output channels require, in addition to
     *                   axis relations.  NULL: linear and ties describe all. */
    bool (*linear)(const struct pare_node *n, struct pare_linear *l);
    float (*constant_channel)(const struct pare_node *n, int axis, int64_t channel, float x);
    void (*shrink)(const struct pare_node *n, struct pare_shrunk *s);
    float (*constant_output)(const struct pare_node *n, const struct pare_needed *s, int k,
                             int axis, int64_t i);
    void (*needed_channels)(const struct pare_node *n, struct pare_needed *s);

    /* With PARE_OP_ANY_LAYOUT: the float32 function of an operator that reads all elements of a
     * tensor, in any order, before it changes each (a range, then rounding), so that plans can pass
     * tensors in any layout.  The shape is that of in[0].
     * map_tensor:  y = f(x), in training or not.
     * dmap_tensor: gx = d loss / d x, assigned; gx may be gy. */
    int (*map_tensor)(const struct pare_node *n, const float *x, float *y, bool train,
                      struct pare_err *err);
    int (*dmap_tensor)(const struct pare_node *n, const float *x, const float *gy, float *gx,
                       struct pare_err *err);

    /* Operators with bodies.
     * chosen:     with PARE_OP_CHOOSES: the body that runs in every run; NULL: unknown.
     * body_input: set type and shape of the body's input i in the first iteration, dtype PARE_NONE
     *             and rank -1 if unknown; t has the declared ones.  Returns the body output that is
     *             this input in the next iteration; -1: it has the same shape in all iterations.
     *             NULL: bodies have no inputs.
     * body_runs:  how often the body runs, unless its conditions end it; false: it depends on data.
     *             NULL: unknown. */
    const struct pare_graph *(*chosen)(const struct pare_node *n);
    int (*body_input)(const struct pare_node *n, int i, struct pare_tensor *t);
    bool (*body_runs)(const struct pare_node *n, struct pare_body_runs *r);
};

/* Whether it is a constant, one bool, that is true. */
bool pare_is_true(const struct pare_value *v);

/* 0 if the contents of in[i] are known; else PARE_EDYNAMIC. */
int pare_need(const struct pare_node *n, int i, struct pare_err *err);

#endif
