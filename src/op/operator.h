/* operator.h - the descriptor of an operator; nodes and values as operators see them.
 *
 * An operator is src/op/<section>/<name>.c and one line in src/op/ops.def; docs/adding-an-op.md
 * shows how to write one.
 */
#ifndef PARE_OP_OPERATOR_H
#define PARE_OP_OPERATOR_H

#include <pare/option.h>

#include "channels.h"

struct pare_rng;

/* ---- the graph as an operator sees it --------------------------------------- */

enum pare_value_flag {
    PARE_V_CONST = 1,  /* an initializer, or folded: the same in every run */
    PARE_V_INPUT = 2,  /* a graph input */
    PARE_V_OUTPUT = 4, /* a graph output */
    PARE_V_PARAM = 8,  /* trained: not a constant, though no node makes it */
    PARE_V_OWNED = 16, /* an initializer whose memory may be written */
};

struct pare_value {
    const char *name;
    struct pare_tensor t;    /* t.data is NULL while the contents are not known */
    struct pare_tensor grad; /* grad.data is NULL when no gradient is wanted */
    unsigned flags;
    int id;                  /* index in its graph */
    const void *raw;         /* a large constant's bytes in the file, perhaps not aligned */
    struct pare_node *maker; /* NULL for inputs and initializers */
};

struct pare_node {
    const struct pare_op *op; /* NULL: kept and saved, cannot run; `why` says why */
    const char *name, *type, *domain, *why;
    int version;      /* of the operator set its domain is imported with */
    const void *attr; /* op->attr_size bytes, filled from op->attrs */
    int n_in, n_out;
    struct pare_value **in, **out; /* NULL for an absent optional one */
    int n_cap;                     /* values of the outer graph that attribute graphs use */
    struct pare_value **cap;
    const void *proto; /* where it came from; only src/onnx/ looks inside */
    int id;            /* index in its graph */
    void *save;        /* op->save() bytes from forward to backward; else NULL */
};

struct pare_dist; /* several processes that work as one */

/* What a running operator may use. */
struct pare_ctx {
    struct pare_arena *scratch; /* emptied when the callback returns */
    struct pare_arena *results; /* for operators that allocate their own outputs */
    int threads;

    /* Run an attribute's graph with the values around `site`; its outputs become site's. */
    int (*call)(struct pare_ctx *c, const struct pare_graph *g, struct pare_node *site,
                struct pare_err *err);

    /* Training: BatchNormalization normalises with its batch and updates the running statistics
     * (inputs 3 and 4) in place, Dropout drops. */
    bool train;
    struct pare_rng *rng; /* for operators that draw; NULL outside training */

    /* Training with several processes: statistics of a batch are of all its parts; NULL: each part
     * has its own. */
    struct pare_dist *sync;
};

/* What an operator says about its axes, for whoever wants to remove channels.  An axis of an input
 * or output that none of these mentions is frozen: nothing of it may go.  ties() is called with
 * shapes and constants known; values may be NULL, which says nothing.
 *
 * Axis ax of a and axis bx of b are the same channels: what goes from one goes from the other. */
struct pare_ties;
void pare_tie(struct pare_ties *t, const struct pare_value *a, int ax, const struct pare_value *b,
              int bx);

/* Index i of axis px of `part` is index from + i of axis wx of `whole` (Concat, Split, Slice). */
void pare_tie_part(struct pare_ties *t, const struct pare_value *whole, int wx, int64_t from,
                   const struct pare_value *part, int px);

/* Index i of axis bx of b is index index[i] of axis ax of a (Gather, Slice with steps); the list is
 * copied. */
void pare_tie_pick(struct pare_ties *t, const struct pare_value *a, int ax, const int64_t *index,
                   const struct pare_value *b, int bx);

/* An index of axis wx of `whole` is a number whose digits, the first counting most, are indices
 * of other axes: Flatten makes (C, H, W) one, Reshape takes one apart, a grouped convolution's
 * channels are (group, channel in it).  It stays exactly when all its digits stay. */
struct pare_digit {
    const struct pare_value *v; /* NULL: no axis of a value, but ... */
    int axis;                   /* ... number `axis` of the node's own; -1: a frozen one */
    int64_t size;
};
void pare_tie_digits(struct pare_ties *t, const struct pare_value *whole, int wx,
                     const struct pare_digit *digit, int n);

