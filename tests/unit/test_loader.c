/* test_loader.c - the data loader: order, augmentation, position, memory, and checks against a
 * model. */
#include "data_rig.h"

#include "io/npz.h"
#include "tensor/tensor.h"

#define N 10

/* Ten images of 4 x 4; pixel (y, x) of item i is 16 i + 4 y + x + 1, so that 0 is padding. */
static void write_images(struct rig *r, enum pare_dtype dtype)
{
    static const int64_t dim[] = { N, 1, 4, 4 };
    struct pare_named list[2] = { { "x", { 0 } }, { "y", { 0 } } };

    assert_int_equal(pare_tensor_new(r->arena, &list[0].t, dtype, 4, dim, &r->err), 0);
    assert_int_equal(pare_tensor_new(r->arena, &list[1].t, PARE_I64, 1, dim, &r->err), 0);
    for (int32_t i = 1; i <= N * 16; i++)
        pare_convert(dtype, (char *)list[0].t.data + (size_t)(i - 1) * pare_dtype_size(dtype),
                     PARE_I32, &i, 1, &r->err);
    for (int64_t i = 0; i < N; i++)
        pare_i64_mut(&list[1].t)[i] = i;
    assert_int_equal(pare_npz_write(rig_path(r, "p.npz"), list, 2, &r->err), 0);
}

static void open_images(struct rig *r, const char *opts)
{
    rig_begin(r);
    write_images(r, PARE_U8);
    expect_open(r, "p.npz", "train", pare_sprintf(r->arena, "scale=1 %s", opts));
}

/* Reads the rest of the epoch: indices to order[], pixels to x[]; returns the number of batches. */
static int read_rest(struct rig *r, int64_t *order, float *x)
{
    int64_t at_item = 0;
    int n = 0;

    for (const struct pare_batch *b = next_batch(r); b; b = next_batch(r), n++)
        for (int64_t i = 0; i < b->x.dim[0]; i++, at_item++) {
            order[at_item] = b->index[i];
            assert_int_equal(pare_i64(&b->y)[i], b->index[i]);
            if (x)
                memcpy(x + at_item * 16, pare_f32(&b->x) + i * 16, 16 * sizeof(*x));
        }
    return n;
}

/* ---- order --------------------------------------------------------------------- */

static void test_each_item_once_per_epoch(void **state)
{
    struct rig r;
    int64_t order[3][N];
    bool seen[N];

    (void)state;
    open_images(&r, "batch=3");
    start_loader(&r, true, 7);
    assert_int_equal(pare_loader_batches(r.loader), 4);
    for (int e = 0; e < 3; e++) {
        memset(seen, 0, sizeof(seen));
        assert_int_equal(read_rest(&r, order[e], NULL), 4);
        for (int i = 0; i < N; i++) {
            assert_false(seen[order[e][i]]);
            seen[order[e][i]] = true;
        }
    }
    assert_true(memcmp(order[0], order[1], sizeof(order[0])) != 0);
    assert_true(memcmp(order[1], order[2], sizeof(order[0])) != 0);
    start_loader(&r, false, 7);
    for (int e = 0; e < 2; e++) {
        assert_int_equal(read_rest(&r, order[e], NULL), 4);
        for (int i = 0; i < N; i++)
            assert_int_equal(order[e][i], i);
    }
    rig_end(&r);
}

static void test_order_depends_only_on_the_seed(void **state)
{
    struct rig r;
    int64_t a[N], b[N];

    (void)state;
    open_images(&r, "batch=3");
    start_loader(&r, true, 7);
    read_rest(&r, a, NULL);
    start_loader(&r, true, 7);
    read_rest(&r, b, NULL);
    assert_memory_equal(a, b, sizeof(a));
    start_loader(&r, true, 8);
    read_rest(&r, b, NULL);
    assert_true(memcmp(a, b, sizeof(a)) != 0);
    expect_open(&r, "p.npz", "train", "batch=5 shuffle=0");
    start_loader(&r, true, 7);
    read_rest(&r, b, NULL);
    for (int i = 0; i < N; i++)
        assert_int_equal(b[i], i);
    rig_end(&r);
}

