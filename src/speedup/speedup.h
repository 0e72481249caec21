/* speedup.h - remove channels from a model: internals of src/speedup/.
 *
 * A channel is an index of an axis of a value.  It can be removed if it is constant, at every
 * position and for every input, and its consumers can fold the constant into their bias, or if the
 * weights of every consumer for it are 0.  The steps, in the order in which they run:
 *
 *     float16_widen.c      analyze float16, bfloat16 and double as float32
 *     constant_channels.c  find constant channels
 *     constant_branches.c  replace operands that are constant as a whole; drop empty Concat inputs
 *     linear_nodes.c       weights and bias of Conv, Gemm, MatMul and other linear nodes
 *     needed_channels.c    find the channels that must be kept
 *     fold_into_bias.c     fold removed constant channels into biases; gather weights
 *     shrink_attrs.c       attributes and shape constants that count channels
 *     shrink_rows.c        zeros before, and selected channels after a normalization
 *     shrink_model.c       build the smaller model and check its shapes
 *     body_speedup.c       the same inside the bodies of If, Loop and Scan
 *     speedup_report.c     channels, parameters and MACs before and after
 *     verify.c             run both models and compare
 *     sample_inputs.c      random inputs that make sense to a model
 *     verify_points.c      what to compare: outputs, and values before discontinuous nodes
 */
#ifndef PARE_SPEEDUP_SPEEDUP_H
#define PARE_SPEEDUP_SPEEDUP_H

#include <pare/compress.h>

#include "../graph/free_dims.h"
#include "../graph/keep_sets.h"
#include "../onnx/edit.h"

/* A node that cannot be expressed with fewer channels: all channels of its inputs and outputs are
 * kept. */
struct pare_unshrinkable {
    int node; /* id */
    const char *why;
    struct pare_unshrinkable *next;
};

/* An input of a node that constant_branches.c replaced by another value. */
struct pare_rewire {
    const struct pare_node *n;
    int input;
    const struct pare_value *v;
    struct pare_rewire *next;
};

/* What became of a layer in a body. */
struct pare_body_layer {
    const char *body; /* path, "If_0/then" */
    const char *out;  /* a value that its node makes; NULL: all layers of the body */
    struct pare_speedup_layer l;
    struct pare_body_layer *next;
};

/* State of one speedup.  Arrays "per value" and "per node" are indexed by the id in `g`. */
struct pare_speedup {
    struct pare_arena *arena;  /* of the analysis; freed before verification */
    struct pare_arena *graphs; /* of `before` and `after` */
    struct pare_arena *others; /* of all other graphs; freed after verification */
    const struct pare_model *from;
    const struct pare_speedup_opts *opts;

    const struct pare_model *rewritten; /* compare with this model, instead of making a smaller
                                         * one; NULL: none */

    struct pare_graph *before; /* the model's graph, shapes inferred for a batch of 1; its other[]
                                * are for other sizes of free dimensions (graph/free_dims.h) */
    struct pare_graph *g;      /* a clone of before->other[0], or of `before` if it is NULL, that is
                                * analyzed and rewired: constants with several consumers are
                                * duplicated, floats are float32, and what follows a free dimension
                                * is not a constant, except integers */
    struct pare_varying varying; /* constants of `g` that follow a free dimension */
    struct pare_graph *after;    /* graph of the smaller model, for the input shapes of `before`;
                                  * its other[0]: for those of before->other[0], NULL: none */
    bool too_small; /* the masked model does not run at these sizes of free dimensions */
    const struct pare_graph *second[2]; /* both models' graphs for the second verification; NULL: no
                                         * free dimension */

