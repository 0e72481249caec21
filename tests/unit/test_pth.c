/* test_pth.c - PyTorch's .pth files: written by torch.save, hostile ones, and Pare's own.
 *
 * tools/golden_pth.py made golden/<name>.pth, and golden/pth.npz with the tensors that each holds.
 */
#include "file_rig.h"

#include <zlib.h>
#include <zlib.h>

#include "io/crc.h"
#include "io/file.h"
#include "io/pickle.h"
#include "io/pth.h"
#include "io/zip_store.h"
#include "tensor/compare.h"
#include "tensor/tensor.h"

static const struct pare_tolerance exact = { 0, 0 };

static int setup(void **state)
{
    (void)state;
    return make_folder("x.pth");
}

/* ---- files of torch.save ------------------------------------------------------------ */

static const struct pare_tensor *find_tensor(const struct pare_named *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i].t;
    return NULL;
}

static void check_golden(const char *name, const struct pare_named *want, int n_want)
{
    struct pare_pth p;
    char file[64];
    size_t len = strlen(name);
    int n = 0;

    snprintf(file, sizeof(file), "golden/%s.pth", name);
    if (pare_pth_read(arena, file, &p, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < n_want; i++) {
        const struct pare_tensor *t;
        struct pare_tensor wide;

        if (strncmp(want[i].name, name, len) != 0 || want[i].name[len] != '/')
            continue;
        t = find_tensor(p.tensor, p.n_tensors, want[i].name + len + 1);
        if (!t)
            fail_msg("%s is missing", want[i].name);
        if (t->dtype == PARE_BF16) { /* numpy has no bfloat16 */
            wide = *t;
            wide.dtype = PARE_F32;
            assert_int_equal(pare_tensor_alloc(arena, &wide, &err), 0);
            assert_int_equal(pare_convert(PARE_F32, wide.data, PARE_BF16, t->data, pare_numel(t),
                                          &err),
                             0);
            t = &wide;
        }
        if (pare_tensor_compare(t, &want[i].t, exact, &err))
            fail_msg("%s: %s", want[i].name, err.msg);
        n++;
    }
    assert_int_equal(n, p.n_tensors);
}

static void test_files_from_torch_save(void **state)
{
    static const char *const files[] = { "state",     "views",      "masks",    "nested",
                                         "parameter", "checkpoint", "protocol4" };
    struct pare_named *want;
    int n;

    (void)state;
    assert_int_equal(pare_npz_read(arena, "golden/pth.npz", &want, &n, &err), 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        check_golden(files[i], want, n);
}

static void test_order_and_absent_masks(void **state)
{
    struct pare_pth p;

    (void)state;
    assert_int_equal(pare_pth_read(arena, "golden/masks.pth", &p, &err), 0);
    assert_int_equal(p.n_tensors, 3);
    assert_string_equal(p.tensor[0].name, "features.0.weight");
    assert_string_equal(p.tensor[1].name, "features.0.bias");
    assert_string_equal(p.tensor[2].name, "classifier.weight");
    assert_int_equal(p.n_none, 1);
    assert_string_equal(p.none[0], "classifier.bias");
    assert_int_equal(pare_pth_read(arena, "golden/views.pth", &p, &err), 0);
    assert_ptr_equal(p.tensor[0].t.data, p.tensor[1].t.data); /* a shared storage */
}

static void test_other_formats_are_refused(void **state)
{
    struct pare_pth p;

    (void)state;
    assert_int_equal(pare_pth_read(arena, "golden/legacy.pth", &p, &err), PARE_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "golden/legacy.pth: the format of PyTorch before 1.6"));
    assert_int_equal(pare_pth_read(arena, "golden/script.pth", &p, &err), PARE_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "a TorchScript archive"));
    assert_int_equal(pare_pth_read(arena, "golden/pth.npz", &p, &err), PARE_EFORMAT);
    assert_non_null(strstr(err.msg, "without data.pkl"));
    assert_int_equal(pare_pth_read(arena, "models/add.onnx", &p, &err), PARE_EFORMAT);
    assert_non_null(strstr(err.msg, "it is not a zip archive"));
    assert_int_equal(pare_pth_read(arena, "/nonexistent/x.pth", &p, &err), PARE_EIO);
}

/* ---- hostile files ------------------------------------------------------------------ */

