/* test_tables.c - CSV files, lists of files and WAV folders as data sets. */
#include "data_rig.h"

#include <math.h>

#include "data/csv.h"
#include "data/wav.h"
#include "io/npy.h"
#include "io/tensor_pb.h"

static void write_text(struct rig *r, const char *name, const char *text)
{
    rig_write(r, name, text, strlen(text));
}

static struct pare_tensor all_items(struct rig *r, struct pare_tensor *y)
{
    const struct pare_batch *b;

    assert_int_equal(pare_loader_new(r->data, &(struct pare_loader_opts){ .batch = r->data->n },
                                     &r->loader, &r->err),
                     0);
    assert_int_equal(pare_loader_next(r->loader, &b, &r->err), 0);
    *y = b->y;
    return b->x;
}

static void check_floats(const struct pare_tensor *t, int n, const float *want)
{
    assert_int_equal(pare_numel(t), n);
    for (int i = 0; i < n; i++)
        assert_true(fabsf(pare_f32(t)[i] - want[i]) < 1e-6f);
}

static void test_columns_are_inputs_and_labels(void **state)
{
    struct pare_tensor x, y;
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_text(&r, "t.csv",
               "\xef\xbb\xbf"
               "a, b ,label\r\n1,2.5,0\r\n\r\n-3,\" 4e1\",1\r\n");
    expect_open(&r, "t.csv", "train", "");
    x = all_items(&r, &y);
    assert_true(x.rank == 2 && x.dim[0] == 2 && x.dim[1] == 2 && y.dtype == PARE_I64);
    check_floats(&x, 4, (float[]){ 1, 2.5f, -3, 40 });
    assert_true(pare_i64(&y)[0] == 0 && pare_i64(&y)[1] == 1);
    expect_open(&r, "t.csv", "train", "label=b columns=label,a");
    x = all_items(&r, &y);
    check_floats(&x, 4, (float[]){ 0, 1, 1, -3 });
    check_floats(&y, 2, (float[]){ 2.5f, 40 });
    expect_open(&r, "t.csv", "train", "label=a,b columns=label");
    x = all_items(&r, &y);
    assert_true(y.rank == 2 && y.dim[1] == 2 && y.dtype == PARE_F32);
    rig_end(&r);
}

static void test_texts_are_classes(void **state)
{
    struct pare_tensor y;
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_text(&r, "t.tsv", "n\tspecies\n1\tdog\n2\tcat\n3\t\"a \"\"b\"\"\"\n4\tcat");
    expect_open(&r, "t.tsv", "train", "label=species");
    all_items(&r, &y);
    assert_int_equal(r.data->classes, 3);
    assert_string_equal(r.data->class_name[0], "a \"b\"");
    assert_true(pare_i64(&y)[0] == 2 && pare_i64(&y)[1] == 1 && pare_i64(&y)[3] == 1);
    write_text(&r, "s.csv", "n;label\n1,5;1\n");
    expect_open_error(&r, "s.csv", "train", "", "line 2: column 'n' is '1,5', expected a number");
    rig_end(&r);
}

static void test_mistakes_are_named_with_their_line(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_text(&r, "t.csv", "a,b\n1,2\n3,\n");
    expect_open_error(&r, "t.csv", "train", "", "line 3: column 'b' has no value");
    write_text(&r, "t.csv", "a,b\n1,2\n\"x\ny\",3\n4,inf\n");
    expect_open_error(&r, "t.csv", "train", "", "line 3: column 'a' is 'x\ny', expected a number");
    write_text(&r, "t.csv", "a,b\n1,2\n\"3\n\",3\n4,nan\n");
    expect_open_error(&r, "t.csv", "train", "columns=b", "line 5: column 'b' has no value");
    write_text(&r, "t.csv", "a,b\n1\n");
    expect_open_error(&r, "t.csv", "train", "", "line 2 has 1 cell, the header has 2");
    write_text(&r, "t.csv", "a,A\n1,2\n");
    expect_open_error(&r, "t.csv", "train", "", "has column");
    write_text(&r, "t.csv", "a,b\n1,\"2\n");
    expect_open_error(&r, "t.csv", "train", "", "line 2: a quote is not closed");
    write_text(&r, "t.csv", "a,b\n");
    expect_open_error(&r, "t.csv", "train", "", "has a header, but no rows");
    write_text(&r, "t.csv", "");
    expect_open_error(&r, "t.csv", "train", "", "is empty");
    write_text(&r, "t.csv", "area,price\n1,2\n");
    expect_open_error(&r, "t.csv", "train", "label=prize", "did you mean 'price'");
    expect_open_error(&r, "t.csv", "train", "label=area columns=area",
                      "both an input and the label");
    expect_open_error(&r, "t.csv", "train", "label=area,price", "none is an input");
    rig_end(&r);
}

