/* test_conv_rows.c - rows of the reference kernel of Conv, compared with sums in float64. */
#include <math.h>

#include "make_model.h"

#include "base/rng.h"
#include "plan/plan.h"

struct conv {
    int64_t batch, in, out, length, kernel, dilation, pad, stride, group;
};

/* Every element of y, also at the ends of the rows, must be the sum that defines it. */
static void expect_sums(const struct conv *c, const struct pare_tensor *x, const float *w,
                        const struct pare_tensor *y)
{
    int64_t each = c->in / c->group, rows = y->dim[2];

    for (int64_t i = 0; i < pare_numel(y); i++) {
        int64_t o = i % rows, m = i / rows % c->out, n = i / rows / c->out;
        double sum = 0;

        for (int64_t k = 0; k < each * c->kernel; k++) {
            int64_t at = o * c->stride - c->pad + k % c->kernel * c->dilation;
            int64_t channel = m / (c->out / c->group) * each + k / c->kernel;

            if (at >= 0 && at < c->length)
                sum += (double)w[m * each * c->kernel + k] *
                       (double)pare_f32(x)[(n * c->in + channel) * c->length + at];
        }
        if (!(fabs((double)pare_f32(y)[i] - sum) < 1e-4))
            fail_msg("element %d is %g, expected %g", (int)i, (double)pare_f32(y)[i], sum);
    }
}

static void check_conv(const struct conv *c, int threads)
{
    struct build b = { .opset = 13 };
    struct pare_plan_opts po = { .reference = true, .threads = threads };
    struct pare_tensor x = build_tensor(PARE_F32, INTS(c->batch, c->in, c->length)), y;
    struct pare_tensor w = build_tensor(PARE_F32, INTS(c->out, c->in / c->group, c->kernel));
    const char *v = build_input(&b, PARE_F32, INTS(c->batch, c->in, c->length));
    struct pare_plan *p;
    struct pare_model *m;
    struct pare_err err;
    struct pare_rng r;

    pare_rng_init(&r, 1);
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)pare_rng_normal(&r);
    for (int64_t i = 0; i < pare_numel(&w); i++)
        pare_f32_mut(&w)[i] = (float)pare_rng_normal(&r);
    v = build_node(&b, "Conv", NAMES(v, build_floats(&b, w.rank, w.dim, pare_f32(&w))),
                   CAT(at_ints("pads", INTS(c->pad, c->pad)),
                       CAT(at_ints("strides", INTS(c->stride)),
                           CAT(at_ints("dilations", INTS(c->dilation)),
                               at_int("group", c->group)))));
    build_output(&b, v);
    m = build_model(&b);
    if (pare_plan_make(m, &po, &p, &err) || pare_plan_execute(p, &x, &y, &err))
        fail_msg("%s", err.msg);
    expect_sums(c, &x, pare_f32(&w), &y);
    pare_plan_free(p);
    pare_model_free(m);
}

static void test_rows_match_definition(void **state)
{
    static const struct conv list[] = {
        { 1, 3, 4, 24, 1, 1, 0, 1, 1 },   /* one tile */
        { 2, 5, 9, 77, 3, 1, 1, 1, 1 },   /* tiles, ends, channels that fill no tile */
        { 1, 4, 8, 100, 5, 7, 14, 1, 2 }, /* wide borders, groups */
        { 1, 2, 4, 20, 3, 15, 15, 1, 1 }, /* no position where all taps are inside */
        { 1, 3, 4, 60, 3, 1, 1, 2, 1 },   /* stride 2 */
        { 1, 6, 6, 50, 3, 1, 1, 1, 6 },   /* one channel in each group */
        { 2, 32, 33, 700, 7, 1, 3, 1, 1 } /* large enough for threads */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
        for (int threads = 1; threads < 4; threads += 2)
            check_conv(&list[i], threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_rows_match_definition,
                                                                        make_pool, drop_pool) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
