/* scatter_family.h - what GatherElements, Scatter, ScatterElements and ScatterND share. */
#ifndef PARE_OP_SHAPE_SCATTER_FAMILY_H
#define PARE_OP_SHAPE_SCATTER_FAMILY_H

#include "movement.h"

/* Indices that stand element by element beside the data: the same rank, and no longer than it
 * along any axis but `axis`. */
int pare_fits_beside(const struct pare_tensor *x, const struct pare_tensor *at, int axis,
                     struct pare_err *err);

/* Walks the elements of `at`; w->at[0] is the offset in x of the same place with index 0 along
 * the axis, and the result is what one more along the axis adds. */
int64_t pare_walk_beside(struct pare_walk *w, const struct pare_tensor *x,
                         const struct pare_tensor *at, int axis);

#define PARE_REDUCTIONS "none|add|mul|min|max"

/* Can elements of this type be combined so? */
int pare_check_reduction(enum pare_dtype d, const char *how, struct pare_err *err);

/* dst[i] = dst[i] (how) src[i] for i < count. */
void pare_combine(enum pare_dtype d, const char *how, void *dst, const void *src, int64_t count);

/* Scatter and ScatterElements; the attributes are these, the inputs data, indices, updates. */
struct pare_scatter {
    int64_t axis;
    const char *reduction;
};
int pare_scatter_infer(struct pare_node *n, struct pare_err *err);
int pare_scatter_forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_scatter_backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* The gradients of data and updates, when update row r, `run` elements long, went to to[r] in the
 * result; to[] has as many rows as there are updates. */
struct pare_scattered {
    const char *reduction;
    const int64_t *to;
    int64_t rows, run;
};
int pare_scatter_back(struct pare_node *n, const struct pare_scattered *s,
                      struct pare_arena *scratch, struct pare_err *err);

#endif
