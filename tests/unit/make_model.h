/* make_model.h - build small models node by node, for tests that run them.
 *
 *     struct build b = { .opset = 17 };
 *     const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ 2, 3 });
 *     const char *y = build_node(&b, "Softmax", NAMES(x), NOTHING);
 *     build_output(&b, y);
 *     struct pare_model *m = build_model(&b);
 *
 * Generated names live in `pool`, like the model's bytes: the model must be freed before
 * the pool is.
 */
#ifndef PARE_TEST_BUILD_H
#define PARE_TEST_BUILD_H

#include "onnx_make.h"

#include "plan/plan.h"

enum { BUILD_PARTS = 512 };

struct build {
    struct bin part[BUILD_PARTS]; /* fields of the GraphProto */
    int n, opset;
    bool microsoft;     /* imports com.microsoft 1 as well */
    const char *prefix; /* of generated names; NULL: "v"; a body needs a different one */
    int names;
};

static inline void build_put(struct build *b, struct bin field)
{
    assert_true(b->n < BUILD_PARTS);
    b->part[b->n++] = field;
}

static inline const char *build_name(struct build *b)
{
    return pare_sprintf(pool, "%s%d", b->prefix ? b->prefix : "v", b->names++);
}

static inline struct bin build_dims(int rank, const int64_t *dim, unsigned field)
{
    struct bin all = NOTHING;

    for (int i = 0; i < rank; i++)
        all = CAT(all, num(field, dim[i]));
    return all;
}

/* A ValueInfoProto; rank -1: no shape; a dimension of -1 is free. */
static inline struct bin build_info(const char *name, int dtype, int rank, const int64_t *dim)
{
    struct bin shape = NOTHING, type = num(1, dtype);

    for (int i = 0; i < rank; i++)
        shape = CAT(shape, msg(1, dim[i] >= 0 ? num(1, dim[i])
                                  : i         ? text(2, pare_sprintf(pool, "N%d", i))
                                              : text(2, "N")));
    if (rank >= 0)
        type = CAT(type, msg(2, shape));
    return CAT(text(1, name), msg(2, msg(1, type)));
}

static inline const char *build_input(struct build *b, int dtype, int rank, const int64_t *dim)
{
    const char *name = build_name(b);

    build_put(b, msg(11, build_info(name, dtype, rank, dim)));
    return name;
}

static inline void build_output(struct build *b, const char *name)
{
    build_put(b, msg(12, text(1, name)));
}

static inline const char *build_const(struct build *b, int dtype, int rank, const int64_t *dim,
                                      const void *data)
{
    const char *name = build_name(b);
    size_t bytes = pare_dtype_size((enum pare_dtype)dtype);

    for (int i = 0; i < rank; i++)
        bytes *= (size_t)dim[i];
    build_put(b, msg(5, CAT(build_dims(rank, dim, 1), num(2, dtype), text(8, name),
                            blob(9, data, bytes))));
    return name;
}

static inline const char *build_floats(struct build *b, int rank, const int64_t *dim,
                                       const float *v)
{
    return build_const(b, PARE_F32, rank, dim, v);
}

static inline const char *build_scalar(struct build *b, float v)
{
    return build_const(b, PARE_F32, 0, NULL, &v);
}

/* A list of int64, such as a shape or axes. */
static inline const char *build_ints(struct build *b, int n, const int64_t *v)
{
    return build_const(b, PARE_I64, 1, (int64_t[]){ n }, v);
}
#define INTS(...)                                                            \
    (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]) \
    {                                                                        \
        __VA_ARGS__                                                          \
    }

/* ---- attributes: for the last argument of build_node --------------------------------- */

static inline struct bin at_int(const char *name, int64_t v)
{
    return msg(5, CAT(text(1, name), num(3, v), num(20, 2)));
}

static inline struct bin at_float(const char *name, float v)
{
    struct bin raw = { pare_alloc(pool, 1, sizeof(v)), sizeof(v) };

    memcpy(raw.p, &v, sizeof(v));
    return msg(5, CAT(text(1, name), tag(2, 5), raw, num(20, 1)));
}

