/* int8_channels.c - int8 channel slice and channel shuffle with channels last.
 *
 * Slice along the channels, and channel shuffle: Reshape (N, C, H, W) to (N, a, b, H, W), Transpose
 * of a and b, Reshape back.  Channel c of the result is channel
 *     first + step c             of a slice,
 *     c % a * b + c / a          of a shuffle.
 */
#include "../fuse/int8_operands.h"

#include "../../base/simd.h"
#include "../../op/shape/movement.h"
#include "../../base/team.h"

struct channels8 {
    int64_t rows, from, to; /* pixels of all images; input and output channels */
    int64_t first;          /* slice of contiguous channels: the first */
    int *at;                /* else, by output channel: its input channel */
    bool halves;            /* a = 2 */
};

static bool read_slice(const struct pare_match *v, const struct pare_node *n, struct channels8 *c)
{
    struct pare_slice s;
    struct pare_err err;

    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (!pare_is_const(n->in[i]) || !n->in[i]->t.data))
            return false;
    if (pare_slice_ranges(n, &s, &err))
        return false;
    for (int i = 0; i < 4; i++)
        if (i != 1 && (s.start[i] || s.step[i] != 1 || s.count[i] != n->in[0]->t.dim[i]))
            return false;
    c->first = s.start[1];
    if (s.step[1] == 1)
        return true;
    c->at = pare_alloc(v->backend->arena, (size_t)s.count[1], sizeof(*c->at));
    for (int64_t i = 0; c->at && i < s.count[1]; i++)
        c->at[i] = (int)(s.start[1] + i * s.step[1]);
    return c->at;
}

/* The last of the three nodes of a shuffle, or NULL. */
static struct pare_node *read_shuffle(const struct pare_match *v, const struct pare_node *n,
                                      struct channels8 *c, struct pare_node **turn)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    struct pare_node *t = pare_only_consumer(v, n->out[0]), *back;
    int perm[PARE_MAX_RANK];

    back = pare_node_is(t, &pare_op_transpose) ? pare_only_consumer(v, t->out[0]) : NULL;
    if (y->rank != 5 || !pare_node_is(back, &pare_op_reshape) || back->in[0] != t->out[0] ||
        !pare_same_shape(&back->out[0]->t, x) || y->dim[0] != x->dim[0] || y->dim[3] != x->dim[2] ||
        y->dim[4] != x->dim[3])
        return NULL;
    pare_transpose_perm(t, perm);
    if (perm[0] != 0 || perm[1] != 2 || perm[2] != 1 || perm[3] != 3 || perm[4] != 4)
        return NULL;
    c->at = pare_alloc(v->backend->arena, (size_t)x->dim[1], sizeof(*c->at));
    for (int64_t i = 0; c->at && i < x->dim[1]; i++)
        c->at[i] = (int)(i % y->dim[1] * y->dim[2] + i / y->dim[1]);
    c->halves = y->dim[1] == 2;
    *turn = t;
    return c->at ? back : NULL;
}

static bool int8_channels_match(const struct pare_match *v, struct pare_node *n,
                                struct pare_step *s)
{
    struct channels8 c = { 0 }, *keep;
    struct pare_node *turn = NULL, *last = n;
    const struct pare_tensor *x;
    bool slice = pare_node_is(n, &pare_op_slice);

    if ((!slice && !pare_node_is(n, &pare_op_reshape)) || n->n_out != 1 || !n->in[0] ||
        pare_is_const(n->in[0]))
        return false;
    x = &n->in[0]->t;
    if ((x->dtype != PARE_U8 && x->dtype != PARE_I8) || x->rank != 4 || !pare_numel(x) ||
        n->out[0]->t.rank < 0 || !pare_numel(&n->out[0]->t) || x->dim[1] > INT32_MAX ||
        pare_layout_of(v, n->in[0]) != PARE_CHANNELS_LAST)
        return false;
    if (slice ? !read_slice(v, n, &c) : !(last = read_shuffle(v, n, &c, &turn)))
        return false;
    c.from = x->dim[1];
    c.to = last->out[0]->t.dim[1];
    c.rows = pare_numel(x) / c.from;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, turn ? 2 : 0))
        return false;
    *keep = c;
    s->state = keep;
    s->in[0] = n->in[0];
    s->out[0] = last->out[0];
    s->in_block[0] = s->out_block[0] = PARE_CHANNELS_LAST;
    if (turn) {
        s->fused[0] = turn;
        s->fused[1] = last;
    }
    return true;
}

PARE_SIMD static void interleave_halves(const uint8_t *restrict x, int64_t half,
                                        uint8_t *restrict y)
{
    for (int64_t i = 0; i < half; i++) {
        y[2 * i] = x[i];
        y[2 * i + 1] = x[half + i];
    }
}

static void run_row(const struct channels8 *c, const uint8_t *x, uint8_t *y)
{
    if (!c->at)
        memcpy(y, x + c->first, (size_t)c->to);
    else if (c->halves)
        interleave_halves(x, c->to / 2, y);
    else
        for (int64_t i = 0; i < c->to; i++)
            y[i] = x[c->at[i]];
}

static void run_rows(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct channels8 *c = s->state;
    const uint8_t *x = s->in_buf[0]->t.data;
    uint8_t *y = s->out_buf[0]->t.data;

    (void)thread;
    for (int64_t r = from; r < to; r++)
        run_row(c, x + r * c->from, y + r * c->to);
}

static int int8_channels_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct channels8 *c = s->state;

    (void)err;
    pare_parallel(c->rows * c->to > 65536 ? b->threads : 1, c->rows, run_rows, s);
    return 0;
}

const struct pare_kernel pare_kernel_int8_channels = {
    .name = "int8_channels",
    .doc = "Int8 channel slice and channel shuffle.",
    .match = int8_channels_match,
    .run = int8_channels_run,
};
