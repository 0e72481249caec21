/* test_golden_nn.c - small convolutional networks, forward and back, against PyTorch in float64.
 *
 * tests/golden/<net>.npz has, under these names: the input x<i>, its result y<i> and the gradient
 * gy<i> of that, for each batch i; the parameters; grad.<name> of all; after.<name> of what training
 * changed; and eval.<...> without training.  tools/golden_nn.py writes it.
 */
#include <math.h>
#include <stdio.h>

#include "one_op.h"

#include "io/npz.h"

#define MAX_NODES 10
#define MAX_LEAVES 16

/* Nodes in the order they run; each has its own values, and leaves come from the file. */
struct net {
    struct one_op node[MAX_NODES];
    struct pare_value leaf[MAX_LEAVES];
    int n, n_leaves, n_file;
    struct pare_named *file;
    struct pare_arena *arena;
    struct pare_err err;
};

static void net_open(struct net *t, const char *path)
{
    memset(t, 0, sizeof(*t));
    t->arena = pare_arena_new(1 << 16);
    assert_non_null(t->arena);
    if (pare_npz_read(t->arena, path, &t->file, &t->n_file, &t->err))
        fail_msg("%s", t->err.msg);
}

static void net_close(struct net *t)
{
    for (int i = 0; i < t->n; i++)
        op_end(&t->node[i]);
    pare_arena_free(t->arena);
}

static const struct pare_tensor *array(const struct net *t, const char *prefix, const char *name)
{
    char full[64];

    snprintf(full, sizeof(full), "%s%s", prefix, name);
    for (int i = 0; i < t->n_file; i++)
        if (!strcmp(t->file[i].name, full))
            return &t->file[i].t;
    fail_msg("the file has no %s", full);
    return NULL;
}

static void give_grad(struct net *t, struct pare_value *v)
{
    assert_int_equal(pare_tensor_new(t->arena, &v->grad, PARE_F32, v->t.rank, v->t.dim, &t->err), 0);
}

/* An input or a parameter. */
static struct pare_value *leaf(struct net *t, const char *name)
{
    struct pare_value *v = &t->leaf[t->n_leaves++];

    assert_true(t->n_leaves <= MAX_LEAVES);
    v->name = name;
    v->t = *array(t, "", name);
    give_grad(t, v);
    return v;
}

/* The next node, with its attributes in pairs; returns its output. */
#define IN(...) ((struct pare_value *[]){ __VA_ARGS__, NULL })
#define ATTRS(...) ((const char *[]){ __VA_ARGS__, NULL })
static struct pare_value *add(struct net *t, const char *type, struct pare_value **in,
                              const char **attrs)
{
    struct one_op *f = &t->node[t->n++];

    assert_true(t->n <= MAX_NODES);
    op_begin(f, type, 21);
    for (; attrs && *attrs; attrs += 2)
        op_attr(f, attrs[0], attrs[1]);
    for (; *in; in++)
        f->in[f->node.n_in++] = *in;
    if (op_run(f))
        fail_msg("%s: %s", type, f->err.msg);
    if (f->node.op->save)
        f->node.save = pare_alloc(t->arena, f->node.op->save(&f->node) + 1, 1);
    give_grad(t, f->out[0]);
    return f->out[0];
}

static void zero(struct pare_value *v)
{
    memset(v->grad.data, 0, (size_t)pare_numel(&v->t) * sizeof(float));
}

/* One batch through the net and back; gradients of leaves are added up. */
static void run(struct net *t, bool train, const struct pare_tensor *gy)
{
    struct pare_ctx c = { .threads = 1, .train = train };
    struct one_op *f = t->node;
    int rc = 0;

    for (int i = 0; i < t->n && !rc; i++) {
        zero(f[i].out[0]);
        c.scratch = f[i].scratch, c.results = f[i].arena;
        rc = pare_node_forward(&f[i].node, &c, &t->err);
    }
    memcpy(f[t->n - 1].out[0]->grad.data, gy->data, (size_t)pare_numel(gy) * sizeof(float));
    for (int i = t->n - 1; i >= 0 && !rc; i--) {
        c.scratch = f[i].scratch, c.results = f[i].arena;
        rc = f[i].node.op->backward(&f[i].node, &c, &t->err);
    }
    if (rc)
        fail_msg("%s", t->err.msg);
}

