/* fuzz_data.c - fuzz target: any bytes as an image or an IDX file; decode it and resize the result.
 *
 * Tests how Pare calls libpng and libjpeg: sizes, longjmp, memory.
 */
#include "data/source.h"

#define MAX_PIXELS (1 << 20) /* of an image that is resized */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* Reads every byte, so that a sanitizer finds missing ones. */
static void read_all(const void *data, size_t len)
{
    volatile unsigned char sum = 0;

    for (size_t i = 0; i < len; i++)
        sum ^= ((const unsigned char *)data)[i];
    (void)sum;
}

static void resize(struct pare_arena *a, struct pare_image p, int64_t h, int64_t w)
{
    struct pare_err err;

    read_all(p.data, (size_t)(p.c * p.h * p.w));
    if (p.h * p.w <= MAX_PIXELS && !pare_rescale(a, &p, h, w, &err))
        read_all(p.data, (size_t)(p.c * h * w));
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_err err = { 0 };
    struct pare_image p;
    struct pare_tensor t;

    if (!a)
        return 0;
    if (!pare_png_decode(a, data, size, &p, &err) || !pare_jpeg_decode(a, data, size, &p, &err)) {
        resize(a, p, 3, 40);
        resize(a, p, 33, p.w);
    }
    if (!pare_idx_parse(a, data, size, &t, &err))
        read_all(t.data, (size_t)pare_numel(&t) * pare_dtype_size(t.dtype));
    pare_arena_free(a);
    return 0;
}
