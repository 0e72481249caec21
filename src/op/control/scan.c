/* scan.c - Scan: run a body for every index along an axis of its inputs.
 *
 * The body gets states and one slice of each scanned input; it returns the next states, and results
 * that are stacked along a new axis.  In opset 8 all values have a batch axis first, and each batch
 * item may have fewer iterations.
 */
#include "iterate.h"

struct scan {
    struct pare_graph *body;
    int64_t inputs;
    struct pare_ints in_axes, in_directions, out_axes, out_directions;
};

#define LIST(attr, name, help) \
    PARE_INTS(name, offsetof(struct scan, attr), help, PARE_NO_MIN, PARE_NO_MAX)

static const struct pare_opt scan_attrs[] = {
    { "body", "body to repeat", PARE_OPT_GRAPH, offsetof(struct scan, body), 0, 0, 0, NULL, NULL,
      true, NULL },
    { "num_scan_inputs", "number of scanned inputs", PARE_OPT_INT, offsetof(struct scan, inputs), 0,
      0, 0x7fffffff, NULL, NULL, true, NULL },
    LIST(in_axes, "scan_input_axes", "scanned axis of each input (default: 0)"),
    LIST(in_directions, "scan_input_directions", "1: scan the input from its end (default: 0)"),
    LIST(in_directions, "directions", "the same, in opset 8"),
    LIST(out_axes, "scan_output_axes", "axis along which each result is stacked (default: 0)"),
    LIST(out_directions, "scan_output_directions", "1: the last iteration is first (default: 0)"),
    PARE_OPT_END
};

/* What a node's inputs and outputs are. */
struct parts {
    const struct scan *a;
    int first;          /* index of the first state among the inputs */
    int states, inputs; /* numbers of states and of scanned inputs */
    int results;        /* number of stacked results */
    bool batch;         /* opset 8 */
};

static bool parts_of(const struct pare_node *n, struct parts *p)
{
    *p = (struct parts){ .a = n->attr, .batch = n->version < 9, .first = n->version < 9 };
    p->inputs = (int)p->a->inputs;
    p->states = n->n_in - p->first - p->inputs;
    p->results = n->n_out > p->states ? n->n_out - p->states : 0;
    return p->states >= 0 && p->inputs > 0;
}

static int64_t at(struct pare_ints list, int i)
{
    return i < list.n ? list.v[i] : 0;
}

static int body_input(const struct pare_node *n, int i, struct pare_tensor *t)
{
    const struct pare_value *v;
    struct pare_tensor item;
    struct parts p;

    *t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    if (!parts_of(n, &p) || i >= p.states + p.inputs || !n->in[p.first + i])
        return -1;
    v = n->in[p.first + i];
    item = v->t;
    item.data = NULL;
    if (p.batch)
        pare_slice_type(&v->t, 0, &item);
    if (i >= p.states)
        pare_slice_type(&item, at(p.a->in_axes, i - p.states), t);
    else if (item.dtype != PARE_NONE)
        *t = item;
    return i < p.states ? i : -1;
}

/* The number of iterations: all scanned inputs, one batch item of each in opset 8, agree. */
static int length_of(const struct parts *p, const struct pare_tensor *x, int64_t *length,
                     struct pare_err *err)
{
    for (int k = 0; k < p->inputs; k++) {
        int axis;

        PARE_TRY(pare_axis(at(p->a->in_axes, k), x[k].rank, &axis, err));
        if (k && x[k].dim[axis] != *length)
            return pare_fail(
                err, PARE_ESHAPE,
                "scanned input %d has %lld elements along its axis, the first has %lld", k,
                (long long)x[k].dim[axis], (long long)*length);
        *length = x[k].dim[axis];
    }
    return 0;
}

