/* one_node.h - run one operator on a few tensors, for tests.
 *
 *     struct fixture f = fixture_begin("Add", 13);
 *     add_input(&f, PARE_F32, 1, DIMS(2), a);
 *     add_input(&f, PARE_F32, 0, NULL, b);
 *     expect_floats(run_op(&f), 2, want);
 *     fixture_end(&f);
 */
#ifndef PARE_TESTS_ONE_NODE_H
#define PARE_TESTS_ONE_NODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/options.h"
#include "graph/graph.h"
#include "op/op.h"

#define MAX_IN 4
#define DIMS(...)     \
    (const int64_t[]) \
    {                 \
        __VA_ARGS__   \
    }

/* One node and its tensors. */
struct fixture {
    struct pare_arena *arena, *scratch;
    struct pare_err err;
    struct pare_value value[MAX_IN + 1], *in[MAX_IN], *out[1];
    struct pare_node node;
    struct pare_ctx ctx;
};

static inline struct fixture fixture_begin_op(const struct pare_op *op, int version)
{
    struct fixture f = { .arena = pare_arena_new(1 << 14), .scratch = pare_arena_new(1 << 14) };

    assert_non_null(op);
    f.node = (struct pare_node){ .op = op,
                                 .name = "n",
                                 .type = op->type,
                                 .domain = "",
                                 .version = version,
                                 .n_out = 1 };
    f.ctx = (struct pare_ctx){ .scratch = f.scratch, .results = f.arena, .threads = 1 };
    return f;
}

static inline struct fixture fixture_begin(const char *type, int version)
{
    return fixture_begin_op(pare_find_op("", type), version);
}

static inline void fixture_end(struct fixture *f)
{
    pare_arena_free(f->scratch);
    pare_arena_free(f->arena);
}

/* The next input; without data it holds zeros. */
static inline void add_input(struct fixture *f, enum pare_dtype dtype, int rank, const int64_t *dim,
                             const void *data)
{
    struct pare_value *v = &f->value[f->node.n_in];
    size_t bytes;

    v->name = "x";
    assert_int_equal(pare_tensor_new(f->arena, &v->t, dtype, rank, dim, &f->err), 0);
    assert_int_equal(pare_tensor_size(&v->t, NULL, &bytes, &f->err), 0);
    if (data && bytes)
        memcpy(v->t.data, data, bytes);
    f->in[f->node.n_in++] = v;
}

static inline void add_absent_input(struct fixture *f)
{
    f->in[f->node.n_in++] = NULL;
}

static inline int run_with_attrs(struct fixture *f, const struct pare_setting *set, int n_set)
{
    void *attr = pare_alloc(f->arena, 1, f->node.op->attr_size + 1);

    f->value[MAX_IN].name = "y";
    f->out[0] = &f->value[MAX_IN];
    f->node.in = f->in;
    f->node.out = f->out;
    f->node.attr = attr;
    if (f->node.op->attrs)
        PARE_TRY(pare_opts_apply(f->node.op->attrs, set, n_set, attr, f->arena, &f->err));
    return pare_node_eval(&f->node, &f->ctx, &f->err);
}

static inline const struct pare_tensor *run_op(struct fixture *f)
{
    int rc = run_with_attrs(f, NULL, 0);

    if (rc)
        print_error("%s\n", f->err.msg);
    assert_int_equal(rc, 0);
    return &f->out[0]->t;
}

static inline struct pare_setting float_attr(const char *name, double v)
{
    return (struct pare_setting){ .name = name, .type = PARE_OPT_FLOAT, .num = v };
}

static inline struct pare_setting int_attr(const char *name, int64_t v)
{
    return (struct pare_setting){ .name = name, .type = PARE_OPT_INT, .whole = v };
}

static inline void expect_floats(const struct pare_tensor *t, int64_t n, const float *want)
{
    assert_int_equal(t->dtype, PARE_F32);
    assert_int_equal(pare_numel(t), n);
    for (int64_t i = 0; i < n; i++)
        if (isnan(want[i]) ? !isnan(pare_f32(t)[i]) : pare_f32(t)[i] != want[i])
            fail_msg("element %d is %g, expected %g", (int)i, (double)pare_f32(t)[i],
                     (double)want[i]);
}

static inline void expect_bytes(const struct pare_tensor *t, size_t n, const void *want)
{
    size_t bytes;

    assert_int_equal(pare_tensor_size(t, NULL, &bytes, &(struct pare_err){ 0 }), 0);
    assert_int_equal(bytes, n);
    assert_memory_equal(t->data, want, n);
}

#endif
