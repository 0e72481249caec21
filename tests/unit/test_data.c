/* test_data.c - every data set format, from small files, valid and invalid. */
#include "data_rig.h"

#include <png.h>
#include <zlib.h>

#include "data/source.h"
#include "io/npy.h"
#include "io/npz.h"
#include "io/tensor_pb.h"
#include "tensor/tensor.h"

static void expect_near(float have, double want)
{
    if (!(have > want - 1e-5 && have < want + 1e-5))
        fail_msg("%g, expected %g", (double)have, want);
}

static void expect_item_shape(const struct rig *r, int rank, int64_t a, int64_t b, int64_t c)
{
    assert_int_equal(r->data->item.rank, rank);
    assert_int_equal(r->data->item.dim[0], a);
    assert_true(rank < 2 || r->data->item.dim[1] == b);
    assert_true(rank < 3 || r->data->item.dim[2] == c);
}

/* ---- named data sets -------------------------------------------------------------- */

static void test_digits_are_built_in(void **state)
{
    struct rig r;
    int64_t count[10] = { 0 };
    const float *x;

    (void)state;
    rig_begin(&r);
    for (int test = 0; test < 2; test++) {
        expect_open(&r, ":digits", test ? "test" : "train", "");
        assert_int_equal(r.data->n, test ? 360 : 1437);
        expect_item_shape(&r, 3, 1, 8, 8);
        assert_int_equal(r.data->classes, 10);
        assert_string_equal(r.data->class_name[7], "7");
        for (int64_t i = 0; i < r.data->n; i++)
            count[pare_i64(&r.data->y)[i]]++;
        x = read_item(&r, r.data->n - 1);
        for (int i = 0; i < 64; i++)
            assert_true(x[i] >= 0 && x[i] <= 1);
    }
    for (int k = 0; k < 10; k++)
        assert_in_range(count[k], 174, 183);
    expect_open_error(&r, ":digit", "train", "", "did you mean 'digits'?");
    expect_open_error(&r, ":digits", "training", "", "must be train, val or test");
    rig_end(&r);
}

static void test_fashion_mnist_is_found(void **state)
{
    struct rig r;
    double sum = 0, sum2 = 0;

    (void)state;
    rig_begin(&r);
    if (open_data(&r, ":fashion-mnist", "test", "batch=1000")) {
        expect_message(&r, "dataset-fashion-mnist");
        rig_end(&r);
        skip();
    }
    assert_int_equal(r.data->n, 10000);
    expect_item_shape(&r, 3, 1, 28, 28);
    assert_string_equal(r.data->class_name[9], "Ankle boot");
    assert_int_equal(pare_i64(&r.data->y)[0], 9);
    start_loader(&r, false, 0);
    for (const struct pare_batch *b = next_batch(&r); b; b = next_batch(&r))
        for (int64_t i = 0; i < pare_numel(&b->x); i++) {
            sum += (double)pare_f32(&b->x)[i];
            sum2 += (double)pare_f32(&b->x)[i] * (double)pare_f32(&b->x)[i];
        }
    assert_true(sum / 7840000 > -0.01 && sum / 7840000 < 0.01);
    assert_true(sum2 / 7840000 > 0.98 && sum2 / 7840000 < 1.02);
    rig_end(&r);
}

/* ---- IDX ---------------------------------------------------------------------------- */

static const unsigned char pixels[] = { 0,   51,  102, 153, 204, 255, 0, 0, 0,
                                        255, 255, 255, 1,   2,   3,   4, 5, 6 };
static const unsigned char labels[] = { 2, 0, 1 };

static void write_idx_pair(struct rig *r, const char *images, const char *label_file)
{
    unsigned char buf[128];

    rig_write(r, images, buf, make_idx(buf, 3, (int[]){ 3, 2, 3 }, pixels));
    rig_write(r, label_file, buf, make_idx(buf, 1, (int[]){ 3 }, labels));
}

