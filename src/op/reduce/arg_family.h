/* arg_family.h - shared by ArgMax and ArgMin. */
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

/* Members of a descriptor. */
#define PARE_ARG_OP(op_type, text)                                                              \
    .type = op_type, .doc = text, .since = 1, .in = "T", .types = PARE_T_NUMERIC, .min_out = 1, \
    .max_out = 1, .attrs = pare_arg_attrs, .attr_size = sizeof(struct pare_arg),                \
    .flags = PARE_OP_STEPS, .infer = pare_arg_infer, .forward = forward, .ties = pare_arg_ties

#endif
