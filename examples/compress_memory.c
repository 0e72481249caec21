/* compress_memory.c - `pare compress --preset balanced` with images from memory.
 *
 * usage: compress_memory MODEL.onnx IMAGES LABELS OUTPUT.onnx       (IDX files of 8 x 8 digits)
 */
#include <stdio.h>

#include <pare/compress.h>

#define MAX_ITEMS 2000
static float pixel[MAX_ITEMS * 64];
static int64_t label[MAX_ITEMS];

/* The number of items; 0: a file cannot be read. */
static int read_digits(const char *images, const char *labels)
{
    FILE *x = fopen(images, "rb"), *y = fopen(labels, "rb");
    int n = 0, c;

    for (long i = -16; x && (c = getc(x)) != EOF && i < MAX_ITEMS * 64; i++)
        if (i >= 0)
            pixel[i] = (float)c / 16.0f;
    for (long i = -8; y && (c = getc(y)) != EOF && i < MAX_ITEMS; i++)
        if (i >= 0)
            label[n++] = c;
    return (x ? fclose(x) : 1) | (y ? fclose(y) : 1) ? 0 : n;
}

static int run(char **argv, struct pare_model **model, struct pare_model **small,
               struct pare_data **data, struct pare_err *err)
{
    int64_t n = read_digits(argv[2], argv[3]);
    struct pare_input x = { "image", { PARE_F32, 4, { n, 1, 8, 8 }, pixel } };
    struct pare_tensor y = { PARE_I64, 1, { n }, label };
    struct pare_arrays arrays = { sizeof(arrays), "digits", n,  &x,    1,   &y,
                                  NULL,           NULL,     64, false, NULL };
    struct pare_compress_opts o = { sizeof(o), "balanced", NULL, NULL, NULL, 1, 0, NULL, NULL, 0 };
    struct pare_compress_report r;

    PARE_TRY(pare_data_from_arrays(&arrays, data, err));
    o.data = o.valid = *data;
    PARE_TRY(pare_model_load(argv[1], model, err));
    PARE_TRY(pare_compress(*model, &o, small, &r, err));
    printf("parameters %lld to %lld, accuracy %.2f %% to %.2f %%\n", (long long)r.params,
           (long long)r.params_left, 100 * r.before.top1, 100 * r.after.top1);
    return pare_model_save(*small, argv[4], NULL, err);
}

int main(int argc, char **argv)
{
    struct pare_err err = { 0, "usage: compress_memory MODEL IMAGES LABELS OUTPUT" };
    struct pare_model *model = NULL, *small = NULL;
    struct pare_data *data = NULL;
    int rc = argc == 5 ? run(argv, &model, &small, &data, &err) : 2;

    if (rc)
        fprintf(stderr, "compress_memory: %s\n", err.msg);
    pare_data_free(data);
    pare_model_free(model);
    pare_model_free(small);
    return rc ? 1 : 0;
}