    struct pare_tensor *file; /* per value: the tensor in the file's type, if `g` has float32
                               * instead; dtype PARE_NONE: the same as in `g` */
    int cap_file;
    struct pare_keep_sets *kept; /* which channels are kept */
    int *first_tie;              /* per node: its ties are first_tie[id] .. first_tie[id + 1] - 1 */
    int *uses;                   /* per value: number of consumers among live nodes and outputs */
    bool *live;                  /* per node: an output depends on it, and it is not a constant */
    float ***constant;           /* per value and axis: the constant of each channel, NAN: not
                                  * constant; NULL: no constant channel */
    struct pare_unshrinkable *unshrinkable; /* newest first */
    struct pare_rewire *rewire;             /* newest first */
    struct pare_body_layer *body_layers;    /* newest first */
    bool *removed;               /* per node: all outputs are removed and no consumer needs them */
    bool *materialize;           /* per value: a computed constant to be stored as initializer */
    uint64_t *materialize_input; /* per node: bit k: store input k as an initializer of its own */
};

/* ---- constant_channels.c --------------------------------------------------------------------- */

/* Fill s->constant. */
int pare_speedup_find_constants(struct pare_speedup *s, struct pare_err *err);

/* The constant that index i of the axis is; NAN: not constant, or not known to be. */
float pare_constant_channel(const struct pare_speedup *s, const struct pare_value *v, int axis,
                            int64_t i);

/* Argument of the callbacks made() and needs() of an operator. */
struct pare_needed {
    struct pare_speedup *s;
    bool grown; /* needs() has added a channel */
};

/* ---- float16_widen.c ------------------------------------------------------------------------- */

/* Convert the float16, bfloat16 and double values of s->g to float32, which is all that the
 * analysis handles. */
int pare_speedup_widen(struct pare_speedup *s, struct pare_err *err);

/* The value's tensor in the type of the file. */
const struct pare_tensor *pare_speedup_file(const struct pare_speedup *s,
                                            const struct pare_value *v);

/* Give a new value v the file type of another value. */
int pare_speedup_like(struct pare_speedup *s, const struct pare_value *v,
                      const struct pare_value *other, struct pare_err *err);

/* Convert a float32 tensor to the file type of v. */
int pare_speedup_narrow(struct pare_arena *a, const struct pare_speedup *s,
                        const struct pare_value *v, struct pare_tensor *t, struct pare_err *err);

/* ---- constant_branches.c --------------------------------------------------------------------- */

/* Replace operands that are constant as a whole by initializers, or bypass the operator, so that
 * the branch that computed them is dead.  *changed: the graph has to be analyzed again. */
int pare_speedup_cut_branches(struct pare_speedup *s, bool *changed, struct pare_err *err);

/* Fill s->removed. */
void pare_speedup_find_removed(struct pare_speedup *s);

/* Does the node, a Concat, drop its input k because nothing of it is kept? */
bool pare_speedup_drops_input(const struct pare_speedup *s, const struct pare_node *n, int k);

/* Is the value not in the file: a duplicated constant, or one that replaced an operand? */
bool pare_speedup_is_new(const struct pare_speedup *s, const struct pare_value *v);

/* ---- linear_nodes.c -------------------------------------------------------------------------- */

/* A node y = x * w + bias with constant float32 weights: Conv, ConvTranspose, Gemm, MatMul. */
struct pare_linear_node {
    struct pare_linear l; /* as its operator describes it */
    const struct pare_node *n;
    const struct pare_value *x, *y, *w;
    int64_t C, O;              /* channels of x and y */
    int64_t Ig, Og;            /* channels of x and y in one group */
    int64_t in_step, out_step; /* elements of w from one channel of x, or y, to the next */
    int64_t taps;              /* consecutive elements of w for one pair of channels */
    bool in_all, out_all;      /* w's axis counts the channels of all groups */
    const float *data;
};

/* False: the node is not linear, or its weights are not constant float32. */
bool pare_linear_node_open(const struct pare_node *n, struct pare_linear_node *sum);

/* Offset of the weights between channel i of x and channel o of y, which are in one group. */
static inline int64_t pare_linear_node_at(const struct pare_linear_node *m, int64_t o, int64_t i)
{
    return (m->out_all ? o : o % m->Og) * m->out_step + (m->in_all ? i : i % m->Ig) * m->in_step;
}

