/* fuzz_grams.c - fuzz target: any bytes as a file of Gram matrices and Fisher information; what is
 * accepted is finite, symmetric and of the layer's sizes.
 *
 * Built and run as fuzz_onnx.c.
 */
#include "base/arena.h"
#include "compress/gram_file.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { GROUPS = 2, ROWS = 1, K = 2 };

static void check(const struct pare_gram *g, const struct pare_fisher *f)
{
    double sum = g->n;

    for (int i = 0; i < GROUPS * K * K; i++)
        sum += g->g[i] + (g->cross ? g->cross[i] : 0);
    for (int i = 0; i < GROUPS * K; i++)
        sum += g->mean[i] + (g->cross_mean ? g->cross_mean[i] : 0);
    for (int i = 0; i < GROUPS; i++) {
        const double *m = g->g + i * K * K;

        if (m[0] < 0 || m[3] < 0 || fabs(m[1] - m[2]) > 1e-8 * sqrt(m[0]) * sqrt(m[3]))
            abort();
    }
    for (int i = 0; f && i < GROUPS * ROWS; i++)
        if (!(f->f[i] >= 0))
            abort();
    if (isnan(sum) || !(g->n > 0))
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    const struct pare_layer_info layer = { .name = "conv" };

    for (int fisher = 0; fisher < 2; fisher++) {
        struct pare_arena *a = pare_arena_new(1 << 16);
        struct pare_gram g = { .layer = &layer, .groups = GROUPS, .rows = ROWS, .k = K };
        struct pare_fisher f = { .layer = &layer };
        struct pare_err err = { 0 };

        if (a && !pare_grams_parse(a, data, size, &g, fisher ? &f : NULL, 1, &err))
            check(&g, fisher ? &f : NULL);
        else if (!err.code || !err.msg[0])
            abort();
        pare_arena_free(a);
    }
    return 0;
}
