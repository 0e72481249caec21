/* top_k.c - TopK: the k largest or smallest elements along an axis, and their indices.
 *
 * Every element becomes an int64 key with the same order, so that one heap serves all types:
 * integers unchanged, uint64 with its top bit flipped, floats by their bits.  Of equal elements the
 * first comes first.
 */
#include <stdlib.h>

#include "lanes.h"

enum { X, COUNT };

struct topk {
    int64_t axis, k, largest, sorted;
};

static const struct pare_opt topk_attrs[] = {
    PARE_INT("axis", offsetof(struct topk, axis), "axis to search", -1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("k", offsetof(struct topk, k), "number of elements, before opset 10", -1, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_INT("largest", offsetof(struct topk, largest), "select the largest, not the smallest", 1,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("sorted", offsetof(struct topk, sorted), "ignored: elements are always sorted", 1,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct topk *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t;
    int64_t k = a->k;
    int axis, count;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    if (n->n_in > COUNT && n->in[COUNT]) {
        PARE_TRY(pare_need(n, COUNT, err));
        PARE_TRY(pare_int_list(&n->in[COUNT]->t, &k, 1, &count, err));
        if (!count)
            return pare_fail(err, PARE_ESHAPE, "K is empty, expected one number");
    }
    if (k < 0 || k > x->dim[axis])
        return pare_fail(err, PARE_ESHAPE, "k is %lld, axis %d has %lld elements", (long long)k,
                         axis, (long long)x->dim[axis]);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) {
            pare_like(&n->out[i]->t, x);
            n->out[i]->t.dim[axis] = k;
            n->out[i]->t.dtype = i ? PARE_I64 : x->dtype;
        }
    return 0;
}

struct item {
    int64_t key, index;
};

/* Largest key first, then lowest index. */
static int compare(const void *pa, const void *pb)
{
    const struct item *a = pa, *b = pb;

    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int64_t key_of(const struct pare_tensor *x, int64_t i)
{
    int64_t bits;
    double v;

    if (x->dtype == PARE_U64)
        return (int64_t)(((const uint64_t *)x->data)[i] ^ (uint64_t)1 << 63);
    if (x->dtype != PARE_F32 && x->dtype != PARE_F64)
        return pare_get_int(x, i);
    v = (x->dtype == PARE_F32 ? (double)pare_f32(x)[i] : ((const double *)x->data)[i]) +
        0.0; /* -0 becomes 0 */
    memcpy(&bits, &v, sizeof(bits));
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

/* Let item[at] sink in the heap of k items, whose root is the last in order. */
static void sink(struct item *item, int64_t k, int64_t at)
{
    const struct item moved = item[at];

    for (int64_t child = 2 * at + 1; child < k; child = 2 * at + 1) {
        if (child + 1 < k && compare(&item[child], &item[child + 1]) < 0)
            child++;
        if (compare(&moved, &item[child]) >= 0)
            break;
        item[at] = item[child];
        at = child;
    }
    item[at] = moved;
}

/* The first k elements of the lane at `from`, sorted: a heap holds the best so far. */
static void sort_lane(const struct pare_node *n, const struct pare_lanes *l, int64_t from,
                      int64_t k, struct item *item)
{
    const struct topk *a = n->attr;

    for (int64_t j = 0; j < l->len && k; j++) {
        int64_t key = key_of(&n->in[X]->t, from + j * l->inner);

        key = a->largest ? key : ~key;
        if (j < k) {
            item[j] = (struct item){ key, j };
        } else if (key > item[0].key) {
            item[0] = (struct item){ key, j };
            sink(item, k, 0);
        }
        for (int64_t at = k / 2 - 1; j == k - 1 && at >= 0; at--)
            sink(item, k, at);
    }
    qsort(item, (size_t)k, sizeof(*item), compare);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct topk *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t;
    const struct pare_tensor *val = n->n_out > 0 && n->out[0] ? &n->out[0]->t : NULL;
    const struct pare_tensor *idx = n->n_out > 1 && n->out[1] ? &n->out[1]->t : NULL;
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    struct pare_lanes l = pare_lanes(x, axis, axis);
    struct item *item = pare_alloc_raw(c->scratch, (size_t)l.len, sizeof(*item));
    int64_t k = val ? val->dim[axis] : idx ? idx->dim[axis] : 0;
    size_t size = pare_dtype_size(x->dtype);

    if (!item)
        return pare_no_memory(err, "to sort %lld elements", (long long)l.len);
    for (int64_t o = 0; o < l.outer && k; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t from = o * l.len * l.inner + i, to = o * k * l.inner + i;

            sort_lane(n, &l, from, k, item);
            for (int64_t j = 0; j < k; j++) {
                if (val)
                    memcpy((char *)val->data + (size_t)(to + j * l.inner) * size,
                           (char *)x->data + (size_t)(from + item[j].index * l.inner) * size, size);
                if (idx)
                    pare_i64_mut(idx)[to + j * l.inner] = item[j].index;
            }
        }
    return 0;
}

/* Gradients of the selected elements; sorted again if their indices are not an output. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct topk *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t;
    const float *gy = n->n_out > 0 && n->out[0] ? pare_f32(&n->out[0]->grad) : NULL;
    const int64_t *idx = n->n_out > 1 && n->out[1] ? pare_i64(&n->out[1]->t) : NULL;
    float *gx = pare_f32_mut(&n->in[X]->grad);
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    struct pare_lanes l = pare_lanes(x, axis, axis);
    struct item *item = NULL;

    if (!gx || !gy)
        return 0;
    if (!idx)
        item = pare_alloc_raw(c->scratch, (size_t)l.len, sizeof(*item));
    if (!idx && !item)
        return pare_no_memory(err, "to sort %lld elements", (long long)l.len);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t k = n->out[0]->t.dim[axis];
            int64_t from = o * l.len * l.inner + i, to = o * k * l.inner + i;

            if (!idx)
                sort_lane(n, &l, from, k, item);
            for (int64_t j = 0; j < k; j++) {
                int64_t at = idx ? idx[to + j * l.inner] : item[j].index;

                gx[from + at * l.inner] += gy[to + j * l.inner];
            }
        }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct topk *a = n->attr;

    pare_ties_except(n, 1u << (a->axis < 0 ? a->axis + n->in[X]->t.rank : a->axis), t);
}

const struct pare_op pare_op_top_k = {
    .type = "TopK",
    .doc = "The k largest elements along an axis, and their indices.",
    .since = 1,
    .in = "TL?",
    .types = PARE_T_NUMERIC,
    .max_out = 2,
    .attrs = topk_attrs,
    .attr_size = sizeof(struct topk),
    .flags = PARE_OP_STEPS | PARE_OP_FLOAT_ONLY,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};