/* Channels in groups: an index of axis wx of `whole` is (group, channel in it), as in
 * pare_tie_digits.  Every group that stays keeps as many channels as digit[1] has, but not the same
 * ones, so of digit[1] only the number counts.  Where it is an axis of a value, that value's axis
 * 0 has the groups one after the other, and its elements are those of the channels that stay. */
void pare_tie_groups(struct pare_ties *t, const struct pare_value *whole, int wx,
                     const struct pare_digit digit[2]);

/* The node adds up along this axis, and no other axis of it has the same indices: an index may go
 * when the elements there are exactly 0. */
void pare_tie_sum(struct pare_ties *t, const struct pare_value *v, int axis);

/* Nothing of this axis may go; `why` is a few words for a report, and stays where it is. */
void pare_tie_freeze(struct pare_ties *t, const struct pare_value *v, int axis, const char *why);

/* ---- operators -------------------------------------------------------------- */

#define PARE_T(dtype) (1u << (dtype))
#define PARE_T_FLOAT PARE_T(PARE_F32)
#define PARE_T_FLOATS (PARE_T(PARE_F32) | PARE_T(PARE_F64))
#define PARE_T_INTS                                                                               \
    (PARE_T(PARE_U8) | PARE_T(PARE_I8) | PARE_T(PARE_U16) | PARE_T(PARE_I16) | PARE_T(PARE_I32) | \
     PARE_T(PARE_I64) | PARE_T(PARE_U32) | PARE_T(PARE_U64))
#define PARE_T_NUMERIC (PARE_T_FLOATS | PARE_T_INTS)
#define PARE_T_ALL 0u

enum pare_op_flag {
    PARE_OP_VIEW = 1,   /* output 0 has the bytes of input 0 under another shape */
    PARE_OP_RANDOM = 2, /* not to be folded */
    PARE_OP_ALLOCS = 4, /* forward() makes its outputs itself; infer may be NULL */
    PARE_OP_SHAPES = 8, /* reads only the shapes and types of its inputs, never the contents */
    PARE_OP_BY_Y = 16,  /* dmap() and backward() read y and gradients, never x, which may be gone */
    PARE_OP_LINEAR = 32,  /* dmap(), dmap2() and backward() read gradients only, no contents */
    PARE_OP_LAZY = 64,    /* of 8-bit integers: runs when its result is read, since kernels may read
                            the integers instead */
    PARE_OP_LEARNS = 128, /* backward() is called in training even where no input learns */
    PARE_OP_JOINS = 256,  /* puts its inputs side by side: an empty one may be left out */
    PARE_OP_PRODUCT = 512,     /* with two inputs: products of their elements, and sums of those */
    PARE_OP_ANY_LAYOUT = 1024, /* whole() and dwhole() are there */
    PARE_OP_LOOKS = 2048,      /* output 0 is input 0: whole() changes nothing where y is x */
};

struct pare_op {
    const char *type, *doc; /* ONNX op_type; one sentence */
    const char *domain;     /* NULL is the standard one */
    int since;              /* the first opset that is handled */

    /* The inputs, one letter each, checked before any callback runs:
     *   T  the main type: all T's agree, and it is one of `types`
     *   U  a second type: all U's agree       A  anything
     *   I  int32 or int64   L  int64   B  bool   F  float32
     * followed by ? when it may be absent, or (last) by * for any number, + for one or more.
     * Callbacks can rely on it: a letter without ? is never NULL. */
    const char *in;
    uint32_t types;       /* PARE_T(...) that forward() handles; 0 means all.  float16
                                       and bfloat16 (and float64, where float32 is handled but
                                       float64 is not) are converted around the call. */
    int min_out, max_out; /* max_out -1: any number */
    const struct pare_opt *attrs;
    size_t attr_size;
    unsigned flags;

    /* Set dtype, rank and dim of every out[] that is not NULL.  Needs the contents of an input?
     * Call pare_need(); its PARE_EDYNAMIC means "ask again when the data is there". */
    int (*infer)(struct pare_node *n, struct pare_err *err);