static inline struct bin at_text(const char *name, const char *v)
{
    return msg(5, CAT(text(1, name), text(4, v), num(20, 3)));
}

static inline struct bin at_ints(const char *name, int n, const int64_t *v)
{
    return msg(5, CAT(text(1, name), build_dims(n, v, 8), num(20, 7)));
}

static inline struct bin at_graph(const char *name, const struct build *g)
{
    return msg(5, CAT(text(1, name), msg(6, join(g->part, (size_t)g->n)), num(20, 5)));
}

/* ---- nodes ------------------------------------------------------------------------------ */

#define NAMES(...)                                                                          \
    (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(const char *)), (const char *[]) \
    {                                                                                       \
        __VA_ARGS__                                                                         \
    }

/* A node with n_out outputs, whose names are written to out[]; the input "" is absent. */
static inline void build_node_outs(struct build *b, const char *type, int n_in,
                                   const char *const *in, struct bin attrs, int n_out,
                                   const char **out)
{
    struct bin all = NOTHING;

    for (int i = 0; i < n_in; i++)
        all = CAT(all, text(1, in[i]));
    for (int i = 0; i < n_out; i++) {
        out[i] = build_name(b);
        all = CAT(all, text(2, out[i]));
    }
    build_put(b, msg(1, CAT(all, text(3, out[0]), text(4, type), attrs)));
}

static inline const char *build_node(struct build *b, const char *type, int n_in,
                                     const char *const *in, struct bin attrs)
{
    const char *out;

    build_node_outs(b, type, n_in, in, attrs, 1, &out);
    return out;
}

static inline struct bin build_bytes(const struct build *b)
{
    return CAT(num(1, 8), msg(7, join(b->part, (size_t)b->n)), opset("", b->opset),
               b->microsoft ? opset("com.microsoft", 1) : NOTHING);
}

static inline struct pare_model *build_model(const struct build *b)
{
    const struct pare_load_opts as_built = { .keep_training_mode = true };
    struct bin bytes = build_bytes(b);
    struct pare_model *m;
    struct pare_err err;

    if (pare_model_parse_with(bytes.p, bytes.n, NULL, &as_built, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

/* ---- running ---------------------------------------------------------------------------- */

/* A tensor with memory from `pool`. */
static inline struct pare_tensor build_tensor(int dtype, int rank, const int64_t *dim)
{
    struct pare_tensor t;
    struct pare_err err;

    assert_int_equal(pare_tensor_new(pool, &t, (enum pare_dtype)dtype, rank, dim, &err), 0);
    return t;
}

static inline struct pare_tensor build_copy(const struct pare_tensor *t)
{
    struct pare_tensor c = build_tensor((int)t->dtype, t->rank, t->dim);
    size_t bytes = (size_t)pare_numel(t) * pare_dtype_size(t->dtype);

    if (bytes)
        memcpy(c.data, t->data, bytes);
    return c;
}

/* Makes a plan, with micro-batches of `items` unless 0, while the n-th block of memory (n > 0) or
 * the arena request -n (n < 0) fails; expects an out-of-memory error, or success without that
 * memory.  Returns false if there are fewer allocations. */
static inline bool build_plan_fails(const struct pare_model *m, const struct pare_plan_opts *o,
                                    int64_t items, int n, int *failures)
{
    struct pare_plan *p = NULL;
    struct pare_err err = { 0 };
    bool reached;
    int rc;

    pare_oom_countdown = n;
    rc = items ? pare_plan_build(m, &(struct pare_plan_build){ .opts = o, .microbatch = items }, &p,
                                 &err)
               : pare_plan_make(m, o, &p, &err);
    reached = pare_oom_countdown == 0;
    pare_oom_countdown = 0;
    *failures += rc != 0;
    if (rc && (rc != PARE_ENOMEM || !strstr(err.msg, "memory")))
        fail_msg("allocation %d: code %d, '%s'", n, rc, err.msg);
    if (!rc)
        pare_plan_free(p);
    return reached;
}

#endif
