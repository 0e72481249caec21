/* arg_family.h - what ArgMax and ArgMin share. */
#ifndef PARE_OP_REDUCE_ARG_FAMILY_H
#define PARE_OP_REDUCE_ARG_FAMILY_H

#include "../op.h"

struct pare_arg {
    int64_t axis, keepdims, select_last_index;
};
extern const struct pare_opt pare_arg_attrs[];

int pare_arg_infer(struct pare_node *n, struct pare_err *err);
void pare_arg_forward(const struct pare_node *n, bool largest);
void pare_arg_ties(const struct pare_node *n, struct pare_ties *t);

#endif