/* Columns of a model with several inputs, one of them of integers. */
static void test_columns_of_several_inputs(void **state)
{
    static const struct pare_io io[] = { { "pixel", PARE_F32, 2, { -1, 2 }, { NULL }, 0 },
                                         { "id", PARE_I64, 1, { -1 }, { NULL }, 0 } };
    struct pare_data_request q = { .split = "train", .io = io, .n_io = 2 };
    struct pare_loader_opts lo = { .batch = 2, .input = io, .n_inputs = 2 };
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_text(&r, "t.csv", "id,pixel.0,y,pixel_1\n7,0.5,1,1.5\n9,2.5,0,3.5\n");
    q.spec = rig_path(&r, "t.csv");
    assert_int_equal(pare_data_open_for(&q, NULL, &r.data, &r.err), 0);
    assert_int_equal(pare_loader_new(r.data, &lo, &r.loader, &r.err), 0);
    assert_int_equal(pare_loader_next(r.loader, &b, &r.err), 0);
    check_floats(&b->in[0], 4, (float[]){ 0.5f, 1.5f, 2.5f, 3.5f });
    assert_true(b->in[1].dtype == PARE_I64 && b->in[1].rank == 1 && pare_i64(&b->in[1])[1] == 9);
    close_data(&r);
    write_text(&r, "t.csv", "id,pixels,y\n7,0.5,1\n");
    assert_int_not_equal(pare_data_open_for(&q, NULL, &r.data, &r.err), 0);
    assert_non_null(strstr(r.err.msg, "input 'pixel' has no column"));
    rig_end(&r);
}

static const unsigned char png[] = { /* 1 x 1, red */
                                     137, 80, 78, 71, 13, 10,  26,  10,  0,   0,   0,   13,
                                     73,  72, 68, 82, 0,  0,   0,   1,   0,   0,   0,   1,
                                     8,   2,  0,  0,  0,  144, 119, 83,  222, 0,   0,   0,
                                     12,  73, 68, 65, 84, 120, 156, 99,  248, 207, 192, 0,
                                     0,   3,  1,  1,  0,  201, 254, 146, 239, 0,   0,   0,
                                     0,   73, 69, 78, 68, 174, 66,  96,  130
};

static void test_lists_of_images(void **state)
{
    struct pare_tensor x, y;
    struct rig r;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "i/one, two.png", png, sizeof(png));
    rig_write(&r, "i/2.png", png, sizeof(png));
    write_text(&r, "l.csv", "label,file\ndog,\"i/one, two.png\"\ncat,i/2.png\n");
    expect_open(&r, "l.csv", "train", "");
    x = all_items(&r, &y);
    assert_true(x.rank == 4 && x.dim[1] == 3 && pare_f32(&x)[0] == 1 && pare_f32(&x)[1] == 0);
    assert_true(pare_i64(&y)[0] == 1 && pare_i64(&y)[1] == 0);
    write_text(&r, "l.txt", "i/one, two.png\ni/2.png\n");
    expect_open(&r, "l.txt", "train", "");
    assert_int_equal(r.data->n, 2);
    assert_false(pare_data_has_labels(r.data));
    write_text(&r, "l.txt", "i/2.png\t3\r\ni/one, two.png\t0\r\n\r\n");
    expect_open(&r, "l.txt", "train", "");
    assert_int_equal(r.data->classes, 4);
    write_text(&r, "l.txt", "i/2.png\t3\ni/2.png\n");
    expect_open_error(&r, "l.txt", "train", "", "line 2 has no label");
    write_text(&r, "l.txt", "missing.png\n");
    expect_open_error(&r, "l.txt", "train", "", "missing.png' is missing");
    write_text(&r, "l.csv", "label,file\n1,i/2.png\n0,none.png\n");
    expect_open_error(&r, "l.csv", "train", "", "none.png' is missing");
    write_text(&r, "l.txt", "\n");
    expect_open_error(&r, "l.txt", "train", "", "no files are named");
    rig_end(&r);
}

