/* padded_mean.c - match Pad followed by AveragePool. */
#include "padded_mean.h"

#include "../../op/shape/movement.h"
#include "../../op/op.h"

struct pare_node *pare_padded_mean(const struct pare_match *v, struct pare_node *n,
                                   struct pare_window *w)
{
    int64_t before[PARE_MAX_RANK], after[PARE_MAX_RANK];
    struct pare_node *pool = !pare_node_is(n, &pare_op_pad) ? NULL
                                                            : pare_only_consumer(v, n->out[0]);
    const struct pare_value *value = n->n_in > 2 ? n->in[2] : NULL;
    struct pare_err err;

    if (!pool || !pare_node_is(pool, &pare_op_average_pool) || pare_pool_window(pool, w, &err) ||
        strcmp(pare_attr_text(n, "mode"), "constant") || pare_attr(n, "value") != 0 ||
        (value &&
         (!pare_is_const(value) || pare_numel(&value->t) != 1 || pare_get(&value->t, 0) != 0)) ||
        pare_pad_amounts(n, before, after, &err) || before[0] || after[0] || before[1] || after[1])
        return NULL;
    for (int i = 0; i < w->nd; i++) {
        if (w->pad_begin[i] || w->pad_end[i] || before[i + 2] < 0 || after[i + 2] < 0)
            return NULL;
        w->in[i] -= before[i + 2] + after[i + 2];
        w->pad_begin[i] = before[i + 2];
        w->pad_end[i] = after[i + 2];
    }
    pare_window_3d(w);
    return pool;
}
