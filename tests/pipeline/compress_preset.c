/* compress_preset.c - pare_compress() with a named data set, as a program.
 *
 * usage: compress_preset PRESET MODEL.onnx DATA SEED OUTPUT.onnx
 */
#include <stdio.h>
#include <stdlib.h>

#include <pare/compress.h>

static int compress(char **argv, struct pare_model **model, struct pare_model **small,
                    struct pare_data *data[2], struct pare_err *err)
{
    struct pare_compress_opts o = { .size = sizeof(o), .preset = argv[1], .threads = 1 };

    PARE_TRY(pare_model_load(argv[2], model, err));
    PARE_TRY(pare_data_open(argv[3], "train", NULL, &data[0], err));
    PARE_TRY(pare_data_open(argv[3], "test", NULL, &data[1], err));
    o.data = data[0];
    o.valid = data[1];
    o.seed = strtoull(argv[4], NULL, 10);
    PARE_TRY(pare_compress(*model, &o, small, NULL, err));
    return pare_model_save(*small, argv[5], NULL, err);
}

int main(int argc, char **argv)
{
    struct pare_err err = { 0, "usage: compress_preset PRESET MODEL DATA SEED OUTPUT" };
    struct pare_model *model = NULL, *small = NULL;
    struct pare_data *data[2] = { NULL, NULL };
    int rc = argc == 6 ? compress(argv, &model, &small, data, &err) : 2;

    if (rc)
        fprintf(stderr, "compress_preset: %s\n", err.msg);
    pare_model_free(small);
    pare_model_free(model);
    pare_data_free(data[0]);
    pare_data_free(data[1]);
    return rc ? 1 : 0;
}