static void test_idx_files_are_found_by_name(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_idx_pair(&r, "a/train-images-idx3-ubyte", "a/train-labels-idx1-ubyte");
    write_idx_pair(&r, "b/data/t10k-images.idx3-ubyte", "b/data/t10k-labels.idx1-ubyte");
    expect_open(&r, "a", "train", "");
    assert_string_equal(pare_source_name(r.data->source), "idx");
    assert_int_equal(r.data->n, 3);
    assert_int_equal(r.data->classes, 3);
    assert_false(r.data->classes_known);
    expect_item_shape(&r, 3, 1, 2, 3);
    expect_near(read_item(&r, 0)[1], 0.2);
    assert_int_equal(pare_i64(&r.data->y)[0], 2);
    expect_open_error(&r, "a", "test", "", "no t10k-images-idx3-ubyte[.gz]");
    expect_open(&r, "b", "test", "scale=1 mean=1 std=2");
    expect_near(read_item(&r, 2)[5], 2.5);
    expect_open(&r, "a/train-images-idx3-ubyte", "test", "norm=mnist");
    assert_int_equal(r.data->classes, 3);
    expect_near(read_item(&r, 0)[0], -0.1307 / 0.3081);
    unlink(rig_path(&r, "a/train-labels-idx1-ubyte"));
    expect_open_error(&r, "a", "train", "", "no file of labels");
    expect_open(&r, "a/train-images-idx3-ubyte", "train", "");
    assert_null(r.data->y.data);
    assert_int_equal(r.data->classes, 0);
    rig_end(&r);
}

static size_t gzip(unsigned char *to, size_t room, const void *from, size_t len)
{
    z_stream z = { 0 };

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)from;
    z.avail_in = (uInt)len;
    z.next_out = to;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static void test_compressed_and_damaged_idx(void **state)
{
    unsigned char buf[128], packed[256], twice[256];
    struct pare_tensor t;
    struct rig r;
    size_t len, n;

    (void)state;
    rig_begin(&r);
    len = make_idx(buf, 3, (int[]){ 3, 2, 3 }, pixels);
    n = gzip(packed, sizeof(packed), buf, len);
    assert_int_equal(pare_idx_parse(r.arena, packed, n, &t, &r.err), 0);
    assert_memory_equal(t.data, pixels, sizeof(pixels));
    for (size_t i = 0; i < n; i++)
        assert_int_not_equal(pare_idx_parse(r.arena, packed, i, &t, &r.err), 0);
    for (size_t i = 0; i < len; i++)
        assert_int_not_equal(pare_idx_parse(r.arena, buf, i, &t, &r.err), 0);
    for (size_t i = 0; i < n; i++) {
        packed[i] ^= 0x10;
        (void)pare_idx_parse(r.arena, packed, n, &t, &r.err);
        packed[i] ^= 0x10;
    }
    packed[n] = 0;
    assert_int_not_equal(pare_idx_parse(r.arena, packed, n + 1, &t, &r.err), 0);
    /* Two concatenated gzip streams are one file. */
    n = gzip(twice, sizeof(twice), buf, 20);
    n += gzip(twice + n, sizeof(twice) - n, buf + 20, len - 20);
    assert_int_equal(pare_idx_parse(r.arena, twice, n, &t, &r.err), 0);
    assert_memory_equal(t.data, pixels, sizeof(pixels));
    rig_end(&r);
}

