/* op_rig.h - fixture for tests of single operators: one node with its values.
 *
 *     rig_begin(&r, "Slice", 13);
 *     COUNTING(&r, 2, 4);          a float32 input of this shape with the values 0, 1, 2, ...
 *     I64(&r, 1);                  an input that is a list of int64
 *     set_attr(&r, "axis", "1");   an attribute, as text
 *     expect_ok(&r, 1);            run with one output
 *     EXPECT(&r, 0, 1, 2, 3);      output 0 has these elements
 *     rig_end(&r);
 */
#ifndef PARE_TESTS_OP_RIG_H
#define PARE_TESTS_OP_RIG_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/options.h"
#include "graph/graph.h"
#include "op/op.h"

struct rig {
    struct pare_arena *arena, *scratch;
    struct pare_node node;
    struct pare_value value[12], *in[6], *out[4];
    struct pare_setting set[8];
    int n_set;
    struct pare_err err;
};

static inline void rig_begin(struct rig *r, const char *type, int version)
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

static inline void rig_end(struct rig *r)
{
    pare_arena_free(r->arena);
    pare_arena_free(r->scratch);
}

static inline void set_attr(struct rig *r, const char *name, const char *text)
{
    const struct pare_opt *o = pare_opt_find(r->node.op->attrs, name);

    assert_non_null(o);
    assert_int_equal(pare_opt_parse(o, text, &r->set[r->n_set++], r->arena, &r->err), 0);
}

static inline void add_input(struct rig *r, enum pare_dtype d, int rank, const int64_t *dim,
                             const void *data)
{
    struct pare_value *v = &r->value[r->node.n_in];

    assert_int_equal(pare_tensor_new(r->arena, &v->t, d, rank, dim, &r->err), 0);
    if (data && pare_numel(&v->t))
        memcpy(v->t.data, data, (size_t)pare_numel(&v->t) * pare_dtype_size(d));
    r->in[r->node.n_in++] = v;
}

static inline void add_counting_input(struct rig *r, int rank, const int64_t *dim)
{
    struct pare_tensor *t = &r->value[r->node.n_in].t;

    add_input(r, PARE_F32, rank, dim, NULL);
    for (int64_t i = 0; i < pare_numel(t); i++)
        pare_f32_mut(t)[i] = (float)i;
}

static inline void add_absent_input(struct rig *r)
{
    r->in[r->node.n_in++] = NULL;
}

/* Lists of numbers, with their length. */
#define INTS(...) ((int64_t[]){ __VA_ARGS__ })
#define FLOATS(...) ((float[]){ __VA_ARGS__ })
#define N_INTS(...) ((int)(sizeof(INTS(__VA_ARGS__)) / sizeof(int64_t)))
#define N_FLOATS(...) ((int)(sizeof(FLOATS(__VA_ARGS__)) / sizeof(float)))

#define COUNTING(r, ...) add_counting_input(r, N_INTS(__VA_ARGS__), INTS(__VA_ARGS__))
#define I64(r, ...) add_input(r, PARE_I64, 1, INTS(N_INTS(__VA_ARGS__)), INTS(__VA_ARGS__))
#define F32(r, ...) add_input(r, PARE_F32, 1, INTS(N_FLOATS(__VA_ARGS__)), FLOATS(__VA_ARGS__))

static inline int run_op(struct rig *r, int n_out)
{
    struct pare_ctx c = { .scratch = r->scratch, .results = r->arena, .threads = 1 };
    void *a = pare_alloc(r->arena, 1, r->node.op->attr_size + 1);

    assert_non_null(a);
    if (pare_opts_apply(r->node.op->attrs, r->set, r->n_set, a, r->arena, &r->err))
        fail_msg("%s", r->err.msg);
    r->node.attr = a;
    r->node.n_out = n_out;
    for (int i = 0; i < n_out; i++)
        r->out[i] = &r->value[8 + i];
    return pare_node_eval(&r->node, &c, &r->err);
}

static inline void expect_ok(struct rig *r, int n_out)
{
    if (run_op(r, n_out))
        fail_msg("%s: %s", r->node.type, r->err.msg);
}

/* Expects an error that contains `text`; ends the rig. */
static inline void expect_error(struct rig *r, int n_out, const char *text)
{
    assert_int_not_equal(run_op(r, n_out), 0);
    if (!strstr(r->err.msg, text))
        fail_msg("'%s' is not in '%s'", text, r->err.msg);
    rig_end(r);
}

static inline void expect_floats(struct rig *r, int k, const float *want, int64_t count)
{
    const struct pare_tensor *y = &r->out[k]->t;

    assert_int_equal(pare_numel(y), count);
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(pare_f32(y)[i] - want[i]) <= 1e-5f))
            fail_msg("element %d is %g, expected %g", (int)i, (double)pare_f32(y)[i],
                     (double)want[i]);
}
#define EXPECT(r, k, ...) expect_floats(r, k, FLOATS(__VA_ARGS__), N_FLOATS(__VA_ARGS__))

#endif
