/* test_quantize_grads.c - quantized values and gradients of quantizers against PyTorch's autograd
 * (tools/golden_quant.py). */
#include "golden_quant.h"

static const char *const sites[PARE_QUANT_SITES] = { "weight", "input", "output" };

/* Sets the buffer SITE_what to these values. */
static void set_buffer(struct quantizer_rig *f, enum pare_quant_site site, const char *what,
                       const struct pare_tensor *from)
{
    char name[64];
    int64_t n = pare_numel(from);
    struct pare_tensor *t;

    snprintf(name, sizeof(name), "%s_%s", sites[site], what);
    t = pare_layer_buffer(&f->layer, name, PARE_F32, 1, &n, &rig_err);
    assert_non_null(t);
    memcpy(t->data, from->data, (size_t)n * sizeof(float));
}

static struct pare_tensor *learned_gradient(struct quantizer_rig *f, enum pare_quant_site site,
                                            const char *what)
{
    char name[64];
    struct pare_tensor *t;

    snprintf(name, sizeof(name), "%s_%s", sites[site], what);
    t = pare_layer_learn(&f->layer, name, &rig_err);
    assert_non_null(t);
    return t;
}

/* Replaces the initial scales of lsq and qat by those of the file. */
static void set_state(struct golden *g, struct quantizer_rig *f, const char *name,
                      enum pare_quant_site site)
{
    struct pare_tensor *x = find_array(g, name, "x"), y;

    ok(pare_tensor_new(g->arena, &y, PARE_F32, x->rank, x->dim, &rig_err));
    ok(quantizer_rig_quantize(f, site, x, &y));
    if (find_array(g, name, "alpha")) {
        set_buffer(f, site, "alpha", find_array(g, name, "alpha"));
        return;
    }
    set_buffer(f, site, "scale", find_array(g, name, "scale"));
    set_buffer(f, site, "zero_point", find_array(g, name, "zero"));
    if (find_array(g, name, "dz"))
        set_buffer(f, site, "offset", find_array(g, name, "zero"));
}

static void check_case(struct golden *g, const char *quantizer, const char *name)
{
    const int64_t *how = pare_i64(find_array(g, name, "how"));
    enum pare_quant_site site = (enum pare_quant_site)how[3];
    struct pare_tensor *x = find_array(g, name, "x"), y, gx;
    struct quantizer_rig f;

    quantizer_rig_open(&f, quantizer, NULL, x, 1u << site,
                       make_quant((int)how[0], how[1] != 0, false, (int)how[2]));
    ok(pare_tensor_new(g->arena, &y, PARE_F32, x->rank, x->dim, &rig_err));
    ok(pare_tensor_new(g->arena, &gx, PARE_F32, x->rank, x->dim, &rig_err));
    set_state(g, &f, name, site);
    f.quant.training = strcmp(quantizer, "qat") != 0;
    if (site == PARE_WEIGHT && !strcmp(quantizer, "qat")) /* qat finds its own range */
        pare_quant_apply(&f.layer_quant.site[site], x, pare_f32(find_array(g, name, "scale")),
                         pare_f32(find_array(g, name, "zero")), &y);
    else
        ok(quantizer_rig_quantize(&f, site, x, &y));
    expect_close(name, "y", &y, find_array(g, name, "y"), 1e-5);
    ok(f.z->backward(&f.layer, site, x, find_array(g, name, "gy"), &gx, &rig_err));
    expect_close(name, "gx", &gx, find_array(g, name, "gx"), 1e-5);
    if (find_array(g, name, "ds"))
        expect_close(name, "ds", learned_gradient(&f, site, "scale"), find_array(g, name, "ds"),
                     1e-5);
    if (find_array(g, name, "dz"))
        expect_close(name, "dz", learned_gradient(&f, site, "offset"), find_array(g, name, "dz"),
                     1e-5);
    if (find_array(g, name, "da"))
        expect_close(name, "da", learned_gradient(&f, site, "alpha"), find_array(g, name, "da"),
                     1e-5);
    quantizer_rig_close(&f);
}

static void test_cases_match_pytorch(void **state)
{
    struct golden g = { .arena = pare_arena_new(1 << 16) };
    int cases = 0;

    (void)state;
    ok(pare_npz_read(g.arena, "golden/quant.npz", &g.file, &g.n, &rig_err));
    for (int i = 0; i < g.n; i++) {
        char name[128], quantizer[32];
        const char *end = strstr(g.file[i].name, "|how");

        if (!end)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(end - g.file[i].name), g.file[i].name);
        snprintf(quantizer, sizeof(quantizer), "%.*s", (int)strcspn(name, "|"), name);
        check_case(&g, quantizer, name);
        cases++;
    }
    assert_int_equal(cases, 24);
    pare_arena_free(g.arena);
}

/* Many elements, computed by several threads, against single elements. */
static void test_many_elements(void **state)
{
    static float x[70000], gy[70000], gx[70000], y[70000];
    struct pare_tensor tx = VECTOR(x, 70000), tg = VECTOR(gy, 70000);
    struct pare_tensor ty = VECTOR(y, 70000), to = VECTOR(gx, 70000);
    double ds = 0, scale = 0.02;
    struct quantizer_rig f;

    (void)state;
    for (int i = 0; i < 70000; i++) {
        x[i] = (float)((i * 7919) % 10007 - 5003) / 1000;
        gy[i] = (float)((i % 1009 * 523) % 1009 - 504) / 504;
    }
    quantizer_rig_open(&f, "lsq", NULL, NULL, 1u << PARE_OUTPUT, make_quant(8, true, true, -1));
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &tx, &ty));
    *pare_f32_mut(quantizer_rig_buffer(&f, "output_scale")) = (float)scale;
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &tx, &ty));
    ok(f.z->backward(&f.layer, PARE_OUTPUT, &tx, &tg, &to, &rig_err));
    for (int i = 0; i < 70000; i++) {
        float v = x[i] / (float)scale, c = fminf(fmaxf(v, -127), 127);

        assert_true(y[i] == rintf(c) * (float)scale);
        assert_true(gx[i] == (v == c ? gy[i] : 0));
        ds += (double)gy[i] * (double)(v == c ? rintf(c) - v : c);
    }
    ds /= sqrt(127 * 70000.0);
    expect_near((double)*pare_f32(learned_gradient(&f, PARE_OUTPUT, "scale")), ds,
                1e-4 * fabs(ds) + 1e-6);
    quantizer_rig_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_match_pytorch),
        cmocka_unit_test(test_many_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