static void test_hostile_idx_allocates_little(void **state)
{
    static const unsigned char huge[] = { 0,    0,    8,    3,    0xff, 0xff, 0xff, 0xff,
                                          0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    unsigned char big[] = { 0, 0, 8, 1, 0x7f, 0xff, 0xff, 0xff, 1 }, packed[64];
    static const unsigned char float64[] = {
        0, 0, 0x0e, 1, 0, 0, 0, 1, 0xc0, 0x04, 0, 0, 0, 0, 0, 0
    };
    struct pare_tensor t;
    struct rig r;
    size_t n;

    (void)state;
    rig_begin(&r);
    assert_int_equal(pare_idx_parse(r.arena, huge, sizeof(huge), &t, &r.err), PARE_ELIMIT);
    assert_int_equal(pare_idx_parse(r.arena, big, sizeof(big), &t, &r.err), PARE_EFORMAT);
    expect_message(&r, "needs 2147483647 bytes of data, but the file has 1");
    n = gzip(packed, sizeof(packed), big, sizeof(big));
    assert_int_equal(pare_idx_parse(r.arena, packed, n, &t, &r.err), PARE_EFORMAT);
    assert_true(pare_arena_bytes(r.arena) < 1 << 20);
    big[2] = 7;
    assert_int_equal(pare_idx_parse(r.arena, big, sizeof(big), &t, &r.err), PARE_EFORMAT);
    expect_message(&r, "not an IDX file");
    assert_int_equal(pare_idx_parse(r.arena, float64, sizeof(float64), &t, &r.err), 0);
    assert_true(((double *)t.data)[0] == -2.5);
    rig_end(&r);
}

/* ---- CIFAR-10 ------------------------------------------------------------------------- */

static void test_cifar10_binary(void **state)
{
    static unsigned char rec[2][3073];
    struct rig r;

    (void)state;
    rig_begin(&r);
    rec[0][0] = 3;
    rec[0][1 + 1024] = 255; /* green, top left */
    rec[1][0] = 9;
    rig_write(&r, "c/data_batch_1.bin", rec, sizeof(rec));
    rig_write(&r, "c/data_batch_2.bin", rec[1], 3073);
    rig_write(&r, "c/test_batch.bin", rec[0], 3073);
    expect_open(&r, "c", "train", "norm=none");
    assert_int_equal(r.data->n, 3);
    expect_item_shape(&r, 3, 3, 32, 32);
    assert_string_equal(r.data->class_name[pare_i64(&r.data->y)[0]], "cat");
    expect_near(read_item(&r, 0)[1024], 1);
    expect_near(read_item(&r, 0)[0], 0);
    expect_open(&r, "c", "test", "");
    assert_int_equal(r.data->n, 1);
    expect_near(read_item(&r, 0)[0], -0.4914 / 0.2470);
    expect_near(read_item(&r, 0)[1024], (1 - 0.4822) / 0.2435);
    rig_write(&r, "c/data_batch_4.bin", rec, 3073);
    expect_open_error(&r, "c", "train", "", "has data_batch_4.bin, but not data_batch_3.bin");
    rig_write(&r, "c/data_batch_3.bin", rec, 3072);
    expect_open_error(&r, "c", "train", "", "not a multiple of 3073");
    rec[1][0] = 10;
    rig_write(&r, "c/test_batch.bin", rec, sizeof(rec));
    expect_open_error(&r, "c", "test", "", "the label of item 1 is 10, must be 0 to 9");
    rig_end(&r);
}

/* A PNG of 1024 x n, whose pixel (y, x) is y, x / 4, 7. */
static size_t make_png(unsigned char *to, png_alloc_size_t room, unsigned w, unsigned n)
{
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = w,
                        .height = n,
                        .format = PNG_FORMAT_RGB };
    unsigned char *p = calloc((size_t)w * n, 3);

    for (unsigned i = 0; i < w * n; i++) {
        p[3 * i] = (unsigned char)(i / w);
        p[3 * i + 1] = (unsigned char)(i % w / 4);
        p[3 * i + 2] = 7;
    }
    assert_true(png_image_write_to_memory(&image, to, &room, 0, p, 0, NULL));
    free(p);
    return room;
}

