/* fuzz_run.c - fuzz target: any bytes as a model; compile it as `pare run` does, run it, save it.
 *
 * Built and run as fuzz_onnx.c, which covers loading.  This one covers kernels, layouts and buffer
 * placement: with the kernels that the rules choose, without a kernel that the input selects (so
 * that other candidates are used), and with the reference kernels.  Large plans are not run.
 */
#include "backend/backend.h"
#include "base/arena.h"
#include "graph/macs.h"
#include "plan/plan.h"
#include "tensor/tensor.h"

#include <stdlib.h>

#define MAX_BYTES (1 << 16) /* of an input */
#define MAX_PLAN (1 << 22)  /* of a plan's memory */
#define MAX_MACS 1e7

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* Inputs of the declared shapes; free dimensions are 2. */
static struct pare_tensor *inputs(struct pare_arena *a, const struct pare_model *m,
                                  const unsigned char *data, size_t size)
{
    const struct pare_io *io;
    int n = pare_model_inputs(m, &io);
    struct pare_tensor *t = pare_alloc(a, (size_t)n, sizeof(*t));
    struct pare_err err;

    for (int i = 0; i < n; i++) {
        size_t bytes;
        int64_t count;

        t[i] = (struct pare_tensor){ .dtype = io[i].dtype,
                                     .rank = io[i].rank < 0 ? 1 : io[i].rank };
        for (int k = 0; k < t[i].rank; k++)
            t[i].dim[k] = io[i].rank < 0 || io[i].dim[k] < 0 ? 2 : io[i].dim[k];
        if (t[i].dtype == PARE_STR || pare_tensor_size(&t[i], &count, &bytes, &err) ||
            bytes > MAX_BYTES || pare_tensor_alloc(a, &t[i], &err))
            return NULL;
        for (int64_t k = 0; k < count; k++) {
            int16_t x = (int16_t)(data[((size_t)k * 7 + (size_t)i) % size] % 16 - 4);
            char *at = (char *)t[i].data + (size_t)k * pare_dtype_size(t[i].dtype);

            pare_convert(t[i].dtype, at, PARE_I16, &x, 1, &err);
        }
    }
    return t;
}

static bool is_small(struct pare_arena *a, const struct pare_plan *p)
{
    struct pare_count c;
    struct pare_err err;

    return p->memory_bytes <= MAX_PLAN && !pare_count(a, p->graph, 1, true, &c, &err) &&
           c.flops <= MAX_MACS;
}

static void run(struct pare_arena *a, const struct pare_model *m, const struct pare_tensor *in,
                const struct pare_plan_opts *o, const char *without)
{
    const char *const list[] = { without, NULL };
    struct pare_err err = { 0 };
    struct pare_plan *p = NULL;
    const struct pare_io *io;
    struct pare_tensor *out = pare_alloc(a, (size_t)pare_model_outputs(m, &io), sizeof(*out));
    volatile unsigned char sum = 0;
    int rc = pare_plan_build(
        m, &(struct pare_plan_build){ .opts = o, .without = without ? list : NULL }, &p, &err);

    if (!rc && is_small(a, p))
        rc = pare_plan_execute(p, in, out, &err);
    for (int i = 0; !rc && i < pare_model_outputs(m, &io) && out[i].data; i++)
        for (size_t k = 0; k < (size_t)pare_numel(&out[i]) * pare_dtype_size(out[i].dtype); k++)
            sum ^= ((unsigned char *)out[i].data)[k];
    (void)sum;
    if (rc && (rc != err.code || !err.msg[0]))
        abort();
    pare_plan_free(p);
}

static void run_all(struct pare_arena *a, const struct pare_model *m, const struct pare_tensor *in,
                    const unsigned char *data, size_t size)
{
    struct pare_plan_opts o = { .threads = 1, .in = in };
    size_t kernels = 0, pick = size;

    while (pare_kernels[kernels])
        kernels++;
    for (size_t i = 0; i < size; i++)
        pick = pick * 31 + data[i];
    run(a, m, in, &o, NULL);
    run(a, m, in, &o, pare_kernels[pick % kernels]->name);
    o.reference = true;
    run(a, m, in, &o, NULL);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };
    struct pare_tensor *in;
    void *packed;
    size_t n;

    pare_memory_limit((size_t)1 << 30); /* as --max-memory does */
    if (!pare_model_parse(data, size, NULL, &m, &err)) {
        in = inputs(a, m, data, size);
        if (in)
            run_all(a, m, in, data, size);
        pare_model_pack(m, a, &packed, &n, &err);
    }
    pare_model_free(m);
    pare_arena_free(a);
    return 0;
}
