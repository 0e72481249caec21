/* inner_node.h - a node of another operator, for operators that are defined by others. */
#ifndef PARE_OP_INNER_NODE_H
#define PARE_OP_INNER_NODE_H

#include "op.h"

#define PARE_INNER_VALUES 4

/* An inner node is not part of a graph.  Its values are the outer node's, or temporary ones. */
struct pare_inner {
    struct pare_node node;
    struct pare_value *in[PARE_INNER_VALUES], *out[PARE_INNER_VALUES];
    int64_t attr[12];
};

/* Without inputs and outputs, with default attributes; fails if the operator has others than
 * integers, floats and texts.  The operator of the standard domain, in that version. */
int pare_inner_init(struct pare_inner *p, const struct pare_op *op, int version,
                    struct pare_err *err);

/* Set an attribute that is a number; fails if there is none of that name or v is out of range. */
int pare_inner_set(struct pare_inner *p, const char *name, double v, struct pare_err *err);

/* Append an input or output; NULL: absent. */
void pare_inner_in(struct pare_inner *p, struct pare_value *v);
void pare_inner_out(struct pare_inner *p, struct pare_value *v);

/* A float32 value of v's shape in the arena, uninitialized; with `grad`, a gradient of zeros. */
int pare_inner_temp(struct pare_value *t, const struct pare_value *v, bool grad,
                    struct pare_arena *a, struct pare_err *err);

#endif
