/* test_image_files.c - PNG, JPEG and resizing against Pillow; damaged files give an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "data/source.h"
#include "io/npz.h"
#include "tensor/tensor.h"

static struct pare_arena *arena;
static struct pare_named *golden;
static int n_golden;
static struct pare_err err;

static int setup(void **state)
{
    (void)state;
    arena = pare_arena_new(1 << 16);
    return pare_npz_read(arena, "golden/images.npz", &golden, &n_golden, &err);
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

static const struct pare_tensor *find_array(const char *prefix, const char *name)
{
    char full[64];

    snprintf(full, sizeof(full), "%s%s", prefix, name);
    for (int i = 0; i < n_golden; i++)
        if (!strcmp(golden[i].name, full))
            return &golden[i].t;
    fail_msg("the golden file has no %s", full);
    return NULL;
}

static int decode(const char *name, const void *bytes, size_t len, struct pare_image *p)
{
    return !strncmp(name, "png", 3) ? pare_png_decode(arena, bytes, len, p, &err)
                                    : pare_jpeg_decode(arena, bytes, len, p, &err);
}

static void expect_pixels(const struct pare_image *p, const struct pare_tensor *want,
                          const char *name)
{
    assert_int_equal(p->dtype, PARE_U8);
    assert_int_equal(p->h, want->dim[0]);
    assert_int_equal(p->w, want->dim[1]);
    if (memcmp(p->data, want->data, (size_t)pare_numel(want)) != 0)
        fail_msg("%s: pixels differ from Pillow's", name);
}

static const char *const files[] = { "jpeg",       "jpeg_progressive", "jpeg_gray", "jpeg_cmyk",
                                     "png",        "png_alpha",        "png_gray",  "png_palette",
                                     "png_one_bit" };
#define N_FILES (sizeof(files) / sizeof(*files))

static void test_pixels_match_pillow(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        const struct pare_tensor *f = find_array("file_", files[i]);
        struct pare_image p;

        if (decode(files[i], f->data, (size_t)f->dim[0], &p))
            fail_msg("%s: %s", files[i], err.msg);
        assert_true(p.last && p.c == 3);
        expect_pixels(&p, find_array("rgb_", files[i]), files[i]);
    }
}

static void test_truncated_files_are_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        const struct pare_tensor *f = find_array("file_", files[i]);

        /* A JPEG may lack the two bytes that mark its end. */
        for (size_t n = 0; n + 2 < (size_t)f->dim[0]; n++) {
            struct pare_mark m = pare_mark(arena);
            struct pare_image p;

            err.msg[0] = '\0';
            if (!decode(files[i], f->data, n, &p))
                fail_msg("%s: decoded from only %zu of %lld bytes", files[i], n,
                         (long long)f->dim[0]);
            assert_true(err.msg[0] != '\0');
            pare_reset(arena, m);
        }
    }
}

/* Errors show with the sanitizers. */
static void test_flipped_bytes_do_not_crash(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        const struct pare_tensor *f = find_array("file_", files[i]);
        unsigned char *b = f->data;

        for (int64_t k = 0; k < f->dim[0]; k++)
            for (int v = 0; v < 3; v++) {
                struct pare_mark m = pare_mark(arena);
                struct pare_image p;
                unsigned char original = b[k];

                b[k] = (unsigned char)(v == 0 ? original ^ 1 : v == 1 ? 0 : 255);
                (void)decode(files[i], b, (size_t)f->dim[0], &p);
                b[k] = original;
                pare_reset(arena, m);
            }
    }
}

static void test_huge_images_are_refused(void **state)
{
    static const unsigned char png[] = {
        0x89, 'P',  'N',  'G',  13,   10, 26,   10,   0,    0,   0,   13,   'I',  'H',  'D',
        'R',  0,    0x0f, 0x42, 0x40, 0,  0x0f, 0x42, 0x40, 8,   2,   0,    0,    0,    0xd3,
        0x0f, 0xaf, 0x2a, 0,    0,    0,  0,    'I',  'D',  'A', 'T', 0x35, 0xaf, 0x06, 0x1e,
    };
    const struct pare_tensor *f = find_array("file_", "jpeg");
    unsigned char *b = f->data;
    struct pare_image p;

    (void)state;
    assert_int_equal(pare_png_decode(arena, png, sizeof(png), &p, &err), PARE_ELIMIT);
    for (int64_t i = 0; i < f->dim[0] - 9; i++)
        if (b[i] == 0xff && b[i + 1] == 0xc0)
            memset(b + i + 5, 0xf0, 4);
    assert_int_equal(pare_jpeg_decode(arena, b, (size_t)f->dim[0], &p, &err), PARE_ELIMIT);
}

static void test_resizing_matches_pillow(void **state)
{
    static const int64_t size[][2] = { { 12, 17 }, { 21, 9 }, { 33, 30 }, { 40, 50 }, { 1, 1 } };
    const struct pare_tensor *rgb = find_array("rgb_", "png");
    int64_t h = rgb->dim[0], w = rgb->dim[1];
    unsigned char *planes = pare_alloc(arena, (size_t)pare_numel(rgb), 1);

    (void)state;
    for (int64_t i = 0; i < h * w; i++)
        for (int c = 0; c < 3; c++)
            planes[c * h * w + i] = ((unsigned char *)rgb->data)[3 * i + c];
    for (size_t k = 0; k < sizeof(size) / sizeof(*size); k++) {
        struct pare_image p = { PARE_U8, 3, h, w, true, rgb->data };
        struct pare_image q = { PARE_U8, 3, h, w, false, planes };
        const struct pare_tensor *want;
        char name[32];

        snprintf(name, sizeof(name), "resize_%dx%d", (int)size[k][0], (int)size[k][1]);
        want = find_array(name, "");
        assert_int_equal(pare_rescale(arena, &p, size[k][0], size[k][1], &err), 0);
        expect_pixels(&p, want, name);
        assert_int_equal(pare_rescale(arena, &q, size[k][0], size[k][1], &err), 0);
        for (int64_t i = 0; i < q.h * q.w; i++)
            for (int c = 0; c < 3; c++)
                assert_int_equal(((const unsigned char *)q.data)[c * q.h * q.w + i],
                                 ((const unsigned char *)want->data)[3 * i + c]);
    }
}

static void test_resize_of_the_shorter_side(void **state)
{
    static const int64_t one[] = { 12 }, two[] = { 5, 7 };
    const struct pare_ints none = { NULL, 0 }, side = { one, 1 }, both = { two, 2 };
    int64_t h, w;

    (void)state;
    pare_resized(&none, 21, 30, &h, &w);
    assert_true(h == 21 && w == 30);
    pare_resized(&side, 21, 30, &h, &w);
    assert_true(h == 12 && w == 17);
    pare_resized(&side, 30, 21, &h, &w);
    assert_true(h == 17 && w == 12);
    pare_resized(&both, 21, 30, &h, &w);
    assert_true(h == 5 && w == 7);
}

static void test_resize_to_a_huge_size_is_refused(void **state)
{
    static unsigned char strip[4096];
    struct pare_image p = { PARE_U8, 1, 1, 4096, false, strip };

    (void)state;
    assert_int_equal(pare_rescale(arena, &p, 65536, (int64_t)65536 * 4096, &err), PARE_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pixels_match_pillow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated_files_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flipped_bytes_do_not_crash, setup, teardown),
        cmocka_unit_test_setup_teardown(test_huge_images_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resizing_matches_pillow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resize_of_the_shorter_side, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resize_to_a_huge_size_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
