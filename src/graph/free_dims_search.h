/* free_dims_search.h - what the files of free_dims.h share: the search for sizes. */
#ifndef PARE_GRAPH_FREE_DIMS_SEARCH_H
#define PARE_GRAPH_FREE_DIMS_SEARCH_H

#include "free_dims.h"

#define PARE_FREE_DIMS 64 /* free dimensions of different names; the others get one size */

/* Free dimensions of one name. */
struct pare_free_dim {
    const char *name; /* NULL: a dimension without a name */
    bool batch;       /* the first axis of an input */
    bool square;      /* several axes of an input, so it is not a batch */
    int64_t given;    /* -1: not given */
    int sum[2];       /* its size is the sum of these; -1: it is not a sum */
};

struct pare_free_search {
    struct pare_arena *arena;
    const struct pare_graph *from;
    const struct pare_io *io;
    const struct pare_tensor *given;
    struct pare_free_dim dim[PARE_FREE_DIMS];
    int n;
    int (*of)[PARE_MAX_RANK]; /* by input and axis: its number in dim; -1: not free */
};

/* Clone and infer with these sizes, one for each dimension; nodes may fail. */
int pare_free_infer(const struct pare_free_search *s, const int64_t *size, struct pare_graph **out,
                    struct pare_err *err);

/* A dimension may be declared free although a weight fixes its size: replace *out, in which nodes
 * fail, and its sizes if others are accepted. */
int pare_free_fit(const struct pare_free_search *s, struct pare_graph **out, int64_t *size,
                  struct pare_err *err);

#endif
