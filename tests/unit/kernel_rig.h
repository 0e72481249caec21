/* kernel_rig.h - run a small model with a fast kernel and with reference kernels, and compare. */
#ifndef PARE_TEST_KERNEL_RIG_H
#define PARE_TEST_KERNEL_RIG_H

#include <math.h>

#include "make_model.h"

#include "backend/backend.h"
#include "base/rng.h"
#include "plan/plan.h"

enum { RIG_INPUTS = 4 };

struct rig {
    struct build b;
    struct pare_tensor in[RIG_INPUTS];
    int n_in;
    double tolerance; /* relative to the largest expected value; 0: exact */
};

static struct pare_rng rng;

static inline int64_t random_between(int64_t low, int64_t high)
{
    return low + (int64_t)pare_rng_below(&rng, (uint64_t)(high - low + 1));
}

/* An input of normal floats, of integers from -9 to 9, or of booleans. */
static inline const char *rig_input(struct rig *r, int dtype, int rank, const int64_t *dim)
{
    struct pare_tensor *t = &r->in[r->n_in++];

    *t = build_tensor(dtype, rank, dim);
    for (int64_t i = 0; i < pare_numel(t); i++)
        switch (dtype) {
        case PARE_F32: pare_f32_mut(t)[i] = (float)pare_rng_normal(&rng); break;
        case PARE_I64: pare_i64_mut(t)[i] = random_between(-9, 9); break;
        case PARE_I32: ((int32_t *)t->data)[i] = (int32_t)random_between(-9, 9); break;
        default: ((uint8_t *)t->data)[i] = (uint8_t)random_between(0, 1); break;
        }
    return build_input(&r->b, dtype, rank, dim);
}

static inline const char *rig_weights(struct build *b, int rank, const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = 0.3f * (float)pare_rng_normal(&rng);
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* A pointwise convolution, whose result is blocked. */
static inline const char *rig_conv(struct build *b, const char *x, int rank, int64_t channels)
{
    int64_t w[5] = { channels, channels, 1, 1, 1 };

    return build_node(b, "Conv", NAMES(x, rig_weights(b, rank, w)), NOTHING);
}

static inline struct pare_tensor rig_run(const struct rig *r, const struct pare_model *m,
                                         const struct pare_plan_opts *o, const char *type,
                                         const char *kernel)
{
    struct pare_plan *p;
    struct pare_tensor y;
    struct pare_err err;
    bool seen = !kernel;

    if (pare_plan_make(m, o, &p, &err) || pare_plan_execute(p, r->in, &y, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < p->n_steps && kernel; i++)
        seen |= p->step[i]->node && !strcmp(p->step[i]->node->type, type) && p->step[i]->kernel &&
                !strcmp(p->step[i]->kernel->name, kernel);
    if (!seen)
        fail_msg("no %s is run by %s", type, kernel);
    y = build_copy(&y);
    pare_plan_free(p);
    return y;
}

/* With one thread and several, a node of this type is run by this kernel (NULL: by any), and y is
 * that of the reference kernels. */
static inline void rig_check(struct rig *r, const char *y, const char *type, const char *kernel)
{
    struct pare_model *m;
    struct pare_tensor want;
    double largest = 1;

    build_output(&r->b, y);
    m = build_model(&r->b);
    want = rig_run(r, m, &(struct pare_plan_opts){ .reference = true }, NULL, NULL);
    for (int64_t i = 0; i < pare_numel(&want); i++)
        if (isfinite(pare_get(&want, i)))
            largest = fmax(largest, fabs(pare_get(&want, i)));
    for (int threads = 1; threads <= 3; threads += 2) {
        struct pare_tensor got = rig_run(r, m, &(struct pare_plan_opts){ .threads = threads }, type,
                                         kernel);

        assert_true(pare_same_shape(&got, &want) && got.dtype == want.dtype);
        for (int64_t i = 0; i < pare_numel(&want); i++) {
            double a = pare_get(&got, i), b = pare_get(&want, i);

            if (!(isnan(a) && isnan(b)) && a != b && !(fabs(a - b) <= r->tolerance * largest))
                fail_msg("%s, element %d: %g, expected %g", kernel ? kernel : type, (int)i, a, b);
        }
    }
    pare_model_free(m);
}

#endif
