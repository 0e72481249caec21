/* rewrite.h - rewrites: replace nodes that exporters wrote by fewer ones that compute the same.
 *
 * A rewrite is one file with one descriptor, and one line in rewrites.def.  Rewrites change a clone
 * of a model's graph: the one that a plan runs, with concrete shapes, or the one that is written to
 * a file, in which only what holds for every size of the free dimensions may be used (any_shape).
 *
 * A value that exists keeps its meaning: type, shape and contents.  A rewrite lets its consumers
 * read another value, or makes new values; it never changes what a value is, and never removes an
 * output, an observed value or one that a body reads.
 */
#ifndef PARE_GRAPH_REWRITE_REWRITE_H
#define PARE_GRAPH_REWRITE_REWRITE_H

#include "../../base/options.h"
#include "../free_dims.h"

struct pare_rewriter;

struct pare_rewrite {
    const char *name, *doc; /* one sentence */

    /* It holds for every size of the free dimensions, so its result can be written to a file. */
    bool any_shape;

    /* Only for files: kernels of plans do the same without copying weights. */
    bool file_only;

    /* It does not read shapes: for nodes of which they are unknown, too. */
    bool shapeless;

    /* In plans: after the canonical pass (pattern/), which it could keep from finding patterns. */
    bool late;

    /* Also in plans that train, where parameters are not constants. */
    bool trains;

    /* Change node n, or do nothing.  Called in node order; n has an operator, and its inputs and
     * outputs have known shapes.  NULL: none. */
    int (*node)(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err);

    /* Change the graph as a whole.  NULL: none. */
    int (*graph)(struct pare_rewriter *r, struct pare_err *err);
};

extern const struct pare_rewrite *const pare_rewrites[]; /* ends with NULL */

/* How to rewrite a graph. */
struct pare_rewrite_opts {
    bool train;
    bool late; /* plans: also the rewrites that are late */

    /* Of a graph that is written to a file, which has other[] (free_dims.h): its constants that
     * follow free dimensions, none of which has PARE_V_CONST.  NULL: all shapes are final. */
    const struct pare_varying *varying;

    /* With `varying`: free dimensions exist of which only one size could be tried, so the size of
     * every axis may follow one. */
    bool unknown_sizes;

    /* Names of rewrites not to run, "all" for all of them, "any_shape" for those that files have;
     * ends with NULL.  NULL: those that the environment variable PARE_REWRITES names:
     * "-pad_into_window,-duplicates" or "none". */
    const char *const *without;
};

/* Run the rewrites until nothing changes, at most a fixed number of times.  *counts, if not NULL:
 * how often each one changed something, in the order of pare_rewrites. */
int pare_graph_rewrite(struct pare_graph *g, const struct pare_rewrite_opts *opts, int *counts,
                       struct pare_err *err);

/* ---- for rewrites ---------------------------------------------------------------------------- */

/* Arrays "per value" have an entry for each id. */
struct pare_rewriter {
    struct pare_graph *g;
    struct pare_arena *scratch; /* freed when the rewrites end */
    const struct pare_rewrite_opts *opts;
    bool files;                 /* only what holds for every size of free dimensions */
    bool added;                 /* nodes were added: the graph has to be sorted */
    int version;                /* of the standard operators */
    int changes;                /* by the rewrite that runs */
    int cap;                    /* of the arrays per value */
    int known;                  /* values whose free axes are known */
    int *uses;                  /* per value: how often nodes read it */
    bool *pinned;               /* per value: an output, observed, or read by a body */
    struct pare_node **reader;  /* per value with one use: the node that reads it; NULL: unknown */
    struct pare_value **alias;  /* per value: what its consumers read instead; NULL: itself */
    unsigned *free_axes;        /* per value: bit a: the size of axis a follows a free dimension */
    struct pare_node **release; /* nodes that became useless, a stack */
    int n_release, cap_release;
};

/* Is v a constant whose elements are known?  pare_rewrite_load() makes them available. */
bool pare_rewrite_const(const struct pare_value *v);
int pare_rewrite_load(struct pare_rewriter *r, struct pare_value *v, struct pare_err *err);

/* Is it a constant float32 scalar, or a tensor of one element; *x: its value. */
bool pare_rewrite_scalar(struct pare_rewriter *r, struct pare_value *v, double *x);

/* A constant list of integers; -1: v is something else, or has more than `most` elements. */
int pare_rewrite_ints(struct pare_rewriter *r, struct pare_value *v, int64_t *list, int most);

/* The node that makes v, if it is this operator and v is computed in a run; else NULL. */
struct pare_node *pare_rewrite_maker(const struct pare_value *v, const struct pare_op *op);

/* The node that is the only one to read v, which is not an output; NULL: there is none, or it is
 * not known. */
struct pare_node *pare_rewrite_reader(struct pare_rewriter *r, const struct pare_value *v);