static void test_cifar10_png_rows(void **state)
{
    static unsigned char png[65536];
    struct rig r;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "p/data_batch_1.png", png, make_png(png, sizeof(png), 1024, 3));
    rig_write(&r, "p/data_batch_2.png", png, make_png(png, sizeof(png), 1024, 1));
    rig_write(&r, "p/train_lables.json", "[3, 8,\n0,9]\n", 12);
    expect_open(&r, "p", "train", "scale=1 norm=none");
    assert_int_equal(r.data->n, 4);
    expect_item_shape(&r, 3, 3, 32, 32);
    assert_int_equal(pare_i64(&r.data->y)[1], 8);
    expect_near(read_item(&r, 2)[0], 2);
    expect_near(read_item(&r, 2)[1024 + 33], 8); /* pixel 33 of the row: (1, 1) */
    expect_near(read_item(&r, 2)[2048], 7);
    expect_open_error(&r, "p", "test", "", "no test_batch.png");
    rig_write(&r, "p/train_lables.json", "[3,8,0]", 7);
    expect_open_error(&r, "p", "train", "", "3 labels for 4 images");
    rig_write(&r, "p/train_lables.json", "[3,8,0,10]", 10);
    expect_open_error(&r, "p", "train", "", "the label of item 3 is 10");
    rig_write(&r, "p/train_lables.json", "[3,8,0,1", 8);
    expect_open_error(&r, "p", "train", "", "not a list of numbers after 4");
    rig_write(&r, "p/train_lables.json", "[3,8,999999999999,1]", 20);
    expect_open_error(&r, "p", "train", "", "label 2 is too large");
    rig_write(&r, "p/data_batch_2.png", png, make_png(png, sizeof(png), 100, 1));
    expect_open_error(&r, "p", "train", "", "its rows have 100 pixels");
    rig_end(&r);
}

/* ---- numpy -------------------------------------------------------------------------------- */

static struct pare_named make_array(struct rig *r, const char *name, enum pare_dtype t, int rank,
                                    ...)
{
    struct pare_named a = { name, { 0 } };
    int64_t dim[PARE_MAX_RANK];
    va_list ap;

    va_start(ap, rank);
    for (int i = 0; i < rank; i++)
        dim[i] = va_arg(ap, int);
    va_end(ap);
    assert_int_equal(pare_tensor_new(r->arena, &a.t, t, rank, dim, &r->err), 0);
    for (int32_t i = 0; i < pare_numel(&a.t); i++)
        pare_convert(t, (char *)a.t.data + (size_t)i * pare_dtype_size(t), PARE_I32, &i, 1,
                     &r->err);
    return a;
}

static void write_npz(struct rig *r, const char *name, const struct pare_named *list, int n)
{
    assert_int_equal(pare_npz_write(rig_path(r, name), list, n, &r->err), 0);
}

static void test_npz_arrays_are_chosen_by_name(void **state)
{
    struct rig r;
    struct pare_named a[4];

    (void)state;
    rig_begin(&r);
    a[0] = make_array(&r, "x_train", PARE_U8, 4, 2, 5, 4, 3);
    a[1] = make_array(&r, "y_train", PARE_U8, 2, 2, 1);
    a[2] = make_array(&r, "Test-Images", PARE_F64, 2, 3, 4);
    a[3] = make_array(&r, "test_labels", PARE_F32, 2, 3, 2);
    write_npz(&r, "k.npz", a, 4);
    expect_open(&r, "k.npz", "train", "scale=1");
    expect_item_shape(&r, 3, 3, 5, 4); /* channels were last */
    assert_int_equal(r.data->y.rank, 1);
    expect_near(read_item(&r, 1)[0], 60);
    expect_near(read_item(&r, 1)[20], 61);
    expect_near(read_item(&r, 1)[1], 63);
    expect_open(&r, "k.npz", "test", "mean=1,2,3,4 std=2");
    expect_item_shape(&r, 1, 4, 0, 0);
    assert_int_equal(r.data->y.dtype, PARE_F32);
    assert_int_equal(r.data->classes, 0);
    expect_near(read_item(&r, 2)[3], (11. - 4) / 2);
    expect_open_error(&r, "k.npz", "test", "mean=1,2",
                      "option 'mean' has 2 numbers, the items have 4");
    expect_open_error(&r, "k.npz", "test", "flip=1", "are for images");
    expect_open_error(&r, "k.npz", "train", "layout=none crop=2", "are for images");
    a[0] = make_array(&r, "x", PARE_I64, 2, 2, 3);
    a[1] = make_array(&r, "labels", PARE_I64, 1, 3);
    write_npz(&r, "k.npz", a, 2);
    expect_open_error(&r, "k.npz", "train", "", "there are 2 items, but the labels are (3)");
    a[1] = make_array(&r, "y", PARE_I64, 1, 2);
    pare_i64_mut(&a[1].t)[1] = -1;
    write_npz(&r, "k.npz", a, 2);
    expect_open_error(&r, "k.npz", "val", "", "the label of item 1 is -1");
    a[1] = make_array(&r, "data", PARE_I64, 1, 2);
    write_npz(&r, "k.npz", a, 2);
    expect_open_error(&r, "k.npz", "val", "", "both 'x' and 'data' could be the items");
    a[0] = make_array(&r, "train_x", PARE_I64, 1, 2);
    a[1] = make_array(&r, "whatever", PARE_I64, 1, 2);
    write_npz(&r, "k.npz", a, 2);
    expect_open_error(&r, "k.npz", "test", "", "only: train_x, whatever");
    a[0] = make_array(&r, "x", PARE_F32, 2, 0, 3);
    write_npz(&r, "k.npz", a, 1);
    expect_open_error(&r, "k.npz", "test", "", "it has no items");
    rig_write(&r, "k.npz", "PK\3\4", 4);
    expect_open_error(&r, "k.npz", "test", "", "k.npz: ");
    rig_end(&r);
}

