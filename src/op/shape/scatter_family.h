/* scatter_family.h - shared by GatherElements, Scatter, ScatterElements and ScatterND. */
#ifndef PARE_OP_SHAPE_SCATTER_FAMILY_H
#define PARE_OP_SHAPE_SCATTER_FAMILY_H

#include "movement.h"

/* Check indices that correspond to the data element by element: the same rank, and no longer along
 * any axis but `axis`. */
int pare_fits_beside(const struct pare_tensor *x, const struct pare_tensor *at, int axis,
                     struct pare_err *err);

/* Iterates over the elements of `at`; w->at[0] is the offset in x of the same position with index 0
 * along the axis.  Returns the stride of the axis. */
int64_t pare_walk_beside(struct pare_walk *w, const struct pare_tensor *x,
                         const struct pare_tensor *at, int axis);

#define PARE_REDUCTIONS "none|add|mul|min|max"

/* Whether elements of this type support the reduction. */
int pare_check_reduction(enum pare_dtype d, const char *how, struct pare_err *err);

/* dst[i] = dst[i] (how) src[i] for i < count. */
void pare_combine(enum pare_dtype d, const char *how, void *dst, const void *src, int64_t count);

/* Scatter and ScatterElements; inputs are data, indices, updates. */
struct pare_scatter {
    int64_t axis;
    const char *reduction;
};
int pare_scatter_infer(struct pare_node *n, struct pare_err *err);
int pare_scatter_forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_scatter_backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* Gradients of data and updates, where update row r, `run` elements long, was written to to[r];
 * to[] has one entry per update row. */
struct pare_scattered {
    const char *reduction;
    const int64_t *to;
    int64_t rows, run;
};
int pare_scatter_back(struct pare_node *n, const struct pare_scattered *s,
                      struct pare_arena *scratch, struct pare_err *err);

#endif
