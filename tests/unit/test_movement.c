/* test_movement.c - operators that move elements: corners of their ranges, and hostile indices,
 * sizes and shapes, which must end in a sentence and never in a crash. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/opt.h"
#include "graph/graph.h"
#include "graph/ties.h"
#include "op/movement.h"

/* One node with its values: inputs by f32() and i64(), attributes as text, then run(). */
struct rig {
    struct pare_arena *arena, *scratch;
    struct pare_node node;
    struct pare_value value[12], *in[6], *out[4];
    struct pare_setting set[8];
    int n_set;
    struct pare_err err;
};

static void begin(struct rig *r, const char *type, int version)
{
    memset(r, 0, sizeof(*r));
    r->arena = pare_arena_new(1 << 12);
    r->scratch = pare_arena_new(1 << 12);
    assert_true(r->arena && r->scratch);
    r->node.op = pare_find_op("", type);
    assert_non_null(r->node.op);
    r->node.name = r->node.domain = "";
    r->node.type = type;
    r->node.version = version;
    r->node.in = r->in;
    r->node.out = r->out;
    for (int i = 0; i < 12; i++)
        r->value[i].name = "v";
}

static void end(struct rig *r)
{
    pare_arena_free(r->arena);
    pare_arena_free(r->scratch);
}

static void attr(struct rig *r, const char *name, const char *text)
{
    const struct pare_opt *o = pare_opt_find(r->node.op->attrs, name);

    assert_non_null(o);
    assert_int_equal(pare_opt_parse(o, text, &r->set[r->n_set++], r->arena, &r->err), 0);
}

static void input(struct rig *r, enum pare_dtype d, int rank, const int64_t *dim, const void *data)
{
    struct pare_value *v = &r->value[r->node.n_in];

    assert_int_equal(pare_tensor_new(r->arena, &v->t, d, rank, dim, &r->err), 0);
    if (data && pare_numel(&v->t))
        memcpy(v->t.data, data, (size_t)pare_numel(&v->t) * pare_dtype_size(d));
    r->in[r->node.n_in++] = v;
}

#define COUNT(...) ((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

/* A list of int64; a float32 tensor of a shape that counts 0, 1, 2, ... */
#define I64(r, ...) \
    input(r, PARE_I64, 1, (int64_t[]){ COUNT(__VA_ARGS__) }, (int64_t[]){ __VA_ARGS__ })
#define SHAPED(r, ...) counting(r, COUNT(__VA_ARGS__), (int64_t[]){ __VA_ARGS__ })

static void counting(struct rig *r, int rank, const int64_t *dim)
{
    struct pare_tensor *t = &r->value[r->node.n_in].t;

    input(r, PARE_F32, rank, dim, NULL);
    for (int64_t i = 0; i < pare_numel(t); i++)
        pare_f32(t)[i] = (float)i;
}

static void absent(struct rig *r)
{
    r->in[r->node.n_in++] = NULL;
}

static int run(struct rig *r, int n_out)
{
    struct pare_ctx c = { .scratch = r->scratch, .results = r->arena, .threads = 1 };
    void *a = pare_alloc(r->arena, 1, r->node.op->attr_size + 1);

    assert_non_null(a);
    assert_int_equal(pare_opts_apply(r->node.op->attrs, r->set, r->n_set, a, r->arena, &r->err), 0);
    r->node.attr = a;
    r->node.n_out = n_out;
    for (int i = 0; i < n_out; i++)
        r->out[i] = &r->value[8 + i];
    return pare_node_eval(&r->node, &c, &r->err);
}

static void run_ok(struct rig *r, int n_out)
{
    if (run(r, n_out))
        fail_msg("%s: %s", r->node.type, r->err.msg);
}

/* It fails, with this in its sentence. */
static void run_fails(struct rig *r, int n_out, const char *text)
{
    assert_int_not_equal(run(r, n_out), 0);
    if (!strstr(r->err.msg, text))
        fail_msg("'%s' is not in '%s'", text, r->err.msg);
    end(r);
}

static void check(struct rig *r, int k, const float *want, int64_t count)
{
    const struct pare_tensor *y = &r->out[k]->t;

    assert_int_equal(pare_numel(y), count);
    for (int64_t i = 0; i < count; i++)
        if (fabsf(pare_f32(y)[i] - want[i]) > 1e-5f)
            fail_msg("element %d is %g, expected %g", (int)i, (double)pare_f32(y)[i],
                     (double)want[i]);
}
#define CHECK(r, k, ...)                  \
    check(r, k, (float[]){ __VA_ARGS__ }, \
          (int64_t)(sizeof((float[]){ __VA_ARGS__ }) / sizeof(float)))