/* Are these weights all 0?  Their sum. */
bool pare_linear_node_is_zero(const struct pare_linear_node *m, int64_t o, int64_t i);
double pare_linear_node_sum(const struct pare_linear_node *m, int64_t o, int64_t i);

/* Where a constant can be added to each output channel. */
enum pare_bias_kind {
    PARE_BIAS_NONE,  /* nowhere */
    PARE_BIAS_INPUT, /* in the node's bias input l.bias; *b NULL: it is absent */
    PARE_BIAS_ADD,   /* in *b, the constant operand of the Add that follows the node */
    PARE_BIAS_AFTER, /* in a new Add after the node */
};
enum pare_bias_kind pare_linear_node_bias(const struct pare_speedup *s,
                                          const struct pare_linear_node *m,
                                          const struct pare_value **b);

/* ---- needed_channels.c ----------------------------------------------------------------------- */

/* Fill s->kept. */
int pare_speedup_find_needed(struct pare_speedup *s, struct pare_err *err);

/* Is channel i of x removed and not 0, so that the node has to fold it? */
bool pare_speedup_is_folded(const struct pare_speedup *s, const struct pare_linear_node *m,
                            int64_t i);

/* With padding, a constant channel cannot become a bias; the weights of removed constant channels
 * are folded into those of a carrier: a kept constant channel of the group that is not 0.  Returns
 * its index; -1: none. */
int64_t pare_speedup_carrier(const struct pare_speedup *s, const struct pare_linear_node *m,
                             int64_t group);

/* ---- fold_into_bias.c, shrink_attrs.c, shrink_rows.c, shrink_model.c ------------------------- */

/* New contents of a constant input, requested by its node's shrink(). */
struct pare_request {
    const struct pare_node *n;
    int input;
    struct pare_tensor t;
    bool shape; /* t is the shape of the output: any contents are right that give its size */
    struct pare_request *next;
};

/* One attempt to build the smaller model. */
struct pare_shrink {
    struct pare_speedup *s;
    struct pare_edit *e;
    struct pare_arena *arena;        /* of the new model, for contents of its tensors */
    struct pare_arena *writing;      /* freed when the constants are written */
    struct pare_tensor *replacement; /* per value: new contents; data NULL: unchanged; floats are in
                                      * `writing`, before channels are removed */
    struct pare_request *request;
};

/* What shrink() of an operator is called with: one node of the attempt. */
struct pare_shrunk {
    struct pare_shrink *k;
    const struct pare_node *n;
    const char *why; /* reason why the node cannot be shrunk; NULL: it can */
    int rc;
    struct pare_err *err;
};

/* Fold the removed channels of x into the node's bias, or into a carrier's weights. */
int pare_shrink_fold(struct pare_shrink *k, const struct pare_linear_node *m, struct pare_err *err);

/* Gather the kept indices of t, a tensor with the axes of v; memory from k->arena. */
int pare_shrink_gather(struct pare_shrink *k, const struct pare_value *v,
                       const struct pare_tensor *t, struct pare_tensor *to, struct pare_err *err);

/* Does the value lose any channel? */
bool pare_shrink_is_smaller(const struct pare_speedup *s, const struct pare_value *v);

/* Let the node's operator set new attributes and shape constants. */
int pare_shrink_node(struct pare_shrink *k, const struct pare_node *n, struct pare_err *err);

/* Is the constant computed by nodes, not stored in the file? */
bool pare_shrink_computed(const struct pare_value *v);

/* Build the smaller model, and its graph s->after.  *out NULL: a node turned out to be unshrinkable
 * and was added to s->unshrinkable. */
int pare_speedup_shrink(struct pare_speedup *s, struct pare_model **out, struct pare_err *err);

/* Add the node to s->unshrinkable. */
int pare_speedup_cannot_shrink(struct pare_speedup *s, const struct pare_node *n, const char *why,
                               struct pare_err *err);