/* Equal but for 1e-4 of each element, and 1e-5 of a usual one. */
static void same(const struct net *t, const struct pare_tensor *got, const char *prefix,
                 const char *name)
{
    const struct pare_tensor *want = array(t, prefix, name);
    double square = 0, usual;

    assert_int_equal(pare_numel(got), pare_numel(want));
    for (int64_t i = 0; i < pare_numel(want); i++)
        square += pare_get(want, i) * pare_get(want, i);
    usual = sqrt(square / (double)pare_numel(want));
    assert_true(usual > 0);
    for (int64_t i = 0; i < pare_numel(want); i++)
        if (!(fabs(pare_get(got, i) - pare_get(want, i)) <=
              1e-4 * fabs(pare_get(want, i)) + 1e-5 * usual))
            fail_msg("%s%s: element %lld is %.9g, expected %.9g", prefix, name, (long long)i,
                     pare_get(got, i), pare_get(want, i));
}

static void same_grads(const struct net *t, const char *prefix)
{
    for (int i = 0; i < t->n_leaves; i++)
        if (!strstr(t->leaf[i].name, "mean") && !strstr(t->leaf[i].name, "var"))
            same(t, &t->leaf[i].grad, prefix, t->leaf[i].name);
}

static struct pare_value *make_conv_bn(struct net *t)
{
    struct pare_value *y = leaf(t, "x0");

    y = add(t, "Conv", IN(y, leaf(t, "conv.w")), ATTRS("pads", "1,1,1,1"));
    y = add(t, "BatchNormalization",
            IN(y, leaf(t, "bn.scale"), leaf(t, "bn.bias"), leaf(t, "bn.mean"), leaf(t, "bn.var")),
            NULL);
    y = add(t, "Relu", IN(y), NULL);
    y = add(t, "MaxPool", IN(y), ATTRS("kernel_shape", "2,2", "strides", "2,2"));
    y = add(t, "Flatten", IN(y), NULL);
    return add(t, "Gemm", IN(y, leaf(t, "fc.w"), leaf(t, "fc.bias")), ATTRS("transB", "1"));
}

/* Two batches in training, then the first one with the running moments that these left. */
static void conv_bn(void **state)
{
    struct pare_value *y, *x;
    struct net t;

    (void)state;
    net_open(&t, "golden/conv_bn.npz");
    y = make_conv_bn(&t);
    x = &t.leaf[0];
    run(&t, true, array(&t, "", "gy0"));
    same(&t, &y->t, "", "y0");
    same(&t, &x->grad, "grad.", "x0");

    x->name = "x1";
    x->t = *array(&t, "", "x1");
    zero(x);
    run(&t, true, array(&t, "", "gy1"));
    same(&t, &y->t, "", "y1");
    same_grads(&t, "grad.");
    for (int i = 0; i < t.n_leaves; i++)
        if (strstr(t.leaf[i].name, "mean") || strstr(t.leaf[i].name, "var"))
            same(&t, &t.leaf[i].t, "after.", t.leaf[i].name);

    x->name = "x0";
    x->t = *array(&t, "", "x0");
    for (int i = 0; i < t.n_leaves; i++)
        zero(&t.leaf[i]);
    run(&t, false, array(&t, "", "gy0"));
    same(&t, &y->t, "eval.", "y0");
    same_grads(&t, "eval.grad.");
    net_close(&t);
}

static void norms(void **state)
{
    struct pare_value *y;
    struct net t;

    (void)state;
    net_open(&t, "golden/norms.npz");
    y = leaf(&t, "x0");
    y = add(&t, "Conv", IN(y, leaf(&t, "dw.w"), leaf(&t, "dw.bias")),
            ATTRS("group", "4", "strides", "2,2", "pads", "1,1,1,1"));
    y = add(&t, "GroupNormalization", IN(y, leaf(&t, "gn.scale"), leaf(&t, "gn.bias")),
            ATTRS("num_groups", "2"));
    y = add(&t, "Tanh", IN(y), NULL);
    y = add(&t, "ConvTranspose", IN(y, leaf(&t, "up.w")),
            ATTRS("group", "2", "strides", "2,2"));
    y = add(&t, "InstanceNormalization", IN(y, leaf(&t, "in.scale"), leaf(&t, "in.bias")), NULL);
    y = add(&t, "AveragePool", IN(y),
            ATTRS("kernel_shape", "3,3", "strides", "2,2", "pads", "1,1,1,1"));
    y = add(&t, "Flatten", IN(y), NULL);
    y = add(&t, "LayerNormalization", IN(y, leaf(&t, "ln.scale"), leaf(&t, "ln.bias")), NULL);
    run(&t, true, array(&t, "", "gy0"));
    same(&t, &y->t, "", "y0");
    same_grads(&t, "grad.");
    net_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(conv_bn), cmocka_unit_test(norms) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
