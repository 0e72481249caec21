/* fuzz_masks.c - fuzz target: any bytes as masks of a network, followed by speedup.
 *
 * Built and run as fuzz_onnx.c.  Bytes after "bits" are masks, one bit per weight, which always
 * fit; then speedup must succeed.
 */
#include "base/arena.h"
#include "graph/layer.h"
#include "io/tensor_file.h"
#include "memory_file.h"
#include "onnx/model.h"
#include "tensor/tensor.h"

#include <pare/compress.h>

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void shrink(const struct pare_model *m, struct pare_arena *a, bool must_succeed)
{
    struct pare_speedup_opts o = { .threads = 1 };
    struct pare_speedup_report report;
    struct pare_model *smaller = NULL;
    struct pare_err err = { 0 };
    int rc = pare_speedup(m, &o, a, &smaller, &report, &err);

    if (rc && (rc != err.code || !err.msg[0] || must_succeed)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    pare_model_free(smaller);
}

static void mask_bits(struct pare_model *m, struct pare_arena *a, const unsigned char *data,
                      size_t size)
{
    struct pare_err err;
    size_t bit = 0;

    for (int i = 0; i < m->graph->n_values; i++) {
        struct pare_value *v = m->graph->value[i];

        if (!(v->flags & PARE_V_CONST) || v->maker || v->t.dtype != PARE_F32)
            continue;
        if (pare_model_own(m, v, &err))
            abort();
        for (int64_t k = 0; k < pare_numel(&v->t); k++, bit++)
            if (bit / 8 < size && data[bit / 8] >> (bit % 8) & 1)
                pare_f32_mut(&v->t)[k] = 0;
    }
    shrink(m, a, true);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const int64_t chw[] = { 1, 2, 2 };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };
    struct memory_file f;

    if (pare_model_new("mlp", chw, 3, 1, &m, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    if (size > 4 && !memcmp(data, "bits", 4)) {
        mask_bits(m, a, data + 4, size - 4);
    } else {
        f = memory_file(data, size);
        if (!pare_apply_masks(m, f.path, &err))
            shrink(m, a, false);
        else if (!err.code || !err.msg[0])
            abort();
        close(f.fd);
    }
    pare_model_free(m);
    pare_arena_free(a);
    return 0;
}