/* ---- Slice ----------------------------------------------------------------------- */

static void slice(struct rig *r, int64_t start, int64_t stop, int64_t axis, int64_t step)
{
    begin(r, "Slice", 13);
    SHAPED(r, 2, 4);
    I64(r, start);
    I64(r, stop);
    I64(r, axis);
    I64(r, step);
}

static void slice_walks_backwards(void **state)
{
    struct rig r;

    (void)state;
    slice(&r, -1, INT64_MIN, 1, -1);
    run_ok(&r, 1);
    CHECK(&r, 0, 3, 2, 1, 0, 7, 6, 5, 4);
    end(&r);
    slice(&r, INT64_MAX, 0, -1, -2);
    run_ok(&r, 1);
    CHECK(&r, 0, 3, 1, 7, 5);
    end(&r);
    slice(&r, INT64_MAX, INT64_MIN, 0, INT64_MIN);
    run_ok(&r, 1);
    CHECK(&r, 0, 4, 5, 6, 7);
    end(&r);
}

static void slice_clamps(void **state)
{
    struct rig r;

    (void)state;
    slice(&r, INT64_MIN, INT64_MAX, 1, 3);
    run_ok(&r, 1);
    CHECK(&r, 0, 0, 3, 4, 7);
    end(&r);
    slice(&r, 1, 1000, 1, INT64_MAX);
    run_ok(&r, 1);
    CHECK(&r, 0, 1, 5);
    end(&r);
    slice(&r, 1000, INT64_MAX, 1, 1);
    run_ok(&r, 1);
    assert_int_equal(r.out[0]->t.dim[0], 2);
    assert_int_equal(r.out[0]->t.dim[1], 0);
    end(&r);
}

static void slice_refuses(void **state)
{
    struct rig r;

    (void)state;
    slice(&r, 0, 1, 1, 0);
    run_fails(&r, 1, "step along axis 1 is 0");
    slice(&r, 0, 1, 2, 1);
    run_fails(&r, 1, "axis 2 is outside");
    begin(&r, "Slice", 13);
    SHAPED(&r, 2, 4);
    I64(&r, 0, 0);
    I64(&r, 1);
    run_fails(&r, 1, "entries");
    begin(&r, "Slice", 13);
    SHAPED(&r, 2, 4);
    I64(&r, 0, 0);
    I64(&r, 1, 1);
    I64(&r, 1, -1);
    run_fails(&r, 1, "twice");
}

static void slice_of_attributes(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "Slice", 9);
    attr(&r, "starts", "1,-2");
    attr(&r, "ends", "2,9223372036854775807");
    SHAPED(&r, 2, 4);
    run_ok(&r, 1);
    CHECK(&r, 0, 6, 7);
    end(&r);
}

/* ---- Pad ------------------------------------------------------------------------- */

static void pad(struct rig *r, const char *mode, int64_t size, int64_t before, int64_t after)
{
    begin(r, "Pad", 19);
    attr(r, "mode", mode);
    SHAPED(r, size);
    I64(r, before, after);
}

static void pad_of_small_sizes(void **state)
{
    struct rig r;

    (void)state;
    pad(&r, "reflect", 1, 2, 3);
    run_ok(&r, 1);
    CHECK(&r, 0, 0, 0, 0, 0, 0, 0);
    end(&r);
    pad(&r, "reflect", 2, 3, 4);
    run_ok(&r, 1);
    CHECK(&r, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1);
    end(&r);
    pad(&r, "reflect", 3, 5, 3);
    run_ok(&r, 1);
    CHECK(&r, 0, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1);
    end(&r);
    pad(&r, "wrap", 3, 4, 4);
    run_ok(&r, 1);
    CHECK(&r, 0, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0);
    end(&r);
    pad(&r, "edge", 3, 2, -1);
    run_ok(&r, 1);
    CHECK(&r, 0, 0, 0, 0, 1);
    end(&r);
    pad(&r, "constant", 3, -2, 2);
    run_ok(&r, 1);
    CHECK(&r, 0, 2, 0, 0);
    end(&r);
    pad(&r, "constant", 2, -3, 5);
    run_ok(&r, 1);
    CHECK(&r, 0, 0, 0, 0, 0);
    end(&r);
    pad(&r, "constant", 2, -1, -1);
    run_ok(&r, 1);
    assert_int_equal(pare_numel(&r.out[0]->t), 0);
    end(&r);
}

