/* test_single_items.c - data sets whose items differ in shape, and models whose input has no axis
 * for a batch: every batch has one item. */
#include "data_rig.h"

#include <pare/train.h>
#include <png.h>

#include "io/npy.h"
#include "io/npz.h"
#include "io/tensor_pb.h"
#include "tensor/tensor.h"

static const struct pare_io image = { "x", PARE_F32, 4, { -1, 3, -1, -1 }, { NULL }, PARE_NCHW };
static const struct pare_io turned = { "x", PARE_F32, 4, { -1, -1, -1, 3 }, { NULL }, PARE_NHWC };
static const struct pare_io ids = { "ids", PARE_I64, 2, { -1, -1 }, { NULL }, 0 };
static const struct pare_io detector = { "x", PARE_F32, 3, { 3, -1, -1 }, { NULL }, 0 };

/* An image of w x h whose pixels are (x, y, 7). */
static void write_png(struct rig *r, const char *name, unsigned w, unsigned h)
{
    static unsigned char pixels[64 * 64 * 3], to[65536];
    png_alloc_size_t len = sizeof(to);
    png_image p = { .version = PNG_IMAGE_VERSION, .width = w, .height = h, .format = 2 };

    for (unsigned i = 0; i < w * h; i++) {
        pixels[3 * i] = (unsigned char)(i % w);
        pixels[3 * i + 1] = (unsigned char)(i / w);
        pixels[3 * i + 2] = 7;
    }
    assert_true(png_image_write_to_memory(&p, to, &len, 0, pixels, 0, NULL));
    rig_write(r, name, to, len);
}

static int open_for(struct rig *r, const char *spec, const struct pare_io *io, int n_io,
                    const char *opts)
{
    struct pare_data_request q = { rig_path(r, spec), "train", io, n_io };
    struct pare_data_opts o;

    close_data(r);
    PARE_TRY(parse_options(r, opts, &o));
    return pare_data_open_for(&q, &o, &r->data, &r->err);
}

static const struct pare_batch *first_batch(struct rig *r, const struct pare_io *io, int n_io)
{
    struct pare_loader_opts o = { .batch = 8, .input = io, .n_inputs = n_io };
    const struct pare_batch *b;

    pare_loader_free(r->loader);
    r->loader = NULL;
    if (pare_loader_new(r->data, &o, &r->loader, &r->err))
        fail_msg("%s", r->err.msg);
    b = next_batch(r);
    assert_int_equal(pare_batch_items(b), 1);
    return b;
}