static void test_npy_files_find_their_labels(void **state)
{
    struct pare_named a;
    struct rig r;

    (void)state;
    rig_begin(&r);
    a = make_array(&r, "", PARE_U8, 3, 3, 2, 2);
    assert_int_equal(pare_npy_write(rig_path(&r, "x_test.npy"), &a.t, &r.err), 0);
    assert_int_equal(pare_npy_write(rig_path(&r, "other.npy"), &a.t, &r.err), 0);
    a = make_array(&r, "", PARE_I32, 1, 3);
    assert_int_equal(pare_npy_write(rig_path(&r, "test_labels.npy"), &a.t, &r.err), 0);
    expect_open(&r, "x_test.npy", "train", "");
    assert_int_equal(r.data->classes, 3);
    expect_item_shape(&r, 3, 1, 2, 2);
    expect_open(&r, "", "test", "layout=none");
    assert_int_equal(r.data->classes, 3);
    expect_item_shape(&r, 2, 2, 2, 0);
    expect_open(&r, "other.npy", "train", "");
    assert_null(r.data->y.data);
    expect_open_error(&r, "", "train", "", "only: other, test_labels, x_test");
    rig_end(&r);
}

/* ---- ONNX test data, image folders, errors ---------------------------------------------- */

static void test_onnx_test_data_is_joined(void **state)
{
    struct pare_named a;
    struct rig r;

    (void)state;
    rig_begin(&r);
    for (int i = 0; i < 2; i++) {
        rig_write(&r, i ? "m/test_data_set_1/note" : "m/test_data_set_0/note", "", 0);
        a = make_array(&r, "x", PARE_F32, 4, 1 + i, 1, 2, 2);
        assert_int_equal(pare_pb_write(rig_path(&r, i ? "m/test_data_set_1/input_0.pb"
                                                      : "m/test_data_set_0/input_0.pb"),
                                       &a.t, "x", &r.err),
                         0);
        a = make_array(&r, "y", PARE_F32, 2, 1 + i, 5);
        assert_int_equal(pare_pb_write(rig_path(&r, i ? "m/test_data_set_1/output_0.pb"
                                                      : "m/test_data_set_0/output_0.pb"),
                                       &a.t, "y", &r.err),
                         0);
    }
    expect_open(&r, "m", "test", "");
    assert_int_equal(r.data->n, 3);
    expect_item_shape(&r, 3, 1, 2, 2);
    expect_near(read_item(&r, 2)[3], 7);
    assert_true(pare_f32(&r.data->y)[14] == 9);
    expect_open(&r, "m/test_data_set_1", "test", "");
    assert_int_equal(r.data->n, 2);
    rig_write(&r, "m/test_data_set_1/input_0.pb", "\x08\x09", 2);
    expect_open_error(&r, "m", "test", "", "test_data_set_1");
    a = make_array(&r, "x", PARE_F32, 2, 2, 4);
    assert_int_equal(pare_pb_write(rig_path(&r, "m/test_data_set_1/input_0.pb"), &a.t, "x", &r.err),
                     0);
    expect_open_error(&r, "m", "test", "", "set 1 has float32 (2, 4), but the first");
    rig_write(&r, "m/test_data_set_1/input_1.pb", "", 0);
    expect_open_error(&r, "m", "test", "", "input_1.pb");
    rig_end(&r);
}

