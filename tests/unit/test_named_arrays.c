/* test_named_arrays.c - data sets for models with the batch on any axis of an input or on none, and
 * for models that take images with channels last. */
#include "data_rig.h"

#include <math.h>

#include "data/source.h"
#include "io/npz.h"
#include "tensor/tensor.h"

#define N 4

/* Inputs of a speech model: (batch, 3), (2, batch, 2), a scalar, (3). */
static const struct pare_io speech[] = {
    { "input", PARE_F32, 2, { -1, 3 }, { "b" }, 0 },
    { "state", PARE_F32, 3, { 2, -1, 2 }, { NULL, "b" }, 0 },
    { "rate", PARE_I64, 0, { 0 }, { NULL }, 0 },
    { "scales", PARE_F32, 1, { 3 }, { NULL }, 0 },
};

static struct pare_tensor counting_tensor(struct rig *r, int rank, const int64_t *dim, float first)
{
    struct pare_tensor t = { .dtype = PARE_F32, .rank = rank };

    memcpy(t.dim, dim, (size_t)rank * sizeof(*dim));
    assert_int_equal(pare_tensor_alloc(r->arena, &t, &r->err), 0);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = first + (float)i;
    return t;
}

static struct pare_tensor rate_tensor(struct rig *r, int n, const int64_t *v)
{
    struct pare_tensor t = { .dtype = PARE_I64, .rank = n > 0, .dim = { n } };

    assert_int_equal(pare_tensor_alloc(r->arena, &t, &r->err), 0);
    memcpy(t.data, v, (size_t)(n ? n : 1) * sizeof(*v));
    return t;
}

static int open_for(struct rig *r, const struct pare_named *a, int n, const struct pare_io *io,
                    int n_io)
{
    struct pare_data_request q = { .spec = rig_path(r, "a.npz"),
                                   .split = "train",
                                   .io = io,
                                   .n_io = n_io };

    assert_int_equal(pare_npz_write(q.spec, a, n, &r->err), 0);
    close_data(r);
    return pare_data_open_for(&q, &(struct pare_data_opts){ .batch = 64, .scale = 0 }, &r->data,
                              &r->err);
}

/* The next batch of the data set, in order; NULL: an error. */
static const struct pare_batch *load_batch(struct rig *r, const struct pare_io *io, int n_io,
                                           int64_t n)
{
    struct pare_loader_opts o = { .batch = n, .input = io, .n_inputs = n_io };
    const struct pare_batch *b;

    if (!r->loader && pare_loader_new(r->data, &o, &r->loader, &r->err))
        fail_msg("%s", r->err.msg);
    return pare_loader_next(r->loader, &b, &r->err) ? NULL : b;
}

static void test_input_batch_axes(void **state)
{
    struct pare_io unnamed[] = { speech[0], speech[1], speech[2] };

    (void)state;
    assert_int_equal(pare_batch_axis(speech, 0), 0);
    assert_int_equal(pare_batch_axis(speech, 1), 1);
    assert_int_equal(pare_batch_axis(speech, 2), -1);
    assert_int_equal(pare_batch_axis(speech, 3), -1);
    unnamed[0].sym[0] = unnamed[1].sym[1] = NULL;
    assert_int_equal(pare_batch_axis(unnamed, 1), 1);
}

/* State element (o, item, k) is 100 + 8 o + 2 item + k in every form of the array. */
static void check_state(const struct pare_batch *b, int64_t first, int64_t n)
{
    assert_non_null(b);
    assert_int_equal(b->in[1].rank, 3);
    assert_int_equal(b->in[1].dim[1], n);
    for (int o = 0; o < 2; o++)
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < 2; k++)
                assert_float_equal(pare_f32(&b->in[1])[(o * n + i) * 2 + k],
                                   (float)(100 + 8 * o + 2 * (first + i) + k), 0);
    assert_int_equal(b->in[2].rank, 0);
    assert_int_equal(pare_i64(&b->in[2])[0], 16000);
    assert_int_equal(b->in[3].dim[0], 3);
    assert_float_equal(pare_f32(&b->in[3])[2], 7, 0);
    assert_float_equal(pare_f32(&b->in[0])[0], (float)(3 * first), 0);
}

