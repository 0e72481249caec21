/* fuzz_onnx.c - fuzz target: any bytes as a model; load it, save it, infer its shapes, evaluate it.
 *
 * With clang and -DPARE_FUZZ=ON this is a libFuzzer target:
 *     build/tests/fuzz/fuzz_onnx -rss_limit_mb=4096 -timeout=20 new-corpus tests/fuzz/corpus
 * Otherwise driver.c runs it on the files it is given.
 */
#include "base/arena.h"
#include "onnx/model.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

#define MAX_INPUT 65536 /* bytes of an input that is filled */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* A written model can be read, and writing it again gives the same bytes. */
static void check_round_trip(const struct pare_model *m, struct pare_arena *a)
{
    struct pare_model *again = NULL;
    struct pare_err err = { 0 };
    void *first, *second;
    size_t n, k;

    if (pare_model_pack(m, a, &first, &n, &err))
        return;
    if (pare_model_parse(first, n, NULL, &again, &err) ||
        pare_model_pack(again, a, &second, &k, &err) || n != k || memcmp(first, second, n))
        abort();
    pare_model_free(again);
}

/* Make every small input a constant, so that inference evaluates the graph. */
static void fill_inputs(struct pare_graph *g, const unsigned char *data, size_t size)
{
    struct pare_err err;

    for (int i = 0; i < g->n_in; i++) {
        struct pare_value *v = g->in[i];
        size_t bytes;
        int64_t n;

        if (pare_tensor_size(&v->t, &n, &bytes, &err) || bytes > MAX_INPUT ||
            v->t.dtype == PARE_STR || pare_tensor_alloc(g->arena, &v->t, &err))
            continue;
        for (int64_t k = 0; k < n; k++) {
            int16_t x = (int16_t)(data[((size_t)k * 7 + (size_t)i) % size] % 16 - 4);
            char *at = (char *)v->t.data + (size_t)k * pare_dtype_size(v->t.dtype);

            pare_convert(v->t.dtype, at, PARE_I16, &x, 1, &err);
        }
        v->flags |= PARE_V_CONST;
    }
}

static void infer(const struct pare_model *m, bool filled, const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_err err = { 0 };
    struct pare_graph *g = a ? pare_graph_clone(a, m->graph, &err) : NULL;

    if (g) {
        pare_graph_bind(g, 2);
        if (filled)
            fill_inputs(g, data, size);
        pare_graph_infer(g, true, &err);
    }
    pare_arena_free(a);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_model *m = NULL;
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_err err = { 0 };

    pare_memory_limit((size_t)1 << 30); /* as --max-memory does */
    if (a && !pare_model_parse(data, size, NULL, &m, &err)) {
        check_round_trip(m, a);
        infer(m, false, data, size);
        infer(m, true, data, size);
    }
    pare_model_free(m);
    pare_arena_free(a);
    return 0;
}
