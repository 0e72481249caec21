/* golden_quant.h - files of cases written by tools/golden_quant.py: arrays "case|what". */
#ifndef PARE_TESTS_GOLDEN_QUANT_H
#define PARE_TESTS_GOLDEN_QUANT_H

#include "quant_rig.h"

#include "io/npz.h"
#include "tensor/tensor.h"

struct golden {
    struct pare_arena *arena;
    struct pare_named *file;
    int n;
};

static inline struct pare_tensor *find_array(struct golden *g, const char *prefix, const char *name)
{
    char full[128];

    snprintf(full, sizeof(full), "%s|%s", prefix, name);
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->file[i].name, full))
            return &g->file[i].t;
    return NULL;
}

/* Expects each element to differ by at most `tolerance` times the largest magnitude. */
static inline void expect_close(const char *name, const char *what, const struct pare_tensor *got,
                                const struct pare_tensor *want, double tolerance)
{
    double largest = 0;

    assert_int_equal(pare_numel(got), pare_numel(want));
    for (int64_t i = 0; i < pare_numel(want); i++)
        largest = fmax(largest, fabs((double)pare_f32(want)[i]));
    for (int64_t i = 0; i < pare_numel(want); i++)
        if (!(fabs((double)pare_f32(got)[i] - (double)pare_f32(want)[i]) <= tolerance * largest))
            fail_msg("%s, %s: element %lld is %.9g, expected %.9g", name, what, (long long)i,
                     (double)pare_f32(got)[i], (double)pare_f32(want)[i]);
}

#endif
