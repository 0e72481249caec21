/* fused_act.h - the activation that a fused operator of com.microsoft applies to its result. */
#ifndef PARE_OP_FUSED_FUSED_ACT_H
#define PARE_OP_FUSED_FUSED_ACT_H

#include "../inner_node.h"

/* Its name, "" or NULL for none, and its numbers.  FusedConv has them in the order of the
 * operator's attributes, FusedGemm by name. */
struct pare_act_spec {
    const char *name;
    struct pare_floats params;
    double alpha, beta, gamma; /* PARE_ACT_ABSENT: absent */
};
#define PARE_ACT_ABSENT 1e300

/* The activation as a node; node.op is NULL if there is none.  Any elementwise operator of the
 * standard domain with one input and attributes that are numbers. */
int pare_fused_act(const struct pare_act_spec *s, struct pare_inner *act, struct pare_err *err);

/* f(v); NAN if the activation is not known. */
float pare_fused_act_at(const struct pare_act_spec *s, float v);

/* y = f(y). */
void pare_fused_act_run(const struct pare_inner *act, const struct pare_tensor *y);

/* g = f'(x) gy, where y = f(x); n elements. */
void pare_fused_act_back(const struct pare_inner *act, const float *x, const float *y,
                         const float *gy, float *g, int64_t n);

/* FusedConv and FusedGemm as separate nodes: `first` with the node's attributes and its first n_in
 * inputs, then Add with `added` unless NULL, then `act` unless its op is NULL.  False: n is not
 * that operator. */
struct pare_fused_parts {
    const struct pare_op *first;
    int n_in;
    struct pare_value *added;
    struct pare_inner act;
};
bool pare_fused_conv_parts(const struct pare_node *n, struct pare_fused_parts *p);
bool pare_fused_gemm_parts(const struct pare_node *n, struct pare_fused_parts *p);

#endif