/* (2, N, 2) as (N, 2, 2) or (N, 2, 1, 2). */
static struct pare_tensor items_first(struct rig *r, int rank)
{
    struct pare_tensor t = counting_tensor(r, rank, (int64_t[]){ N, 2, rank == 4 ? 1 : 2, 2 }, 0);

    for (int i = 0; i < N; i++)
        for (int o = 0; o < 2; o++)
            for (int k = 0; k < 2; k++)
                pare_f32_mut(&t)[(i * 2 + o) * 2 + k] = (float)(100 + 8 * o + 2 * i + k);
    return t;
}

static void test_every_form_gives_the_same_batches(void **state)
{
    static const int64_t hz[N] = { 16000, 16000, 16000, 16000 };
    struct rig r;

    (void)state;
    rig_begin(&r);
    for (int form = 0; form < 3; form++) {
        struct pare_named a[] = {
            { "input", counting_tensor(&r, 2, (int64_t[]){ N, 3 }, 0) },
            { "state", form ? items_first(&r, form + 2)
                            : counting_tensor(&r, 3, (int64_t[]){ 2, N, 2 }, 100) },
            { "rate", rate_tensor(&r, form == 1 ? N : 0, hz) },
            { "scales", counting_tensor(&r, 1, (int64_t[]){ 3 }, 5) },
        };

        if (open_for(&r, a, 4, speech, 4))
            fail_msg("form %d: %s", form, r.err.msg);
        assert_int_equal(pare_data_count(r.data), N);
        check_state(load_batch(&r, speech, 4, 3), 0, 3);
        check_state(load_batch(&r, speech, 4, 3), 3, 1);
    }
    rig_end(&r);
}

/* A note, since models may use NaN for values that are missing; labels must be numbers. */
static void test_values_that_are_not_numbers(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    struct pare_named a[] = { { "x", counting_tensor(&r, 2, (int64_t[]){ N, 3 }, 0) },
                              { "y", counting_tensor(&r, 2, (int64_t[]){ N, 3 }, 0) } };
    assert_int_equal(open_for(&r, a, 2, NULL, 0), 0);
    assert_null(r.data->note);
    pare_f32_mut(&a[0].t)[7] = NAN;
    assert_int_equal(open_for(&r, a, 2, NULL, 0), 0);
    assert_non_null(strstr(r.data->note, "item 2 has a value that is not a number"));
    pare_f32_mut(&a[1].t)[4] = NAN;
    assert_int_equal(open_for(&r, a, 2, NULL, 0), PARE_EFORMAT);
    expect_message(&r, "the label of item 1 is not a number");
    rig_end(&r);
}

static void test_different_values_need_a_batch_of_1(void **state)
{
    static const int64_t hz[N] = { 16000, 16000, 8000, 8000 };
    struct rig r;

    (void)state;
    rig_begin(&r);
    struct pare_named a[] = {
        { "input", counting_tensor(&r, 2, (int64_t[]){ N, 3 }, 0) },
        { "state", counting_tensor(&r, 3, (int64_t[]){ 2, N, 2 }, 100) },
        { "rate", rate_tensor(&r, N, hz) },
        { "scales", counting_tensor(&r, 1, (int64_t[]){ 3 }, 5) },
    };
    assert_int_equal(open_for(&r, a, 4, speech, 4), 0);
    check_state(load_batch(&r, speech, 4, 2), 0, 2);
    pare_loader_free(r.loader);
    r.loader = NULL;
    assert_null(load_batch(&r, speech, 4, 3));
    assert_non_null(strstr(r.err.msg, "use a batch of 1"));
    a[1].t = counting_tensor(&r, 3, (int64_t[]){ 2, N + 1, 2 }, 0);
    assert_int_equal(open_for(&r, a, 4, speech, 4), PARE_ESHAPE);
    assert_non_null(strstr(r.err.msg, "'state' is (2, 5, 2)"));
    rig_end(&r);
}

