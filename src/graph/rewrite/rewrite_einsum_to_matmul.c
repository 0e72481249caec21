/* rewrite_einsum_to_matmul.c - Einsum of one or two operands as Transpose, ReduceSum, Mul or a
 * batched MatMul, which have fast kernels.
 *
 * The labels of two operands a and b are of six kinds:
 *
 *     batch   in a, b and the result       separate axes, so that MatMul broadcasts them
 *     sum     in a and b only              one axis; several are merged by a Reshape
 *     left    in a and the result          the last one is the row, the others are batch axes of a
 *     right   in b and the result          the last one is the column, the others likewise; or all
 *                                          of them are merged, if their sizes are known
 *     alone   in a only, in b only         summed before
 *
 * The forms (operands exchanged or not, right labels merged or not) are first tried without
 * changing the graph, to count their nodes; in a file, only a form of one node is used.
 */
#include "../../op/matrix/matrix.h"
#include "../../op/op.h"
#include "rewrite.h"

#define BIT(label) (UINT64_C(1) << (label))

/* A value with the label of each axis; -1: an axis of size 1 that was inserted. */
struct operand {
    struct pare_value *v;
    int label[PARE_MAX_RANK], rank;
};

struct work {
    struct pare_rewriter *r;
    struct pare_node *n;
    struct pare_einsum e;
    int64_t size[PARE_EINSUM_LABELS]; /* -1: it follows a free dimension */
    uint64_t in[2], out;              /* labels of the operands and of the result */
    bool dry;                         /* count nodes only */
    int nodes;
    bool impossible;
};

struct form {
    bool swap, merge;
};

static uint64_t labels_of(const struct operand *x)
{
    uint64_t all = 0;

    for (int i = 0; i < x->rank; i++)
        all |= x->label[i] < 0 ? 0 : BIT(x->label[i]);
    return all;
}

/* ---- nodes that change one operand ----------------------------------------------------------- */

static int emit(struct work *w, struct operand *x, const struct pare_rewrite_new *new,
                struct pare_err *err)
{
    w->nodes += !pare_rewrite_folds(w->r, x->v);
    if (w->dry)
        return 0;
    x->v = pare_rewrite_emit(w->r, new, err);
    return x->v ? 0 : err->code;
}

/* An operator with a list of axes, which is an input since opset 13. */
static int on_axes(struct work *w, struct operand *x, const struct pare_op *op, const int64_t *axes,
                   int n, struct pare_err *err)
{
    struct pare_rewrite_new new = { .op = op, .near = w->n, .in = { x->v } };

    if (!w->dry && w->r->version >= 13) {
        new.in[1] = pare_rewrite_int_list(w->r, "axes", axes, n, err);
        if (!new.in[1])
            return err->code;
    } else if (!w->dry) {
        new.set[new.n_set] = (struct pare_setting){ .name = "axes", .type = PARE_OPT_INTS };
        new.set[new.n_set].ints = pare_rewrite_list(w->r, axes, n);
        if (!new.set[new.n_set++].ints.v)
            return pare_no_memory(err, "to rewrite the graph");
    }
    if (pare_opt_find(op->attrs, "keepdims"))
        new.set[new.n_set++] = (struct pare_setting){ .name = "keepdims", .type = PARE_OPT_INT };
    return emit(w, x, &new, err);
}

/* Sum over the axes with these labels. */
static int sum(struct work *w, struct operand *x, uint64_t gone, struct pare_err *err)
{
    int64_t axes[PARE_MAX_RANK];
    int n = 0, rank = 0;

    for (int i = 0; i < x->rank; i++)
        if (gone & BIT(x->label[i]))
            axes[n++] = i;
        else
            x->label[rank++] = x->label[i];
    x->rank = rank;
    return n ? on_axes(w, x, &pare_op_reduce_sum, axes, n, err) : 0;
}

static int axis_of(const struct operand *x, int label)
{
    for (int i = 0; i < x->rank; i++)
        if (x->label[i] == label)
            return i;
    return -1;
}

