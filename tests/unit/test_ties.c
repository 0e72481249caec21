/* test_ties.c - ties of all operators: a smaller input gives the smaller output.
 *
 * For random keep sets that the ties permit, all other indices are set to 0 in all inputs; the
 * operator runs, and runs again on inputs that have only the kept indices.  The second result must
 * equal the kept part of the first.  The zeros make sums along removed indices equal.
 */
#include "grad_rows.h"

#include <math.h>

#include "base/rng.h"
#include "graph/keep_sets.h"
#include "op/nn/norm.h"

/* ---- a row's graph -------------------------------------------------------------------------- */

struct rig {
    struct one_op f;
    struct pare_graph g;
    struct pare_node *node[1];
    struct pare_value *value[2 * ONE_OP_MAX];
    struct pare_keep_sets *k;
    struct pare_rng rng;
};

static void add_value(struct rig *r, struct pare_value *v)
{
    if (!v)
        return;
    v->id = r->g.n_values;
    if (v->t.dtype == PARE_I64)
        v->flags |= PARE_V_CONST;
    r->value[r->g.n_values++] = v;
}

static void begin_row_graph(struct rig *r, const struct row *row, uint64_t seed)
{
    memset(r, 0, sizeof(*r));
    row_begin(&r->f, row);
    pare_rng_init(&r->rng, seed);
    r->node[0] = &r->f.node;
    r->g.arena = r->f.arena;
    r->g.node = r->node;
    r->g.value = r->value;
    r->g.n_nodes = 1;
    for (int i = 0; i < r->f.node.n_in; i++)
        add_value(r, r->f.in[i]);
    if (op_run(&r->f))
        fail_msg("%s: %s", row->type, r->f.err.msg);
    for (int i = 0; i < r->f.node.n_out; i++) {
        if (r->f.out[i]->t.dtype == PARE_I64)
            r->f.out[i]->flags |= PARE_V_CONST;
        add_value(r, r->f.out[i]);
    }
    if (pare_keep_sets_new(r->f.arena, &r->g, &r->k, &r->f.err))
        fail_msg("%s: %s", row->type, r->f.err.msg);
}

/* Number of tied sets from which indices can be removed. */
static int count_open_sets(struct rig *r)
{
    bool *seen = pare_alloc(r->f.arena, (size_t)pare_keep_sets_sets(r->k), sizeof(*seen));
    const struct pare_node *node;
    int n = 0;

    assert_non_null(seen);
    for (int v = 0; v < r->g.n_values; v++)
        for (int x = 0; x < r->value[v]->t.rank; x++) {
            int set = pare_keep_sets_set(r->k, r->value[v], x);

            n += !seen[set] && r->value[v]->t.dim[x] > 1 &&
                 !pare_keep_sets_why(r->k, r->value[v], x, &node);
            seen[set] = true;
        }
    return n;
}

/* Keeps random indices until every axis keeps one. */
static void choose_keep_sets(struct rig *r)
{
    bool empty = true;

    while (empty) {
        empty = false;
        if (pare_keep_sets_solve(r->k, &r->f.err))
            fail_msg("%s", r->f.err.msg);
        for (int v = 0; v < r->g.n_values; v++)
            for (int x = 0; x < r->value[v]->t.rank; x++) {
                int64_t n = r->value[v]->t.dim[x];

                if (!n || pare_keep_sets_count(r->k, r->value[v], x))
                    continue;
                pare_keep_axis(r->k, r->value[v], x)[pare_rng_below(&r->rng, (uint64_t)n)] = 1;
                empty = true;
            }
    }
}

/* ---- smaller tensors ------------------------------------------------------------------------ */

/* The index of element i in the smaller tensor; -1: it is removed. */
static int64_t smaller_index(struct rig *r, const struct pare_value *v, int64_t i)
{
    int64_t at = 0, step = 1;

    for (int x = v->t.rank - 1; x >= 0; x--) {
        const uint8_t *keep = pare_keep_axis(r->k, v, x);
        int64_t here = i % v->t.dim[x], before = 0;

        i /= v->t.dim[x];
        if (!keep[here])
            return -1;
        for (int64_t b = 0; b < here; b++)
            before += keep[b];
        at += before * step;
        step *= pare_keep_sets_count(r->k, v, x);
    }
    return at;
}