/* Pixels of the first image. */
static void check_pixel(struct rig *r, const char *opts, float a, float b, float c)
{
    struct pare_tensor x, y;

    expect_open(r, "one.txt", "train", opts);
    x = all_items(r, &y);
    check_floats(&x, 3, (float[]){ a, b, c });
}

static void test_range_and_order_of_colors(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "1.png", png, sizeof(png));
    write_text(&r, "one.txt", "1.png\n");
    check_pixel(&r, "", 1, 0, 0);
    check_pixel(&r, "pixels=0..1 channels=bgr", 0, 0, 1);
    check_pixel(&r, "pixels=-1..1", 1, -1, -1);
    check_pixel(&r, "pixels=0..255 channels=bgr", 0, 0, 255);
    check_pixel(&r, "norm=imagenet channels=bgr", -0.406f / 0.225f, -0.456f / 0.224f,
                (1 - 0.485f) / 0.229f);
    check_pixel(&r, "mean=1,2,3 std=1 channels=bgr", -1, -2, -2);
    expect_open_error(&r, "one.txt", "train", "pixels=0..1 norm=imagenet",
                      "'pixels' excludes 'norm'");
    rig_end(&r);
}

/* A WAV file of 16 bits: two frames per byte of `frames`. */
static void write_wav(struct rig *r, const char *name, int channels, int rate, int frames)
{
    unsigned char b[44 + 256] = "RIFF....WAVEfmt \x10\0\0\0\x01\0";
    int n = 2 * channels * frames;

    b[22] = (unsigned char)channels;
    b[24] = (unsigned char)(rate & 255);
    b[25] = (unsigned char)(rate >> 8);
    b[34] = 16;
    memcpy(b + 36, "data", 4);
    b[40] = (unsigned char)n;
    for (int i = 0; i < channels * frames; i++)
        b[44 + 2 * i + 1] = (unsigned char)(i % 2 ? 0xc0 : 0x40); /* -0.5 and 0.5 */
    rig_write(r, name, b, 44 + (size_t)n);
}

static void test_sounds(void **state)
{
    struct pare_tensor x, y;
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_wav(&r, "w/a/1.wav", 1, 8000, 3);
    write_wav(&r, "w/b/2.wav", 1, 8000, 2);
    expect_open(&r, "w", "train", "");
    assert_true(r.data->single);
    expect_open_error(&r, "w", "train", "fill=x", "'fill' is 'x'");
    expect_open_error(&r, "w", "train", "fill=9 rate=16000",
                      "8000 samples per second, expected 16");
    expect_open(&r, "w", "train", "fill=9");
    x = all_items(&r, &y);
    assert_true(x.rank == 2 && x.dim[1] == 3);
    check_floats(&x, 6, (float[]){ 0.5f, -0.5f, 0.5f, 0.5f, -0.5f, 9 });
    assert_true(pare_i64(&y)[0] == 0 && pare_i64(&y)[1] == 1);
    write_wav(&r, "w/b/3.wav", 2, 8000, 3);
    expect_open_error(&r, "w", "train", "fill=0",
                      "3.wav: 2 channels, the first file has 1; --mono");
    expect_open(&r, "w", "train", "fill=0 mono=true");
    x = all_items(&r, &y);
    check_floats(&x, 9, (float[]){ 0.5f, -0.5f, 0.5f, 0.5f, -0.5f, 0, 0, 0, 0 });
    rig_write(&r, "w/b/4.mp3", "x", 1);
    expect_open_error(&r, "w", "train", "", "4.mp3: only WAV is supported: convert the file");
    rig_write(&r, "f/4.flac", "fLaC", 4);
    expect_open_error(&r, "f", "train", "", "4.flac: only WAV is supported: convert the file");
    write_text(&r, "l.txt", "w/a/1.wav\n");
    expect_open_error(&r, "l.txt", "train", "", "1.wav: is a sound, and a list names images");
    rig_write(&r, "x/1.wav", "RIFX\0\0\0\4WAVE", 12);
    expect_open_error(&r, "x", "train", "", "of the kind RIFX, only RIFF is supported: convert");
    rig_end(&r);
}

