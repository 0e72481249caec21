/* fuzz_tables.c - fuzz target: any bytes as a CSV file, with and without a model of two inputs, and
 * as a WAV file. */
#include "base/arena.h"
#include "data/table_columns.h"
#include "data/wav.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const struct pare_io io[] = { { "a", PARE_F32, 2, { -1, -1 }, { NULL }, 0 },
                                     { "b", PARE_I64, 1, { -1 }, { NULL }, 0 } };

static void read_table(const unsigned char *bytes, size_t size, int n_io, const char *label)
{
    struct pare_arena *a = pare_arena_new(1 << 12), *tmp = pare_arena_new(1 << 12);
    volatile unsigned char sum = 0;
    struct pare_err err = { 0 };
    struct pare_data *d;

    if (!a || !tmp || pare_data_start(a, "fuzz", &d, &err))
        abort();
    d->parts->tmp = tmp;
    d->parts->io = io;
    d->parts->n_io = n_io;
    d->opts.label = label;
    d->opts.layout = "auto";
    if (!pare_table_parse(d, bytes, size, &err) && d->y.data)
        for (size_t i = 0; i < (size_t)pare_numel(&d->y) * pare_dtype_size(d->y.dtype); i++)
            sum ^= ((const unsigned char *)d->y.data)[i];
    (void)sum;
    pare_arena_free(tmp);
    pare_arena_free(a);
}

static void read_sound(const unsigned char *bytes, size_t size)
{
    struct pare_err err = { 0 };
    struct pare_wav w;
    float *out;

    pare_wav_parse(bytes, size / 2, size, &w, &err);
    if (pare_wav_parse(bytes, size, size, &w, &err))
        return;
    out = malloc((size_t)w.frames * sizeof(*out));
    for (int64_t c = 0; out && c < w.channels; c++)
        pare_wav_channel(&w, c, out);
    free(out);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    read_table(data, size, 0, NULL);
    read_table(data, size, 2, "c");
    read_sound(data, size);
    return 0;
}
