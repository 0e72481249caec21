/* fuzz_data.c - fuzz target: any bytes as an image or an IDX file; decode it and resize the result.
 *
 * libpng and libjpeg are foreign, but how they are called is ours: sizes, jumps, memory.
 */
#include "data/source.h"

#define MAX_PIXELS (1 << 20) /* of a picture that is resized */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* All pixels must be there. */
static void look(const void *data, size_t len)
{
    volatile unsigned char sum = 0;

    for (size_t i = 0; i < len; i++)
        sum ^= ((const unsigned char *)data)[i];
    (void)sum;
}

static void resize(struct pare_arena *a, struct pare_picture p, int64_t h, int64_t w)
{
    struct pare_err err;

    look(p.data, (size_t)(p.c * p.h * p.w));
    if (p.h * p.w <= MAX_PIXELS && !pare_rescale(a, &p, h, w, &err))
        look(p.data, (size_t)(p.c * h * w));
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_err err = { 0 };
    struct pare_picture p;
    struct pare_tensor t;

    if (!a)
        return 0;
    if (!pare_png_decode(a, data, size, &p, &err) || !pare_jpeg_decode(a, data, size, &p, &err)) {
        resize(a, p, 3, 40);
        resize(a, p, 33, p.w);
    }
    if (!pare_idx_parse(a, data, size, &t, &err))
        look(t.data, (size_t)pare_numel(&t) * pare_dtype_size(t.dtype));
    pare_arena_free(a);
    return 0;
}