static void clear_removed(struct rig *r)
{
    for (int k = 0; k < r->f.node.n_in; k++)
        for (int64_t i = 0; r->f.in[k] && i < pare_numel(&r->f.in[k]->t); i++)
            if (r->f.in[k]->t.dtype == PARE_F32 && smaller_index(r, r->f.in[k], i) < 0)
                pare_f32_mut(&r->f.in[k]->t)[i] = 0;
}

/* Normalizations of rows read zeros at removed channels and compute all channels: shrink() inserts
 * the zeros, and selects channels of the result. */
static void insert_zeros(struct rig *r)
{
    const struct pare_value *v[] = { r->f.in[0], r->f.out[0] };

    for (int i = 0; i < 2 && r->f.node.op->shrink == pare_norm_row_shrink; i++)
        memset(pare_keep_axis(r->k, v[i], v[i]->t.rank - 1), 1,
               (size_t)v[i]->t.dim[v[i]->t.rank - 1]);
}

static struct pare_value *make_smaller(struct rig *r, const struct pare_value *v)
{
    struct pare_value *s = pare_alloc(r->f.arena, 1, sizeof(*s));
    size_t size = pare_dtype_size(v->t.dtype);
    int64_t dim[PARE_MAX_RANK];

    assert_non_null(s);
    *s = *v;
    for (int x = 0; x < v->t.rank; x++)
        dim[x] = pare_keep_sets_count(r->k, v, x);
    assert_int_equal(pare_tensor_new(r->f.arena, &s->t, v->t.dtype, v->t.rank, dim, &r->f.err), 0);
    for (int64_t i = 0; i < pare_numel(&v->t); i++) {
        int64_t to = smaller_index(r, v, i);

        if (to >= 0)
            memcpy((char *)s->t.data + (size_t)to * size, (char *)v->t.data + (size_t)i * size,
                   size);
    }
    return s;
}

/* ---- attributes and inputs that depend on sizes --------------------------------------------- */

static void set_group_attr(struct rig *r, struct pare_node *m, const char *name)
{
    const struct pare_opt *o = pare_opt_find(m->op->attrs, name);
    int64_t size, count = 0;
    const uint8_t *own = pare_keep_sets_own(r->k, &r->f.node, 0, &size);

    if (!o || !own)
        return;
    for (int64_t i = 0; i < size; i++)
        count += own[i];
    *(int64_t *)((char *)m->attr + o->offset) = count;
}

static int64_t kept_before(struct rig *r, const struct pare_value *v, int axis, int64_t end)
{
    int64_t n = 0;

    for (int64_t i = 0; i < end; i++)
        n += pare_keep_axis(r->k, v, axis)[i];
    return n;
}

/* Adapts shapes, sizes, ranges and indices in inputs. */
static void adapt_inputs(struct rig *r, struct pare_node *m)
{
    const struct pare_value *x = r->f.in[0], *y = r->f.out[0];
    int64_t *one = m->n_in > 1 && m->in[1] ? pare_i64_mut(&m->in[1]->t) : NULL;

    if (!strcmp(m->type, "Reshape") || !strcmp(m->type, "Expand"))
        for (int i = 0; i < y->t.rank; i++)
            one[i] = pare_keep_sets_count(r->k, y, i);
    if (!strcmp(m->type, "Resize"))
        for (int i = 0; i < y->t.rank; i++)
            pare_i64_mut(&m->in[3]->t)[i] = pare_keep_sets_count(r->k, y, i);
    if (!strcmp(m->type, "AffineGrid"))
        one[0] = pare_keep_sets_count(r->k, y, 0);
    if (!strcmp(m->type, "Split"))
        for (int i = 0; i < m->n_out; i++)
            one[i] = pare_keep_sets_count(r->k, r->f.out[i], 1);
    if (!strcmp(m->type, "Slice")) /* rows slice axis 1 */
        for (int i = 1; i < 3; i++)
            pare_i64_mut(&m->in[i]->t)[0] = kept_before(r, x, 1, pare_i64(&m->in[i]->t)[0]);
    if (!strcmp(m->type, "Gather")) /* axis 0 */
        for (int64_t i = 0; i < m->in[1]->t.dim[0]; i++)
            one[i] = kept_before(r, x, 0, one[i] < 0 ? one[i] + x->t.dim[0] : one[i]);
}