/* Do a and b have the same shape at all sizes of free dimensions? */
bool pare_rewrite_same_shape(const struct pare_rewriter *r, const struct pare_value *a,
                             const struct pare_value *b);

/* Do axis i of a and axis k of b have the same size at all sizes of free dimensions? */
bool pare_rewrite_same_size(const struct pare_rewriter *r, const struct pare_value *a, int i,
                            const struct pare_value *b, int k);

/* Is the size of this axis the same at all sizes of free dimensions? */
static inline bool pare_rewrite_is_fixed(const struct pare_rewriter *r, const struct pare_value *v,
                                         int axis)
{
    return !(r->free_axes[v->id] >> axis & 1);
}

/* Room in the arrays for all values of the graph. */
int pare_rewrite_grow(struct pare_rewriter *r, struct pare_err *err);

/* ---- changes --------------------------------------------------------------------------------- */

/* Let every consumer of `from`, the result of a node, read `to`, which is the same.  If `from` is
 * pinned, the node that makes `to` makes `from` instead; false: that is not possible, and nothing
 * has changed. */
bool pare_rewrite_replace(struct pare_rewriter *r, struct pare_value *from, struct pare_value *to);

/* Let m make output 0 of n, the only node that reads output 0 of m; n is removed. */
void pare_rewrite_absorb(struct pare_rewriter *r, struct pare_node *m, struct pare_node *n);

/* Count uses again, and remove nodes of this operator whose results nothing needs. */
void pare_rewrite_drop_unused(struct pare_rewriter *r, const struct pare_op *op);

/* Set input k of n; v may be NULL.  The node has an input k. */
void pare_rewrite_input(struct pare_rewriter *r, struct pare_node *n, int k, struct pare_value *v);

/* Give n room for n_in inputs; new ones are absent, those beyond it are removed. */
int pare_rewrite_arity(struct pare_rewriter *r, struct pare_node *n, int n_in,
                       struct pare_err *err);

/* Replace the node's attributes by a copy that may be changed; NULL: no memory. */
void *pare_rewrite_attrs(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err);

/* Make n another operator, with these attributes; it keeps its output.  set NULL: none. */
int pare_rewrite_become(struct pare_rewriter *r, struct pare_node *n, const struct pare_op *op,
                        const struct pare_setting *set, struct pare_err *err);

/* A copy of n numbers in the graph's memory; v NULL: no memory. */
struct pare_ints pare_rewrite_list(struct pare_rewriter *r, const int64_t *v, int n);

/* A new value of this type and with the shape of `like`, whose axes are permuted: axis i is axis
 * perm[i]; perm NULL: the same.  NULL: no memory. */
struct pare_value *pare_rewrite_value(struct pare_rewriter *r, const struct pare_value *like,
                                      const int *perm, struct pare_err *err);

/* A new constant with the type and shape of t, whose elements the caller sets; `base` is what it is
 * made of, for its name. */
struct pare_value *pare_rewrite_constant(struct pare_rewriter *r, const char *base,
                                         const struct pare_tensor *t, struct pare_err *err);
struct pare_value *pare_rewrite_int_list(struct pare_rewriter *r, const char *base,
                                         const int64_t *v, int n, struct pare_err *err);

/* A new node with n_in inputs, which the caller sets by pare_rewrite_input(), that makes y; its
 * name is that of `near`. */
struct pare_node *pare_rewrite_add(struct pare_rewriter *r, const struct pare_op *op,
                                   const struct pare_node *near, int n_in, struct pare_value *y,
                                   const struct pare_setting *set, struct pare_err *err);

/* A node to make: an operator with one output and its inputs and attributes. */
struct pare_rewrite_new {
    const struct pare_op *op;
    const struct pare_node *near; /* whose name it gets */
    struct pare_value *in[2];     /* the second may be NULL */
    struct pare_setting set[2];
    int n_set;
};

/* The result of a new node, whose shape is inferred, also at other sizes of free dimensions; or a
 * constant, if all inputs are constants that pare_rewrite_folds().  NULL: an error. */
struct pare_value *pare_rewrite_emit(struct pare_rewriter *r, const struct pare_rewrite_new *new,
                                     struct pare_err *err);

/* Is v a constant of which a changed copy replaces it?  In files, one that is read elsewhere stays,
 * and so do dequantized weights. */
bool pare_rewrite_folds(const struct pare_rewriter *r, const struct pare_value *v);

/* The axes of v whose sizes follow free dimensions, as bits. */
unsigned pare_rewrite_free_axes(const struct pare_rewriter *r, const struct pare_value *v);

/* y = x with axes permuted: a new Transpose node. */
int pare_rewrite_transpose(struct pare_rewriter *r, const struct pare_node *near,
                           struct pare_value *x, const int *perm, struct pare_value *y,
                           struct pare_err *err);

#endif