static void pad_refuses(void **state)
{
    struct rig r;

    (void)state;
    pad(&r, "constant", 3, -2, -2);
    run_fails(&r, 1, "leave nothing");
    pad(&r, "constant", 3, INT64_MIN, INT64_MAX);
    run_fails(&r, 1, "out of range");
    pad(&r, "constant", 3, INT64_MAX / 8, INT64_MAX / 8);
    run_fails(&r, 1, "memory can hold");
    pad(&r, "reflect", 0, 1, 1);
    run_fails(&r, 1, "no element to pad with");
    pad(&r, "wrap", 2, -3, 5);
    run_fails(&r, 1, "no element to pad with");
    begin(&r, "Pad", 13);
    SHAPED(&r, 2, 2);
    I64(&r, 1, 1);
    run_fails(&r, 1, "2 pads are given for 2 axes");
    begin(&r, "Pad", 18);
    SHAPED(&r, 2, 2);
    I64(&r, 1, 1);
    absent(&r);
    I64(&r, 5);
    run_fails(&r, 1, "axis 5 is outside");
}

/* ---- indices --------------------------------------------------------------------- */

static const int64_t hostile[] = { 3, -4, INT64_MAX, INT64_MIN, INT64_MIN + 3 };
#define N_HOSTILE ((int)(sizeof(hostile) / sizeof(*hostile)))

static void hostile_indices(void **state)
{
    struct rig r;

    (void)state;
    for (int i = 0; i < N_HOSTILE; i++) {
        begin(&r, "Gather", 13);
        SHAPED(&r, 3, 2);
        I64(&r, 0, hostile[i]);
        run_fails(&r, 1, "is outside a dimension of 3");
        begin(&r, "GatherElements", 13);
        SHAPED(&r, 3, 2);
        input(&r, PARE_I64, 2, (int64_t[]){ 1, 2 }, (int64_t[]){ 0, hostile[i] });
        run_fails(&r, 1, "is outside a dimension of 3");
        begin(&r, "GatherND", 13);
        SHAPED(&r, 3, 2);
        I64(&r, hostile[i], 0);
        run_fails(&r, 1, "is outside a dimension of 3");
        begin(&r, "ScatterND", 18);
        SHAPED(&r, 3, 2);
        I64(&r, hostile[i]);
        SHAPED(&r, 2);
        run_fails(&r, 1, "is outside a dimension of 3");
    }
}

static void hostile_indices_of_elements(void **state)
{
    static const char *const names[] = { "Scatter", "ScatterElements" };
    struct rig r;

    (void)state;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N_HOSTILE; i++) {
            begin(&r, names[k], k ? 18 : 9);
            SHAPED(&r, 3);
            I64(&r, hostile[i]);
            SHAPED(&r, 1);
            run_fails(&r, 1, "is outside a dimension of 3");
        }
    begin(&r, "Gather", 13);
    SHAPED(&r, 0, 2);
    I64(&r, 0);
    run_fails(&r, 1, "is outside a dimension of 0");
    begin(&r, "ReverseSequence", 10);
    SHAPED(&r, 3, 2);
    I64(&r, 1, 4);
    run_fails(&r, 1, "length 4 of 3");
}

static void index_shapes_that_do_not_fit(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "GatherND", 13);
    SHAPED(&r, 3, 2);
    I64(&r, 0, 0, 0);
    run_fails(&r, 1, "indices (3) do not fit data (3, 2)");
    begin(&r, "GatherND", 13);
    attr(&r, "batch_dims", "1");
    SHAPED(&r, 3, 2);
    I64(&r, 0);
    run_fails(&r, 1, "do not fit");
    begin(&r, "GatherElements", 13);
    SHAPED(&r, 3, 2);
    input(&r, PARE_I64, 2, (int64_t[]){ 1, 3 }, NULL);
    run_fails(&r, 1, "do not fit");
    begin(&r, "ScatterElements", 18);
    SHAPED(&r, 3);
    I64(&r, 0, 1);
    SHAPED(&r, 1);
    run_fails(&r, 1, "indices are (2) but updates are (1)");
    begin(&r, "ScatterND", 18);
    SHAPED(&r, 3, 2);
    I64(&r, 0);
    SHAPED(&r, 3);
    run_fails(&r, 1, "do not fit");
    begin(&r, "ScatterND", 18);
    attr(&r, "reduction", "add");
    input(&r, PARE_BOOL, 1, (int64_t[]){ 2 }, NULL);
    input(&r, PARE_I64, 2, (int64_t[]){ 1, 1 }, NULL);
    input(&r, PARE_BOOL, 1, (int64_t[]){ 1 }, NULL);
    run_fails(&r, 1, "reduction 'add' of bool");
}