/* Fill s->after: infer the model for the input shapes of `before` and before->other[0]. */
int pare_speedup_infer_after(struct pare_speedup *s, const struct pare_model *m,
                             struct pare_err *err);

/* ---- body_speedup.c -------------------------------------------------------------------------- */

/* Shrink the bodies that have layers; *smaller is replaced if any of them did.  Texts for the
 * report are in the arena. */
int pare_speedup_bodies(struct pare_speedup *s, struct pare_arena *a, struct pare_model **smaller,
                        struct pare_err *err);

/* The name of the first value that the node makes; "": none. */
const char *pare_speedup_made(const struct pare_node *n);

/* ---- verify.c and speedup_report.c ----------------------------------------------------------- */

/* Fill s->second: before->other[0] and after->other[0]; smaller sizes if shapes depend on data. */
int pare_speedup_second(struct pare_speedup *s, const struct pare_model *smaller,
                        struct pare_err *err);

/* Run the model and the smaller one on inputs of the shapes that s->before and s->second have, and
 * compare.  Texts of the report are in the arena. */
int pare_speedup_verify(struct pare_speedup *s, const struct pare_model *smaller,
                        struct pare_arena *a, struct pare_speedup_report *r, struct pare_err *err);

/* speedup.c: run the model and the one that graph rewrites made of it, as pare_speedup_verify(). */
int pare_verify_rewritten(const struct pare_model *m, const struct pare_model *rewritten,
                          const struct pare_speedup_opts *opts, struct pare_arena *a,
                          struct pare_speedup_report *r, struct pare_err *err);

/* ---- sample_inputs.c and verify_points.c ----------------------------------------------------- */

/* Inputs to run a model with. */
struct pare_sample {
    struct pare_arena *arena;
    const struct pare_io *io;
    struct pare_tensor *in;
    bool *given; /* by input: the caller supplies its contents */
    int n;
};

/* Fill the inputs that are not given with random contents that make sense to the model, whose graph
 * with shapes is g. */
int pare_sample_fill(struct pare_sample *s, const struct pare_graph *g, uint64_t seed,
                     struct pare_err *err);

/* A model's graph for inputs of other shapes, which are in the order of s->io. */
int pare_sample_infer(const struct pare_sample *s, const struct pare_model *m,
                      const struct pare_tensor *in, struct pare_graph **g, struct pare_err *err);

/* What a value follows. */
enum pare_point {
    PARE_POINT_SMOOTH, /* no discontinuous operator: a rounding error remains one */
    PARE_POINT_STEPS,  /* a discontinuous operator (PARE_OP_STEPS) */
    PARE_POINT_RANDOM, /* random numbers, of which the smaller model draws fewer */
};

/* Where to compare. */
struct pare_points {
    uint8_t *kind;          /* by value of the model's graph: enum pare_point */
    struct pare_strs names; /* values that enter discontinuous or random nodes, in both models */
    const char **name;      /* = names.v */
    const char *first;      /* type of the first such node; NULL: none */
};
int pare_points_find(struct pare_arena *a, const struct pare_graph *g,
                     const struct pare_graph *small, struct pare_points *p, struct pare_err *err);

/* pare_speedup() that returns the graphs with shapes of both models, for the input shapes of the
 * report.  They live in *graphs, which the caller frees; NULL on error. */
struct pare_speedup_graphs {
    struct pare_arena *arena;
    const struct pare_graph *before, *after;
};
int pare_speedup_run(const struct pare_model *masked, const struct pare_speedup_opts *opts,
                     struct pare_arena *a, struct pare_model **smaller,
                     struct pare_speedup_report *r, struct pare_speedup_graphs *graphs,
                     struct pare_err *err);

int pare_speedup_fill_report(struct pare_speedup *s, struct pare_arena *a,
                             struct pare_speedup_report *r, struct pare_err *err);

#endif
