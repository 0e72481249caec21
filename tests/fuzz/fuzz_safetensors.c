/* fuzz_safetensors.c - fuzz target: any bytes as a .safetensors file; every byte of every tensor
 * can be read.
 *
 * Built and run as fuzz_onnx.c.
 */
#include "io/safetensors.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_safetensors st;
    struct pare_err err = { 0 };
    size_t all = 0;
    unsigned sum = 0;

    if (a && !pare_safetensors_parse(a, data, size, &st, &err)) {
        for (int i = 0; i < st.n_tensors; i++) {
            const struct pare_tensor *t = &st.tensor[i].t;
            size_t bytes = (size_t)pare_numel(t) * pare_dtype_size(t->dtype);

            for (size_t k = 0; k < bytes; k++)
                sum += ((unsigned char *)t->data)[k];
            for (int64_t k = 0; k < pare_numel(t); k++)
                sum += pare_get(t, k) > 0;
            all += bytes + strlen(st.tensor[i].name);
        }
        for (int i = 0; i < st.n_meta; i++)
            all += strlen(st.meta[i].key) + strlen(st.meta[i].value);
        if (all > 2 * size + sum)
            abort();
    } else if (!err.code || !err.msg[0]) {
        abort();
    }
    pare_arena_free(a);
    return 0;
}