static void test_samples_of_all_widths(void **state)
{
    struct pare_wav w = { .channels = 1, .frames = 2, .bytes = 1 };
    float v[2];

    (void)state;
    w.data = (const unsigned char[]){ 192, 64 };
    pare_wav_channel(&w, 0, v);
    assert_true(v[0] == 0.5f && v[1] == -0.5f);
    w.bytes = 3;
    w.data = (const unsigned char[]){ 0, 0, 64, 0, 0, 192 };
    pare_wav_channel(&w, 0, v);
    assert_true(v[0] == 0.5f && v[1] == -0.5f);
    w.bytes = 4;
    w.data = (const unsigned char[]){ 0, 0, 0, 64, 0, 0, 0, 192 };
    pare_wav_channel(&w, 0, v);
    assert_true(v[0] == 0.5f && v[1] == -0.5f);
    w.is_float = true;
    w.data = (const unsigned char[]){ 0, 0, 0, 63, 0, 0, 128, 127 }; /* 0.5, infinity */
    pare_wav_channel(&w, 0, v);
    assert_true(v[0] == 0.5f && v[1] == 0);
    w.bytes = 8;
    w.data = (const unsigned char[]){ 0, 0, 0, 0, 0, 0, 224, 63, 0, 0, 0, 0, 0, 0, 208, 191 };
    pare_wav_channel(&w, 0, v);
    assert_true(v[0] == 0.5f && v[1] == -0.25f);
}

/* The header of a WAV file: kind of samples, bits; an odd chunk before the samples. */
static int parse_wav(int kind, int bits, bool extensible, struct pare_wav *w, struct pare_err *err)
{
    unsigned char b[128] = "RIFF....WAVEfmt \x28";
    size_t at = 20 + 40;

    b[20] = (unsigned char)(extensible ? 0xfe : kind);
    b[21] = extensible ? 0xff : 0;
    b[22] = 1;
    b[24] = 8;
    b[34] = (unsigned char)bits;
    b[44] = (unsigned char)kind; /* the first bytes of the sub-format */
    memcpy(b + at, "note\3\0\0\0abc", 11);
    memcpy(b + at + 12, "data\x10\0\0\0", 8);
    return pare_wav_parse(b, at + 36, at + 36, w, err);
}

static void test_kinds_of_samples(void **state)
{
    static const int kinds[][2] = { { 1, 8 },  { 1, 16 }, { 1, 24 }, { 1, 32 },
                                    { 3, 32 }, { 3, 64 }, { 3, 16 }, { 1, 12 },
                                    { 1, 64 }, { 2, 4 },  { 6, 8 } };
    struct pare_err err;
    struct pare_wav w;

    (void)state;
    for (int i = 0; i < 11; i++)
        for (int extensible = 0; extensible < 2; extensible++) {
            int rc = parse_wav(kinds[i][0], kinds[i][1], extensible, &w, &err);

            assert_int_equal(rc, i < 6 ? 0 : PARE_EUNSUPPORTED);
            if (!rc)
                assert_int_equal(w.frames, 16 / (kinds[i][1] / 8));
            else
                assert_non_null(strstr(err.msg, "float64 are supported: convert the file"));
        }
}