static void compare_outputs(struct rig *r, const struct pare_node *m, uint64_t seed)
{
    for (int k = 0; k < m->n_out; k++) {
        const struct pare_value *want = make_smaller(r, r->f.out[k]);
        char a[PARE_SHAPE_TEXT], b[PARE_SHAPE_TEXT];

        assert_string_equal(pare_shape_text(&m->out[k]->t, a, sizeof(a)),
                            pare_shape_text(&want->t, b, sizeof(b)));
        for (int64_t i = 0; i < pare_numel(&want->t); i++) {
            double got = pare_get(&m->out[k]->t, i), x = pare_get(&want->t, i);

            if (!(fabs(got - x) <= 1e-5 * (1 + fabs(x))))
                fail_msg("%s, seed %d: output %d, element %d is %g, expected %g", m->type,
                         (int)seed, k, (int)i, got, x);
        }
    }
}

static void check_row(const struct row *row, uint64_t seed, int *open)
{
    struct rig r;
    struct pare_node m;
    struct pare_ctx c;
    void *attr;

    begin_row_graph(&r, row, seed);
    *open = count_open_sets(&r);
    choose_keep_sets(&r);
    clear_removed(&r);
    insert_zeros(&r);
    c = (struct pare_ctx){ .scratch = r.f.scratch, .results = r.f.arena, .threads = 1 };
    assert_int_equal(pare_node_eval(&r.f.node, &c, &r.f.err), 0);
    m = r.f.node;
    attr = pare_alloc(r.f.arena, 1, m.op->attr_size + 1);
    m.in = pare_alloc(r.f.arena, ONE_OP_MAX, sizeof(*m.in));
    m.out = pare_alloc(r.f.arena, ONE_OP_MAX, sizeof(*m.out));
    assert_true(attr && m.in && m.out);
    memcpy(attr, r.f.node.attr, m.op->attr_size);
    m.attr = attr;
    for (int i = 0; i < m.n_in; i++)
        m.in[i] = r.f.in[i] ? make_smaller(&r, r.f.in[i]) : NULL;
    for (int i = 0; i < m.n_out; i++)
        m.out[i] = pare_alloc(r.f.arena, 1, sizeof(**m.out));
    set_group_attr(&r, &m, "group");
    set_group_attr(&r, &m, "num_groups");
    set_group_attr(&r, &m, "hidden_size");
    adapt_inputs(&r, &m);
    if (pare_node_eval(&m, &c, &r.f.err))
        fail_msg("%s, seed %d: %s", row->type, (int)seed, r.f.err.msg);
    compare_outputs(&r, &m, seed);
    op_end(&r.f);
}

/* ---- the operators -------------------------------------------------------------------------- */

