/* channels.h - axis relations ("ties") and channel removal: what operators declare about channels.
 *
 * Removing a channel from one tensor removes it from others as well: Add requires the same channels
 * in both operands, Concat appends them, Flatten multiplies them.  An operator's ties() declares
 * such relations between axes of its inputs and outputs.  From them the library derives dependency
 * groups (prune/), the indices to keep on every axis (graph/keep_sets.h) and the smaller model
 * (speedup/).  An axis that no relation mentions is frozen: all of its indices are kept.
 *
 * The remaining callbacks describe sums over channels, channels that are constant (one number at
 * all positions), and attributes that depend on the number of channels; see struct pare_op.
 */
#ifndef PARE_OP_CHANNELS_H
#define PARE_OP_CHANNELS_H

#include <pare/pare.h>

struct pare_node;
struct pare_value;

/* ---- axis relations, for ties() ----------------------------------------------------------
 *
 * ties() is called with shapes and constants known.  A relation with a NULL value is ignored. */
struct pare_ties;

/* Axis ax of a and axis bx of b have the same channels: both keep the same indices. */
void pare_tie(struct pare_ties *t, const struct pare_value *a, int ax, const struct pare_value *b,
              int bx);

/* Index i of axis px of `part` is index from + i of axis wx of `whole` (Concat, Split, Slice). */
void pare_tie_part(struct pare_ties *t, const struct pare_value *whole, int wx, int64_t from,
                   const struct pare_value *part, int px);

/* Index i of axis bx of b is index index[i] of axis ax of a (Gather, Slice with steps).  The list
 * is copied. */
void pare_tie_pick(struct pare_ties *t, const struct pare_value *a, int ax, const int64_t *index,
                   const struct pare_value *b, int bx);

/* An index of axis wx of `whole` is a mixed-radix number, the most significant digit first, whose
 * digits are indices of other axes: Flatten combines (C, H, W), Reshape splits an axis, the
 * channels of a grouped convolution are (group, channel in the group).  An index is kept exactly
 * when all its digits are kept. */
struct pare_digit {
    const struct pare_value *v; /* NULL: the digit is not an axis of a value */
    int axis;                   /* of v; if v is NULL, the number of a virtual axis of the node,
                                   or -1: frozen */
    int64_t size;
};
void pare_tie_digits(struct pare_ties *t, const struct pare_value *whole, int wx,
                     const struct pare_digit *digit, int n);

/* Channels in groups: an index of axis wx of `whole` is (group, channel in the group), as in
 * pare_tie_digits.  Every kept group keeps the same number of channels, that of digit[1], but not
 * the same ones.  If digit[1] is an axis of a value, axis 0 of that value has the groups one after
 * the other, and its elements belong to the kept channels. */
void pare_tie_groups(struct pare_ties *t, const struct pare_value *whole, int wx,
                     const struct pare_digit digit[2]);

/* The node sums products of two operands over both axes, which have the same channels.  If one of
 * them is frozen and neither operand is a constant, the other one may lose channels that are 0:
 * shrink() must call pare_shrunk_select(). */
void pare_tie_summed(struct pare_ties *t, const struct pare_value *a, int ax,
                     const struct pare_value *b, int bx);

/* The node sums over this axis, and none of its other axes has the same indices: an index can be
 * removed if all elements there are 0. */
void pare_tie_sum(struct pare_ties *t, const struct pare_value *v, int axis);

/* The node computes with all indices of this axis, and shrink() makes the removed ones again: an
 * index can be removed if it is constant. */
void pare_tie_restored(struct pare_ties *t, const struct pare_value *v, int axis);

/* Pruners remove index i of both axes together, although each can be removed without the other: a
 * normalization along the channels mixes all of them, but what it reads and what it writes can be 0
 * at the same ones.  Speedup ignores the relation, and so do pruners where a computed axis is
 * frozen. */
void pare_tie_together(struct pare_ties *t, const struct pare_value *a, int ax,
                       const struct pare_value *b, int bx);

/* All indices of this axis are kept; `why` is a few words for a report, and is not copied. */
void pare_tie_freeze(struct pare_ties *t, const struct pare_value *v, int axis, const char *why);

/* ---- sums over channels ------------------------------------------------------------------- */

/* With group g of `groups`, output channel o and input channel i of the group,
 *     y[g, o] = outer * (bias[g, o] + scale * sum over i of w[g, o, i] * x[g, i])
 * where * may be a convolution.  One of w's two channel axes has the channels of all groups, the
 * other those of one group; other axes of w come last or have size 1. */
struct pare_linear {
    int x, w, bias; /* indices of inputs; bias -1: the operator has no such input */
    int x_axis, w_in, w_out, y_axis;
    int64_t groups;
    float scale, outer;
    bool borders; /* a constant x does not give a constant y, because of padding */

    /* Fused operators: y = after(the above); NULL: nothing follows.  `adds`: another input is added
     * before that, so that y is never constant. */
    float (*after)(const struct pare_node *n, float v);
    bool adds;
};

/* ---- constant and needed channels, for constant_output() and needed_channels() -------------- */

struct pare_needed;

/* The value of index i of an axis if it is constant, else NAN. */
float pare_needed_constant(const struct pare_needed *s, const struct pare_value *v, int axis,
                           int64_t i);

/* The indices of an axis that are needed so far, one byte each. */
const uint8_t *pare_needed_keep(const struct pare_needed *s, const struct pare_value *v, int axis);

/* Mark an index as needed. */
void pare_needed_add(struct pare_needed *s, const struct pare_value *v, int axis, int64_t i);

/* ---- smaller nodes, for shrink() ---------------------------------------------------------- */

struct pare_shrunk;

/* The number of indices of an axis that are kept, and which: one byte each. */
int64_t pare_shrunk_dim(const struct pare_shrunk *s, const struct pare_value *v, int axis);
const uint8_t *pare_shrunk_keep(const struct pare_shrunk *s, const struct pare_value *v, int axis);

/* Whether the size of the axis follows a free dimension of the inputs, which is unknown: it must
 * not be written into the model. */
bool pare_shrunk_free(const struct pare_shrunk *s, const struct pare_value *v, int axis);

/* Replace an attribute, an attribute that is a list, or a constant input of integers (a scalar
 * remains a scalar). */
void pare_shrunk_int(struct pare_shrunk *s, const char *attr, int64_t v);
void pare_shrunk_ints(struct pare_shrunk *s, const char *attr, const int64_t *v, int n);
void pare_shrunk_list(struct pare_shrunk *s, int input, const int64_t *v, int64_t n);

/* Replace the constant input that specifies the shape of output 0.  An element that follows a free
 * dimension must be expressed relative to the input: -1, 0 or 1, and only one may be -1.  A shape
 * that the model computes is kept if it gives the smaller output by itself. */
void pare_shrunk_shape(struct pare_shrunk *s, int input, const int64_t *v, int64_t n);

/* Let the node read only those channels of an axis of input k that `like` keeps along its axis
 * like_axis; input k must keep all of them. */
void pare_shrunk_select(struct pare_shrunk *s, int k, int axis, const struct pare_value *like,
                        int like_axis);

/* The node normalizes the rows of input 0, and its further inputs are lists with one element per
 * channel: insert zeros at the removed channels before it, and select the kept channels of output 0
 * after it. */
void pare_shrunk_rows(struct pare_shrunk *s);

/* The node has no form with fewer channels: all are kept.  `why` is not copied. */
void pare_shrunk_fail(struct pare_shrunk *s, const char *why);

#endif