static void scatter_wraps_around(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "ScatterElements", 18);
    attr(&r, "reduction", "add");
    I64(&r, INT64_MAX, 1);
    I64(&r, 0);
    I64(&r, 1);
    run_ok(&r, 1);
    assert_true(pare_i64(&r.out[0]->t)[0] == INT64_MIN);
    end(&r);
}

static void one_hot_of_anything(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "OneHot", 11);
    input(&r, PARE_F32, 1, (int64_t[]){ 5 }, (float[]){ 1, -1, NAN, 1e30f, -3 });
    I64(&r, 2);
    input(&r, PARE_F32, 1, (int64_t[]){ 2 }, (float[]){ 5, 6 });
    run_ok(&r, 1);
    CHECK(&r, 0, 5, 6, 5, 6, 5, 5, 5, 5, 5, 5);
    end(&r);
    begin(&r, "OneHot", 11);
    I64(&r, 1);
    I64(&r, -2);
    input(&r, PARE_F32, 1, (int64_t[]){ 2 }, NULL);
    run_fails(&r, 1, "depth is -2");
    begin(&r, "OneHot", 11);
    I64(&r, 1);
    input(&r, PARE_F32, 1, (int64_t[]){ 1 }, (float[]){ NAN });
    input(&r, PARE_F32, 1, (int64_t[]){ 2 }, NULL);
    run_fails(&r, 1, "depth is");
}

/* ---- Resize ---------------------------------------------------------------------- */

static void resize(struct rig *r, const char *mode, const char *coord)
{
    begin(r, "Resize", 19);
    attr(r, "mode", mode);
    attr(r, "coordinate_transformation_mode", coord);
    SHAPED(r, 1, 4);
}

static void scales(struct rig *r, float a, float b)
{
    absent(r);
    input(r, PARE_F32, 1, (int64_t[]){ 2 }, (float[]){ a, b });
}

static void resize_refuses(void **state)
{
    static const float bad[] = { 0, -1, NAN, INFINITY, 1e30f };
    struct rig r;

    (void)state;
    for (int i = 0; i < 5; i++) {
        resize(&r, "linear", "half_pixel");
        scales(&r, 1, bad[i]);
        run_fails(&r, 1, "axis 1 of size 4 cannot be scaled by");
    }
    resize(&r, "linear", "half_pixel");
    run_fails(&r, 1, "neither scales nor sizes");
    resize(&r, "linear", "half_pixel");
    absent(&r);
    input(&r, PARE_F32, 1, (int64_t[]){ 1 }, (float[]){ 2 });
    run_fails(&r, 1, "scales has shape (1), must have (2)");
    resize(&r, "linear", "half_pixel");
    absent(&r);
    absent(&r);
    I64(&r, 1, -5);
    run_fails(&r, 1, "cannot be made -5 long");
    resize(&r, "nearest", "half_pixel");
    absent(&r);
    absent(&r);
    I64(&r, INT64_MAX, INT64_MAX);
    run_fails(&r, 1, "memory can hold");
    resize(&r, "linear", "tf_crop_and_resize");
    scales(&r, 1, 1);
    run_fails(&r, 1, "needs the input roi");
    resize(&r, "linear", "tf_crop_and_resize");
    input(&r, PARE_F32, 1, (int64_t[]){ 4 }, (float[]){ 0, NAN, 1, 1 });
    input(&r, PARE_F32, 1, (int64_t[]){ 2 }, (float[]){ 1, 1 });
    run_fails(&r, 1, "is not finite");
    begin(&r, "Resize", 13);
    attr(&r, "mode", "cubic");
    input(&r, PARE_BOOL, 2, (int64_t[]){ 1, 4 }, NULL);
    scales(&r, 1, 2);
    run_fails(&r, 1, "bool cannot be interpolated");
}