static void check_dims(const struct pare_tensor *t, int rank, const int64_t *dim)
{
    assert_int_equal(t->rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(t->dim[i], dim[i]);
}

static void test_images_of_different_sizes(void **state)
{
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_png(&r, "i/1.png", 8, 6);
    write_png(&r, "i/2.png", 5, 9);
    assert_int_equal(open_for(&r, "i", &image, 1, "scale=1"), 0);
    b = first_batch(&r, &image, 1);
    check_dims(&b->x, 4, (int64_t[]){ 1, 3, 6, 8 });
    assert_float_equal(pare_f32(&b->x)[7], 7, 0);          /* x of pixel 7 */
    assert_float_equal(pare_f32(&b->x)[48 + 8 * 5], 5, 0); /* y of the last row */
    b = next_batch(&r);
    check_dims(&b->x, 4, (int64_t[]){ 1, 3, 9, 5 });
    assert_float_equal(pare_f32(&b->x)[44], 4, 0);
    assert_float_equal(pare_f32(&b->x)[89], 8, 0);
    assert_null(next_batch(&r));
    b = first_batch(&r, &turned, 1);
    check_dims(&b->x, 4, (int64_t[]){ 1, 6, 8, 3 });
    assert_float_equal(pare_f32(&b->x)[3 * 7], 7, 0);
    assert_float_equal(pare_f32(&b->x)[3 * 47 + 1], 5, 0);
    assert_int_equal(open_for(&r, "i", &image, 1, "resize=3"), 0); /* the shorter side */
    check_dims(&first_batch(&r, &image, 1)->x, 4, (int64_t[]){ 1, 3, 3, 4 });
    check_dims(&next_batch(&r)->x, 4, (int64_t[]){ 1, 3, 5, 3 });
    assert_int_equal(open_for(&r, "i", &image, 1, "resize=3,3"), 0);
    assert_false(r.data->single);
    rig_end(&r);
}

/* Height 6 is fixed: the second image is an error that names it. */
static void test_sizes_are_checked_before_anything_runs(void **state)
{
    struct pare_io io = image;
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_png(&r, "i/1.png", 8, 6);
    write_png(&r, "i/2.png", 5, 9);
    io.dim[2] = 6;
    assert_int_equal(open_for(&r, "i", &io, 1, ""), PARE_ESHAPE);
    expect_message(&r, "item 1: the model's input 'x' takes (N, 3, 6, ?)");
    rig_end(&r);
}

static void write_items(struct rig *r, const char *dir, bool batch)
{
    static int64_t number[] = { 1, 2, 3, 4, 5, 6 };

    rig_write(r, pare_sprintf(r->arena, "%s/readme", dir), "", 0);
    for (int i = 0; i < 2; i++) {
        struct pare_tensor t = { PARE_I64, 1, { 2 + i }, number + i };

        if (batch)
            t = (struct pare_tensor){ PARE_I64, 2, { 1, 2 + i }, number + i };
        assert_int_equal(pare_npy_write(pare_sprintf(r->arena, "%s/%s/%d.npy", r->dir, dir, i), &t,
                                        &r->err),
                         0);
    }
}

static void test_a_file_for_each_item(void **state)
{
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    for (int batch = 0; batch < 2; batch++) {
        write_items(&r, batch ? "batch" : "plain", batch);
        assert_int_equal(open_for(&r, batch ? "batch" : "plain", &ids, 1, ""), 0);
        b = first_batch(&r, &ids, 1);
        check_dims(&b->x, 2, (int64_t[]){ 1, 2 });
        assert_int_equal(pare_i64(&b->x)[1], 2);
        b = next_batch(&r);
        check_dims(&b->x, 2, (int64_t[]){ 1, 3 });
        assert_int_equal(pare_i64(&b->x)[2], 4);
    }
    assert_int_equal(open_for(&r, "plain", &ids, 1, "norm=imagenet"), PARE_ECONFIG);
    write_items(&r, "c/cat", false);
    write_items(&r, "c/dog", false);
    assert_int_equal(open_for(&r, "c", &ids, 1, "limit=3"), 0);
    assert_true(r.data->n == 3 && r.data->classes == 2);
    first_batch(&r, &ids, 1);
    rig_write(&r, "plain/3.npy", "\x93NUMPY?", 7);
    assert_int_equal(open_for(&r, "plain", &ids, 1, ""), PARE_EFORMAT);
    expect_message(&r, "plain/3.npy");
    rig_end(&r);
}

static void test_an_archive_for_each_item(void **state)
{
    static const struct pare_io two[] = { { "ids", PARE_I64, 2, { -1, -1 }, { NULL }, 0 },
                                          { "mask", PARE_I64, 2, { -1, -1 }, { NULL }, 0 } };
    static int64_t number[] = { 1, 2, 3 };
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "a/readme", "", 0);
    for (int i = 0; i < 2; i++) {
        struct pare_tensor t = { PARE_I64, 1, { 1 + i }, number };
        struct pare_named list[] = { { "mask", t }, { "ids", t } };

        list[1].t.data = number + 1;
        assert_int_equal(pare_npz_write(pare_sprintf(r.arena, "%s/a/%d.npz", r.dir, i), list, 2,
                                        &r.err),
                         0);
    }
    assert_int_equal(open_for(&r, "a", two, 2, ""), 0);
    b = first_batch(&r, two, 2);
    assert_true(pare_i64(&b->in[0])[0] == 2 && pare_i64(&b->in[1])[0] == 1);
    b = next_batch(&r);
    check_dims(&b->in[1], 2, (int64_t[]){ 1, 2 });
    rig_end(&r);
}