static void test_image_folders_have_classes(void **state)
{
    static unsigned char png[65536];
    struct rig r;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "f/train/dog/b.png", png, make_png(png, sizeof(png), 8, 6));
    rig_write(&r, "f/train/cat/more/a.PNG", png, make_png(png, sizeof(png), 12, 8));
    rig_write(&r, "f/train/cat/z.png", png, make_png(png, sizeof(png), 8, 6));
    rig_write(&r, "f/train/cat/notes.txt", "x", 1);
    rig_write(&r, "f/val/cat/1.png", png, make_png(png, sizeof(png), 9, 9));
    expect_open(&r, "f", "train", "resize=5 crop=4 scale=1");
    assert_int_equal(r.data->n, 3);
    expect_item_shape(&r, 3, 3, 4, 4);
    assert_string_equal(r.data->class_name[1], "dog");
    assert_int_equal(pare_i64(&r.data->y)[1], 0);
    assert_int_equal(pare_i64(&r.data->y)[2], 1);
    expect_near(read_item(&r, 1)[32], 7);
    expect_open(&r, "f", "test", "gray=1 resize=3,4 scale=1");
    assert_int_equal(r.data->classes, 1);
    expect_item_shape(&r, 3, 1, 3, 4);
    expect_open(&r, "f", "train", "");
    expect_item_shape(&r, 3, 3, 6, 8);
    assert_true(r.data->single);
    rig_write(&r, "f/train/ape/x.png", "text bytes", 10);
    expect_open_error(&r, "f", "train", "", "x.png: not a readable PNG");
    rig_write(&r, "f/train/ape/x.bmp", "", 0);
    expect_open_error(&r, "f", "train", "", "x.bmp: only PNG and JPEG");
    rig_write(&r, "g/empty/note.txt", "", 0);
    expect_open_error(&r, "g", "train", "", "g: no images");
    rig_end(&r);
}

static void test_images_without_classes_have_no_labels(void **state)
{
    static unsigned char png[65536];
    struct rig r;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "flat/b.png", png, make_png(png, sizeof(png), 8, 6));
    rig_write(&r, "flat/a.png", png, make_png(png, sizeof(png), 8, 6));
    rig_write(&r, "flat/notes.txt", "x", 1);
    expect_open(&r, "flat", "train", "");
    assert_int_equal(r.data->n, 2);
    assert_false(pare_data_has_labels(r.data));
    rig_write(&r, "one/all/b.png", png, make_png(png, sizeof(png), 8, 6));
    rig_write(&r, "one/all/more/c.png", png, make_png(png, sizeof(png), 8, 6));
    expect_open(&r, "one", "test", "");
    assert_int_equal(r.data->n, 2);
    assert_false(pare_data_has_labels(r.data));
    rig_write(&r, "two/cat/b.png", png, make_png(png, sizeof(png), 8, 6));
    rig_write(&r, "two/dog/c.png", png, make_png(png, sizeof(png), 8, 6));
    expect_open(&r, "two", "test", "");
    assert_true(pare_data_has_labels(r.data));
    rig_end(&r);
}

/* Opens two/ for a model with this input and returns the shape of its items; side 0: no resize. */
static struct pare_tensor shape_for(struct rig *r, const struct pare_io *io, int64_t side)
{
    struct pare_data_request q = { rig_path(r, "two"), "test", io, 1 };
    struct pare_data_opts o = { .resize = { &side, side > 0 } };

    close_data(r);
    if (pare_data_open_for(&q, &o, &r->data, &r->err))
        fail_msg("%s", r->err.msg);
    return r->data->item;
}

