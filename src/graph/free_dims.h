/* free_dims.h - sizes of free input dimensions to analyze a graph with, and what depends on them.
 *
 * Shape inference needs concrete sizes.  What holds for one size may be a coincidence: of size 1
 * all axes look alike, and a table cut to the length of the input is constant for one length only.
 * So a graph is inferred for up to three sets of sizes, and only what holds for all of them counts.
 */
#ifndef PARE_GRAPH_FREE_DIMS_H
#define PARE_GRAPH_FREE_DIMS_H

#include "graph.h"

/* Clone the graph and infer it for sizes that its nodes accept.  *out has a batch of 1 and moderate
 * sizes.  (*out)->other[0] has other sizes in every free dimension, as far as the nodes accept
 * them, and is the one to analyze; (*out)->other[1] has larger ones.  Each points to the two
 * others.
 *
 * io: the inputs as the model declares them; dimensions of one name get one size.
 * given: shapes of the inputs for *out; a size of -1, or a rank of -1: not given; NULL: none. */
int pare_graph_infer_free(struct pare_arena *a, const struct pare_graph *from,
                          const struct pare_io *io, const struct pare_tensor *given,
                          struct pare_graph **out, struct pare_err *err);

/* Clone the graph and infer it with 1 for every free dimension or, if that makes nodes fail, with
 * the sizes of pare_graph_infer_free() if fewer fail with these. */
int pare_graph_infer_ones(struct pare_arena *a, const struct pare_graph *from,
                          const struct pare_io *io, struct pare_graph **out, struct pare_err *err);

/* Where graphs for several sizes are allocated.  Their constants may be larger than the weights, so
 * each caller frees what it does not need any more. */
struct pare_size_arenas {
    struct pare_arena *first;  /* of the graph that pare_graph_infer_free() returns */
    struct pare_arena *other;  /* of its other[0] */
    struct pare_arena *larger; /* of its other[1] */
    struct pare_arena *clone;  /* of pare_all_sizes.g and .varying; constants of g are in `other`,
                                * or in `first` if there is no other size */
};

/* The same in several arenas. */
int pare_graph_infer_sizes(const struct pare_size_arenas *a, const struct pare_graph *from,
                           const struct pare_io *io, const struct pare_tensor *given,
                           struct pare_graph **out, struct pare_err *err);

/* Are there values whose shapes depend on data, so that the cost of a run is not known? */
bool pare_graph_depends_on_data(const struct pare_graph *g);

/* Clone the graph and infer it for sizes that differ from those of `first`, of
 * pare_graph_infer_free(), and are smaller except for the batch.  NULL: nodes reject them. */
int pare_graph_infer_small(struct pare_arena *a, const struct pare_graph *from,
                           const struct pare_io *io, const struct pare_graph *first,
                           struct pare_graph **out, struct pare_err *err);

/* Shapes for `given` of pare_graph_infer_free(): those that are given, and `size` in the first
 * other free dimension that is not a batch, or in all of them.  *any: there is one. */
int pare_graph_free_sizes(struct pare_arena *a, const struct pare_graph *from,
                          const struct pare_io *io, const struct pare_tensor *given, int64_t size,
                          bool all, struct pare_tensor **out, bool *any, struct pare_err *err);

/* The graph to find axis relations in: (*out)->other[0], or the graph itself if it has none. */
struct pare_graph *pare_graph_to_analyze(struct pare_graph *g);

/* The counterpart of value v of graph g in other[i], at other sizes; NULL: none. */
const struct pare_value *pare_value_at(const struct pare_graph *g, const struct pare_value *v,
                                       int i);

/* Whether the size of the axis follows a free dimension. */
bool pare_axis_is_free(const struct pare_graph *g, const struct pare_value *v, int axis);

/* Whether the axis of input i is declared free, but the nodes accept only one size of those that
 * were tried.  first: the result of pare_graph_infer_free(). */
bool pare_axis_has_one_size(const struct pare_graph *first, const struct pare_io *io, int i,
                            int axis);

/* Which constants follow free dimensions: the length of a sequence, a mask of that length. */
struct pare_varying {
    const struct pare_graph *g;
    int n;
    uint8_t *
        *element; /* by value: one byte for each element, 1: it follows a free dimension.  NULL:
                        * none does */
    bool *all;    /* by value: all elements do, and the shape may */
};
int pare_varying_find(struct pare_arena *a, const struct pare_graph *g, struct pare_varying *v,
                      struct pare_err *err);

/* Whether the contents or the shape of the constant follow a free dimension; whether element i
 * does. */
bool pare_varies(const struct pare_varying *v, const struct pare_value *c);
bool pare_varies_at(const struct pare_varying *v, const struct pare_value *c, int64_t i);

/* A graph for questions about channels, which are answered for all sizes of free dimensions. */
struct pare_all_sizes {
    struct pare_graph *first;    /* as pare_graph_infer_free() returns it */
    struct pare_graph *g;        /* a clone of the one to analyze; what follows a free dimension is
                                  * not a constant there, except integers, which axis relations
                                  * read */
    struct pare_varying varying; /* constants of g that follow a free dimension */
};

/* The arguments are those of pare_graph_infer_free(); or those of pare_graph_infer_sizes(). */
int pare_graph_all_sizes(struct pare_arena *a, const struct pare_graph *from,
                         const struct pare_io *io, const struct pare_tensor *given,
                         struct pare_all_sizes *out, struct pare_err *err);
int pare_graph_all_sizes_in(const struct pare_size_arenas *a, const struct pare_graph *from,
                            const struct pare_io *io, const struct pare_tensor *given,
                            struct pare_all_sizes *out, struct pare_err *err);

/* Forget all.first and what only `first`, `other` and `larger` have, which are freed next: shapes
 * of g remain known, contents of computed constants do not. */
void pare_all_sizes_forget(struct pare_all_sizes *all);

#endif
