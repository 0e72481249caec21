/* read_digits.c - classify handwritten digits with a trained network: a complete program on
 * <pare/pare.h>.
 *
 * usage: read_digits MODEL.onnx IMAGES LABELS
 *
 * IMAGES and LABELS are uncompressed IDX files in MNIST's format.  Prints a few images, then the
 * accuracy.
 */
#include <stdio.h>

#include <pare/pare.h>

#define SHOWN 6

/* Reads an IDX file: 0, 0, type 8 for bytes, rank, the dimensions in big-endian order, the
 * bytes. */
static int read_idx(struct pare_arena *a, const char *path, struct pare_tensor *t,
                    struct pare_err *err)
{
    unsigned char head[4] = { 0 }, b[4] = { 0 };
    int64_t dim[3] = { 0 };
    FILE *f = fopen(path, "rb");
    int rc, rank;

    if (!f)
        return pare_fail(err, PARE_EIO, "%s: cannot be opened", path);
    rank = fread(head, 1, 4, f) == 4 && head[2] == 8 && head[3] <= 3 ? head[3] : 0;
    for (int i = 0; i < rank; i++)
        if (fread(b, 1, 4, f) == 4)
            dim[i] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
    if (rank)
        rc = pare_tensor_new(a, t, PARE_U8, rank, dim, err);
    else
        rc = pare_fail(err, PARE_EFORMAT, "%s: not an IDX file of bytes", path);
    if (!rc && fread(t->data, 1, (size_t)pare_numel(t), f) != (size_t)pare_numel(t))
        rc = pare_fail(err, PARE_EFORMAT, "%s: file is truncated", path);
    fclose(f);
    return rc;
}

/* (N, 8, 8) bytes from 0 to 16 -> (N, 1, 8, 8) floats from 0 to 1. */
static int to_input(struct pare_arena *a, const struct pare_tensor *image, struct pare_tensor *x,
                    struct pare_err *err)
{
    int64_t dim[4] = { image->dim[0], 1, image->dim[1], image->dim[2] };

    PARE_TRY(pare_tensor_new(a, x, PARE_F32, 4, dim, err));
    for (int64_t i = 0; i < pare_numel(x); i++)
        pare_f32_mut(x)[i] = ((const unsigned char *)image->data)[i] / 16.0f;
    return 0;
}

static int argmax(const float *v, int64_t n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        if (v[i] > v[best])
            best = i;
    return best;
}

/* Prints the first images in a row, with the predicted digit below each. */
static void print_images(const struct pare_tensor *x, const struct pare_tensor *y)
{
    int64_t h = x->dim[2], w = x->dim[3], n = x->dim[0] < SHOWN ? x->dim[0] : SHOWN;

    for (int64_t row = 0; row < h; row++) {
        for (int64_t i = 0; i < n; i++) {
            for (int64_t col = 0; col < w; col++) {
                char c = " .:*#"[(int)(pare_f32(x)[(i * h + row) * w + col] * 4.99f)];

                printf("%c%c", c, c);
            }
            printf("  ");
        }
        putchar('\n');
    }
    for (int64_t i = 0; i < n; i++)
        printf("%*d%*s  ", (int)w, argmax(pare_f32(y) + i * y->dim[1], y->dim[1]), (int)w, "");
    putchar('\n');
}

static int classify(struct pare_arena *a, char **argv, struct pare_model **model,
                    struct pare_plan **plan, struct pare_err *err)
{
    struct pare_tensor image, label, x, y;
    struct pare_plan_opts opts = { .size = sizeof(opts), .in = &x, .n_in = 1 };
    int64_t right = 0;

    PARE_TRY(read_idx(a, argv[2], &image, err));
    PARE_TRY(read_idx(a, argv[3], &label, err));
    if (image.rank != 3 || label.rank != 1 || image.dim[0] != label.dim[0])
        return pare_fail(err, PARE_ESHAPE,
                         "images and labels do not have the same number of items");
    PARE_TRY(to_input(a, &image, &x, err));
    PARE_TRY(pare_model_load(argv[1], model, err));
    PARE_TRY(pare_plan_new(*model, &opts, plan, err));
    PARE_TRY(pare_plan_run(*plan, &x, 1, &y, 1, err));
    print_images(&x, &y);
    for (int64_t i = 0; i < y.dim[0]; i++)
        right += argmax(pare_f32(&y) + i * y.dim[1], y.dim[1]) ==
                 ((const unsigned char *)label.data)[i];
    printf("\n%d of %d digits classified correctly (%.1f %%)\n", (int)right, (int)y.dim[0],
           100.0 * (double)right / (double)y.dim[0]);
    return right * 100 < y.dim[0] * 97 ? pare_fail(err, PARE_EFORMAT, "accuracy is below 97 %%")
                                       : 0;
}

int main(int argc, char **argv)
{
    struct pare_arena *arena = pare_arena_new(1 << 20);
    struct pare_model *model = NULL;
    struct pare_plan *plan = NULL;
    struct pare_err err = { 0 };
    int rc = 2;

    if (argc == 4 && arena)
        rc = classify(arena, argv, &model, &plan, &err) ? 1 : 0;
    else
        fputs("usage: read_digits MODEL.onnx IMAGES LABELS\n", stderr);
    if (rc == 1)
        fprintf(stderr, "read_digits: %s\n", err.msg);
    pare_plan_free(plan);
    pare_model_free(model);
    pare_arena_free(arena);
    return rc;
}