/* Of 0 1 2 3 halved: antialiased taps weigh 1, 3, 3 and 1 of 8, where the outermost falls on the
 * edge. */
static void resize_values(void **state)
{
    struct rig r;

    (void)state;
    resize(&r, "linear", "half_pixel");
    attr(&r, "antialias", "1");
    scales(&r, 1, 0.5f);
    run_ok(&r, 1);
    CHECK(&r, 0, 0.625f, 2.375f);
    end(&r);
    resize(&r, "linear", "half_pixel");
    scales(&r, 1, 0.5f);
    run_ok(&r, 1);
    CHECK(&r, 0, 0.5f, 2.5f);
    end(&r);
    resize(&r, "linear", "align_corners");
    scales(&r, 1, 1.75f);
    run_ok(&r, 1);
    CHECK(&r, 0, 0, 0.5f, 1, 1.5f, 2, 2.5f, 3);
    end(&r);
    resize(&r, "nearest", "asymmetric");
    attr(&r, "nearest_mode", "ceil");
    scales(&r, 2, 1.5f);
    run_ok(&r, 1);
    CHECK(&r, 0, 0, 1, 2, 2, 3, 3, 0, 1, 2, 2, 3, 3);
    end(&r);
    resize(&r, "linear", "tf_crop_and_resize");
    attr(&r, "extrapolation_value", "9");
    input(&r, PARE_F32, 1, (int64_t[]){ 4 }, (float[]){ 0, 0.5f, 1, 1.5f });
    absent(&r);
    I64(&r, 1, 3);
    run_ok(&r, 1);
    CHECK(&r, 0, 1.5f, 3, 9);
    end(&r);
}

/* ---- shapes and sizes -------------------------------------------------------------- */

static void reshape(struct rig *r)
{
    begin(r, "Reshape", 14);
    SHAPED(r, 2, 3);
}

static void reshape_refuses(void **state)
{
    struct rig r;

    (void)state;
    reshape(&r);
    I64(&r, -1, -1);
    run_fails(&r, 1, "second unknown");
    reshape(&r);
    I64(&r, 4, -1);
    run_fails(&r, 1, "does not fit");
    reshape(&r);
    I64(&r, 5);
    run_fails(&r, 1, "does not fit");
    reshape(&r);
    I64(&r, 2, 3, 0);
    run_fails(&r, 1, "copies dimension 2");
    reshape(&r);
    I64(&r, INT64_MAX, INT64_MAX);
    run_fails(&r, 1, "too many");
    reshape(&r);
    I64(&r, INT64_MIN);
    run_fails(&r, 1, "negative");
    reshape(&r);
    I64(&r, 1, 1, 1, 1, 1, 1, 1, 1, 6);
    run_fails(&r, 1, "at most 8");
}

static void split(struct rig *r, int version)
{
    begin(r, "Split", version);
    SHAPED(r, 5);
}

static void split_sizes(void **state)
{
    struct rig r;

    (void)state;
    split(&r, 13);
    I64(&r, 2, 2);
    run_fails(&r, 2, "add up to 4 of an axis of 5");
    split(&r, 13);
    I64(&r, 2, 4);
    run_fails(&r, 2, "part 1 of size 4 does not fit");
    split(&r, 13);
    I64(&r, INT64_MAX, INT64_MAX);
    run_fails(&r, 2, "does not fit");
    split(&r, 13);
    I64(&r, 6, -1);
    run_fails(&r, 2, "does not fit");
    split(&r, 13);
    I64(&r, 5);
    run_fails(&r, 2, "1 sizes are given for 2 outputs");
    split(&r, 13);
    run_fails(&r, 2, "cannot be split in 2 equal parts");
    split(&r, 18);
    attr(&r, "num_outputs", "4");
    run_fails(&r, 4, "does not fit");
    split(&r, 18);
    attr(&r, "num_outputs", "2");
    run_ok(&r, 2);
    CHECK(&r, 0, 0, 1, 2);
    CHECK(&r, 1, 3, 4);
    assert_int_equal(pare_split_axis(&r.node), 0);
    assert_int_equal(pare_split_size(&r.node, 1), 2);
    end(&r);
}