/* Bring the axes into the order of the labels that it has in `list`. */
static int permute(struct work *w, struct operand *x, const int *list, int n, struct pare_err *err)
{
    struct pare_setting perm = { .name = "perm", .type = PARE_OPT_INTS };
    int64_t from[PARE_MAX_RANK];
    int label[PARE_MAX_RANK], rank = 0;
    bool same = true;

    for (int i = 0; i < n; i++)
        if (axis_of(x, list[i]) >= 0) {
            from[rank] = axis_of(x, list[i]);
            same &= from[rank] == rank;
            label[rank++] = list[i];
        }
    if (same)
        return 0;
    memcpy(x->label, label, sizeof(*label) * (size_t)rank);
    if (!w->dry)
        perm.ints = pare_rewrite_list(w->r, from, rank);
    if (!w->dry && !perm.ints.v)
        return pare_no_memory(err, "to rewrite the graph");
    return emit(w, x,
                &(struct pare_rewrite_new){ .op = &pare_op_transpose,
                                            .near = w->n,
                                            .in = { x->v },
                                            .set = { perm },
                                            .n_set = 1 },
                err);
}

/* Insert `n` axes of size 1 ahead of axis `at`. */
static int insert(struct work *w, struct operand *x, int at, int n, struct pare_err *err)
{
    int64_t axes[PARE_MAX_RANK];

    if (!n)
        return 0;
    w->impossible |= x->rank + n > PARE_MAX_RANK;
    if (w->impossible)
        return 0;
    for (int i = x->rank; i-- > at;)
        x->label[i + n] = x->label[i];
    for (int i = 0; i < n; i++) {
        x->label[at + i] = -1;
        axes[i] = at + i;
    }
    x->rank += n;
    return on_axes(w, x, &pare_op_unsqueeze, axes, n, err);
}

/* Remove axes of size 1 that were inserted. */
static int squeeze(struct work *w, struct operand *x, struct pare_err *err)
{
    int64_t axes[PARE_MAX_RANK];
    int n = 0, rank = 0;

    for (int i = 0; i < x->rank; i++)
        if (x->label[i] < 0)
            axes[n++] = i;
        else
            x->label[rank++] = x->label[i];
    x->rank = rank;
    return n ? on_axes(w, x, &pare_op_squeeze, axes, n, err) : 0;
}

/* A Reshape that copies the first `keep` sizes; those after them are known. */
static int reshape(struct work *w, struct operand *x, int keep, const int64_t *size, int n,
                   struct pare_err *err)
{
    struct pare_rewrite_new new = { .op = &pare_op_reshape, .near = w->n, .in = { x->v } };
    int64_t shape[PARE_MAX_RANK] = { 0 };

    w->impossible |= keep + n > PARE_MAX_RANK;
    for (int i = 0; i < n; i++)
        w->impossible |= size[i] <= 0;
    if (w->impossible)
        return 0;
    memcpy(shape + keep, size, sizeof(*size) * (size_t)n);
    if (!w->dry) {
        new.in[1] = pare_rewrite_int_list(w->r, "shape", shape, keep + n, err);
        if (!new.in[1])
            return err->code;
    }
    return emit(w, x, &new, err);
}

/* Make the last n axes one, which keeps the label of the first of them. */
static int merge_last(struct work *w, struct operand *x, int n, struct pare_err *err)
{
    const int keep = x->rank - n;
    int64_t all = 1;

    if (n < 2)
        return 0;
    for (int i = keep; i < x->rank; i++)
        all = w->size[x->label[i]] < 0 || all < 0 ? -1 : all * w->size[x->label[i]];
    x->rank = keep + 1;
    return reshape(w, x, keep, &all, 1, err);
}

/* ---- products -------------------------------------------------------------------------------- */

/* The labels of a set, in the order of the result or, if it has them not, of input k. */
static int list_labels(const struct work *w, uint64_t set, int k, int *list)
{
    const bool kept = set & w->out;
    const int rank = kept ? w->n->out[0]->t.rank : w->n->in[k]->t.rank;
    int n = 0;

    for (int i = 0; i < rank; i++) {
        int label = kept ? w->e.out[i] : w->e.in[k][i];

        if (set & BIT(label))
            list[n++] = label;
    }
    return n;
}

static int product(struct work *w, const struct pare_op *op, struct operand *a,
                   const struct operand *b, struct pare_err *err)
{
    w->nodes++;
    if (w->dry) {
        a->v = w->n->out[0]; /* not a constant */
        return 0;
    }
    a->v = pare_rewrite_emit(
        w->r, &(struct pare_rewrite_new){ .op = op, .near = w->n, .in = { a->v, b->v } }, err);
    return a->v ? 0 : err->code;
}