static void test_last_batch_and_drop_last(void **state)
{
    const struct pare_batch *b;
    struct rig r;
    int n = 0;

    (void)state;
    open_images(&r, "batch=4 drop_last=1");
    start_loader(&r, false, 0);
    for (b = next_batch(&r); b; b = next_batch(&r), n++)
        assert_int_equal(b->x.dim[0], n < 2 ? 4 : 2);
    assert_int_equal(n, 3);
    start_loader(&r, true, 0);
    for (n = 0, b = next_batch(&r); b; b = next_batch(&r), n++)
        assert_int_equal(b->x.dim[0], 4);
    assert_int_equal(n, 2);
    expect_open(&r, "p.npz", "train", "batch=11 drop_last=1");
    assert_int_equal(pare_loader_new(r.data, &(struct pare_loader_opts){ .train = true }, &r.loader,
                                     &r.err),
                     PARE_ECONFIG);
    expect_message(&r, "'drop_last' leaves nothing");
    rig_end(&r);
}

/* ---- position ------------------------------------------------------------------ */

static void test_seek_continues_exactly(void **state)
{
    struct rig r;
    struct pare_loader_pos pos;
    int64_t order[2][2 * N];
    float x[2][2 * N * 16];

    (void)state;
    for (int prefetch = 0; prefetch < 2; prefetch++)
        for (int64_t stop = 0; stop <= 4; stop++) {
            memset(order, 0, sizeof(order));
            memset(x, 0, sizeof(x));
            open_images(&r, prefetch ? "batch=3 pad=2 flip=1" : "batch=3 pad=2 flip=1 prefetch=0");
            start_loader(&r, true, 99);
            read_rest(&r, order[0], x[0]);
            for (int64_t i = 0; i < stop; i++)
                next_batch(&r);
            pos = pare_loader_tell(r.loader);
            assert_true(pos.epoch == 1 && pos.at == stop && pos.seed == 99);
            read_rest(&r, order[0], x[0]);
            read_rest(&r, order[0] + N, x[0] + N * 16);
            start_loader(&r, true, 1);
            next_batch(&r);
            assert_int_equal(pare_loader_seek(r.loader, &pos, &r.err), 0);
            read_rest(&r, order[1], x[1]);
            read_rest(&r, order[1] + N, x[1] + N * 16);
            for (int64_t i = 0; i < N - 3 * stop; i++)
                assert_int_equal(order[0][i], order[1][i]);
            for (int64_t i = 0; i < (N - 3 * stop) * 16; i++)
                assert_true(x[0][i] == x[1][i]);
            assert_memory_equal(order[0] + N, order[1] + N, N * sizeof(int64_t));
            assert_memory_equal(x[0] + N * 16, x[1] + N * 16, sizeof(x[0]) / 2);
            rig_end(&r);
        }
}

static void test_wrong_positions_are_refused(void **state)
{
    struct rig r;
    struct pare_loader_pos pos;

    (void)state;
    open_images(&r, "batch=3");
    start_loader(&r, true, 1);
    pos = pare_loader_tell(r.loader);
    pos.batch = 4;
    assert_int_equal(pare_loader_seek(r.loader, &pos, &r.err), PARE_ECONFIG);
    expect_message(&r, "batches of 4 out of 10 items");
    pos.batch = 3;
    pos.at = 5;
    assert_int_equal(pare_loader_seek(r.loader, &pos, &r.err), PARE_ECONFIG);
    pos.at = 0;
    pos.epoch = -1;
    assert_int_equal(pare_loader_seek(r.loader, &pos, &r.err), PARE_ECONFIG);
    rig_end(&r);
}

static void test_prefetch_gives_the_same_batches(void **state)
{
    struct rig r;
    int64_t order[2][3 * N];
    float x[2][3 * N * 16];

    (void)state;
    for (int p = 0; p < 2; p++) {
        open_images(&r, p ? "batch=4 pad=1 flip=1 prefetch=1" : "batch=4 pad=1 flip=1 prefetch=0");
        start_loader(&r, true, 5);
        for (int e = 0; e < 3; e++)
            read_rest(&r, order[p] + e * N, x[p] + e * N * 16);
        rig_end(&r);
    }
    assert_memory_equal(order[0], order[1], sizeof(order[0]));
    assert_memory_equal(x[0], x[1], sizeof(x[0]));
}

/* ---- augmentation -------------------------------------------------------------- */

/* Finds the shift and the mirroring of an item; every pixel must agree. */
static void find_augmentation(const float *x, int64_t i, int pad, int *dy, int *dx, bool *mirror)
{
    for (int m = 0; m < 2; m++)
        for (*dy = -pad; *dy <= pad; ++*dy)
            for (*dx = -pad; *dx <= pad; ++*dx) {
                bool same = true;

                for (int k = 0; k < 16; k++) {
                    int iy = k / 4 + *dy, ix = (m ? 3 - k % 4 : k % 4) + *dx;
                    bool in = iy >= 0 && iy < 4 && ix >= 0 && ix < 4;
                    int want = in ? (int)i * 16 + 4 * iy + ix + 1 : 0;

                    same = same && x[k] == (float)want;
                }
                *mirror = m;
                if (same)
                    return;
            }
    fail_msg("item %d is not a shifted image", (int)i);
}

