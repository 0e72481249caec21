/* half_choose.h - which nodes of a graph compute in half precision. */
#ifndef PARE_QUANT_HALF_HALF_CHOOSE_H
#define PARE_QUANT_HALF_HALF_CHOOSE_H

#include "half_precision.h"

struct pare_half_scan {
    const struct pare_model *m;
    struct pare_half *h;
    struct pare_arena *a;
    struct pare_graph *g; /* a clone of the model's graph with element types */
    bool *half;           /* per node: computes in half precision */
    bool *big;            /* per node: float32, and may make finite values beyond the range */
    bool *part;           /* per node: part of a normalization that is written out */
};

/* Fill g, half, big and part. */
int pare_half_choose(struct pare_half_scan *s, struct pare_err *err);

/* Does the node read input k in its own float type, which may be half precision? */
bool pare_half_input(const struct pare_node *n, int k);

/* A value of element type float32. */
bool pare_half_is_float(const struct pare_value *v);

/* A float32 initializer of the main graph. */
bool pare_half_is_weight(const struct pare_half_scan *s, const struct pare_value *v);

/* What conversion does to the elements of a constant. */
struct pare_half_loss {
    int64_t over;  /* finite elements beyond the type's range */
    int64_t under; /* elements that become 0 */
    double peak;   /* largest finite magnitude */
};
int pare_half_loss(struct pare_half_scan *s, struct pare_value *v, struct pare_half_loss *loss,
                   struct pare_err *err);

#endif
