/* golden.h - compare small networks, forward and backward, with PyTorch in float64.
 *
 *     net_open(&t, "golden/mlp.npz");
 *     y = add_node(&t, "Gemm", IN(leaf(&t, "x0"), leaf(&t, "w")), ATTRS("transB", "1"));
 *     run_net(&t, true, find_array(&t, "", "gy0"));
 *     expect_close(&t, &y->t, "", "y0");
 *     expect_grads(&t, "grad.");
 *     net_close(&t);
 *
 * tests/golden/<net>.npz has these arrays: for each batch i the input x<i>, the output y<i> and the
 * output's gradient gy<i>; the parameters; the gradient grad.<name> of each input and parameter;
 * after.<name>, what training changed; eval.<...>, the same in inference.  tools/golden.py writes
 * the file.
 */
#ifndef PARE_TESTS_GOLDEN_H
#define PARE_TESTS_GOLDEN_H

#include <math.h>
#include <stdio.h>

#include "one_op.h"

#include "io/npz.h"

#define MAX_NODES 24
#define MAX_LEAVES 16

/* Nodes in the order they run; each has its own values, and leaves come from the file. */
struct net {
    struct one_op node[MAX_NODES];
    struct pare_value leaf[MAX_LEAVES];
    int n, n_leaves, n_file;
    struct pare_named *file;
    struct pare_value none; /* stands for an absent input */
    int outs;               /* outputs of the next node; 0 means 1 */
    struct pare_arena *arena;
    struct pare_err err;
};

static inline void net_open(struct net *t, const char *path)
{
    memset(t, 0, sizeof(*t));
    t->arena = pare_arena_new(1 << 16);
    assert_non_null(t->arena);
    if (pare_npz_read(t->arena, path, &t->file, &t->n_file, &t->err))
        fail_msg("%s", t->err.msg);
}

static inline void net_close(struct net *t)
{
    for (int i = 0; i < t->n; i++)
        op_end(&t->node[i]);
    pare_arena_free(t->arena);
}

static inline const struct pare_tensor *find_array(const struct net *t, const char *prefix,
                                                   const char *name)
{
    char full[64];

    snprintf(full, sizeof(full), "%s%s", prefix, name);
    for (int i = 0; i < t->n_file; i++)
        if (!strcmp(t->file[i].name, full))
            return &t->file[i].t;
    fail_msg("the file has no %s", full);
    return NULL;
}

static inline void alloc_grad(struct net *t, struct pare_value *v)
{
    assert_int_equal(pare_tensor_new(t->arena, &v->grad, PARE_F32, v->t.rank, v->t.dim, &t->err),
                     0);
}

/* An input or a parameter. */
static inline struct pare_value *leaf(struct net *t, const char *name)
{
    struct pare_value *v = &t->leaf[t->n_leaves++];

    assert_true(t->n_leaves <= MAX_LEAVES);
    v->name = name;
    v->t = *find_array(t, "", name);
    alloc_grad(t, v);
    return v;
}

/* An array of the file without a gradient. */
static inline struct pare_value *constant_input(struct net *t, const char *name)
{
    struct pare_value *v = leaf(t, name);

    v->grad.data = NULL;
    return v;
}

/* The next node, with its attributes in pairs; returns its first output. */
#define IN(...) ((struct pare_value *[]){ __VA_ARGS__, NULL })
#define ATTRS(...) ((const char *[]){ __VA_ARGS__, NULL })
static inline struct pare_value *add_node(struct net *t, const char *type, struct pare_value **in,
                                          const char **attrs)
{
    struct one_op *f = &t->node[t->n++];

    assert_true(t->n <= MAX_NODES);
    op_begin(f, type, 21);
    for (; attrs && *attrs; attrs += 2)
        op_attr(f, attrs[0], attrs[1]);
    for (; *in; in++)
        f->in[f->node.n_in++] = *in == &t->none ? NULL : *in;
    f->node.n_out = t->outs ? t->outs : 1;
    t->outs = 0;
    if (op_run(f))
        fail_msg("%s: %s", type, f->err.msg);
    if (f->node.op->save)
        f->node.save = pare_alloc(t->arena, f->node.op->save(&f->node) + 1, 1);
    alloc_grad(t, f->out[0]);
    return f->out[0];
}

static inline void zero_grad(struct pare_value *v)
{
    memset(v->grad.data, 0, (size_t)pare_numel(&v->t) * sizeof(float));
}

/* A forward and a backward pass; gradients of leaves accumulate.  gy is the gradient of the last
 * node's first output; the caller may set gradients of other outputs before. */
static inline void run_net(struct net *t, bool train, const struct pare_tensor *gy)
{
    struct pare_ctx c = { .threads = 1, .train = train };
    struct one_op *f = t->node;
    int rc = 0;

    for (int i = 0; i < t->n && !rc; i++) {
        zero_grad(f[i].out[0]);
        c.scratch = f[i].scratch, c.results = f[i].arena;
        rc = pare_node_forward(&f[i].node, &c, &t->err);
    }
    memcpy(f[t->n - 1].out[0]->grad.data, gy->data, (size_t)pare_numel(gy) * sizeof(float));
    for (int i = t->n - 1; i >= 0 && !rc; i--) {
        if (!f[i].node.op->backward)
            fail_msg("%s has no backward()", f[i].node.type);
        c.scratch = f[i].scratch, c.results = f[i].arena;
        rc = f[i].node.op->backward(&f[i].node, &c, &t->err);
    }
    if (rc)
        fail_msg("%s", t->err.msg);
}

/* Expects each element to differ by at most 1e-4 of its value plus 1e-5 of the array's root mean
 * square. */
static inline void expect_close(const struct net *t, const struct pare_tensor *got,
                                const char *prefix, const char *name)
{
    const struct pare_tensor *want = find_array(t, prefix, name);
    double square = 0, rms;

    assert_int_equal(pare_numel(got), pare_numel(want));
    for (int64_t i = 0; i < pare_numel(want); i++)
        square += pare_get(want, i) * pare_get(want, i);
    rms = sqrt(square / (double)pare_numel(want));
    assert_true(rms > 0);
    for (int64_t i = 0; i < pare_numel(want); i++)
        if (!(fabs(pare_get(got, i) - pare_get(want, i)) <=
              1e-4 * fabs(pare_get(want, i)) + 1e-5 * rms))
            fail_msg("%s%s: element %lld is %.9g, expected %.9g", prefix, name, (long long)i,
                     pare_get(got, i), pare_get(want, i));
}

static inline void expect_grads(const struct net *t, const char *prefix)
{
    for (int i = 0; i < t->n_leaves; i++)
        if (t->leaf[i].grad.data)
            expect_close(t, &t->leaf[i].grad, prefix, t->leaf[i].name);
}

#endif