#define TEXT1(c) "X\1\0\0\0" c
#define STORAGE(type, n) "(X\7\0\0\0storagectorch\n" type "\n" TEXT1("0") "X\3\0\0\0cpu" n "tQ"
#define TENSOR(storage, sizes, strides) \
    "ctorch._utils\n_rebuild_tensor_v2\n(" storage "K\0" sizes strides "\211}tR"
#define SIX TENSOR(STORAGE("FloatStorage", "K\6"), "K\6\205", "K\1\205")
#define BOOLS TENSOR(STORAGE("BoolStorage", "K\6"), "K\6\205", "K\1\205")

static int write_and_read(const void *pickle, size_t len, const void *data, size_t n,
                          const char *order)
{
    struct pare_zip_entry e[] = { { "a/data.pkl", { { pickle, len } } },
                                  { "a/data/0", { { data, n } } },
                                  { "a/byteorder", { { order, strlen(order) } } } };
    struct pare_pth p;

    assert_int_equal(pare_zip_store(path, e, 3, &err), 0);
    err.code = 0;
    return pare_pth_read(arena, path, &p, &err);
}

static void test_hostile_contents(void **state)
{
    static const unsigned char data[24] = { 1, 0, 2 };
    static const struct {
        const char *p;
        size_t len, n;
        const char *order, *message; /* NULL: no error */
    } bad[] = {
#define P(s) "\200\2" s ".", sizeof("\200\2" s ".") - 1
        { P("}" TEXT1("a") SIX "s"), 24, "little", NULL },
        { P(SIX), 24, "little", NULL },
        { P("}" TEXT1("a") SIX "s"), 20, "little",
          "storage '0': 20 bytes, but the pickle has 6 elements of 4" },
        { P("}" TEXT1("a") SIX "s"), 24, "big", "byte order" },
        { P("}" TEXT1("a") SIX "s"), 24, "little-endian", "byte order" },
        { P("}" TEXT1("a") BOOLS "s"), 6, "little", "a bool is neither 0 nor 1" },
        { P("}" TEXT1("\0") SIX "s"), 24, "little", "a zero in it" },
        { P("}(" TEXT1("a") SIX TEXT1("a") SIX "u"), 24, "little", "two tensors are named 'a'" },
        { P("}NNs"), 24, "little", "neither a string nor a number" },
        { P("K\1"), 24, "little", "the file has no tensors" },
        { P("]q\0h\0a"), 24, "little", "nested deeper than 32" },
        { P("cos\nsystem\n"), 24, "little", "uses os.system" },
        { P("}" TEXT1("a")
                TENSOR(STORAGE("FloatStorage", "K\6"), "J\0\0\0\100\205", "K\0\205") "s"),
          24, "little", "when their strides are resolved" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int rc = write_and_read(bad[i].p, bad[i].len, data, bad[i].n, bad[i].order);

        if (!rc != !bad[i].message || (rc && !strstr(err.msg, bad[i].message)))
            fail_msg("case %zu: \"%s\", expected \"%s\"", i, err.msg,
                     bad[i].message ? bad[i].message : "nothing");
    }
}

/* Nested lists; and nested tuples that contain the same tuple twice: 2^28 objects. */
static void test_deep_and_repeated_objects(void **state)
{
    char p[4096];
    size_t n = 0;

    (void)state;
    n += (size_t)snprintf(p, sizeof(p), "\200\2");
    memset(p + n, ']', 1000);
    memset(p + n + 1000, 'a', 999);
    p[n + 1999] = '.';
    assert_int_equal(write_and_read(p, n + 2000, p, 24, "little"), PARE_ELIMIT);
    assert_non_null(strstr(err.msg, "nested deeper"));
    p[n++] = ']';
    for (int i = 0; i < 28; i++) {
        p[n++] = 'q';
        p[n++] = (char)i;
        p[n++] = 'h';
        p[n++] = (char)i;
        p[n++] = '\206';
    }
    p[n++] = '.';
    assert_int_equal(write_and_read(p, n, p, 24, "little"), PARE_ELIMIT);
    assert_non_null(strstr(err.msg, "more than 262144 names"));
}

static void test_missing_storage(void **state)
{
    static const char pickle[] = "\200\2" SIX ".";
    struct pare_zip_entry e = { "a/data.pkl", { { pickle, sizeof(pickle) - 1 } } };
    struct pare_pth p;

    (void)state;
    assert_int_equal(pare_zip_store(path, &e, 1, &err), 0);
    assert_int_equal(pare_pth_read(arena, path, &p, &err), PARE_EFORMAT);
    assert_non_null(strstr(err.msg, "storage '0': the entry data/0 is missing"));
}

/* All lengths and alignments, at once and in two parts, against zlib. */
static void test_crc32_matches_zlib(void **state)
{
    static unsigned char p[1500];
    uint32_t seed = 1;

    (void)state;
    for (size_t i = 0; i < sizeof(p); i++) {
        seed = seed * 1664525 + 1013904223;
        p[i] = (unsigned char)(seed >> 24);
    }
    for (size_t n = 0; n < 1400; n++) {
        const unsigned char *at = p + n % 67;
        uint32_t want = (uint32_t)crc32_z(7, at, n), part = pare_crc32(7, at, n / 3);

        assert_int_equal(pare_crc32(7, at, n), want);
        assert_int_equal(pare_crc32(part, at + n / 3, n - n / 3), want);
    }
    assert_int_equal(pare_crc32(0, "123456789", 9), 0xcbf43926);
}

/* A changed byte is an error, in the pickle and in each storage. */
static void test_wrong_checksums_are_errors(void **state)
{
    static const char pickle[] = "\200\2" SIX ".";
    static const char data[24];
    struct pare_zip_entry e[] = { { "a/data.pkl", { { pickle, sizeof(pickle) - 1 } } },
                                  { "a/data/0", { { data, 24 } } } };
    struct pare_pth pth;
    const void *bytes;
    unsigned char *p;
    size_t n;

    (void)state;
    assert_int_equal(pare_zip_store(path, e, 2, &err), 0);
    assert_int_equal(pare_file_read(arena, path, &bytes, &n, &err), 0);
    p = pare_alloc(arena, n, 1);
    memcpy(p, bytes, n);
    assert_int_equal(pare_pth_parse(arena, p, n, &pth, &err), 0);
    p[256] ^= 1; /* 64 bytes before the pickle, 128 of the pickle, 64 of the next header */
    assert_int_equal(pare_pth_parse(arena, p, n, &pth, &err), PARE_EFORMAT);
    assert_non_null(
        strstr(err.msg, "storage '0': longer than the archive's directory says, or its checksum"));
    p[64] ^= 1;
    assert_int_equal(pare_pth_parse(arena, p, n, &pth, &err), PARE_EFORMAT);
    assert_non_null(
        strstr(err.msg,
               "data.pkl: longer than the archive's directory says, or its checksum is wrong"));
}

static unsigned char *put(unsigned char *p, uint32_t v, int n)
{
    for (int i = 0; i < n; i++, v >>= 8)
        *p++ = (unsigned char)v;
    return p;
}

struct packed_entry {
    const char *name;
    const unsigned char *data;
    uint32_t method, crc, packed, size, at;
};

/* What an entry's local header and its record in the directory share. */
static unsigned char *put_common(unsigned char *p, const struct packed_entry *e)
{
    p = put(put(put(put(p, 20, 2), 0, 2), e->method, 2), 0, 4);
    p = put(put(put(p, e->crc, 4), e->packed, 4), e->size, 4);
    return put(put(p, (uint32_t)strlen(e->name), 2), 0, 2);
}

/* An archive with a compressed entry, which torch.save does not write; `declared` is the size in
 * its directory. */
static void write_compressed(const char *pickle, size_t len, uint32_t declared)
{
    static const unsigned char data[24];
    unsigned char file[4096], packed[100], *p = file, *directory;
    z_stream s = { .next_in = (unsigned char *)(uintptr_t)data, .avail_in = sizeof(data) };
    struct packed_entry e[2] = {
        { "a/data.pkl", (const unsigned char *)pickle, .packed = (uint32_t)len },
        { "a/data/0", packed, .method = 8, .size = declared },
    };

    assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    s.next_out = packed;
    s.avail_out = sizeof(packed);
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    e[0].size = e[0].packed;
    e[0].crc = (uint32_t)crc32(0, e[0].data, e[0].packed);
    e[1].packed = (uint32_t)s.total_out;
    e[1].crc = (uint32_t)crc32(0, data, sizeof(data));
    deflateEnd(&s);
    for (int i = 0; i < 2; i++) {
        e[i].at = (uint32_t)(p - file);
        p = put_common(put(p, 0x04034b50, 4), &e[i]);
        memcpy(p, e[i].name, strlen(e[i].name));
        p += strlen(e[i].name);
        memcpy(p, e[i].data, e[i].packed);
        p += e[i].packed;
    }
    directory = p;
    for (int i = 0; i < 2; i++) {
        p = put_common(put(put(p, 0x02014b50, 4), 20, 2), &e[i]);
        p = put(put(put(p, 0, 6), 0, 4), e[i].at, 4);
        memcpy(p, e[i].name, strlen(e[i].name));
        p += strlen(e[i].name);
    }
    len = (size_t)(p - directory);
    p = put(put(put(put(p, 0x06054b50, 4), 0, 4), 2, 2), 2, 2);
    p = put(put(put(p, (uint32_t)len, 4), (uint32_t)(directory - file), 4), 0, 2);
    assert_int_equal(pare_file_write(path, file, (size_t)(p - file), &err), 0);
}

static void test_compressed_entries(void **state)
{
    static const char small[] = "\200\2" SIX ".",
                      more[] = "\200\2" TENSOR(STORAGE("FloatStorage", "K\7"), "K\7\205",
                                               "K\1\205") ".",
                      bomb[] = "\200\2" TENSOR(STORAGE("FloatStorage", "J\374\377\377\077"),
                                               "J\374\377\377\077\205", "K\1\205") ".";
    struct pare_pth p;

    (void)state;
    write_compressed(small, sizeof(small) - 1, 24);
    if (pare_pth_read(arena, path, &p, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(p.tensor[0].name, "tensor");
    write_compressed(more, sizeof(more) - 1, 28);
    assert_int_equal(pare_pth_read(arena, path, &p, &err), PARE_EFORMAT);
    write_compressed(bomb, sizeof(bomb) - 1, 0xfffffff0);
    assert_int_equal(pare_pth_read(arena, path, &p, &err), PARE_EFORMAT);
    assert_non_null(strstr(err.msg, "unpack to 4294967280, more than deflate can do"));
}

static void test_truncated_and_flipped_files(void **state)
{
    const void *bytes;
    unsigned char *p;
    struct pare_pth pth;
    size_t n;

    (void)state;
    assert_int_equal(pare_file_read(arena, "golden/masks.pth", &bytes, &n, &err), 0);
    p = pare_alloc(arena, n, 1);
    memcpy(p, bytes, n);
    assert_int_equal(pare_pth_parse(arena, p, n, &pth, &err), 0);
    for (size_t i = 0; i < 8 * n; i++) {
        struct pare_mark m = pare_mark(arena);

        p[i / 8] ^= (unsigned char)(1 << i % 8);
        (void)pare_pth_parse(arena, p, n, &pth, &err);
        p[i / 8] ^= (unsigned char)(1 << i % 8);
        pare_reset(arena, m);
    }
    for (size_t i = 0; i < n; i++) {
        assert_int_not_equal(pare_pth_parse(arena, p, i, &pth, &err), 0);
        assert_true(err.msg[0]);
    }
}

/* ---- files that Pare writes --------------------------------------------------------- */

static int make_list(struct pare_named *list, const char *form)
{
    static const enum pare_dtype types[] = { PARE_F32, PARE_F16, PARE_F64, PARE_I64,  PARE_I32,
                                             PARE_I16, PARE_I8,  PARE_U8,  PARE_BOOL, PARE_BF16 };
    static const int64_t dims[] = { 3, 1, 300 };

    for (int i = 0; i < 40; i++) {
        struct pare_tensor *t = &list[i].t;

        list[i].name = pare_sprintf(arena, form, i / 2, i % 2 ? "bias" : "weight");
        assert_int_equal(pare_tensor_new(arena, t, types[i % 10], i % 4, dims, &err), 0);
        for (size_t k = 0; k < (size_t)pare_numel(t) * pare_dtype_size(t->dtype); k++)
            ((char *)t->data)[k] = (char)(t->dtype == PARE_BOOL ? k & 1 : k % 60);
    }
    list[40] = (struct pare_named){ "empty.weight", { PARE_F32, 2, { 0, 5 }, NULL } };
    return 41;
}

static void check_round_trip(int (*write)(const char *, const struct pare_named *, int,
                                          struct pare_err *))
{
    struct pare_named list[41];
    int n = make_list(list, "layer.%d.%s"), data = 0;
    struct pare_pth p;
    const unsigned char *first;
    const void *bytes, *second;
    size_t len, again;

    if (write(path, list, n, &err) || pare_pth_read(arena, path, &p, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(p.n_tensors, n);
    for (int i = 0; i < n; i++) {
        assert_string_equal(p.tensor[i].name, list[i].name);
        assert_int_equal(pare_tensor_compare(&p.tensor[i].t, &list[i].t, exact, &err), 0);
    }
    assert_int_equal(pare_file_read(arena, path, &bytes, &len, &err), 0);
    assert_int_equal(write(path, list, n, &err), 0);
    assert_int_equal(pare_file_read(arena, path, &second, &again, &err), 0);
    assert_int_equal(len, again);
    assert_memory_equal(bytes, second, len);
    first = bytes;
    for (size_t i = 0; i + 30 < len; i++)
        if (!memcmp(first + i, "PK\3\4", 4)) { /* name, extra field, then the data */
            assert_int_equal((i + 30 + first[i + 26] + first[i + 28]) % 64, 0);
            data++;
        }
    assert_int_equal(data, n + 3);
}

static void test_state_dict_round_trip(void **state)
{
    (void)state;
    check_round_trip(pare_pth_write);
}

static void test_mask_round_trip(void **state)
{
    static float x[2] = { 1, 0 };
    struct pare_named list[] = { { "a.b.weight", { PARE_F32, 1, { 2 }, x } },
                                 { "c.bias", { PARE_F32, 1, { 2 }, x } },
                                 { "a.b.bias", { PARE_F32, 1, { 2 }, x } } };
    struct pare_pth p;

    (void)state;
    check_round_trip(pare_pth_write_masks);
    assert_int_equal(pare_pth_write_masks(path, list, 3, &err), 0);
    assert_int_equal(pare_pth_read(arena, path, &p, &err), 0);
    assert_int_equal(p.n_tensors, 3);
    assert_string_equal(p.tensor[1].name, "a.b.bias");
    assert_int_equal(p.n_none, 1);
    assert_string_equal(p.none[0], "c.weight");
    list[1].name = "c.scale";
    assert_int_equal(pare_pth_write_masks(path, list, 3, &err), PARE_ECONFIG);
    list[1].name = "weight";
    assert_int_equal(pare_pth_write_masks(path, list, 3, &err), PARE_ECONFIG);
}

static void test_lists_that_cannot_be_written(void **state)
{
    static float x[1];
    struct pare_named list[] = { { "a", { PARE_F32, 1, { 1 }, x } },
                                 { "a", { PARE_F32, 1, { 1 }, x } } };

    (void)state;
    assert_int_equal(pare_pth_write(path, list, 2, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "two tensors are named 'a'"));
    list[1] = (struct pare_named){ "b", { PARE_U32, 1, { 1 }, x } };
    assert_int_equal(pare_pth_write(path, list, 2, &err), PARE_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "tensor 'b' is uint32, which PyTorch does not have"));
    assert_int_equal(pare_pth_write("/nonexistent/x", list, 1, &err), PARE_EIO);
    assert_int_equal(access(path, F_OK), -1);
}

/* Each allocation fails once: an error, no crash. */
static void test_out_of_memory(void **state)
{
    struct pare_pth p;
    int k, rc = 1;

    (void)state;
    for (k = 1; rc && k < 10000; k++) {
        struct pare_arena *a = pare_arena_new(1 << 12);

        pare_oom_countdown = -k;
        rc = pare_pth_read(a, "golden/nested.pth", &p, &err);
        if (!rc)
            rc = pare_pth_write_masks(path, p.tensor, 0, &err);
        if (!rc)
            rc = pare_pth_write(path, p.tensor, p.n_tensors, &err);
        pare_oom_countdown = 0;
        pare_arena_free(a);
        assert_true(!rc || rc == PARE_ENOMEM);
    }
    assert_int_equal(rc, 0);
    assert_true(k > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_from_torch_save, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_and_absent_masks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_formats_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_contents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deep_and_repeated_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_storage, setup, teardown),
        cmocka_unit_test(test_crc32_matches_zlib),
        cmocka_unit_test_setup_teardown(test_wrong_checksums_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compressed_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated_and_flipped_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_state_dict_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mask_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists_that_cannot_be_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