/* Two sets of a model without a batch: the outputs have another number of rows. */
static void test_test_data_without_a_batch(void **state)
{
    static float pixel[3 * 4 * 5];
    struct pare_tensor x = { PARE_F32, 3, { 3, 4, 5 }, pixel };
    struct pare_tensor boxes = { PARE_F32, 2, { 2, 4 }, pixel };
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    for (int i = 0; i < 2; i++) {
        const char *dir = pare_sprintf(r.arena, "%s/m/test_data_set_%d", r.dir, i);

        rig_write(&r, pare_sprintf(r.arena, "m/test_data_set_%d/readme", i), "", 0);
        x.dim[1] = 4 - i;
        assert_int_equal(pare_pb_write(pare_sprintf(r.arena, "%s/input_0.pb", dir), &x, "x",
                                       &r.err),
                         0);
        assert_int_equal(pare_pb_write(pare_sprintf(r.arena, "%s/output_0.pb", dir), &boxes, "b",
                                       &r.err),
                         0);
    }
    assert_int_equal(open_for(&r, "m", &detector, 1, ""), 0);
    assert_int_equal(r.data->n, 2);
    assert_false(pare_data_has_labels(r.data));
    b = first_batch(&r, &detector, 1);
    check_dims(&b->x, 3, (int64_t[]){ 3, 4, 5 });
    check_dims(&next_batch(&r)->x, 3, (int64_t[]){ 3, 3, 5 });
    rig_end(&r);
}

/* An input without an axis for a batch, with images of one size and arrays of a C program. */
static void test_inputs_without_a_batch(void **state)
{
    static float pixel[2 * 3 * 4 * 5] = { [60] = 9 };
    struct pare_input in = { "x", { PARE_F32, 4, { 2, 3, 4, 5 }, pixel } };
    struct pare_arrays arrays = { .n = 2, .input = &in, .n_inputs = 1, .ordered = true };
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_png(&r, "i/1.png", 8, 6);
    write_png(&r, "i/2.png", 8, 6);
    assert_int_equal(open_for(&r, "i", &detector, 1, ""), 0);
    assert_true(pare_data_is_whole(r.data, &detector, 1));
    check_dims(&first_batch(&r, &detector, 1)->x, 3, (int64_t[]){ 3, 6, 8 });
    close_data(&r);
    assert_int_equal(pare_data_from_arrays(&arrays, &r.data, &r.err), 0);
    b = first_batch(&r, &detector, 1);
    check_dims(&b->x, 3, (int64_t[]){ 3, 4, 5 });
    b = next_batch(&r);
    assert_float_equal(pare_f32(&b->x)[0], 9, 0);
    assert_null(next_batch(&r));
    rig_end(&r);
}

/* Item i of a C program: an image of 2 + i x 4 whose values are i, and its height. */
static int made_shape(void *user, int64_t item, struct pare_tensor *in, int n_in,
                      struct pare_err *err)
{
    int64_t most = *(const int64_t *)user;

    if (item == most)
        return pare_fail(err, PARE_EIO, "no more files");
    in[0].dim[1] = 2 + item;
    if (item == most + 1) {
        in[0].rank = 2;
        in[n_in - 1].dim[0] = -1;
    }
    return 0;
}

static int made_item(void *user, int64_t item, struct pare_tensor *in, int n_in,
                     struct pare_err *err)
{
    (void)user, (void)err;
    assert_true(in[0].rank == 3 && in[0].dim[1] == 2 + item && in[0].dim[2] == 4);
    for (int64_t i = 0; i < pare_numel(&in[0]); i++)
        pare_f32_mut(&in[0])[i] = (float)item;
    if (n_in > 1)
        pare_i64_mut(&in[1])[0] = in[0].dim[1];
    in[0] = (struct pare_tensor){ 0 }; /* the caller does not use it */
    return 0;
}