    /* The plain-C kernel: correct before fast.  Inputs are const. */
    int (*forward)(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

    /* For every in[i] whose grad.data is not NULL: in[i]->grad += d loss / d in[i], given
     * out[k]->grad (data NULL: nothing depends on that output).  float32; gradients accumulate, so
     * a value used twice needs no special case, and in[i] may be in[k].  The contents of all inputs
     * and outputs are those of forward().  NULL: the operator has no gradient. */
    int (*backward)(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
    void (*ties)(const struct pare_node *n, struct pare_ties *t);

    /* Multiply-accumulates of one run; NULL: none worth counting. */
    double (*macs)(const struct pare_node *n);

    /* Elementwise operators give their float32 function here, so that plans can apply it to any
     * layout, in threads, or fused behind another operator.
     * map:  y[i] = f(x[i]) for i < count; x may be y.
     * map2: y[i] = f(a[i * sa], b[i * sb]) with strides 0 or 1; y may be a or b. */
    void (*map)(const struct pare_node *n, const float *x, float *y, int64_t count);
    void (*map2)(const struct pare_node *n, const float *a, int sa, const float *b, int sb,
                 float *y, int64_t count);

    /* Their derivatives, for the same reason.
     * dmap:  gx[i] += f'(x[i]) gy[i], where y[i] = f(x[i]) is given too.
     * dmap2: ga[i] = df/da gy[i], gb[i] = df/db gy[i]; ga or gb may be NULL.  Broadcasting is the
     *        caller's. */
    void (*dmap)(const struct pare_node *n, const float *x, const float *y, const float *gy,
                 float *gx, int64_t count);
    void (*dmap2)(const struct pare_node *n, const float *a, int sa, const float *b, int sb,
                  const float *gy, float *ga, float *gb, int64_t count);

    /* Bytes that forward() leaves in node->save for backward(), in training; NULL: none. */
    size_t (*save)(const struct pare_node *n);

    /* Bit i: input i is a setting or a statistic (Clip's bounds, BatchNormalization's mean and
     * variance), never a trained parameter. */
    unsigned settings;

    /* Of an operator with weights: the weight's axis that counts output channels, and that of input
     * channels (of a group); -1: there is none.  NULL: neither. */
    void (*axes)(const struct pare_node *n, int *out, int *in);

    /* Bit i: input i says which shape the output has or which range of input 0 it is, no more;
     * so it changes with the sizes of axes. */
    unsigned sizes;

    /* For whoever takes channels out, see channels.h.
     * linear: the node sums over channels; false: not in a way that can be said.
     * even:   a tie connects an axis of input 0 (of any input for pare_constant_channel_same) with `axis` of
     *         an output, and what becomes its index `channel` is the number x all over: what it
     *         becomes, NAN when that is not one number.  NULL: not known, but for map and map2.
     * shrink: channels go: new attributes and constant inputs.  NULL: there are none.
     * made:   index i of an axis of output k is this number all over, because of the node's own
     *         weights or of several channels of its inputs; NAN: it is not.  NULL: not known.
     * needs:  given what stays of its outputs, what the node needs of its inputs, beside what ties
     *         say.  NULL: see linear and ties. */
    bool (*linear)(const struct pare_node *n, struct pare_linear *l);
    float (*even)(const struct pare_node *n, int axis, int64_t channel, float x);
    void (*shrink)(const struct pare_node *n, struct pare_shrunk *s);
    float (*made)(const struct pare_node *n, const struct pare_needed *s, int k, int axis,
                  int64_t i);
    void (*needs)(const struct pare_node *n, struct pare_needed *s);

    /* With PARE_OP_ANY_LAYOUT: operators that look at all elements of a tensor before they change each
     * (a range, then rounding), in whatever order, give their float32 function here, so that plans
     * can hand over tensors in any layout.  The shape is that of in[0].
     * whole:  y = f(x), in training or not.
     * dwhole: gx = d loss / d x, assigned; gx may be gy. */
    int (*whole)(const struct pare_node *n, const float *x, float *y, bool train,
                 struct pare_err *err);
    int (*dwhole)(const struct pare_node *n, const float *x, const float *gy, float *gx,
                  struct pare_err *err);
};

/* 0 when the contents of in[i] are known; else PARE_EDYNAMIC. */
int pare_need(const struct pare_node *n, int i, struct pare_err *err);

#endif