static void huge_requests(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "Expand", 13);
    SHAPED(&r, 1, 1);
    I64(&r, INT64_MAX, INT64_MAX);
    run_fails(&r, 1, "memory can hold");
    begin(&r, "Expand", 13);
    SHAPED(&r, 1);
    I64(&r, -1);
    run_fails(&r, 1, "negative");
    begin(&r, "Tile", 13);
    SHAPED(&r, 4);
    I64(&r, INT64_MAX / 2);
    run_fails(&r, 1, "does not fit");
    begin(&r, "Tile", 13);
    SHAPED(&r, 4);
    I64(&r, -1);
    run_fails(&r, 1, "-1 times");
    begin(&r, "ConstantOfShape", 9);
    I64(&r, INT64_MAX, 2);
    run_fails(&r, 1, "memory can hold");
    begin(&r, "ConstantOfShape", 9);
    I64(&r, INT64_MAX, INT64_MAX, 0);
    run_fails(&r, 1, "memory can hold");
    begin(&r, "ConstantOfShape", 9);
    I64(&r, 2, -2);
    run_fails(&r, 1, "negative dimension: -2");
    begin(&r, "CenterCropPad", 18);
    SHAPED(&r, 4, 4);
    I64(&r, INT64_MAX, 1000);
    run_fails(&r, 1, "memory can hold");
    begin(&r, "DepthToSpace", 13);
    attr(&r, "blocksize", "1048576");
    input(&r, PARE_F32, 4, (int64_t[]){ 1, 0, INT64_MAX / 64, 1 }, NULL);
    run_fails(&r, 1, "does not fit");
}

static void ranges(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "Range", 11);
    I64(&r, INT64_MIN);
    I64(&r, INT64_MAX);
    I64(&r, 1);
    run_fails(&r, 1, "too long");
    begin(&r, "Range", 11);
    I64(&r, 1);
    I64(&r, 5);
    I64(&r, 0);
    run_fails(&r, 1, "delta is 0");
    begin(&r, "Range", 11);
    input(&r, PARE_F32, 0, NULL, (float[]){ 0 });
    input(&r, PARE_F32, 0, NULL, (float[]){ NAN });
    input(&r, PARE_F32, 0, NULL, (float[]){ 1 });
    run_fails(&r, 1, "has no end");
    begin(&r, "Range", 11);
    I64(&r, INT64_MAX);
    I64(&r, INT64_MIN);
    I64(&r, INT64_MIN);
    run_ok(&r, 1);
    assert_int_equal(r.out[0]->t.dim[0], 2);
    assert_true(pare_i64(&r.out[0]->t)[1] == -1);
    end(&r);
}

/* ---- moving boxes ------------------------------------------------------------------ */

/* Transposes of shapes around the size of a tile, elements of every size. */
static void transpose_of_every_size(void **state)
{
    static const enum pare_dtype types[] = { PARE_U8, PARE_F16, PARE_F32, PARE_I64, PARE_STR };
    const int64_t dim[3] = { 3, 37, 18 };
    struct rig r;

    (void)state;
    for (int k = 0; k < 5; k++) {
        size_t size = pare_dtype_size(types[k]);
        unsigned char *x, *y;
        int perm[3];

        begin(&r, "Transpose", 13);
        attr(&r, "perm", "2,0,1");
        input(&r, types[k], 3, dim, NULL);
        x = r.in[0]->t.data;
        for (size_t i = 0; i < 3 * 37 * 18 * size; i++)
            x[i] = (unsigned char)(i * 31 + i / 251);
        run_ok(&r, 1);
        y = r.out[0]->t.data;
        for (size_t a = 0; a < 18; a++)
            for (size_t b = 0; b < 3; b++)
                for (size_t c = 0; c < 37; c++)
                    assert_memory_equal(y + ((a * 3 + b) * 37 + c) * size,
                                        x + ((b * 37 + c) * 18 + a) * size, size);
        pare_transpose_perm(&r.node, perm);
        assert_int_equal(perm[0], 2);
        end(&r);
    }
}