static bool body_runs(const struct pare_node *n, struct pare_body_runs *r)
{
    struct parts p;

    if (!parts_of(n, &p) || p.batch)
        return false;
    *r = (struct pare_body_runs){ .body = p.a->body,
                                  .runs = -1,
                                  .n_state = p.states,
                                  .n_scan = p.inputs,
                                  .n_stack = n->n_out - p.states,
                                  .scan_axis = p.a->in_axes,
                                  .scan_from_end = p.a->in_directions,
                                  .stack_axis = p.a->out_axes,
                                  .stack_reversed = p.a->out_directions };
    for (int k = 0; k < p.inputs; k++) {
        const struct pare_value *x = n->in[p.states + k];
        int64_t axis = at(p.a->in_axes, k);

        axis = x && axis < 0 ? axis + x->t.rank : axis;
        if (!x || axis < 0 || axis >= x->t.rank || (k && x->t.dim[axis] != r->runs))
            return false;
        r->runs = x->t.dim[axis];
    }
    return true;
}

/* One sequence: states[] and x[] without a batch axis; y[] gets the final states and the stacks.
 * limit: the number of iterations in opset 8; -1: all. */
struct sequence {
    const struct pare_tensor *states, *x;
    struct pare_tensor *y;
    int64_t limit;
};

static int run_all(struct pare_iterate *it, const struct parts *p, const struct sequence *s,
                   struct pare_err *err)
{
    int64_t length = 0, runs;

    PARE_TRY(length_of(p, s->x, &length, err));
    runs = s->limit >= 0 && s->limit < length ? s->limit : length;
    for (int k = 0; k < p->states; k++)
        it->in[k] = s->states[k];
    for (int64_t i = 0; i < runs; i++) {
        PARE_TRY(pare_iterate_trim(it, err));
        for (int k = 0; k < p->inputs; k++) {
            int64_t axis = at(p->a->in_axes, k), from = at(p->a->in_directions, k);

            PARE_TRY(pare_slice_copy(it->arena, &s->x[k],
                                     (int)(axis < 0 ? axis + s->x[k].rank : axis),
                                     from ? runs - 1 - i : i, &it->in[p->states + k], err));
        }
        PARE_TRY(pare_iterate_run(it, err));
    }
    for (int k = 0; k < p->states; k++)
        PARE_TRY(pare_value_copy(it->c->results, &it->in[k], &s->y[k], err));
    for (int k = 0; k < p->results; k++) {
        struct pare_stack stack = { at(p->a->out_axes, k), p->batch ? length : runs,
                                    at(p->a->out_directions, k) != 0 };

        PARE_TRY(pare_iterate_stack(it, k, &stack, &s->y[p->states + k], err));
    }
    return 0;
}

static int run_sequence(struct pare_ctx *c, const struct parts *p, const struct sequence *s,
                        struct pare_err *err)
{
    struct pare_iterate it = { .c = c,
                               .body = p->a->body,
                               .n_in = p->states + p->inputs,
                               .n_out = p->states + p->results,
                               .n_state = p->states,
                               .scan_out = p->states,
                               .n_scan = p->results };
    int rc = pare_iterate_start(&it, err);

    if (!rc)
        rc = run_all(&it, p, s, err);
    pare_iterate_end(&it);
    return rc;
}

/* Stack the results of all batch items along a new axis 0. */
static int stack_items(struct pare_ctx *c, const struct pare_tensor *item, int64_t n, int stride,
                       struct pare_tensor *y, struct pare_err *err)
{
    int64_t dim[PARE_MAX_RANK];
    size_t bytes;

    if (item->rank >= PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "the result has too many dimensions");
    dim[0] = n;
    for (int i = 0; i < item->rank; i++)
        dim[i + 1] = item->dim[i];
    PARE_TRY(pare_tensor_new(c->results, y, item->dtype, item->rank + 1, dim, err));
    PARE_TRY(pare_tensor_size(item, NULL, &bytes, err));
    for (int64_t b = 0; b < n; b++) {
        const struct pare_tensor *t = &item[b * stride];

        if (t->dtype != item->dtype || !pare_same_shape(t, item))
            return pare_fail(err, PARE_ESHAPE, "batch items have results of different shapes");
        if (bytes)
            memcpy((char *)y->data + (size_t)b * bytes, t->data, bytes);
    }
    return 0;
}

