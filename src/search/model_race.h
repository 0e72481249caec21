/* model_race.h - latency of two models, measured in alternation. */
#ifndef PARE_SEARCH_MODEL_RACE_H
#define PARE_SEARCH_MODEL_RACE_H

#include "../onnx/model.h"

struct pare_race {
    int64_t batch;     /* 0: 1 */
    int threads;       /* 0: all cores */
    double seconds;    /* in all, after warm-up; up to five times that while results vary */
    const char *cache; /* folder of kernel choices; NULL: none */
    uint64_t seed;     /* of the inputs */

    double us[2]; /* results: 10th percentiles, which other load on the machine changes least */
    int runs;
    double cpu_share; /* part of the time in which the calling thread had the processor */
};

/* Run both models in turn on the same random inputs, so that other load on the machine affects
 * both; kernels are tuned. */
int pare_race_run(const struct pare_model *first, const struct pare_model *second,
                  struct pare_race *r, struct pare_err *err);

#endif