static void test_images_get_the_size_of_the_models_input(void **state)
{
    static unsigned char png[65536];
    struct pare_io io = { .name = "x", .dtype = PARE_F32, .rank = 4, .dim = { -1, 3, 4, 4 } };
    struct rig r;
    struct pare_tensor t;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "two/cat/b.png", png, make_png(png, sizeof(png), 8, 6));
    rig_write(&r, "two/dog/c.png", png, make_png(png, sizeof(png), 12, 7));
    t = shape_for(&r, &io, 0);
    assert_true(t.dim[0] == 3 && t.dim[1] == 4 && t.dim[2] == 4);
    assert_non_null(strstr(r.data->note, "resized and cropped to 4 x 4"));
    io.dim[3] = 5; /* not square: the whole image is scaled */
    t = shape_for(&r, &io, 0);
    assert_true(t.dim[1] == 4 && t.dim[2] == 5);
    t = shape_for(&r, &io, 3); /* options win */
    assert_true(t.dim[1] == 3 && t.dim[2] == 4);
    assert_null(strstr(r.data->note, "resized and cropped"));
    io.dim[1] = 1; /* gray */
    t = shape_for(&r, &io, 0);
    assert_true(t.dim[0] == 1 && t.dim[1] == 4 && t.dim[2] == 5);
    io.dim[2] = -1; /* free: the size of the images */
    t = shape_for(&r, &io, 0);
    assert_true(t.dim[1] == 6 && t.dim[2] == 8);
    rig_end(&r);
}

static void test_labels_can_be_dropped_for_calibration(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    expect_open(&r, ":digits", "train", "limit=20");
    assert_int_equal(pare_data_check_classes(r.data, 4, &r.err), PARE_ESHAPE);
    assert_int_equal(pare_data_check_classes(r.data, 10, &r.err), 0);
    assert_true(pare_data_has_labels(r.data));
    assert_int_equal(pare_data_drop_labels(r.data, "they do not fit", &r.err), 0);
    assert_false(pare_data_has_labels(r.data));
    assert_non_null(strstr(r.data->note, "they do not fit: its labels are not used"));
    rig_end(&r);
}

static void test_unknown_data_sets_and_options_are_errors(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "note.md", "x", 1);
    expect_open_error(&r, "note.md", "train", "", "not a known data set");
    expect_open_error(&r, "nothing", "train", "",
                      "neither a file, a folder nor the name of a data set");
    expect_open_error(&r, "", "train", "", "not a known data set");
    expect_open_error(&r, ":digits", "train", "crop=1,2,3", "option 'crop' has 3 numbers");
    expect_open_error(&r, ":digits", "train", "std=0", "option 'std' is 0");
    expect_open_error(&r, ":digits", "train", "resize=65536", "more than");
    assert_int_equal(pare_data_open("digits", "train", &(struct pare_data_opts){ .limit = 5 },
                                    &r.data, &r.err),
                     0);
    assert_int_equal(r.data->n, 5);
    assert_int_equal(r.data->opts.batch, 64);
    pare_data_free(r.data);
    assert_int_equal(pare_data_open("digits", "train", &(struct pare_data_opts){ .pad = -1 },
                                    &r.data, &r.err),
                     PARE_ECONFIG);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_are_built_in),
        cmocka_unit_test(test_fashion_mnist_is_found),
        cmocka_unit_test(test_idx_files_are_found_by_name),
        cmocka_unit_test(test_compressed_and_damaged_idx),
        cmocka_unit_test(test_hostile_idx_allocates_little),
        cmocka_unit_test(test_cifar10_binary),
        cmocka_unit_test(test_cifar10_png_rows),
        cmocka_unit_test(test_npz_arrays_are_chosen_by_name),
        cmocka_unit_test(test_npy_files_find_their_labels),
        cmocka_unit_test(test_onnx_test_data_is_joined),
        cmocka_unit_test(test_image_folders_have_classes),
        cmocka_unit_test(test_images_without_classes_have_no_labels),
        cmocka_unit_test(test_images_get_the_size_of_the_models_input),
        cmocka_unit_test(test_labels_can_be_dropped_for_calibration),
        cmocka_unit_test(test_unknown_data_sets_and_options_are_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