static int item_length(const struct pare_node *n, int64_t batch, int64_t b, int64_t *limit,
                       struct pare_err *err)
{
    const struct pare_tensor *t = n->in[0] ? &n->in[0]->t : NULL;

    *limit = -1;
    if (!t)
        return 0;
    if (t->dtype != PARE_I64 || pare_numel(t) != batch || pare_get_int(t, b) < 0)
        return pare_fail(err, PARE_ESHAPE, "sequence_lens must have %lld lengths, each int64",
                         (long long)batch);
    *limit = pare_get_int(t, b);
    return 0;
}

/* All inputs have a first axis of `batch` items. */
static int batch_of(const struct pare_node *n, const struct parts *p, int64_t *batch,
                    struct pare_err *err)
{
    for (int k = 0; k < p->states + p->inputs; k++) {
        const struct pare_tensor *t = &n->in[1 + k]->t;

        if (!pare_is_tensor(t) || t->rank < 1 || (k && t->dim[0] != *batch))
            return pare_fail(err, PARE_ESHAPE,
                             "input %d must be a tensor with the batch size of the others", 1 + k);
        *batch = t->dim[0];
    }
    if (*batch < 1)
        return pare_fail(err, PARE_ESHAPE, "the batch is empty");
    return 0;
}

static int forward_batch(struct pare_node *n, struct pare_ctx *c, const struct parts *p,
                         struct pare_err *err)
{
    int n_in = p->states + p->inputs, n_y = p->states + p->results;
    struct pare_tensor *in = pare_alloc(c->scratch, (size_t)n_in, sizeof(*in)), *y;
    int64_t batch = 0;

    PARE_TRY(batch_of(n, p, &batch, err));
    y = pare_alloc(c->scratch, (size_t)batch * (size_t)n_y, sizeof(*y));
    if (!in || !y)
        return pare_no_memory(err, "for a batch");
    for (int64_t b = 0; b < batch; b++) {
        struct sequence s = { .states = in, .x = in + p->states, .y = y + b * n_y };

        for (int k = 0; k < n_in; k++)
            PARE_TRY(pare_slice_copy(c->results, &n->in[1 + k]->t, 0, b, &in[k], err));
        PARE_TRY(item_length(n, batch, b, &s.limit, err));
        PARE_TRY(run_sequence(c, p, &s, err));
    }
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            PARE_TRY(stack_items(c, &y[k], batch, n_y, &n->out[k]->t, err));
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor *in, *y;
    struct parts p;
    int count;

    if (!parts_of(n, &p))
        return pare_fail(err, PARE_EFORMAT, "it has %d inputs, %d of which are to be scanned",
                         n->n_in, p.inputs);
    for (int k = 0; k < p.states + p.inputs; k++)
        if (!n->in[p.first + k] || (k >= p.states && !pare_is_tensor(&n->in[p.first + k]->t)))
            return pare_fail(err, PARE_EFORMAT, "Scan needs a tensor as its input %d", p.first + k);
    if (p.batch)
        return forward_batch(n, c, &p, err);
    count = p.states + (p.inputs > p.results ? p.inputs : p.results);
    in = pare_alloc(c->scratch, (size_t)count, sizeof(*in));
    y = pare_alloc(c->scratch, (size_t)count, sizeof(*y));
    if (!in || !y)
        return pare_no_memory(err, "for a sequence");
    for (int k = 0; k < p.states + p.inputs; k++)
        in[k] = n->in[k]->t;
    PARE_TRY(run_sequence(
        c, &p, &(struct sequence){ .states = in, .x = in + p.states, .y = y, .limit = -1 }, err));
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            n->out[k]->t = y[k];
    return 0;
}

const struct pare_op pare_op_scan = {
    .type = "Scan",
    .doc = "Run a body for every index along an axis of the inputs.",
    .since = 8,
    .in = "V?V*",
    .min_out = 1,
    .max_out = -1,
    .attrs = scan_attrs,
    .attr_size = sizeof(struct scan),
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
    .body_input = body_input,
    .body_runs = body_runs,
};