static void empty_tensors_pass(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "Transpose", 13);
    SHAPED(&r, 3, 0, 2);
    run_ok(&r, 1);
    assert_int_equal(r.out[0]->t.dim[0], 2);
    end(&r);
    begin(&r, "Concat", 13);
    attr(&r, "axis", "-2");
    SHAPED(&r, 0, 2);
    SHAPED(&r, 1, 2);
    run_ok(&r, 1);
    CHECK(&r, 0, 0, 1);
    assert_int_equal(pare_concat_axis(&r.node), 0);
    end(&r);
    begin(&r, "Resize", 13);
    SHAPED(&r, 0, 2);
    scales(&r, 1, 2);
    run_ok(&r, 1);
    assert_int_equal(r.out[0]->t.dim[1], 4);
    end(&r);
    begin(&r, "Unique", 11);
    SHAPED(&r, 0);
    run_ok(&r, 4);
    assert_int_equal(r.out[3]->t.dim[0], 0);
    end(&r);
}

static void concat_that_overflows(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "Concat", 13);
    attr(&r, "axis", "0");
    SHAPED(&r, 1);
    SHAPED(&r, 1);
    r.in[0]->t.dim[0] = r.in[1]->t.dim[0] = INT64_MAX - 1;
    run_fails(&r, 1, "does not fit");
    begin(&r, "Concat", 13);
    attr(&r, "axis", "0");
    SHAPED(&r, 1, 2);
    SHAPED(&r, 1, 3);
    run_fails(&r, 1, "inputs (1, 2) and (1, 3) do not fit along axis 0");
}

/* ---- ties -------------------------------------------------------------------------- */

static bool tied(const struct pare_ties *t, const struct pare_value *a, int ax,
                 const struct pare_value *b, int bx)
{
    for (int i = 0; i < t->n; i++)
        if (t->tie[i].a == a && t->tie[i].ax == ax && t->tie[i].b == b && t->tie[i].bx == bx)
            return true;
    return false;
}

static void channels_are_tied(void **state)
{
    struct pare_ties t = { 0 };
    struct rig r;

    (void)state;
    begin(&r, "Transpose", 13);
    t.arena = r.arena;
    attr(&r, "perm", "0,2,1");
    SHAPED(&r, 1, 2, 3);
    run_ok(&r, 1);
    r.node.op->ties(&r.node, &t);
    assert_true(tied(&t, r.in[0], 1, r.out[0], 2));
    assert_int_equal(t.n, 3);
    end(&r);
    slice(&r, 1, 3, 1, 1);
    t = (struct pare_ties){ .arena = r.arena };
    run_ok(&r, 1);
    r.node.op->ties(&r.node, &t);
    assert_true(tied(&t, r.in[0], 0, r.out[0], 0));
    assert_int_equal(t.n, 1);
    end(&r);
    begin(&r, "Flatten", 13);
    t = (struct pare_ties){ .arena = r.arena };
    SHAPED(&r, 2, 3, 1, 1);
    run_ok(&r, 1);
    r.node.op->ties(&r.node, &t);
    assert_true(tied(&t, r.in[0], 1, r.out[0], 1));
    end(&r);
    begin(&r, "Gather", 13);
    t = (struct pare_ties){ .arena = r.arena };
    attr(&r, "axis", "1");
    SHAPED(&r, 2, 3, 4);
    input(&r, PARE_I64, 2, (int64_t[]){ 1, 5 }, NULL);
    run_ok(&r, 1);
    r.node.op->ties(&r.node, &t);
    assert_true(tied(&t, r.in[0], 2, r.out[0], 3));
    assert_false(tied(&t, r.in[0], 1, r.out[0], 1));
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slice_walks_backwards),
        cmocka_unit_test(slice_clamps),
        cmocka_unit_test(slice_refuses),
        cmocka_unit_test(slice_of_attributes),
        cmocka_unit_test(pad_of_small_sizes),
        cmocka_unit_test(pad_refuses),
        cmocka_unit_test(hostile_indices),
        cmocka_unit_test(hostile_indices_of_elements),
        cmocka_unit_test(index_shapes_that_do_not_fit),
        cmocka_unit_test(scatter_wraps_around),
        cmocka_unit_test(one_hot_of_anything),
        cmocka_unit_test(resize_refuses),
        cmocka_unit_test(resize_values),
        cmocka_unit_test(reshape_refuses),
        cmocka_unit_test(split_sizes),
        cmocka_unit_test(huge_requests),
        cmocka_unit_test(ranges),
        cmocka_unit_test(transpose_of_every_size),
        cmocka_unit_test(empty_tensors_pass),
        cmocka_unit_test(concat_that_overflows),
        cmocka_unit_test(channels_are_tied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
