/* loop.c - Loop: run a body while a condition holds, at most M times.
 *
 * The body gets the number of the iteration, the condition and the states; it returns the next
 * condition, the next states, and results that are stacked along a new first axis.
 */
#include "iterate.h"

enum { TRIPS, COND, STATES }; /* inputs; of the body: iteration, condition, states */

struct loop {
    struct pare_graph *body;
};

static const struct pare_opt loop_attrs[] = { { "body", "body to repeat", PARE_OPT_GRAPH,
                                                offsetof(struct loop, body), 0, 0, 0, NULL, NULL,
                                                true, NULL },
                                              PARE_OPT_END };

static int states_of(const struct pare_node *n)
{
    return n->n_in > STATES ? n->n_in - STATES : 0;
}

static int body_input(const struct pare_node *n, int i, struct pare_tensor *t)
{
    if (i < STATES) {
        t->dtype = i == TRIPS ? PARE_I64 : PARE_BOOL;
        t->rank = t->rank == 1;
        t->dim[0] = 1;
        return -1;
    }
    *t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    if (i < n->n_in && n->in[i]) {
        *t = n->in[i]->t;
        t->data = NULL;
    }
    return i - STATES + 1;
}

/* The number of iterations is a constant, and the first condition is true. */
static bool body_runs(const struct pare_node *n, struct pare_body_runs *r)
{
    const struct pare_value *trips = n->in[TRIPS], *go = n->n_in > COND ? n->in[COND] : NULL;
    int states = states_of(n);

    if (!trips || !(trips->flags & PARE_V_CONST) || !trips->t.data || trips->t.dtype != PARE_I64 ||
        pare_numel(&trips->t) != 1 || (go && !pare_is_true(go)))
        return false;
    *r = (struct pare_body_runs){ .body = ((const struct loop *)n->attr)->body,
                                  .runs = pare_get_int(&trips->t, 0),
                                  .first_in = STATES,
                                  .first_out = 1,
                                  .n_state = states,
                                  .n_stack = n->n_out - states,
                                  .condition = true };
    return true;
}

/* The only element of an optional input. */
static int scalar(const struct pare_node *n, int i, enum pare_dtype want, int64_t *v,
                  struct pare_err *err)
{
    const struct pare_tensor *t = i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;

    if (!t)
        return 0;
    if (t->dtype != want || pare_numel(t) != 1)
        return pare_fail(err, PARE_ESHAPE, "input %d is %s with %lld elements, expected one %s", i,
                         pare_dtype_name(t->dtype), (long long)pare_numel(t),
                         pare_dtype_name(want));
    *v = pare_get_int(t, 0);
    return 0;
}

static int condition(const struct pare_tensor *t, uint8_t *go, struct pare_err *err)
{
    if (t->dtype != PARE_BOOL || pare_numel(t) != 1)
        return pare_fail(err, PARE_ESHAPE,
                         "the body's condition is %s with %lld elements, expected "
                         "one bool",
                         pare_dtype_name(t->dtype), (long long)pare_numel(t));
    *go = *(const uint8_t *)t->data != 0;
    return 0;
}

/* The body's first two inputs, scalars or lists of one element as it declares them. */
static void counters(struct pare_iterate *it, int64_t *number, uint8_t *go)
{
    for (int i = 0; i < STATES; i++) {
        struct pare_tensor t;

        it->c->declared(it->body, true, i, &t);
        it->in[i] = (struct pare_tensor){ .dtype = i == TRIPS ? PARE_I64 : PARE_BOOL,
                                          .rank = t.rank == 1,
                                          .dim = { 1 },
                                          .data = i == TRIPS ? (void *)number : (void *)go };
    }
}

static int repeat(struct pare_iterate *it, const struct pare_node *n, struct pare_err *err)
{
    int64_t trips = INT64_MAX, first = 1, number = 0;
    uint8_t go;

    PARE_TRY(scalar(n, TRIPS, PARE_I64, &trips, err));
    PARE_TRY(scalar(n, COND, PARE_BOOL, &first, err));
    go = first != 0;
    counters(it, &number, &go);
    for (; go && number < trips; number++) {
        PARE_TRY(pare_iterate_trim(it, err));
        PARE_TRY(pare_iterate_run(it, err));
        PARE_TRY(condition(&it->out[0], &go, err));
    }
    return 0;
}

static int results(struct pare_iterate *it, struct pare_node *n, struct pare_err *err)
{
    struct pare_stack s = { .size = it->runs };

    for (int k = 0; k < n->n_out; k++) {
        if (!n->out[k])
            continue;
        PARE_TRY(k < it->n_state
                     ? pare_value_copy(it->c->results, &it->in[STATES + k], &n->out[k]->t, err)
                     : pare_iterate_stack(it, k - it->n_state, &s, &n->out[k]->t, err));
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    int states = states_of(n), scans = n->n_out > states ? n->n_out - states : 0, rc;
    struct pare_iterate it = { .c = c,
                               .body = ((const struct loop *)n->attr)->body,
                               .n_in = STATES + states,
                               .n_out = 1 + states + scans,
                               .state_in = STATES,
                               .state_out = 1,
                               .n_state = states,
                               .scan_out = 1 + states,
                               .n_scan = scans };

    for (int k = 0; k < states; k++)
        if (!n->in[STATES + k])
            return pare_fail(err, PARE_EFORMAT, "Loop needs its input %d", STATES + k);
    rc = pare_iterate_start(&it, err);
    for (int k = 0; k < states && !rc; k++)
        it.in[STATES + k] = n->in[STATES + k]->t;
    if (!rc)
        rc = repeat(&it, n, err);
    if (!rc)
        rc = results(&it, n, err);
    pare_iterate_end(&it);
    return rc;
}

const struct pare_op pare_op_loop = {
    .type = "Loop",
    .doc = "Run a body while a condition holds, at most M times.",
    .since = 1,
    .in = "V?V?V*",
    .min_out = 1,
    .max_out = -1,
    .attrs = loop_attrs,
    .attr_size = sizeof(struct loop),
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
    .body_input = body_input,
    .body_runs = body_runs,
};