static struct pare_arrays made_arrays(struct pare_input *in, int64_t *most)
{
    in[0] = (struct pare_input){ "x", { PARE_F32, 3, { 3, 2, 4 }, NULL } };
    in[1] = (struct pare_input){ "height", { PARE_I64, 1, { 1 }, NULL } };
    return (struct pare_arrays){ .n = 3,
                                 .input = in,
                                 .n_inputs = 2,
                                 .ordered = true,
                                 .user = most,
                                 .get = made_item,
                                 .shape = made_shape };
}

static void test_a_callback_makes_items_of_different_shapes(void **state)
{
    static const struct pare_io two[] = { { "height", PARE_I64, 2, { -1, 1 }, { NULL }, 0 },
                                          { "x", PARE_F32, 4, { -1, 3, -1, 4 }, { NULL }, 0 } };
    struct pare_input in[2];
    int64_t most = 9;
    struct pare_arrays arrays = made_arrays(in, &most);
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    assert_int_equal(pare_data_from_arrays(&arrays, &r.data, &r.err), 0);
    memset(in, 0, sizeof(in)); /* the structs need not outlive the call */
    assert_true(r.data->single);
    b = first_batch(&r, two, 2);
    for (int i = 0; i < 3; i++, b = next_batch(&r)) {
        check_dims(&b->in[1], 4, (int64_t[]){ 1, 3, 2 + i, 4 });
        assert_int_equal(pare_i64(&b->in[0])[0], 2 + i);
        assert_float_equal(pare_f32(&b->in[1])[12 * (2 + i) - 1], i, 0);
    }
    assert_null(b);
    rig_end(&r);
}

static void test_shapes_of_a_callback_are_checked(void **state)
{
    struct pare_input in[2];
    int64_t most = 1;
    struct pare_arrays arrays = made_arrays(in, &most);
    struct rig r;

    (void)state;
    rig_begin(&r);
    assert_int_equal(pare_data_from_arrays(&arrays, &r.data, &r.err), PARE_EIO);
    expect_message(&r, "memory: item 1: no more files");
    most = 0;
    arrays.n_inputs = 1;
    arrays.shape = NULL;
    assert_int_equal(pare_data_from_arrays(&arrays, &r.data, &r.err), 0);
    close_data(&r);
    arrays.shape = made_shape;
    arrays.get = NULL;
    assert_int_equal(pare_data_from_arrays(&arrays, &r.data, &r.err), PARE_ECONFIG);
    expect_message(&r, "shape() without get()");
    arrays.get = made_item;
    most = -1; /* the first item has one axis less and a negative dimension */
    assert_int_equal(pare_data_from_arrays(&arrays, &r.data, &r.err), PARE_ESHAPE);
    expect_message(&r, "negative dimension");
    most = 1, arrays.n_inputs = 2, arrays.n = 1;
    for (int n = 1, rc = PARE_ENOMEM; rc; n++) {
        pare_oom_countdown = -n;
        rc = pare_data_from_arrays(&arrays, &r.data, &r.err);
        pare_oom_countdown = 0;
        assert_true(!rc || rc == PARE_ENOMEM);
    }
    rig_end(&r);
}

/* A model that takes images of any size. */
static void test_a_model_runs_on_items_of_a_callback(void **state)
{
    static int64_t label[] = { 0, 1, 1 };
    struct pare_training_opts o = { .size = sizeof(o), .settings = "epochs=2 threads=1" };
    struct pare_tensor y = { PARE_I64, 1, { 3 }, label };
    struct pare_input in[2];
    int64_t most = 9;
    struct pare_arrays arrays = made_arrays(in, &most);
    struct pare_metrics m;
    struct pare_training *t;
    struct pare_model *model;
    struct rig r;

    (void)state;
    rig_begin(&r);
    arrays.n_inputs = 1;
    arrays.y = &y;
    in[0].name = "image";
    assert_int_equal(pare_data_from_arrays(&arrays, &r.data, &r.err), 0);
    assert_int_equal(pare_model_load("models/any_size.onnx", &model, &r.err), 0);
    assert_int_equal(pare_evaluate(model, r.data, NULL, &m, &r.err), 0);
    assert_true(m.n == 3 && m.loss > 0 && m.top1 >= 0);
    o.data = r.data;
    assert_int_equal(pare_training_new(model, &o, &t, &r.err), 0);
    assert_int_equal(pare_training_run(t, NULL, NULL, &r.err), 0);
    pare_training_free(t);
    pare_model_free(model);
    rig_end(&r);
}

