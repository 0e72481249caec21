/* test_zip_read.c - zip archives: zip64, damaged bytes, cut files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <zlib.h>

#include "io/zip_read.h"

enum { PLAIN = 50, ROOM = 1024 };

static unsigned char plain[PLAIN], file[ROOM];
static size_t directory, end;

static unsigned char *put(unsigned char *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++, v >>= 8)
        *p++ = (unsigned char)v;
    return p;
}

/* An archive of one entry; zip64: sizes and offsets are in its records.  Returns its length. */
static size_t make(bool deflated, bool zip64)
{
    unsigned char packed[2 * PLAIN], *p = file;
    z_stream s = { .next_in = plain, .avail_in = PLAIN };
    uint32_t crc = (uint32_t)crc32(0, plain, PLAIN);
    size_t n = PLAIN, len;

    memcpy(packed, plain, PLAIN);
    if (deflated) {
        assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
        s.next_out = packed;
        s.avail_out = sizeof(packed);
        assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
        n = s.total_out;
        deflateEnd(&s);
    }
    p = put(put(put(put(p, 0x04034b50, 4), 20, 4), deflated ? 8 : 0, 2), 0, 4);
    p = put(put(put(put(put(p, crc, 4), n, 4), PLAIN, 4), 1, 2), 0, 2);
    *p++ = 'x';
    memcpy(p, packed, n);
    p += n;
    directory = (size_t)(p - file);
    p = put(put(put(put(p, 0x02014b50, 4), 20, 2), 20, 4), deflated ? 8 : 0, 2);
    p = put(put(p, 0, 4), crc, 4);
    p = put(put(p, zip64 ? 0xffffffff : n, 4), zip64 ? 0xffffffff : PLAIN, 4);
    p = put(put(put(p, 1, 2), zip64 ? 32 : 0, 2), 0, 10);
    p = put(p, zip64 ? 0xffffffff : 0, 4);
    *p++ = 'x';
    if (zip64) /* an unrelated field, then that of zip64 */
        p = put(put(put(put(put(p, 0x1234, 4), 1, 2), 24, 2), PLAIN, 8), n, 8), p = put(p, 0, 8);
    len = (size_t)(p - file) - directory;
    end = (size_t)(p - file);
    if (zip64) {
        p = put(put(put(put(p, 0x06064b50, 4), 44, 8), 45, 4), 0, 8);
        p = put(put(put(put(p, 1, 8), 1, 8), len, 8), directory, 8);
        p = put(put(put(put(p, 0x07064b50, 4), 0, 4), end, 8), 1, 4);
    }
    p = put(put(p, 0x06054b50, 4), 0, 4);
    p = put(put(p, zip64 ? 0xffff : 1, 2), zip64 ? 0xffff : 1, 2);
    p = put(put(p, zip64 ? 0xffffffff : len, 4), zip64 ? 0xffffffff : directory, 4);
    return (size_t)(put(p, 0, 2) - file);
}

/* Read the archive from a block of exactly n bytes, so that sanitizers find reads beyond it.  0: it
 * has one entry, which was read. */
static int read_file(size_t n, unsigned char *data, struct pare_err *err)
{
    unsigned char *copy = test_malloc(n ? n : 1);
    struct pare_zip z;
    int rc;

    memcpy(copy, file, n);
    rc = pare_zip_parse(copy, n, &z, err);
    if (!rc)
        rc = pare_zip_check(&z, err);
    if (!rc && (z.n != 1 || z.item[0].size != PLAIN))
        rc = PARE_EFORMAT;
    if (!rc)
        rc = pare_zip_read(&z, &z.item[0], data, PLAIN, err);
    if (!rc)
        assert_non_null(pare_zip_find(&z, z.item[0].name));
    pare_zip_close(&z);
    test_free(copy);
    return rc;
}

static void test_read(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        unsigned char data[PLAIN] = { 0 };
        struct pare_err err;
        size_t n = make(i & 1, i & 2);

        if (read_file(n, data, &err))
            fail_msg("%s", err.msg);
        assert_memory_equal(data, plain, PLAIN);
    }
}

/* Whatever byte changes, the entry is refused or its data is right. */
static void test_changed_bytes(void **state)
{
    int refused = 0;

    (void)state;
    for (int i = 0; i < 4; i++) {
        size_t n = make(i & 1, i & 2);

        for (size_t at = 0; at < n; at++)
            for (int bit = 0; bit < 8; bit++) {
                unsigned char data[PLAIN] = { 0 };
                struct pare_err err;

                file[at] ^= (unsigned char)(1 << bit);
                if (read_file(n, data, &err))
                    refused++;
                else
                    assert_memory_equal(data, plain, PLAIN);
                file[at] ^= (unsigned char)(1 << bit);
            }
    }
    assert_true(refused > 2000);
}

static void test_cut_files(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        size_t n = make(i & 1, i & 2);

        for (size_t cut = 0; cut < n; cut++) {
            unsigned char data[PLAIN];
            struct pare_err err;

            assert_int_not_equal(read_file(cut, data, &err), 0);
        }
    }
}

static void expect(size_t n, const char *text)
{
    unsigned char data[PLAIN];
    struct pare_err err;

    assert_int_not_equal(read_file(n, data, &err), 0);
    if (!strstr(err.msg, text))
        fail_msg("expected '%s', not '%s'", text, err.msg);
}

static void test_zip_messages(void **state)
{
    size_t n = make(false, false);

    (void)state;
    file[end + 16] = 0xf0;
    expect(n, "its directory lies outside the file");
    n = make(false, false);
    file[directory] = 'Q';
    expect(n, "its directory is damaged");
    n = make(false, false);
    file[0] = 'Q';
    expect(n, "its local header is missing");
    n = make(false, false);
    file[end + 4] = 1;
    expect(n, "it is one of several parts");
    n = make(false, true);
    file[end] = 'Q';
    expect(n, "its zip64 end record is missing");
    n = make(true, false);
    file[directory + 20]--; /* a shorter compressed size */
    expect(n, "than the archive's directory says");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_changed_bytes),
        cmocka_unit_test(test_cut_files),
        cmocka_unit_test(test_zip_messages),
    };

    for (int i = 0; i < PLAIN; i++)
        plain[i] = (unsigned char)(i / 3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
