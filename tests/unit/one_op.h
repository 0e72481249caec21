/* one_op.h - fixture for tests of operators: one node with its inputs and outputs.
 *
 *     op_begin(&f, "Gemm", 13);
 *     op_in(&f, PARE_F32, "2,3", LIST(1, 2, 3, 4, 5, 6));
 *     op_attr(&f, "transB", "1");
 *     op_expect(&f, 0, PARE_F32, "(2, 2)", LIST(...));
 *     op_end(&f);
 */
#ifndef PARE_TESTS_ONE_OP_H
#define PARE_TESTS_ONE_OP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"
#include "graph/graph.h"
#include "op/op.h"

#define LIST(...) ((const double[]){ __VA_ARGS__ })

enum { ONE_OP_MAX = 12 };

struct one_op {
    struct pare_arena *arena, *scratch;
    struct pare_node node;
    struct pare_value value[2 * ONE_OP_MAX], *in[ONE_OP_MAX], *out[ONE_OP_MAX];
    struct pare_setting set[ONE_OP_MAX];
    int n_set, rc;
    bool done;
    struct pare_err err;
};

/* "ms.X" is X of the domain com.microsoft. */
static inline void op_begin(struct one_op *f, const char *type, int version)
{
    bool ms = !strncmp(type, "ms.", 3);

    type += ms ? 3 : 0;
    memset(f, 0, sizeof(*f));
    f->arena = pare_arena_new(1 << 12);
    f->scratch = pare_arena_new(1 << 12);
    assert_true(f->arena && f->scratch);
    f->node = (struct pare_node){ .op = pare_find_op(ms ? "com.microsoft" : "", type),
                                  .name = "",
                                  .domain = ms ? "com.microsoft" : "",
                                  .type = type,
                                  .version = version,
                                  .in = f->in,
                                  .out = f->out,
                                  .n_out = 1 };
    assert_non_null(f->node.op);
    for (int i = 0; i < 2 * ONE_OP_MAX; i++)
        f->value[i].name = "v";
}

static inline void op_end(struct one_op *f)
{
    pare_arena_free(f->arena);
    pare_arena_free(f->scratch);
}

static inline void op_attr(struct one_op *f, const char *name, const char *text)
{
    const struct pare_opt *o = pare_opt_find(f->node.op->attrs, name);

    assert_non_null(o);
    assert_int_equal(pare_opt_parse(o, text, &f->set[f->n_set++], f->arena, &f->err), 0);
}

/* The next input: shape as "2,3" ("" is a scalar), elements converted to the type. */
static inline void op_in(struct one_op *f, enum pare_dtype d, const char *shape, const double *v)
{
    struct pare_value *val = &f->value[f->node.n_in];
    int64_t dim[PARE_MAX_RANK], n;
    int rank = 0;

    for (const char *p = shape; *p; p += *p == ',') {
        char *end;

        dim[rank++] = strtoll(p, &end, 10);
        p = end;
    }
    assert_int_equal(pare_tensor_new(f->arena, &val->t, d, rank, dim, &f->err), 0);
    n = pare_numel(&val->t);
    if (n)
        assert_int_equal(pare_convert(d, val->t.data, PARE_F64, v, n, &f->err), 0);
    f->in[f->node.n_in++] = val;
}

static inline void op_in_none(struct one_op *f)
{
    f->in[f->node.n_in++] = NULL;
}

/* Runs the node once; later calls return the code of the first. */
static inline int op_run(struct one_op *f)
{
    struct pare_ctx c = { .scratch = f->scratch, .results = f->arena, .threads = 1 };
    void *a;

    if (f->done)
        return f->rc;
    f->done = true;
    a = pare_alloc(f->arena, 1, f->node.op->attr_size);
    assert_non_null(a);
    f->rc = pare_opts_apply(f->node.op->attrs, f->set, f->n_set, a, f->arena, &f->err);
    f->node.attr = a;
    for (int i = 0; i < f->node.n_out; i++)
        f->out[i] = &f->value[ONE_OP_MAX + i];
    if (!f->rc)
        f->rc = pare_node_eval(&f->node, &c, &f->err);
    return f->rc;
}

static inline void op_expect(struct one_op *f, int out, enum pare_dtype d, const char *shape,
                             const double *want)
{
    const struct pare_tensor *y;
    char buf[PARE_SHAPE_TEXT];

    if (op_run(f))
        fail_msg("%s: %s", f->node.type, f->err.msg);
    y = &f->out[out]->t;
    assert_string_equal(pare_dtype_name(y->dtype), pare_dtype_name(d));
    assert_string_equal(pare_shape_text(y, buf, sizeof(buf)), shape);
    for (int64_t i = 0; i < pare_numel(y); i++) {
        double got = pare_get(y, i), tolerance = d == PARE_F16 ? 1e-3 : 1e-5;

        if (!(got == want[i]) && !(got - want[i] < tolerance && want[i] - got < tolerance))
            fail_msg("%s: element %lld is %g, expected %g", f->node.type, (long long)i, got,
                     want[i]);
    }
}

static inline void op_expect_error(struct one_op *f, const char *text)
{
    assert_int_not_equal(op_run(f), 0);
    assert_string_equal(f->err.msg, text);
    op_end(f);
}

#endif
