/* random_family.h - shared by operators that generate random numbers.
 *
 * Numbers depend only on the seed attribute or, without one, on the node's name: a model gives the
 * same results in every run.
 */
#ifndef PARE_OP_GENERATE_RANDOM_FAMILY_H
#define PARE_OP_GENERATE_RANDOM_FAMILY_H

#include "../shape/movement.h"

#define PARE_NO_SEED 1e300 /* no float32 has this value */

/* The attributes of all these operators; each lists those that it has. */
struct pare_random {
    double seed, low, high; /* RandomNormal: mean and scale are low and high */
    int64_t dtype;          /* 0: absent */
    struct pare_ints shape;
};

/* One row of an attribute table. */
#define PARE_RANDOM_SEED                                                                 \
    PARE_FLOAT("seed", offsetof(struct pare_random, seed), "seed of the random numbers", \
               PARE_NO_SEED, PARE_NO_MIN, PARE_NO_MAX)
#define PARE_RANDOM_DTYPE(def)                                                                     \
    PARE_INT("dtype", offsetof(struct pare_random, dtype), "element type of the result", (def), 0, \
             64)
#define PARE_RANDOM_SHAPE                                                                         \
    {                                                                                             \
        "shape", "shape of the result", PARE_OPT_INTS, offsetof(struct pare_random, shape), 0, 0, \
            1e15, NULL, NULL, true, NULL                                                          \
    }
#define PARE_RANDOM_REAL(name, help, field, def) \
    PARE_FLOAT(name, offsetof(struct pare_random, field), help, (def), PARE_NO_MIN, PARE_NO_MAX)

/* The shape of input 0, or of the attribute if there are no inputs. */
int pare_random_infer(struct pare_node *n, struct pare_err *err);

uint64_t pare_random_start(const struct pare_node *n);
double pare_random_uniform(uint64_t *state); /* in (0, 1) */
double pare_random_normal(uint64_t *state);  /* mean 0, deviation 1 */

/* Output 0 = low + (high - low) u, and mean + scale z. */
int pare_forward_uniform(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_forward_normal(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

#endif