/* A row, and the number of sets from which indices can be removed. */
static const struct {
    struct row row;
    int open;
} rows[] = {
    { { "Conv", 11, "2,4,5,5 6,4,3,3 6", "pads=1,1,1,1", 0, { 0 } }, 3 },
    { { "Conv", 11, "2,6,5,5 9,2,3,3 9", "group=3 pads=1,1,1,1", 0, { 0 } }, 4 },
    { { "Conv", 11, "2,4,5,5 4,1,3,3", "group=4", 0, { 0 } }, 2 },
    { { "Conv", 11, "2,4,5 8,1,3", "group=4", 0, { 0 } }, 3 },
    { { "ConvTranspose", 11, "2,4,3,3 4,5,2,2 5", NULL, 0, { 0 } }, 3 },
    { { "ConvTranspose", 11, "2,6,3,3 6,4,2,2 12", "group=3", 0, { 0 } }, 4 },
    { { "ConvTranspose", 11, "2,4,3 4,1,2", "group=4", 0, { 0 } }, 2 },
    { { "Gemm", 13, "3,4 4,5 5", NULL, 0, { 0 } }, 3 },
    { { "Gemm", 13, "4,3 5,4 3,1", "transA=1 transB=1", 0, { 0 } }, 3 },
    { { "Gemm", 13, "3,4 5,4 3,5", "transB=1 alpha=0.5", 0, { 0 } }, 3 },
    { { "MatMul", 13, "3,4 4,5", NULL, 0, { 0 } }, 3 },
    { { "MatMul", 13, "2,3,4 4,5", NULL, 0, { 0 } }, 4 },
    { { "MatMul", 13, "2,3,4,5 3,5,6", NULL, 0, { 0 } }, 5 },
    { { "MatMul", 13, "2,1,4,5 3,5,6", NULL, 0, { 0 } }, 5 },
    { { "MatMul", 13, "4 2,4,5", NULL, 0, { 0 } }, 3 },
    { { "MatMul", 13, "2,3,4 4", NULL, 0, { 0 } }, 3 },
    { { "MatMul", 13, "4 4", NULL, 0, { 0 } }, 1 },
    { { "Einsum", 12, "2,3,4 3,4,5", "equation=bij,ijk->bk", 0, { 0 } }, 4 },
    { { "Einsum", 12, "2,3,4 2,5,4", "equation=bid,bjd->bij", 0, { 0 } }, 4 },
    { { "Einsum", 12, "3,4", "equation=ij->i", 0, { 0 } }, 2 },
    { { "BatchNormalization", 15, "2,4,3,3 4 4 4 +4", NULL, 0, { 0 } }, 4 },
    { { "BatchNormalization", 15, "4,5 5 5 5 +5", NULL, 0, { 0 } }, 2 },
    { { "InstanceNormalization", 6, "2,4,3,3 4 4", NULL, 0, { 0 } }, 2 },
    { { "GroupNormalization", 18, "2,6,3,3 3 3", "num_groups=3", 0, { 0 } }, 3 },
    { { "GroupNormalization", 21, "2,6,3,3 6 6", "num_groups=3", 0, { 0 } }, 2 },
    { { "LayerNormalization", 17, "2,4,5 5 5", NULL, 0, { 0 } }, 4 },
    { { "LayerNormalization", 17, "2,4,5 4,5", "axis=1", 0, { 0 } }, 1 },
    { { "LpNormalization", 1, "2,4,5", "axis=1", 0, { 0 } }, 2 },
    { { "MeanVarianceNormalization", 13, "2,4,3,3", NULL, 0, { 0 } }, 1 },
    { { "LRN", 13, "2,6,3,3", "size=3", 0, { 0 } }, 3 },
    { { "PRelu", 16, "2,4,3,3 4,1,1", NULL, 0, { 0 } }, 4 },
    { { "PRelu", 16, "2,4,3,3 3", NULL, 0, { 0 } }, 4 },
    { { "PRelu", 6, "2,4,3,3 4", NULL, 0, { 0 } }, 4 },
    { { "Relu", 14, "2,4,3", NULL, 0, { 0 } }, 3 },
    { { "Identity", 14, "2,4,3", NULL, 0, { 0 } }, 3 },
    { { "Clip", 6, "2,4,3", "min=-0.5 max=0.5", 0, { 0 } }, 3 },
    { { "Cast", 13, "2,4,3", "to=11", 0, { 0 } }, 3 },
    { { "Dropout", 7, "2,4,3", NULL, 0, { 0 } }, 3 },
    { { "Add", 14, "2,4,3,3 4,1,1", NULL, 0, { 0 } }, 4 },
    { { "Add", 14, "2,4,3,3 2,4,3,3", NULL, 0, { 0 } }, 4 },
    { { "Mul", 14, "2,4,3,3 2,4,1,1", NULL, 0, { 0 } }, 4 },
    { { "Mul", 14, "1,4,1 5,1,3", NULL, 0, { 0 } }, 3 },
    { { "Sub", 14, "3 2,4,3", NULL, 0, { 0 } }, 3 },
    { { "Max", 13, "2,4 4 2,1", NULL, 0, { 0 } }, 2 },
    { { "Mean", 13, "2,4 4 2,1", NULL, 0, { 0 } }, 2 },
    { { "Greater", 13, "2,4 4", NULL, 0, { 0 } }, 2 },
    { { "Concat", 13, "2,4,3 2,5,3 2,1,3", "axis=1", 0, { 0 } }, 5 },
    { { "Split", 13, "2,6,3 #2,3,1", "axis=1", 3, { 0 } }, 5 },
    { { "Slice", 13, "2,6,3 #1 #5 #1", NULL, 0, { 0 } }, 4 },
    { { "Slice", 13, "2,6,3 #5 #0 #1 #-2", NULL, 0, { 0 } }, 2 },
    { { "Pad", 13, "2,4,3 #0,0,1,0,0,2", NULL, 0, { 0 } }, 2 },
    { { "Flatten", 13, "2,4,3,2", NULL, 0, { 0 } }, 5 },
    { { "Flatten", 13, "2,4,3,2", "axis=2", 0, { 0 } }, 6 },
    { { "Reshape", 14, "2,4,3,2 #2,24", NULL, 0, { 0 } }, 5 },
    { { "Reshape", 14, "2,12,3 #2,3,4,3", NULL, 0, { 0 } }, 5 },
    { { "Reshape", 14, "2,12,3 #2,3,1,4,3", NULL, 0, { 0 } }, 5 },
    { { "Reshape", 14, "6,4,5 #2,3,20", NULL, 0, { 0 } }, 6 },
    { { "Reshape", 14, "6,4 #2,12", NULL, 0, { 0 } }, 4 },
    { { "Reshape", 14, "4,6 #6,4", NULL, 0, { 0 } }, 0 },
    { { "Reshape", 14, "2,2,3,4 #2,6,2,2", NULL, 0, { 0 } }, 7 },
    { { "Transpose", 13, "2,4,3", "perm=2,0,1", 0, { 0 } }, 3 },
    { { "Squeeze", 13, "2,1,4,1 #1", NULL, 0, { 0 } }, 2 },
    { { "Unsqueeze", 13, "2,4 #1,3", NULL, 0, { 0 } }, 2 },
    { { "Expand", 13, "4,1 #2,4,3", NULL, 0, { 0 } }, 3 },
    { { "Tile", 13, "2,4,3 #1,2,1", NULL, 0, { 0 } }, 4 },
    { { "Gather", 13, "6,4,3 #4,0,-1,4", NULL, 0, { 0 } }, 4 },
    { { "DepthToSpace", 13, "1,12,2,2", "blocksize=2", 0, { 0 } }, 2 },
    { { "DepthToSpace", 13, "1,12,2,2", "blocksize=2 mode=CRD", 0, { 0 } }, 2 },
    { { "SpaceToDepth", 13, "1,3,4,4", "blocksize=2", 0, { 0 } }, 2 },
    { { "Resize", 13, "1,4,3,3 - - #1,4,6,6", "mode=linear", 0, { 0 } }, 1 },
    { { "MaxPool", 12, "2,4,5,5", "kernel_shape=2,2", 0, { 0 } }, 2 },
    { { "AveragePool", 11, "2,4,5,5", "kernel_shape=2,2", 0, { 0 } }, 2 },
    { { "GlobalAveragePool", 1, "2,4,3,3", NULL, 0, { 0 } }, 2 },
    { { "GlobalMaxPool", 1, "2,4,3,3", NULL, 0, { 0 } }, 2 },
    { { "LpPool", 18, "2,4,5,5", "kernel_shape=2,2", 0, { 0 } }, 2 },
    { { "MaxPool", 12, "2,4,5,5", "kernel_shape=2,2", 2, { 0 } }, 0 },
    { { "ReduceSum", 13, "2,4,3 #1", NULL, 0, { 0 } }, 3 },
    { { "ReduceSum", 13, "2,4,3 #1", "keepdims=0", 0, { 0 } }, 3 },
    { { "ReduceSumSquare", 13, "2,4,3", "axes=1", 0, { 0 } }, 3 },
    { { "ReduceL1", 13, "2,4,3", "axes=1", 0, { 0 } }, 3 },
    { { "ReduceL2", 13, "2,4,3", "axes=1", 0, { 0 } }, 3 },
    { { "ReduceMean", 13, "2,4,3,3", "axes=2,3", 0, { 0 } }, 2 },
    { { "ReduceMean", 13, "2,4,3", "axes=1 keepdims=0", 0, { 0 } }, 2 },
    { { "ReduceMax", 13, "2,4,3", "axes=1 keepdims=0", 0, { 0 } }, 2 },
    { { "ReduceMin", 13, "2,4,3", "axes=1", 0, { 0 } }, 2 },
    { { "ReduceProd", 13, "2,4,3", "axes=1", 0, { 0 } }, 2 },
    { { "ReduceLogSumExp", 13, "2,4,3", "axes=1", 0, { 0 } }, 2 },
    { { "ArgMax", 13, "2,4,3", "axis=1 keepdims=0", 0, { 0 } }, 2 },
    { { "Softmax", 13, "2,4,3", "axis=1", 0, { 0 } }, 2 },
    { { "Softmax", 11, "2,4,3", "axis=1", 0, { 0 } }, 1 },
    { { "LogSoftmax", 13, "2,4,3", NULL, 0, { 0 } }, 2 },
    { { "Hardmax", 13, "2,4,3", NULL, 0, { 0 } }, 2 },
    { { "CumSum", 14, "2,4,3 #1", NULL, 0, { 0 } }, 2 },
    { { "CumProd", 26, "2,4,3 #1", NULL, 0, { 0 } }, 2 },
    { { "RMSNormalization", 23, "2,3,4 4", NULL, 0, { 0 } }, 4 },
    { { "TensorScatter", 24, "2,5,3 2,2,3 #1,3", NULL, 0, { 0 } }, 2 },
    { { "TopK", 11, "2,4,3 #2", "axis=2", 2, { 0 } }, 2 },
    { { "Trilu", 14, "2,4,3", NULL, 0, { 0 } }, 1 },
    { { "LSTM", 14, "3,2,4 1,20,4 1,20,5 1,40", "hidden_size=5", 3, { 0 } }, 6 },
    { { "LSTM",
        14,
        "3,2,4 2,20,4 2,20,5 2,40 - 2,2,5 2,2,5 2,15",
        "hidden_size=5 direction=bidirectional",
        3,
        { 0 } },
      7 },
    { { "LSTM", 14, "2,3,4 1,20,4 1,20,5", "hidden_size=5 layout=1", 3, { 0 } }, 5 },
    { { "GRU", 14, "3,2,4 1,15,4 1,15,5 1,30", "hidden_size=5 linear_before_reset=1", 2, { 0 } },
      6 },
    { { "RNN", 14, "3,2,4 1,5,4 1,5,5 1,10 - 1,2,5", "hidden_size=5", 2, { 0 } }, 4 },
    { { "QuantizeLinear", 13, "2,4,3 +4", "axis=1", 0, { 0 } }, 3 },
    { { "QuantizeLinear", 13, "2,4,3 +1", NULL, 0, { 0 } }, 3 },
    { { "GridSample", 16, "2,4,3,3 2,2,2,2", NULL, 0, { 0 } }, 2 },
    { { "DFT", 17, "2,5,3,2", "axis=2", 0, { 0 } }, 2 },
    { { "STFT", 17, "3,9,1 #2 4", NULL, 0, { 0 } }, 1 },
    { { "AffineGrid", 20, "2,2,3 #2,4,3,5", NULL, 0, { 0 } }, 1 },
    { { "DeformConv", 19, "2,3,4,4 5,3,2,2 2,8,3,3 5 2,4,3,3", NULL, 0, { 0 } }, 3 },
    { { "DeformConv", 19, "2,4,4,4 5,4,2,2 2,16,3,3", "offset_group=2", 0, { 0 } }, 2 },
    { { "ms.FusedConv", 1, "2,3,4,4 5,3,2,2 5", "activation=Relu", 0, { 0 } }, 3 },
    { { "ms.FusedConv", 1, "2,3,4,4 5,3,2,2 5 2,5,3,3", NULL, 0, { 0 } }, 3 },
    { { "ms.FusedGemm", 1, "2,3 5,3 5", "transB=1 activation=Tanh", 0, { 0 } }, 3 },
    { { "ms.FusedMatMul", 1, "2,4,3 5,4", "transA=1 transB=1", 0, { 0 } }, 4 },
    { { "ms.FusedMatMul", 1, "4,2,3 6,2,3", "transBatchA=1 transBatchB=1 transB=1", 0, { 0 } }, 4 },
    { { "ms.BiasGelu", 1, "2,3,4 4", NULL, 0, { 0 } }, 3 },
    { { "ms.BiasAdd", 1, "2,3,4 4 2,3,4", NULL, 0, { 0 } }, 3 },
    { { "ms.BiasSplitGelu", 1, "2,3,8 8", NULL, 0, { 0 } }, 5 },
    { { "SimplifiedLayerNormalization", 17, "2,3,4 4", NULL, 0, { 0 } }, 4 },
    { { "ms.SkipLayerNormalization", 1, "2,3,4 2,3,4 4 4 4", NULL, 0, { 0 } }, 2 },
    { { "ms.SkipSimplifiedLayerNormalization", 1, "2,3,4 3,4 4 4", NULL, 0, { 0 } }, 2 },
};

