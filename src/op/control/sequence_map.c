/* sequence_map.c - SequenceMap: run a body for every element of a sequence. */
#include "../op.h"

struct sequence_map {
    struct pare_graph *body;
};

static const struct pare_opt map_attrs[] = { { "body", "body to run for each element",
                                               PARE_OPT_GRAPH, offsetof(struct sequence_map, body),
                                               0, 0, 0, NULL, NULL, true, NULL },
                                             PARE_OPT_END };

/* Elements of a sequence may have any shape. */
static int body_input(const struct pare_node *n, int i, struct pare_tensor *t)
{
    *t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    if (i && i < n->n_in && n->in[i] && n->in[i]->t.dtype != PARE_SEQUENCE) {
        *t = n->in[i]->t;
        t->data = NULL;
    }
    return -1;
}

static int one(struct pare_node *n, struct pare_ctx *c, int64_t i, struct pare_tensor *t,
               struct pare_err *err)
{
    const struct sequence_map *a = n->attr;

    for (int k = 0; k < n->n_in; k++)
        t[k] = n->in[k]->t.dtype == PARE_SEQUENCE ? pare_elements(&n->in[k]->t)[i] : n->in[k]->t;
    PARE_TRY(c->call(c, a->body, t, n->n_in, t + n->n_in, n->n_out, err));
    for (int k = 0; k < n->n_out; k++) {
        if (!pare_is_tensor(&t[n->n_in + k]))
            return pare_fail(err, PARE_ESHAPE, "result %d of the body is %s, expected a tensor", k,
                             pare_dtype_name(t[n->n_in + k].dtype));
        if (n->out[k])
            PARE_TRY(pare_value_copy(c->results, &t[n->n_in + k],
                                     (struct pare_tensor *)n->out[k]->t.data + i, err));
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor *t = pare_alloc(c->scratch, (size_t)(n->n_in + n->n_out), sizeof(*t));
    int64_t count = n->in[0]->t.dim[0];

    if (!t)
        return pare_no_memory(err, "for the results of a body");
    for (int k = 1; k < n->n_in; k++)
        if (!n->in[k] || (n->in[k]->t.dtype == PARE_SEQUENCE && n->in[k]->t.dim[0] != count))
            return pare_fail(err, PARE_ESHAPE, "input %d must be a tensor or have %lld elements", k,
                             (long long)count);
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            PARE_TRY(pare_sequence_new(c->results, &n->out[k]->t, count, err));
    for (int64_t i = 0; i < count; i++)
        PARE_TRY(one(n, c, i, t, err));
    return 0;
}

const struct pare_op pare_op_sequence_map = {
    .type = "SequenceMap",
    .doc = "Run a body for every element of a sequence.",
    .since = 17,
    .in = "SV*",
    .min_out = 1,
    .max_out = -1,
    .attrs = map_attrs,
    .attr_size = sizeof(struct sequence_map),
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
    .body_input = body_input,
};