static void test_shifts_and_flips(void **state)
{
    struct rig r;
    int64_t order[N];
    float x[N * 16];
    int seen[5][5] = { { 0 } }, mirrored = 0;

    (void)state;
    open_images(&r, "batch=4 pad=2 flip=1");
    start_loader(&r, true, 3);
    for (int e = 0; e < 60; e++) {
        read_rest(&r, order, x);
        for (int i = 0; i < N; i++) {
            int dy, dx;
            bool mirror;

            find_augmentation(x + 16 * i, order[i], 2, &dy, &dx, &mirror);
            seen[dy + 2][dx + 2]++;
            mirrored += mirror;
        }
    }
    for (int i = 0; i < 25; i++)
        assert_true(seen[i / 5][i % 5] > 0);
    assert_in_range(mirrored, 240, 360);
    start_loader(&r, false, 3);
    read_rest(&r, order, x);
    for (int i = 0; i < N * 16; i++)
        assert_true(x[i] == (float)(i + 1));
    rig_end(&r);
}

/* Augmentation depends on item and epoch, not on the batch. */
static void test_augmentation_does_not_depend_on_batches(void **state)
{
    struct rig r;
    int64_t order[2][N];
    float x[2][N * 16];

    (void)state;
    open_images(&r, "batch=3 pad=2 flip=1 shuffle=0");
    start_loader(&r, true, 3);
    read_rest(&r, order[0], x[0]);
    expect_open(&r, "p.npz", "train", "batch=10 pad=2 flip=1 shuffle=0 scale=1");
    start_loader(&r, true, 3);
    read_rest(&r, order[1], x[1]);
    assert_memory_equal(x[0], x[1], sizeof(x[0]));
    read_rest(&r, order[1], x[1]);
    assert_true(memcmp(x[0], x[1], sizeof(x[0])) != 0);
    rig_end(&r);
}

static void test_epochs_may_have_the_same_order(void **state)
{
    struct pare_loader_opts o = { .train = true, .same = true, .seed = 3 };
    struct rig r;
    int64_t order[3][N];
    float x[3][N * 16];

    (void)state;
    open_images(&r, "batch=3 pad=2 flip=1");
    assert_int_equal(pare_loader_new(r.data, &o, &r.loader, &r.err), 0);
    for (int e = 0; e < 2; e++)
        read_rest(&r, order[e], x[e]);
    start_loader(&r, true, 3);
    read_rest(&r, order[2], x[2]);
    assert_memory_equal(order[0], order[1], sizeof(order[0]));
    assert_memory_equal(order[0], order[2], sizeof(order[0]));
    assert_memory_equal(x[0], x[2], sizeof(x[0]));
    assert_true(memcmp(x[0], x[1], sizeof(x[0])) != 0);
    rig_end(&r);
}

static void test_center_and_random_crops(void **state)
{
    struct rig r;
    const struct pare_batch *b;
    bool seen[6] = { false };

    (void)state;
    open_images(&r, "crop=3,2");
    assert_int_equal(r.data->item.dim[1], 3);
    assert_int_equal(r.data->item.dim[2], 2);
    /* One row is cropped: torchvision rounds 0.5 to 0; two columns: offset 1. */
    assert_true(read_item(&r, 0)[0] == 2 && read_item(&r, 0)[5] == 11);
    start_loader(&r, true, 1);
    for (int e = 0; e < 20; e++)
        for (b = next_batch(&r); b; b = next_batch(&r))
            for (int64_t i = 0; i < b->x.dim[0]; i++) {
                int k = (int)pare_f32(&b->x)[i * 6] - (int)b->index[i] * 16 - 1;

                assert_true(k / 4 <= 1 && k % 4 <= 2);
                seen[k / 4 * 3 + k % 4] = true;
            }
    for (int i = 0; i < 6; i++)
        assert_true(seen[i]);
    expect_open(&r, "p.npz", "train", "crop=5");
    start_loader(&r, false, 0);
    assert_int_equal(pare_loader_next(r.loader, &b, &r.err), PARE_ESHAPE);
    expect_message(&r, "the image has 4 x 4 pixels, the window 5 x 5");
    expect_open(&r, "p.npz", "train", "resize=8");
    assert_int_equal(r.data->item.dim[2], 8);
    write_images(&r, PARE_F32);
    expect_open_error(&r, "p.npz", "train", "resize=8", "'resize' is for images of bytes");
    expect_open(&r, "p.npz", "train", "crop=1 std=2 mean=1"); /* 1.5 from the edge rounds to 2 */
    assert_true(read_item(&r, 0)[0] == (11.f - 1) / 2);
    rig_end(&r);
}