/* Without a common sum: elementwise, with axes as in the result. */
static int multiply(struct work *w, struct operand *a, struct operand *b, struct pare_err *err)
{
    const int rank = w->n->out[0]->t.rank;
    struct operand *x[2] = { a, b };

    for (int k = 0; k < 2; k++) {
        int first = 0; /* leading axes need not be written */

        PARE_TRY(permute(w, x[k], w->e.out, rank, err));
        while (first < rank && axis_of(x[k], w->e.out[first]) < 0)
            first++;
        for (int i = first; i < rank && !w->impossible; i++)
            if (axis_of(x[k], w->e.out[i]) < 0)
                PARE_TRY(insert(w, x[k], i - first, 1, err));
    }
    PARE_TRY(product(w, &pare_op_mul, a, b, err));
    a->rank = rank;
    memcpy(a->label, w->e.out, sizeof(a->label));
    return 0;
}

/* What the axes of a product are. */
struct roles {
    int batch[PARE_MAX_RANK], sum[PARE_MAX_RANK], left[PARE_MAX_RANK], right[PARE_MAX_RANK];
    int n_batch, n_sum, n_left, n_right;
};

static void find_roles(const struct work *w, int a, struct roles *o)
{
    const uint64_t both = w->in[0] & w->in[1];

    o->n_batch = list_labels(w, both & w->out, a, o->batch);
    o->n_sum = list_labels(w, both & ~w->out, a, o->sum);
    o->n_left = list_labels(w, w->in[a] & ~both & w->out, a, o->left);
    o->n_right = list_labels(w, w->in[!a] & ~both & w->out, !a, o->right);
}

static int append(int *list, int n, const int *more, int count)
{
    memcpy(list + n, more, sizeof(*more) * (size_t)count);
    return n + count;
}

/* The axes of an operand as [others] [batch] row sum; `own` are the labels that only it has, the
 * last of which is the row. */
static int arrange(struct work *w, struct operand *x, const struct roles *o, const int *own,
                   int n_own, struct pare_err *err)
{
    int order[3 * PARE_MAX_RANK], n = append(order, 0, own, n_own ? n_own - 1 : 0);

    n = append(order, n, o->batch, o->n_batch);
    n = append(order, n, own + n_own - 1, n_own > 0);
    n = append(order, n, o->sum, o->n_sum);
    PARE_TRY(permute(w, x, order, n, err));
    return merge_last(w, x, o->n_sum, err);
}

/* b: first all right labels become one, if the form says so; then [others] [batch] sum column. */
static int arrange_right(struct work *w, struct operand *b, const struct roles *o, bool merge,
                         struct pare_err *err)
{
    int order[3 * PARE_MAX_RANK], n, others = o->n_right && !merge ? o->n_right - 1 : 0;

    if (o->n_sum > 1 && !merge)
        PARE_TRY(arrange(w, b, o, o->right, o->n_right, err));
    n = append(order, 0, o->right, others);
    n = append(order, n, o->batch, o->n_batch);
    n = append(order, n, o->sum, merge ? o->n_sum : 1);
    n = append(order, n, o->right + others, o->n_right - others);
    PARE_TRY(permute(w, b, order, n, err));
    if (merge)
        PARE_TRY(merge_last(w, b, o->n_right, err));
    return 0;
}

/* Merged columns become axes again. */
static int split_last(struct work *w, struct operand *y, const struct roles *o,
                      struct pare_err *err)
{
    int64_t size[PARE_MAX_RANK];
    const int keep = y->rank - 1;

    for (int i = 0; i < o->n_right; i++)
        size[i] = w->size[o->right[i]];
    PARE_TRY(reshape(w, y, keep, size, o->n_right, err));
    y->rank = append(y->label, keep, o->right, w->impossible ? 1 : o->n_right);
    return 0;
}

static int contract(struct work *w, struct operand *a, struct operand *b, const struct roles *o,
                    bool merge, struct pare_err *err)
{
    const int left = o->n_left ? o->n_left - 1 : 0,
              right = o->n_right && !merge ? o->n_right - 1 : 0;
    bool row = o->n_left > 0, column = o->n_right > 0;
    int n = 0;

    w->impossible |= merge && (o->n_right < 2 || o->n_sum > 1);
    w->impossible |= left + right + o->n_batch + 2 > PARE_MAX_RANK;
    if (w->impossible)
        return 0;
    PARE_TRY(arrange(w, a, o, o->left, o->n_left, err));
    PARE_TRY(arrange_right(w, b, o, merge, err));
    if (!row && a->rank > 1)
        PARE_TRY(insert(w, a, a->rank - 1, 1, err));
    if (!column && b->rank > 1)
        PARE_TRY(insert(w, b, b->rank, 1, err));
    if (left)
        PARE_TRY(insert(w, a, left, right, err));
    if (w->impossible)
        return 0;
    row |= a->rank > 1;
    column |= b->rank > 1;
    PARE_TRY(product(w, &pare_op_mat_mul, a, b, err));
    n = append(a->label, n, o->left, left);
    n = append(a->label, n, o->right, right);
    n = append(a->label, n, o->batch, o->n_batch);
    n = append(a->label, n, o->n_left ? &o->left[left] : &(int){ -1 }, row);
    n = append(a->label, n, o->n_right ? &o->right[right] : &(int){ -1 }, column);
    a->rank = n;
    PARE_TRY(squeeze(w, a, err));
    return merge ? split_last(w, a, o, err) : 0;
}

