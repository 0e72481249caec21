/* fuzz_compress.c - fuzz target: any text as config_list or calibration of a complete compression.
 *
 * Built and run as fuzz_onnx.c.  The first byte selects the pruner or quantizer; text
 * after a zero byte is a calibration file.
 */
#include "base/arena.h"
#include "compress/registry.h"
#include "memory_file.h"
#include "onnx/model.h"

#include <pare/compress.h>

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const char *const pruners[] = { "level", "l1", "l2", "fpgm", "nm", "random", "linear" };
static const char *const quantizers[] = { "naive", "qat", "dorefa", "bnn", "ptq", "group", "lsq" };

/* A failure must have a message. */
static int check(int rc, const struct pare_err *err)
{
    if (rc && (rc != err->code || !err->msg[0]))
        abort();
    return rc;
}

static void run(struct pare_model *m, const struct pare_compression_opts *o,
                const char *calibration)
{
    struct pare_err err = { 0 };
    struct pare_compression *r = NULL;

    if (!check(pare_compression_new(m, o, &r, &err), &err)) {
        if (calibration) {
            struct memory_file f = memory_file(calibration, strlen(calibration));

            check(pare_compression_calibrate(r, f.path, &err), &err);
            close(f.fd);
        }
        err = (struct pare_err){ 0 };
        check(pare_compression_compress(r, &err), &err);
    }
    pare_compression_free(r);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const int64_t chw[] = { 1, 2, 2 };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_compression_opts o = { .threads = 1 };
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };
    char *text;

    if (size < 2 || pare_model_new("mlp", chw, 3, 1, &m, &err)) {
        pare_arena_free(a);
        return 0;
    }
    if (data[0] % 2)
        o.pruner = pruners[data[0] / 2 % 7];
    else
        o.quantizer = quantizers[data[0] / 2 % 7];
    text = pare_strndup(a, (const char *)data + 1, size - 1);
    o.config = *text == '[' || *text == '{' ? text : "[{\"op_types\": [\"default\"]}]";
    run(m, &o, strlen(text) + 1 < size - 1 ? text + strlen(text) + 1 : NULL);
    pare_model_free(m);
    pare_arena_free(a);
    return 0;
}
