/* test_quantize_layouts.c - quantization points in the blocked layout of convolutions: same results
 * as the reference kernels, without reorders. */
#include "quant_rig.h"

#include "tensor/tensor.h"

#define BATCH 4

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 32, .kernel = 3, .pad = 1 };

    x = pare_net_relu(n, pare_net_batch_norm(n, pare_net_conv(n, x, "a", c), "a.bn"), "a.relu");
    x = pare_net_sum(n, pare_net_batch_norm(n, pare_net_conv(n, x, "b", c), "b.bn"), x, "sum");
    x = pare_net_relu(n, x, "b.relu");
    x = pare_net_relu(n, pare_net_batch_norm(n, pare_net_conv(n, x, "c", c), "c.bn"), "c.relu");
    x = pare_net_flatten(n, pare_net_average(n, x, "pool"), "flatten");
    return pare_net_linear(n, x, "fc", n->classes);
}

struct training {
    struct pare_model *model;
    struct pare_trainer *trainer;
    struct pare_compression *compression;
};

static void open_training(struct training *s, struct pare_arena *a, const char *quantizer,
                          bool reference)
{
    static const struct pare_network net = { .name = "wide", .build = build };
    struct pare_network_opts no = { .c = 3, .h = 6, .w = 6, .classes = 10, .seed = 1 };
    struct pare_trainer_opts to = { .threads = 2, .reference = reference };
    struct pare_compression_opts ro = {
        .quantizer = quantizer,
        .threads = 2,
        .config = "[{\"quant_types\": [\"weight\", \"input\"], \"quant_bits\": 12, \"op_types\": "
                  "[\"Conv2d\", \"Linear\"], \"quant_dtype\": {\"weight\": \"int\"}}]"
    };

    ok(pare_network_make(&net, &no, &s->model, &rig_err));
    ok(pare_find_loss("cross_entropy", &to.loss, &rig_err));
    ok(pare_find_optimizer("sgd", &to.optimizer, &rig_err));
    to.loss_conf = pare_alloc(a, to.loss->conf_size + 1, 1);
    to.optimizer_conf = pare_alloc(a, to.optimizer->conf_size + 1, 1);
    ok(pare_trainer_new(s->model, &to, &s->trainer, &rig_err));
    if (!quantizer)
        return;
    ok(pare_compression_new(s->model, &ro, &s->compression, &rig_err));
    ok(pare_compression_attach(s->compression, s->trainer, NULL, BATCH, &rig_err));
    ok(pare_compression_compress(s->compression, &rig_err));
}

static void close_training(struct training *s)
{
    pare_trainer_free(s->trainer);
    pare_compression_free(s->compression);
    pare_model_free(s->model);
}

/* Expects a relative error of at most 1 %: single values may be quantized to a neighboring step. */
static void expect_close(const char *what, const struct pare_tensor *a, const struct pare_tensor *b)
{
    double size = 1e-20, off = 0;

    for (int64_t i = 0; i < pare_numel(a); i++) {
        double d = (double)pare_f32(a)[i] - (double)pare_f32(b)[i];

        size += (double)pare_f32(b)[i] * (double)pare_f32(b)[i];
        off += d * d;
    }
    if (!(off <= 1e-4 * size))
        fail_msg("%s has a relative error of %g", what, sqrt(off / size));
}

static void expect_same_buffers(struct pare_compression *a, struct pare_compression *b)
{
    for (int i = 0; i < pare_compression_layers(a); i++)
        for (struct pare_buffer *x = a->layer[i].buffers, *y = b->layer[i].buffers; x;
             x = x->next, y = y->next) {
            assert_string_equal(x->name, y->name);
            expect_close(x->name, &x->t, &y->t);
        }
}

static int count_steps(const struct pare_plan *p, const char *kernel, bool blocked)
{
    int n = 0;

    for (int i = 0; i < p->n_steps; i++)
        n += !strcmp(p->step[i]->kernel->name, kernel) &&
             (!blocked || p->step[i]->out_block[0] > 1);
    return n;
}

static void check_quantizer(struct pare_arena *a, const char *quantizer)
{
    struct training side[3]; /* fast, reference, without quantizer */
    float data[BATCH * 3 * 36];
    int64_t label[BATCH] = { 1, 2, 3, 4 };
    struct pare_tensor x = { PARE_F32, 4, { BATCH, 3, 6, 6 }, data };
    struct pare_tensor y = { PARE_I64, 1, { BATCH }, label };
    const struct pare_plan *fast, *without;

    for (int i = 0; i < BATCH * 3 * 36; i++)
        data[i] = (float)(i * 7919 % 1009 - 504) / 300;
    memset(side, 0, sizeof(side));
    for (int i = 0; i < 3; i++) {
        struct pare_score score;

        open_training(&side[i], a, i < 2 ? quantizer : NULL, i == 1);
        ok(pare_trainer_gradient(side[i].trainer, &x, &y, &score, &rig_err));
    }
    for (int i = 0; i < side[0].trainer->n_params; i++)
        expect_close(side[0].trainer->name[i], &side[0].trainer->grad[i],
                     &side[1].trainer->grad[i]);
    expect_same_buffers(side[0].compression, side[1].compression);
    fast = side[0].trainer->plan[0];
    without = side[2].trainer->plan[0];
    assert_int_equal(count_steps(fast, "any_layout", false), 4);
    /* The image and fc's input are row-major; quantizers that learn need the image's gradient, too,
     * so that the result of the first convolution is row-major. */
    assert_int_equal(count_steps(fast, "any_layout", true), !strcmp(quantizer, "qat") ? 2 : 1);
    assert_int_equal(count_steps(side[1].trainer->plan[0], "any_layout", false), 0);
    if (!strcmp(quantizer, "qat"))
        assert_int_equal(count_steps(fast, "reorder", false),
                         count_steps(without, "reorder", false));
    for (int i = 0; i < 3; i++)
        close_training(&side[i]);
}

static void test_blocked_layout_matches_reference(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 12);

    (void)state;
    check_quantizer(a, "qat");
    check_quantizer(a, "lsq");
    check_quantizer(a, "lsq_plus");
    check_quantizer(a, "pact");
    pare_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_blocked_layout_matches_reference) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