/* A language model with cached keys and values has two inputs for each of its layers. */
static void test_many_inputs(void **state)
{
    enum { INPUTS = 130 };
    static struct pare_io io[INPUTS];
    static struct pare_named a[INPUTS];
    static char name[INPUTS][16];
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    for (int k = 0; k < INPUTS; k++) {
        snprintf(name[k], sizeof(name[k]), "past.%d", k);
        io[k] = (struct pare_io){ name[k], PARE_F32, 2, { -1, 3 }, { "b" }, 0 };
        a[k] = (struct pare_named){ name[k],
                                    counting_tensor(&r, 2, (int64_t[]){ N, 3 }, (float)k) };
    }
    if (open_for(&r, a, INPUTS, io, INPUTS))
        fail_msg("%s", r.err.msg);
    b = load_batch(&r, io, INPUTS, 3);
    assert_non_null(b);
    assert_int_equal(b->n_in, INPUTS);
    for (int k = 0; k < INPUTS; k++)
        assert_float_equal(pare_f32(&b->in[k])[5], (float)(k + 5), 0);
    rig_end(&r);
}

/* Images stored as (H, W, C) or (C, H, W), for models that take either order. */
static void test_images_in_the_order_of_the_model(void **state)
{
    static const struct pare_io io[] = {
        { "x", PARE_F32, 4, { -1, 5, 4, 3 }, { NULL }, PARE_NHWC },
        { "x", PARE_F32, 4, { -1, 3, 5, 4 }, { NULL }, PARE_NCHW },
        { "x", PARE_F32, 4, { -1, -1, -1, -1 }, { NULL }, PARE_NHWC },
        { "x", PARE_F32, 4, { -1, -1, -1, -1 }, { NULL }, PARE_NCHW },
    };
    struct rig r;

    (void)state;
    rig_begin(&r);
    for (int stored = 0; stored < 2; stored++)
        for (int model = 0; model < 4; model++) {
            const struct pare_batch *b;
            bool last = model % 2 == 0;
            struct pare_named a = { "x", counting_tensor(&r, 4,
                                                         stored ? (int64_t[]){ 2, 3, 5, 4 }
                                                                : (int64_t[]){ 2, 5, 4, 3 },
                                                         0) };

            if (open_for(&r, &a, 1, &io[model], 1))
                fail_msg("%s", r.err.msg);
            b = load_batch(&r, &io[model], 1, 2);
            assert_non_null(b);
            assert_int_equal(b->x.dim[1], last ? 5 : 3);
            assert_int_equal(b->x.dim[3], last ? 3 : 4);
            for (int i = 0; i < 20; i++)
                for (int c = 0; c < 3; c++) {
                    float from = (float)(stored ? c * 20 + i : i * 3 + c);

                    assert_float_equal(pare_f32(&b->x)[last ? i * 3 + c : c * 20 + i], from, 0);
                    assert_float_equal(pare_f32(&b->x)[60 + (last ? i * 3 + c : c * 20 + i)],
                                       60 + from, 0);
                }
        }
    rig_end(&r);
}

/* Items are dimension 0 of the first input; a model that names another axis is refused. */
static void test_batch_of_the_first_input_is_axis_0(void **state)
{
    static const struct pare_io io = { "x", PARE_F32, 2, { -1, -1 }, { "time", "batch_size" }, 0 };
    struct rig r;

    (void)state;
    rig_begin(&r);
    struct pare_named a = { "x", counting_tensor(&r, 2, (int64_t[]){ N, 3 }, 0) };
    assert_int_equal(open_for(&r, &a, 1, &io, 1), 0);
    assert_int_equal(pare_data_check(r.data, &io, &r.err), PARE_EUNSUPPORTED);
    assert_non_null(strstr(r.err.msg, "on axis 1"));
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_input_batch_axes),
        cmocka_unit_test(test_every_form_gives_the_same_batches),
        cmocka_unit_test(test_values_that_are_not_numbers),
        cmocka_unit_test(test_many_inputs),
        cmocka_unit_test(test_different_values_need_a_batch_of_1),
        cmocka_unit_test(test_images_in_the_order_of_the_model),
        cmocka_unit_test(test_batch_of_the_first_input_is_axis_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
