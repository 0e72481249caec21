/* channels.h - what operators say to whoever takes channels out of a model; see operator.h.
 *
 * ties() says which indices of which axes go together.  The callbacks here say what else there is
 * to know: where an operator sums over channels, what becomes of a channel that is one number all
 * over, and which attributes and constants count channels.
 */
#ifndef PARE_OP_CHANNELS_H
#define PARE_OP_CHANNELS_H

#include <pare/pare.h>

struct pare_node;
struct pare_value;

/* An operator that sums over channels.  With group g of `groups`, output channel o and input
 * channel i of it,
 *     y[g, o] = outer * (bias[g, o] + scale * sum over i of w[g, o, i] * x[g, i])
 * where * may be a convolution.  One of w's two axes counts the channels of all groups, the other
 * those of one; axes of w besides these come last, or have size 1. */
struct pare_linear {
    int x, w, bias; /* inputs; bias: -1 when the operator has no input for one */
    int x_axis, w_in, w_out, y_axis;
    int64_t groups;
    float scale, outer;
    bool borders; /* an x that is one number all over does not give such a y: there is padding */
};

/* What is known and wanted of a node's inputs and outputs, for made() and needs().
 * even: the number that index i of the axis is all over; NAN: it is not.
 * keep: which indices stay so far, one byte each.
 * add:  this one has to stay. */
struct pare_needed;
float pare_needed_even(const struct pare_needed *s, const struct pare_value *v, int axis,
                       int64_t i);
const uint8_t *pare_needed_keep(const struct pare_needed *s, const struct pare_value *v, int axis);
void pare_needed_add(struct pare_needed *s, const struct pare_value *v, int axis, int64_t i);

/* A node whose inputs and outputs lose channels, for shrink(). */
struct pare_shrunk;

/* How many indices of an axis stay, and which: one byte each. */
int64_t pare_shrunk_dim(const struct pare_shrunk *s, const struct pare_value *v, int axis);
const uint8_t *pare_shrunk_keep(const struct pare_shrunk *s, const struct pare_value *v, int axis);

/* The axis follows the batch, which is not known: no number may be written for it. */
bool pare_shrunk_free(const struct pare_shrunk *s, const struct pare_value *v, int axis);

/* New contents: of an attribute, of an attribute that is a list, of an input that is a constant
 * list of integers (a scalar stays one). */
void pare_shrunk_int(struct pare_shrunk *s, const char *attr, int64_t v);
void pare_shrunk_ints(struct pare_shrunk *s, const char *attr, const int64_t *v, int n);
void pare_shrunk_list(struct pare_shrunk *s, int input, const int64_t *v, int64_t n);

/* It cannot be said with fewer channels: they stay.  `why` stays where it is. */
void pare_shrunk_fail(struct pare_shrunk *s, const char *why);

#endif