static void test_smaller_inputs_give_smaller_outputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            int open;

            check_row(&rows[i].row, seed, &open);
            if (open != rows[i].open)
                fail_msg("%s(%s) %s: %d sets can lose indices, expected %d", rows[i].row.type,
                         rows[i].row.in, rows[i].row.attrs ? rows[i].row.attrs : "", open,
                         rows[i].open);
        }
}

/* ---- operators without ties ----------------------------------------------------------------- */

static const char *const without[] = {
    /* the result is random, or its size depends on data */
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Range",
    "EyeLike",
    "ConstantOfShape",
    "OneHot",
    "NonZero",
    "NonMaxSuppression",
    "Unique",
    "HannWindow",
    "HammingWindow",
    "BlackmanWindow",
    "MelWeightMatrix",
    /* indices in the data refer to several axes */
    "GatherElements",
    "GatherND",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "MaxUnpool",
    /* the result depends on all elements */
    "Col2Im",
    "Det",
    "DynamicQuantizeLinear",
    "NegativeLogLikelihoodLoss",
    "SoftmaxCrossEntropyLoss",
    /* quantized formats */
    "QGemm",
    "QLinearAdd",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearConcat",
    "QLinearAveragePool",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearSoftmax",
    "QLinearWhere",
    "QLinearReduceMean",
    "DynamicQuantizeLSTM",
    /* bodies */
    "If",
    "Loop",
    "Scan",
    "SequenceMap",
    /* values that are not tensors */
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SplitToSequence",
    /* strings */
    "StringNormalizer",
    "TfIdfVectorizer",
    /* the result depends only on the shape */
    "Size",
};

static void test_operators_without_ties_are_listed(void **state)
{
    (void)state;
    for (const struct pare_op *const *op = pare_ops; *op; op++) {
        bool listed = false;

        for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++)
            listed |= !strcmp(without[i], (*op)->type);
        if (listed == ((*op)->ties != NULL))
            fail_msg("%s %s", (*op)->type,
                     listed ? "has ties, but is listed without" : "has no ties, and is not listed");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_smaller_inputs_give_smaller_outputs),
                                        cmocka_unit_test(test_operators_without_ties_are_listed) };

    return cmocka_run_group_tests_name("ties", tests, NULL, NULL);
}
