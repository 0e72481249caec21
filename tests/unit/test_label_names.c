/* test_label_names.c - which array, file or column has the labels of a data set, when inputs of the
 * model have names that labels usually have. */
#include "data_rig.h"

#include "data/source.h"
#include "io/npy.h"
#include "io/npz.h"
#include "tensor/tensor.h"

#define N 4

static const struct pare_io one_input[] = {
    { "y", PARE_F32, 2, { -1, 3 }, { NULL }, 0 },
};
static const struct pare_io two_inputs[] = {
    { "x", PARE_F32, 2, { -1, 3 }, { NULL }, 0 },
    { "y", PARE_F32, 2, { -1, 1 }, { NULL }, 0 },
};

static struct pare_tensor filled(struct rig *r, int64_t width, float v)
{
    struct pare_tensor t = { .dtype = PARE_F32, .rank = 2, .dim = { N, width } };

    assert_int_equal(pare_tensor_alloc(r->arena, &t, &r->err), 0);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = v;
    return t;
}

static int open_for(struct rig *r, const char *name, const struct pare_io *io, int n_io)
{
    struct pare_data_request q = { .spec = rig_path(r, name),
                                   .split = "train",
                                   .io = io,
                                   .n_io = n_io };

    close_data(r);
    return pare_data_open_for(&q, &(struct pare_data_opts){ .batch = 64 }, &r->data, &r->err);
}

/* The input has the value 2, the labels 5. */
static void check_batch(struct rig *r, const struct pare_io *io, int n_io)
{
    struct pare_loader_opts o = { .batch = N, .input = io, .n_inputs = n_io };
    const struct pare_batch *b;

    assert_int_equal(pare_loader_new(r->data, &o, &r->loader, &r->err), 0);
    assert_int_equal(pare_loader_next(r->loader, &b, &r->err), 0);
    assert_float_equal(pare_f32(&b->in[n_io - 1])[0], 2, 0);
    assert_non_null(b->y.data);
    assert_float_equal(pare_f32(&b->y)[0], 5, 0);
}

static void write_npz(struct rig *r, const char *const *name, const float *v, int n)
{
    struct pare_named a[4];

    for (int i = 0; i < n; i++)
        a[i] = (struct pare_named){ name[i], filled(r, v[i] == 1 || n == 2 ? 3 : 1, v[i]) };
    assert_int_equal(pare_npz_write(rig_path(r, "a.npz"), a, n, &r->err), 0);
}

static void test_archive_input_is_not_the_labels(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_npz(&r, (const char *[]){ "x", "y", "labels" }, (float[]){ 1, 2, 5 }, 3);
    assert_int_equal(open_for(&r, "a.npz", two_inputs, 2), 0);
    check_batch(&r, two_inputs, 2);
    write_npz(&r, (const char *[]){ "y", "labels" }, (float[]){ 2, 5 }, 2);
    assert_int_equal(open_for(&r, "a.npz", one_input, 1), 0);
    check_batch(&r, one_input, 1);
    write_npz(&r, (const char *[]){ "x", "y" }, (float[]){ 1, 2 }, 2);
    assert_int_equal(open_for(&r, "a.npz", one_input, 1), 0);
    assert_null(r.data->y.data);
    rig_end(&r);
}

static void test_two_candidates_are_refused(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_npz(&r, (const char *[]){ "x", "y", "labels", "targets" }, (float[]){ 1, 2, 5, 6 }, 4);
    assert_int_equal(open_for(&r, "a.npz", two_inputs, 2), PARE_ECONFIG);
    assert_non_null(strstr(r.err.msg, "both 'labels' and 'targets' could be the labels"));
    write_npz(&r, (const char *[]){ "y", "labels" }, (float[]){ 2, 5 }, 2);
    assert_int_equal(open_for(&r, "a.npz", two_inputs, 2), PARE_ESHAPE);
    assert_non_null(strstr(r.err.msg, "no array is named as its input 'x', only: y, labels"));
    rig_end(&r);
}

static void test_folder_input_is_not_the_labels(void **state)
{
    struct pare_tensor x, y, labels;
    struct rig r;

    (void)state;
    rig_begin(&r);
    x = filled(&r, 3, 1);
    y = filled(&r, 1, 2);
    labels = filled(&r, 1, 5);
    rig_write(&r, "f/readme", "", 0);
    assert_int_equal(pare_npy_write(rig_path(&r, "f/x.npy"), &x, &r.err), 0);
    assert_int_equal(pare_npy_write(rig_path(&r, "f/y.npy"), &y, &r.err), 0);
    assert_int_equal(open_for(&r, "f", two_inputs, 2), 0);
    assert_null(r.data->y.data);
    assert_int_equal(pare_npy_write(rig_path(&r, "f/labels.npy"), &labels, &r.err), 0);
    assert_int_equal(open_for(&r, "f", two_inputs, 2), 0);
    check_batch(&r, two_inputs, 2);
    assert_int_equal(pare_npy_write(rig_path(&r, "f/target.npy"), &labels, &r.err), 0);
    assert_int_equal(open_for(&r, "f", two_inputs, 2), PARE_ECONFIG);
    assert_non_null(strstr(r.err.msg, "could be the labels"));
    rig_end(&r);
}

static void test_column_of_an_input_is_not_the_label(void **state)
{
    static const char table[] = "x.0,x.1,x.2,y,label\n1,1,1,2,5.0\n1,1,1,2,5.5\n";
    static const char both[] = "x.0,x.1,x.2,y,label,class\n1,1,1,2,5,1\n";
    struct rig r;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "t.csv", table, sizeof(table) - 1);
    assert_int_equal(open_for(&r, "t.csv", two_inputs, 2), 0);
    check_batch(&r, two_inputs, 2);
    rig_write(&r, "t.csv", table, sizeof(table) - 1);
    assert_int_equal(open_for(&r, "t.csv", NULL, 0), PARE_ECONFIG);
    assert_non_null(strstr(r.err.msg, "both column 'label' and column 'y' could be the label"));
    rig_write(&r, "t.csv", both, sizeof(both) - 1);
    assert_int_equal(open_for(&r, "t.csv", two_inputs, 2), PARE_ECONFIG);
    assert_non_null(strstr(r.err.msg, "both column 'label' and column 'class'"));
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_archive_input_is_not_the_labels),
        cmocka_unit_test(test_two_candidates_are_refused),
        cmocka_unit_test(test_folder_input_is_not_the_labels),
        cmocka_unit_test(test_column_of_an_input_is_not_the_label),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
