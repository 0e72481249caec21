/* fuzz_speedup.c - fuzz target: any bytes as a model with some channels masked, followed by
 * speedup.
 *
 * Built and run as fuzz_onnx.c.  Channels are masked at random, seeded by a hash of the bytes.
 */
#include "base/arena.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "onnx/model.h"
#include "tensor/tensor.h"

#include <pare/compress.h>

#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (1 << 16) /* of an input or a weight */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static uint64_t hash(const unsigned char *data, size_t size)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * 1099511628211u;
    return h;
}

/* Mask about half of the channels of one axis, all, or none. */
static void mask(struct pare_rng *r, const struct pare_tensor *t)
{
    int axis = (int)pare_rng_below(r, (uint64_t)(t->rank > 1 ? 2 : 1));
    uint64_t keep = pare_rng_below(r, 4), which = pare_rng_below(r, UINT64_MAX);
    int64_t inner = 1;

    for (int i = axis + 1; i < t->rank; i++)
        inner *= t->dim[i];
    for (int64_t i = 0; i < pare_numel(t) && keep < 3; i++)
        if (!keep || which >> (i / inner % t->dim[axis] % 64) & 1)
            pare_f32_mut(t)[i] = 0;
}

static bool is_small(const struct pare_model *m)
{
    const struct pare_io *io;
    int n = pare_model_inputs(m, &io);

    for (int i = 0; i < n; i++) {
        struct pare_tensor t = { .dtype = io[i].dtype, .rank = io[i].rank };
        struct pare_err err;
        int64_t count;
        size_t bytes;

        for (int k = 0; k < t.rank; k++)
            t.dim[k] = io[i].dim[k] < 0 ? 1 : io[i].dim[k];
        if (t.rank < 0 || pare_tensor_size(&t, &count, &bytes, &err) || bytes > MAX_BYTES)
            return false;
    }
    return true;
}

static void shrink(struct pare_model *m, struct pare_arena *a, uint64_t seed)
{
    struct pare_speedup_opts o = { .threads = 1, .round_to = seed % 3 == 0 ? 4 : 0 };
    struct pare_speedup_report report;
    struct pare_model *smaller = NULL;
    struct pare_err err = { 0 };
    struct pare_rng r;
    void *bytes;
    size_t n;
    int rc;

    pare_rng_init(&r, seed);
    for (int i = 0; i < m->graph->n_values; i++) {
        struct pare_value *v = m->graph->value[i];

        if (v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32 && v->t.rank > 0 &&
            pare_numel(&v->t) * 4 <= MAX_BYTES && pare_numel(&v->t) > 0 &&
            !pare_model_own(m, v, &err))
            mask(&r, &v->t);
    }
    rc = pare_speedup(m, &o, a, &smaller, &report, &err);
    if (rc && (rc != err.code || !err.msg[0] || smaller))
        abort();
    if (!rc && report.params_left > report.params)
        abort();
    if (!rc)
        pare_model_pack(smaller, a, &bytes, &n, &err);
    pare_model_free(smaller);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    pare_memory_limit((size_t)1 << 28); /* as --max-memory does */
    if (!pare_model_parse(data, size, NULL, &m, &err) && is_small(m))
        shrink(m, a, hash(data, size));
    pare_model_free(m);
    pare_arena_free(a);
    return 0;
}