static bool count_calls(void *user, const struct pare_progress *p)
{
    int *calls = user;

    assert_true(p->done >= 0 && p->done <= p->total);
    return ++*calls < 5;
}

/* Opening a large set reports progress, and can be canceled. */
static void test_opening_shows_progress(void **state)
{
    struct pare_data_opts o = { .progress = count_calls };
    struct pare_data_request q = { .split = "train", .io = &image, .n_io = 1 };
    int calls = 0;
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_png(&r, "i/1.png", 8, 6);
    o.user = &calls;
    q.spec = rig_path(&r, "i");
    assert_int_equal(pare_data_open_for(&q, &o, &r.data, &r.err), 0);
    assert_true(calls > 0 && calls < 5);
    write_png(&r, "i/2.png", 8, 6);
    write_png(&r, "i/3.png", 8, 6);
    write_png(&r, "i/4.png", 8, 6);
    close_data(&r);
    calls = 0;
    assert_int_equal(pare_data_open_for(&q, &o, &r.data, &r.err), PARE_ECANCEL);
    calls = 0;
    rig_write(&r, "t.csv", "a,label\n1,2\n", 12);
    q = (struct pare_data_request){ .spec = rig_path(&r, "t.csv"), .split = "train" };
    assert_int_equal(pare_data_open_for(&q, &o, &r.data, &r.err), 0);
    assert_int_equal(calls, 1);
    rig_end(&r);
}

/* Every allocation of opening a set and of its first batches fails once. */
static void check_allocations(struct rig *r, const char *spec, const struct pare_io *io)
{
    struct pare_data_request q = { rig_path(r, spec), "train", io, 1 };
    struct pare_loader_opts o = { .input = io, .n_inputs = 1 };
    const struct pare_batch *b;
    int rc = PARE_ENOMEM;

    for (int n = 1; rc; n++) {
        close_data(r);
        pare_oom_countdown = -n;
        rc = pare_data_open_for(&q, &(struct pare_data_opts){ .batch = 8 }, &r->data, &r->err);
        if (!rc)
            rc = pare_loader_new(r->data, &o, &r->loader, &r->err);
        for (int i = 0; i < 2 && !rc; i++)
            rc = pare_loader_next(r->loader, &b, &r->err);
        pare_oom_countdown = 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("%s: allocation %d: %s", spec, n, r->err.msg);
        assert_true(n < 5000);
    }
}

static void test_allocations_may_fail(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_png(&r, "i/1.png", 8, 6);
    write_png(&r, "i/2.png", 5, 9);
    write_items(&r, "plain", false);
    check_allocations(&r, "i", &image);
    check_allocations(&r, "plain", &ids);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images_of_different_sizes),
        cmocka_unit_test(test_sizes_are_checked_before_anything_runs),
        cmocka_unit_test(test_a_file_for_each_item),
        cmocka_unit_test(test_an_archive_for_each_item),
        cmocka_unit_test(test_test_data_without_a_batch),
        cmocka_unit_test(test_inputs_without_a_batch),
        cmocka_unit_test(test_a_callback_makes_items_of_different_shapes),
        cmocka_unit_test(test_shapes_of_a_callback_are_checked),
        cmocka_unit_test(test_a_model_runs_on_items_of_a_callback),
        cmocka_unit_test(test_opening_shows_progress),
        cmocka_unit_test(test_allocations_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
