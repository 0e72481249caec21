/* arg_columns.c - ArgMax and ArgMin of float32 along any axis, in threads. */
#include "../backend.h"

#include "../../base/simd.h"
#include "../../op/reduce/arg_family.h"
#include "../../op/reduce/lanes.h"
#include "../../base/team.h"

#define COLUMNS 64

struct arg {
    struct pare_lanes l;
    bool least, last; /* ArgMin; of equal elements the last */
};

static bool arg_columns_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    bool least = pare_node_is(n, &pare_op_arg_min);
    const struct pare_arg *a = n->attr;
    struct arg *c;
    int axis;

    if ((!least && !pare_node_is(n, &pare_op_arg_max)) || !pare_is_f32(n->in[0]) ||
        !pare_numel(&n->in[0]->t))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_step_lists(s, v, 1, 1, 0))
        return false;
    axis = (int)(a->axis < 0 ? a->axis + n->in[0]->t.rank : a->axis);
    c->l = pare_lanes(&n->in[0]->t, axis, axis);
    if (c->l.len > INT32_MAX)
        return false;
    c->least = least;
    c->last = a->select_last_index;
    s->state = c;
    s->in[0] = n->in[0];
    s->out[0] = n->out[0];
    return true;
}

/* Of n columns; comparisons with NaN are false, as in the reference kernel. */
#define SEARCH(BETTER)                                 \
    for (int64_t i = 1; i < l->len; i++)               \
        for (int k = 0; k < n; k++) {                  \
            float v = x[i * l->inner + k];             \
            bool better = BETTER;                      \
                                                       \
            best[k] = better ? v : best[k];            \
            index[k] = better ? (int32_t)i : index[k]; \
        }

PARE_SIMD static void search_columns(const struct arg *c, const float *x, int n, int64_t *y)
{
    const struct pare_lanes *l = &c->l;
    float best[COLUMNS];
    int32_t index[COLUMNS] = { 0 };

    for (int k = 0; k < n; k++)
        best[k] = x[k];
    if (c->least && c->last)
        SEARCH(v <= best[k])
    else if (c->least)
        SEARCH(v < best[k])
    else if (c->last)
        SEARCH(v >= best[k])
    else
        SEARCH(v > best[k])
    for (int k = 0; k < n; k++)
        y[k] = index[k];
}

static void run_pieces(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct arg *c = s->state;
    const int64_t inner = c->l.inner, pieces = (inner + COLUMNS - 1) / COLUMNS;
    const float *x = pare_f32(&s->in_buf[0]->t);
    int64_t *y = pare_i64_mut(&s->out_buf[0]->t);

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        int64_t o = i / pieces, first = i % pieces * COLUMNS, left = inner - first;

        search_columns(c, x + o * c->l.len * inner + first, left < COLUMNS ? (int)left : COLUMNS,
                       y + o * inner + first);
    }
}

static int arg_columns_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct arg *c = s->state;
    const int64_t pieces = (c->l.inner + COLUMNS - 1) / COLUMNS;

    (void)err;
    pare_parallel(c->l.outer * c->l.len * c->l.inner > 16384 ? b->threads : 1, c->l.outer * pieces,
                  run_pieces, s);
    return 0;
}

const struct pare_kernel pare_kernel_arg_columns = {
    .name = "arg_columns",
    .doc = "ArgMax and ArgMin along any axis.",
    .match = arg_columns_match,
    .run = arg_columns_run,
};
