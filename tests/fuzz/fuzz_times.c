/* fuzz_times.c - fuzz target: any bytes as a table of times of layers.
 *
 * Built and run as fuzz_onnx.c.
 */
#include "base/arena.h"
#include "search/cost_samples.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_cost_samples s = { .arena = a };
    struct pare_err err = { 0 };
    int rc = pare_cost_samples_parse(&s, (const char *)data, size, &err);

    if (rc != err.code || (rc && !err.msg[0]))
        abort();
    pare_cost_samples_fit(&s);
    for (int i = 0; i < s.n; i++) {
        double us = pare_cost_curve_at(s.curve[i], 24, 40);

        if (!isfinite(us) || us < 0)
            abort();
    }
    pare_arena_free(a);
    return 0;
}
