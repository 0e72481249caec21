/* movement.h - shared by operators that only move elements; their attributes for plans.
 *
 * Nothing here depends on element types: an element is a number of bytes.
 */
#ifndef PARE_OP_SHAPE_MOVEMENT_H
#define PARE_OP_SHAPE_MOVEMENT_H

#include "../op.h"

/* ---- attributes and inputs ---------------------------------------------------------------- */

/* Input i, or NULL if absent. */
static inline const struct pare_tensor *pare_given(const struct pare_node *n, int i)
{
    return i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
}

static inline bool pare_is_empty(const struct pare_tensor *t)
{
    for (int i = 0; i < t->rank; i++)
        if (!t->dim[i])
            return true;
    return false;
}

/* A few numbers that are an attribute in older opsets and an input in newer ones. */
struct pare_list {
    int n; /* -1: neither is present */
    int64_t v[PARE_MAX_RANK];
};
int pare_list_read(const struct pare_node *n, int i, struct pare_ints attr, struct pare_list *list,
                   struct pare_err *err); /* input i takes precedence */

/* The same for axes of a tensor of `rank` dimensions: each made non-negative, without duplicates.
 */
int pare_axes_read(const struct pare_node *n, int i, struct pare_ints attr, int rank,
                   struct pare_list *axes, struct pare_err *err);

/* The position of a name in a list "one|two|three". */
int pare_choice(const char *choices, const char *name);

/* a + b, a * b; overflow is an error. */
int pare_add_size(int64_t a, int64_t b, int64_t *sum, struct pare_err *err);
int pare_mul_size(int64_t a, int64_t b, int64_t *product, struct pare_err *err);

/* The product of dimensions from..to-1. */
int64_t pare_span(const struct pare_tensor *t, int from, int to);

/* All elements of an index tensor, each checked to be in [-limit, limit) and made non-negative. */
int pare_indices(struct pare_arena *a, const struct pare_tensor *t, int64_t limit, int64_t **at,
                 struct pare_err *err);

/* Row `row` of index tensor t, shape (..., k), is a position in the k dimensions of `data` after
 * the first `skip`: its offset in elements. */
int pare_index_row(const struct pare_tensor *t, int64_t row, const struct pare_tensor *data,
                   int skip, int64_t *at, struct pare_err *err);

/* ---- moving ------------------------------------------------------------------------------- */

#define PARE_MOVE_RANK (2 * PARE_MAX_RANK)

/* A box of elements and its strides, in elements, at the source (0 and negative strides are
 * allowed) and at the destination. */
struct pare_move {
    int rank;
    int64_t dim[PARE_MOVE_RANK], from[PARE_MOVE_RANK], to[PARE_MOVE_RANK];
};

/* Copy the box.  Runs that are contiguous at both ends are copied as such. */
void pare_move(void *dst, const void *src, size_t size, const struct pare_move *m);

/* Append an axis to the box. */
void pare_move_axis(struct pare_move *m, int64_t dim, int64_t from, int64_t to);

/* Fill with n copies of the element at `value`. */
void pare_fill(void *dst, int64_t n, const void *value, size_t size);

/* Copy one element; common sizes become single instructions. */
static inline void pare_copy_one(void *dst, const void *src, size_t size)
{
    switch (size) {
    case 1: memcpy(dst, src, 1); break;
    case 2: memcpy(dst, src, 2); break;
    case 4: memcpy(dst, src, 4); break;
    case 8: memcpy(dst, src, 8); break;
    default: memcpy(dst, src, size); break;
    }
}

/* ---- forward and backward ----------------------------------------------------------------- */

/* The direction of a move.  Forward, y gets elements of x; backward, the gradient of an element of
 * x gets the gradients of all elements of y that it was copied to.  These are the same moves, so an
 * operator implements them once, with the functions below, and PARE_BOTH_PASSES defines forward()
 * and backward(). */
struct pare_flow {
    const char *x;
    char *y;
    size_t size; /* size of an element in bytes */
    float *gx;   /* NULL: forward */
    const float *gy;
};

/* From x to y, or back; false if there is nothing to move. */
bool pare_flow(struct pare_flow *f, const struct pare_value *x, const struct pare_value *y,
               bool back);

/* A run of elements; x and y are offsets in elements. */
static inline void pare_flow_run(const struct pare_flow *f, int64_t x, int64_t y, int64_t count)
{
    if (!f->gx)
        pare_copy_one(f->y + (size_t)y * f->size, f->x + (size_t)x * f->size,
                      (size_t)count * f->size);
    else
        for (int64_t i = 0; i < count; i++)
            f->gx[x + i] += f->gy[y + i];
}

/* A box: from x + m->from to y + m->to. */
void pare_flow_box(const struct pare_flow *f, int64_t x, int64_t y, const struct pare_move *m);

/* y[i, j, ...] = x[at[0][i], at[1][j], ...].  A NULL list is 0, 1, 2, ...; for a negative entry y
 * gets the element at `fill`. */
struct pare_pick {
    const struct pare_tensor *x, *y;
    int64_t *at[PARE_MAX_RANK];
    const void *fill;
};
void pare_flow_pick(const struct pare_flow *f, const struct pare_pick *p);

/* forward() and backward() of an operator that moves from input 0 to output 0, by
 *     static int move(const struct pare_node *n, const struct pare_flow *f,
 *                      struct pare_arena *scratch, struct pare_err *err)
 * which is not called when the output is empty. */
#define PARE_BOTH_PASSES(move)                                                               \
    static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)        \
    {                                                                                        \
        struct pare_flow f;                                                                  \
                                                                                             \
        return pare_flow(&f, n->in[0], n->out[0], false) ? move(n, &f, c->scratch, err) : 0; \
    }                                                                                        \
                                                                                             \
    static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)       \
    {                                                                                        \
        struct pare_flow f;                                                                  \
                                                                                             \
        return pare_flow(&f, n->in[0], n->out[0], true) ? move(n, &f, c->scratch, err) : 0;  \
    }

/* Axis relations of operators that keep the rank and change some axes: axes of output 0 with the
 * size of input 0's, where `changed` (may be NULL) is false. */
void pare_ties_kept(const struct pare_node *n, struct pare_ties *t, const bool *changed);

/* Axis relations of a new shape for the same elements in the same order: the shapes are cut into
 * pieces of equal size, and in each piece axes become digits of each other. */
void pare_ties_reshape(const struct pare_node *n, struct pare_ties *t);

/* ---- queries for plans; valid once the node has been inferred ----------------------------- */

/* The axis whose size is element 0 of a Shape's output. */
int pare_shape_first(const struct pare_node *n);

int pare_concat_axis(const struct pare_node *n);

/* Axis i of the output is axis perm[i] of the input. */
void pare_transpose_perm(const struct pare_node *n, int *perm);

struct pare_gather {
    int64_t axis;
};
int pare_gather_axis(const struct pare_node *n); /* not negative */

int pare_split_axis(const struct pare_node *n);
int64_t pare_split_size(const struct pare_node *n, int i); /* of output i, also if absent */

/* Along axis i the result has count[i] elements: start[i], start[i] + step[i], ...  Fails where
 * infer() would. */
struct pare_slice {
    int64_t start[PARE_MAX_RANK], step[PARE_MAX_RANK], count[PARE_MAX_RANK];
};
int pare_slice_ranges(const struct pare_node *n, struct pare_slice *s, struct pare_err *err);

/* Elements that a Pad adds along each axis; negative: it removes. */
int pare_pad_amounts(const struct pare_node *n, int64_t *before, int64_t *after,
                     struct pare_err *err);

#endif