static void put_number(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

/* A file with the samples 0.5 and -0.5; `valid` bits of an extensible header, or 0. */
static void write_samples(struct rig *r, const char *name, int kind, int bits, int valid)
{
    static const uint64_t half[] = { 192, 1u << 14, 1u << 22, 1u << 30, 0x3f000000 },
                          minus[] = { 64, 0xc000, 0xc00000, 0xc0000000, 0xbf000000 };
    unsigned char b[84] = "RIFF....WAVEfmt ";
    int bytes = bits / 8, at = valid ? 60 : 36, k = kind == 3 ? 4 : bytes - 1;

    put_number(b + 16, valid ? 40 : 16, 4);
    put_number(b + 20, valid ? 0xfffe : (uint64_t)kind, 2);
    put_number(b + 22, 1, 2);
    put_number(b + 24, 8000, 4);
    put_number(b + 34, (uint64_t)bits, 2);
    if (valid) {
        put_number(b + 36, 22, 2);
        put_number(b + 38, (uint64_t)valid, 2);
        put_number(b + 44, (uint64_t)kind, 2);
    }
    memcpy(b + at, "data", 4);
    put_number(b + at + 4, (uint64_t)(2 * bytes), 4);
    put_number(b + at + 8, bits == 64 ? 0x3fe0000000000000 : half[k], bytes);
    put_number(b + at + 8 + bytes, bits == 64 ? 0xbfe0000000000000 : minus[k], bytes);
    rig_write(r, name, b, (size_t)(at + 8 + 2 * bytes));
}

static void test_files_of_all_kinds_of_samples(void **state)
{
    static const int kinds[][3] = { { 1, 8, 0 },   { 1, 16, 0 },  { 1, 24, 0 }, { 1, 32, 0 },
                                    { 3, 32, 0 },  { 3, 64, 0 },  { 1, 8, 8 },  { 1, 16, 16 },
                                    { 1, 24, 24 }, { 1, 32, 24 }, /* 24 bits in 4 bytes */
                                    { 3, 32, 32 }, { 3, 64, 64 } };
    struct pare_tensor x, y;
    struct rig r;

    (void)state;
    rig_begin(&r);
    for (int i = 0; i < 12; i++) {
        char name[16];

        snprintf(name, sizeof(name), "w/%02d.wav", i);
        write_samples(&r, name, kinds[i][0], kinds[i][1], kinds[i][2]);
    }
    expect_open(&r, "w", "train", "");
    x = all_items(&r, &y);
    assert_int_equal(pare_numel(&x), 24);
    for (int i = 0; i < 24; i++)
        assert_true(pare_f32(&x)[i] == (i % 2 ? -0.5f : 0.5f));
    rig_end(&r);
}

/* ---- arrays named as inputs, test data ------------------------------------------------------- */

static const struct pare_io two_inputs[] = { { "ids", PARE_I64, 2, { -1, -1 }, { NULL }, 0 },
                                             { "scale:0", PARE_F32, 1, { -1 }, { NULL }, 0 } };

static int64_t numbers[] = { 1, 2, 3, 4, 5, 6 };
static float scales[] = { 0.5f, 1.5f };

static int open_two(struct rig *r, const char *spec, const char *opts, const struct pare_batch **b)
{
    struct pare_loader_opts lo = { .batch = 2, .input = two_inputs, .n_inputs = 2 };
    struct pare_data_request q = { rig_path(r, spec), "train", two_inputs, 2 };
    struct pare_data_opts o;

    close_data(r);
    PARE_TRY(parse_options(r, opts, &o));
    PARE_TRY(pare_data_open_for(&q, &o, &r->data, &r->err));
    PARE_TRY(pare_loader_new(r->data, &lo, &r->loader, &r->err));
    return pare_loader_next(r->loader, b, &r->err);
}

static void test_folder_of_files_named_as_inputs(void **state)
{
    struct pare_tensor ids = { PARE_I64, 2, { 2, 3 }, numbers }, s = { PARE_F32, 1, { 2 }, scales };
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    rig_write(&r, "d/readme", "", 0);
    assert_int_equal(pare_npy_write(rig_path(&r, "d/ids.npy"), &ids, &r.err), 0);
    assert_int_equal(pare_pb_write(rig_path(&r, "d/scale_0.pb"), &s, "s", &r.err), 0);
    assert_int_equal(pare_npy_write(rig_path(&r, "d/y.npy"), &s, &r.err), 0);
    assert_int_equal(open_two(&r, "d", "", &b), 0);
    assert_true(b->in[0].dtype == PARE_I64 && pare_i64(&b->in[0])[5] == 6);
    assert_true(pare_f32(&b->in[1])[1] == 1.5f && pare_f32(&b->y)[0] == 0.5f);
    rig_end(&r);
}

/* Sets of unequal length, with several inputs. */
static void test_test_data_is_padded(void **state)
{
    static const int64_t want[] = { 1, 2, 3, 4, 5, 7 };
    struct pare_tensor wide = { PARE_I64, 2, { 1, 3 }, numbers };
    struct pare_tensor narrow = { PARE_I64, 2, { 1, 2 }, numbers + 3 };
    struct pare_tensor s = { PARE_F32, 1, { 1 }, scales };
    const struct pare_batch *b;
    struct rig r;

    (void)state;
    rig_begin(&r);
    for (int i = 0; i < 2; i++) {
        const char *dir = pare_sprintf(r.arena, "m/test_data_set_%d", i);

        rig_write(&r, pare_sprintf(r.arena, "%s/readme", dir), "", 0);
        assert_int_equal(pare_pb_write(pare_sprintf(r.arena, "%s/%s/input_0.pb", r.dir, dir),
                                       i ? &narrow : &wide, "x", &r.err),
                         0);
        assert_int_equal(pare_pb_write(pare_sprintf(r.arena, "%s/%s/input_1.pb", r.dir, dir), &s,
                                       "s", &r.err),
                         0);
    }
    assert_int_equal(open_two(&r, "m", "", &b), 0);
    assert_true(r.data->single);
    assert_int_equal(open_two(&r, "m", "fill=7", &b), 0);
    assert_int_equal(b->in[0].dim[1], 3);
    for (int i = 0; i < 6; i++)
        assert_int_equal(pare_i64(&b->in[0])[i], want[i]);
    rig_end(&r);
}

/* Every allocation of opening a set fails once. */
static void check_allocations(struct rig *r, const char *spec, const char *opts)
{
    struct pare_data_opts o;
    int rc = PARE_ENOMEM;

    close_data(r);
    assert_int_equal(parse_options(r, opts, &o), 0);
    for (int n = 1; rc && n < 10000; n++) {
        pare_oom_countdown = n;
        rc = pare_data_open(rig_path(r, spec), "train", &o, &r->data, &r->err);
        pare_oom_countdown = 0;
    }
    assert_int_equal(rc, 0);
}

static void test_allocations_may_fail(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r);
    write_text(&r, "t.csv", "a,b,label\n1,2,x\n3,4,y\n");
    rig_write(&r, "2.png", png, sizeof(png));
    write_text(&r, "l.txt", "2.png\tcat\n2.png\tdog\n");
    write_wav(&r, "w/1.wav", 2, 8000, 3);
    check_allocations(&r, "t.csv", "columns=b,a");
    check_allocations(&r, "l.txt", "");
    check_allocations(&r, "w", "mono=true");
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_inputs_and_labels),
        cmocka_unit_test(test_texts_are_classes),
        cmocka_unit_test(test_mistakes_are_named_with_their_line),
        cmocka_unit_test(test_columns_of_several_inputs),
        cmocka_unit_test(test_lists_of_images),
        cmocka_unit_test(test_range_and_order_of_colors),
        cmocka_unit_test(test_sounds),
        cmocka_unit_test(test_samples_of_all_widths),
        cmocka_unit_test(test_kinds_of_samples),
        cmocka_unit_test(test_files_of_all_kinds_of_samples),
        cmocka_unit_test(test_folder_of_files_named_as_inputs),
        cmocka_unit_test(test_test_data_is_padded),
        cmocka_unit_test(test_allocations_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