/* ---- hold-out ------------------------------------------------------------------ */

static void test_holdout(void **state)
{
    struct rig r;
    int count[N] = { 0 };

    (void)state;
    open_images(&r, "");
    for (int val = 0; val < 2; val++) {
        expect_open(&r, "p.npz", val ? "val" : "train", "holdout=0.3 scale=1");
        assert_int_equal(r.data->n, val ? 3 : 7);
        assert_int_equal(r.data->y.dim[0], r.data->n);
        for (int64_t i = 0; i < r.data->n; i++) {
            int64_t k = pare_i64(&r.data->y)[i];

            assert_true(read_item(&r, i)[0] == (float)(k * 16 + 1));
            count[k]++;
        }
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(count[i], 1);
    expect_open(&r, "p.npz", "test", "holdout=0.3");
    assert_int_equal(r.data->n, 3);
    expect_open(&r, "p.npz", "train", "holdout=0.3 limit=4 scale=1");
    assert_int_equal(r.data->n, 4);
    for (int64_t i = 0; i < 4; i++)
        assert_true(read_item(&r, i)[0] == (float)(pare_i64(&r.data->y)[i] * 16 + 1));
    expect_open_error(&r, "p.npz", "train", "holdout=0.05", "leaves nothing of 10 items");
    expect_open(&r, ":digits", "val", "holdout=0.1");
    assert_int_equal(r.data->n, 143);
    expect_open(&r, ":digits", "test", "holdout=0.1");
    assert_int_equal(r.data->n, 360);
    rig_end(&r);
}

/* ---- models -------------------------------------------------------------------- */

static struct pare_io input_info(enum pare_dtype dtype, int rank, int64_t a, int64_t b, int64_t c)
{
    return (struct pare_io){ "image", dtype, rank, { -1, a, b, c }, { NULL }, 0 };
}

static void check_input(struct rig *r, struct pare_io in, int64_t n_out, const char *part)
{
    int rc = pare_data_check(r->data, &in, &r->err);

    if (!rc)
        rc = pare_data_check_classes(r->data, n_out, &r->err);

    if (part) {
        assert_int_not_equal(rc, 0);
        expect_message(r, part);
    } else if (rc) {
        fail_msg("%s", r->err.msg);
    }
}

static void test_data_is_checked_against_the_model(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    expect_open(&r, ":digits", "train", "");
    check_input(&r, input_info(PARE_F32, 4, 1, 8, 8), 10, NULL);
    check_input(&r, input_info(PARE_F32, 4, -1, -1, -1), 0, NULL);
    check_input(&r, input_info(PARE_F32, -1, 0, 0, 0), 10, NULL);
    check_input(&r, input_info(PARE_F32, 2, 64, 0, 0), 10, NULL);
    check_input(&r, input_info(PARE_F32, 3, 8, 8, 0), 10, NULL);
    check_input(
        &r, input_info(PARE_F32, 4, 3, 8, 8), 10,
        "the model's input 'image' takes (N, 3, 8, 8), but the items of 'digits' are (1, 8, 8)");
    check_input(&r, input_info(PARE_F32, 3, 4, 16, 0), 10, "takes (N, 4, 16)");
    check_input(&r, input_info(PARE_F32, 2, -1, 0, 0), 10, "takes (N, ?)");
    check_input(&r, input_info(PARE_F32, 3, -1, 8, 0), 10, NULL);
    check_input(&r, input_info(PARE_F32, 3, -1, 1, 0), 10, "takes (N, ?, 1)");
    check_input(&r, input_info(PARE_F32, 3, -1, 4, 0), 10, "takes (N, ?, 4)");
    check_input(&r, input_info(PARE_F32, 0, 0, 0, 0), 10, "a single number");
    check_input(&r, (struct pare_io){ "image", PARE_F32, 3, { 1, -1, 8 }, { NULL }, 0 }, 10, NULL);
    check_input(&r, (struct pare_io){ "image", PARE_F32, 3, { 1, -1, 9 }, { NULL }, 0 }, 10,
                "takes (N, ?, 9), but");
    check_input(&r, input_info(PARE_STR, 4, 1, 8, 8), 10, "takes strings");
    check_input(&r, input_info(PARE_F32, 4, 1, 8, 8), 12,
                "has 12 outputs, but 'digits' has 10 classes");
    write_images(&r, PARE_F32);
    expect_open(&r, "p.npz", "train", "");
    check_input(&r, input_info(PARE_F32, 4, 1, 4, 4), 12, NULL);
    check_input(&r, input_info(PARE_F32, 4, 1, 4, 4), 9, "the label of item 9");
    check_input(&r, input_info(PARE_I64, 4, 1, 4, 4), 10, "takes int64, but");
    rig_end(&r);
}

static void test_batches_have_the_shape_of_the_input(void **state)
{
    struct pare_io in = input_info(PARE_I64, 2, 16, 0, 0);
    struct pare_loader_opts o = { .batch = 4, .input = &in };
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    open_images(&r, "std=2");
    assert_int_equal(pare_loader_new(r.data, &o, &r.loader, &r.err), 0);
    b = next_batch(&r);
    assert_true(b->x.dtype == PARE_I64 && b->x.rank == 2 && b->x.dim[0] == 4);
    assert_int_equal(pare_i64(&b->x)[17], 18);
    pare_loader_free(r.loader);
    in = input_info(PARE_F64, 4, 1, 4, 4);
    assert_int_equal(pare_loader_new(r.data, &o, &r.loader, &r.err), 0);
    b = next_batch(&r);
    assert_true(b->x.rank == 4 && ((double *)b->x.data)[17] == 9);
    pare_loader_free(r.loader);
    in = input_info(PARE_F32, 4, 3, 4, 4);
    assert_int_equal(pare_loader_new(r.data, &o, &r.loader, &r.err), PARE_ESHAPE);
    rig_end(&r);
}

/* ---- memory -------------------------------------------------------------------- */

static void test_batches_allocate_nothing(void **state)
{
    struct rig r;

    (void)state;
    open_images(&r, "batch=3 pad=1 flip=1 resize=6 crop=5 prefetch=0");
    start_loader(&r, true, 1);
    next_batch(&r);
    pare_oom_countdown = 1000;
    for (int i = 0; i < 50; i++)
        next_batch(&r);
    assert_int_equal(pare_oom_countdown, 1000);
    pare_oom_countdown = 0;
    rig_end(&r);
}

/* Opens a data set and loads a batch while the n-th allocation fails. */
static int load_with_failing_allocation(struct rig *r, const char *spec, int n)
{
    const struct pare_batch *b;
    int rc;

    close_data(r);
    r->err.msg[0] = '\0';
    pare_oom_countdown = n;
    rc = pare_data_open(spec, "val", NULL, &r->data, &r->err);
    if (!rc)
        rc = pare_loader_new(r->data, &(struct pare_loader_opts){ .train = true }, &r->loader,
                             &r->err);
    if (!rc)
        rc = pare_loader_next(r->loader, &b, &r->err);
    pare_oom_countdown = 0;
    assert_int_equal(rc != 0, r->err.msg[0] != '\0');
    return rc;
}

static void test_out_of_memory(void **state)
{
    struct rig r;
    int n = 1;

    (void)state;
    open_images(&r, "");
    for (int k = 0; k < 2; k++) {
        for (n = 1; load_with_failing_allocation(&r, k ? "digits" : rig_path(&r, "p.npz"), n); n++)
            assert_true(n < 1000);
        assert_true(n > 5);
    }
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_item_once_per_epoch),
        cmocka_unit_test(test_order_depends_only_on_the_seed),
        cmocka_unit_test(test_last_batch_and_drop_last),
        cmocka_unit_test(test_seek_continues_exactly),
        cmocka_unit_test(test_wrong_positions_are_refused),
        cmocka_unit_test(test_prefetch_gives_the_same_batches),
        cmocka_unit_test(test_shifts_and_flips),
        cmocka_unit_test(test_augmentation_does_not_depend_on_batches),
        cmocka_unit_test(test_epochs_may_have_the_same_order),
        cmocka_unit_test(test_center_and_random_crops),
        cmocka_unit_test(test_holdout),
        cmocka_unit_test(test_data_is_checked_against_the_model),
        cmocka_unit_test(test_batches_have_the_shape_of_the_input),
        cmocka_unit_test(test_batches_allocate_nothing),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