static struct operand operand_of(const struct work *w, int k)
{
    struct operand x = { .v = w->n->in[k], .rank = w->n->in[k]->t.rank };

    memcpy(x.label, w->e.in[k], sizeof(x.label));
    return x;
}

/* Compute the result; with w->dry only count nodes. */
static int write_form(struct work *w, const struct form *f, struct operand *y, struct pare_err *err)
{
    const bool two = w->n->n_in > 1;
    struct operand b = operand_of(w, two ? !f->swap : 0);
    struct roles o = { .n_batch = 0 };

    *y = operand_of(w, two && f->swap);
    w->nodes = 0;
    w->impossible = false;
    PARE_TRY(sum(w, y, labels_of(y) & ~w->out & ~(two ? labels_of(&b) : 0), err));
    if (two) {
        find_roles(w, f->swap, &o);
        PARE_TRY(sum(w, &b, labels_of(&b) & ~w->out & ~w->in[f->swap], err));
        PARE_TRY(o.n_sum ? contract(w, y, &b, &o, f->merge, err) : multiply(w, y, &b, err));
    }
    return w->impossible ? 0 : permute(w, y, w->e.out, w->n->out[0]->t.rank, err);
}

/* ---- the node -------------------------------------------------------------------------------- */

/* Does no operand have a label twice, and no axis of size 1 where the other is summed over? */
static bool read_labels(struct work *w)
{
    const struct pare_node *n = w->n;
    int axis[PARE_EINSUM_LABELS];

    for (int k = 0; k < n->n_in; k++)
        for (int i = 0; i < n->in[k]->t.rank; i++) {
            const int label = w->e.in[k][i];

            if (w->in[k] & BIT(label))
                return false;
            w->in[k] |= BIT(label);
            if (k && w->in[0] & BIT(label) && !(w->out & BIT(label)) &&
                !pare_rewrite_same_size(w->r, n->in[0], axis[label], n->in[1], i))
                return false;
            axis[label] = i;
            w->size[label] = pare_rewrite_is_fixed(w->r, n->in[k], i) ? n->in[k]->t.dim[i] : -1;
        }
    return true;
}

static bool is_handled(struct work *w)
{
    const struct pare_node *n = w->n;
    struct pare_err err;

    if (!pare_node_is(n, &pare_op_einsum) || n->n_in > 2 || w->r->opts->unknown_sizes ||
        (n->out[0]->t.dtype != PARE_F32 && n->out[0]->t.dtype != PARE_F16) ||
        pare_einsum_read(n, &w->e, &err))
        return false;
    for (int k = 0; k < n->n_in; k++)
        if (!pare_numel(&n->in[k]->t))
            return false;
    for (int i = 0; i < n->out[0]->t.rank; i++)
        w->out |= BIT(w->e.out[i]);
    return read_labels(w);
}

static int to_matmul(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    struct work w = { .r = r, .n = n };
    struct form best = { false, false };
    struct operand y;
    int least = -1;

    if (!is_handled(&w))
        return 0;
    w.dry = true;
    for (int i = 0; i < (n->n_in > 1 ? 4 : 1); i++) {
        const struct form f = { .swap = i & 1, .merge = i >> 1 };

        PARE_TRY(write_form(&w, &f, &y, err));
        if (w.impossible || (least >= 0 && w.nodes >= least))
            continue;
        best = f;
        least = w.nodes;
    }
    if (least < 0 || (r->files && least > 1))
        return 0;
    w.dry = false;
    PARE_TRY(write_form(&w, &best, &y, err));
    pare_rewrite_replace(r, n->out[0], y.v);
    return 0;
}

const struct pare_rewrite pare_rewrite_einsum_to_matmul = {
    .name = "einsum_to_matmul",
    .doc = "write an Einsum as MatMul, Mul, ReduceSum and Transpose",
    .any_shape = true,
    .trains = true,
    .node = to_matmul,
};
