/* transpose_tiles.c - float32 Transpose, by tiles that fit in the cache.
 *
 * Axes that remain neighbors are joined first.  If the last axis remains last, rows are copied;
 * else the input's last axis and the output's last axis span a plane that is transposed tile by
 * tile.
 *
 * Between channels-last and the blocked layout the channels of a block are contiguous on both
 * sides, so (N, C, H, W) blocked -> (N, H, W, C) and back need no row-major step in between.
 */
#include "../backend.h"

#include "../../base/simd.h"
#include "../../op/shape/movement.h"
#include "../../base/team.h"

#define TILE 16

struct transpose {
    int rank;
    int64_t dim[PARE_MAX_RANK];  /* output dimensions, joined */
    int64_t from[PARE_MAX_RANK]; /* the input's stride along each */
    int from_block, to_block;    /* > 1: between channels last and the blocked layout */
    int64_t images, channels, space;
    struct transpose *back; /* training: the inverse, for the gradient */
};

/* Join output axes whose input axes are neighbors in the same order. */
static void join_axes(struct transpose *t, const struct pare_tensor *x, const int *perm)
{
    int64_t stride[PARE_MAX_RANK];

    pare_strides(x, stride);
    for (int i = 0; i < x->rank; i++) {
        int64_t d = x->dim[perm[i]];

        if (d == 1)
            continue;
        if (t->rank && t->from[t->rank - 1] == stride[perm[i]] * d) {
            t->dim[t->rank - 1] *= d;
            t->from[t->rank - 1] = stride[perm[i]];
        } else {
            t->dim[t->rank] = d;
            t->from[t->rank++] = stride[perm[i]];
        }
    }
    if (!t->rank) {
        t->dim[0] = t->from[0] = 1;
        t->rank = 1;
    }
}

/* Does a convolution follow within `depth` nodes, so that the blocked layout pays off? */
static bool feeds_conv(const struct pare_match *v, const struct pare_value *x, int depth)
{
    const struct pare_consumers *u = &v->consumers[x->id];

    for (int i = 0; i < u->n; i++) {
        const struct pare_node *n = u->node[i];

        if (pare_node_is(n, &pare_op_conv) && n->in[0] == x)
            return true;
        if (depth && n->op && (n->op->map || n->op->map2) && feeds_conv(v, n->out[0], depth - 1))
            return true;
    }
    return false;
}

static bool channels_last(const struct pare_match *v, const struct pare_node *n, const int *perm,
                          struct transpose *t)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int r = x->rank, block = pare_block_of(v, n->in[0]);
    bool out = r > 2 && perm[0] == 0 && perm[r - 1] == 1, back = r > 2 && perm[0] == 0;

    for (int i = 1; i < r - 1; i++)
        out &= perm[i] == i + 1;
    for (int i = 1; i < r; i++)
        back &= perm[i] == (i == 1 ? r - 1 : i - 1);
    t->from_block = t->to_block = 1;
    if (out && block > 1)
        t->from_block = block;
    else if (back && block == 1 && feeds_conv(v, n->out[0], 4))
        t->to_block = v->backend->block;
    else
        return false;
    t->images = x->dim[0];
    t->channels = t->from_block > 1 ? x->dim[1] : y->dim[1];
    t->space = pare_numel(x) / (t->images * t->channels);
    return true;
}

/* Training is row-major: the gradient is transposed by the inverse permutation. */
static void set_inverse(const struct pare_match *v, const struct pare_node *n, const int *perm,
                        struct transpose *t)
{
    int inverse[PARE_MAX_RANK];

    t->from_block = t->to_block = 1;
    t->back = pare_alloc(v->backend->arena, 1, sizeof(*t->back));
    for (int i = 0; i < n->in[0]->t.rank; i++)
        inverse[perm[i]] = i;
    if (t->back)
        join_axes(t->back, &n->out[0]->t, inverse);
    join_axes(t, &n->in[0]->t, perm);
}

static bool transpose_tiles_match(const struct pare_match *v, struct pare_node *n,
                                  struct pare_step *s)
{
    int perm[PARE_MAX_RANK];
    struct transpose *t;

    if (!pare_node_is(n, &pare_op_transpose) || !pare_is_f32(n->in[0]) || !pare_numel(&n->in[0]->t))
        return false;
    t = pare_alloc(v->backend->arena, 1, sizeof(*t));
    if (!t || !pare_step_lists(s, v, 1, 1, 0))
        return false;
    pare_transpose_perm(n, perm);
    if (v->train)
        set_inverse(v, n, perm, t);
    else if (!channels_last(v, n, perm, t))
        join_axes(t, &n->in[0]->t, perm);
    if (v->train && !t->back)
        return false;
    s->state = t;
    s->unsaved_in = s->unsaved_out = 1;
    s->accumulate_bytes = (size_t)pare_numel(&n->in[0]->t) * sizeof(float);
    s->in[0] = n->in[0];
    s->out[0] = n->out[0];
    s->in_block[0] = t->from_block;
    s->out_block[0] = t->to_block;
    return true;
}

/* y (rows, cols) with y[r, c] = x[r * sr + c * sc], where sr is 1. */
PARE_SIMD static void transpose_plane(const float *x, int64_t sc, float *y, int64_t yr,
                                      int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r += TILE)
        for (int64_t c = 0; c < cols; c += TILE) {
            int64_t re = r + TILE < rows ? r + TILE : rows, ce = c + TILE < cols ? c + TILE : cols;

            for (int64_t i = r; i < re; i++)
                for (int64_t k = c; k < ce; k++)
                    y[i * yr + k] = x[i + k * sc];
        }
}

/* Input and output offsets of the `index`-th combination of the outer axes. */
static void outer_offsets(const struct transpose *t, int64_t index, int skip,
                          const int64_t *ystride, int64_t *x, int64_t *y)
{
    *x = *y = 0;
    for (int i = t->rank - 2; i >= 0; i--) {
        if (i == skip)
            continue;
        *x += index % t->dim[i] * t->from[i];
        *y += index % t->dim[i] * ystride[i];
        index /= t->dim[i];
    }
}

/* A run: of each axis of the result its stride; the axis that has stride 1 in the input, or -1. */
struct job {
    const struct transpose *t;
    const float *x;
    float *y;
    int64_t ystride[PARE_MAX_RANK];
    int skip;
};

static void plain_planes(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct transpose *t = j->t;
    const int last = t->rank - 1, skip = j->skip;
    const int64_t *ystride = j->ystride;
    const float *x = j->x;
    float *y = j->y;

    (void)thread;
    for (int64_t o = from; o < to; o++) {
        int64_t xa, ya;

        outer_offsets(t, o, skip, ystride, &xa, &ya);
        if (t->from[last] == 1)
            memcpy(y + ya, x + xa, (size_t)t->dim[last] * sizeof(*y));
        else if (skip >= 0)
            transpose_plane(x + xa, t->from[last], y + ya, ystride[skip], t->dim[skip],
                            t->dim[last]);
        else
            for (int64_t k = 0; k < t->dim[last]; k++)
                y[ya + k] = x[xa + k * t->from[last]];
    }
}

static void run_plain(const struct transpose *t, const float *x, float *y, int threads)
{
    const int last = t->rank - 1;
    struct job j = { .t = t, .x = x, .y = y, .skip = -1 };
    int64_t outer = 1;

    j.ystride[last] = 1;
    for (int i = last - 1; i >= 0; i--)
        j.ystride[i] = j.ystride[i + 1] * t->dim[i + 1];
    for (int i = 0; i < last; i++)
        if (t->from[i] == 1)
            j.skip = i;
    for (int i = 0; i < last; i++)
        outer *= i == j.skip ? 1 : t->dim[i];
    pare_parallel(j.ystride[0] * t->dim[0] > 16384 ? threads : 1, outer, plain_planes, &j);
}

static void blocked_places(void *arg, int64_t from, int64_t end, int thread)
{
    const struct job *j = arg;
    const struct transpose *t = j->t;
    const int64_t b = t->from_block > 1 ? t->from_block : t->to_block, C = t->channels;
    const int64_t blocks = (C + b - 1) / b;
    const bool to = t->to_block > 1;

    (void)thread;
    for (int64_t i = from; i < end; i++)
        for (int64_t k = 0; k < blocks; k++) {
            int64_t n = i / t->space, p = i % t->space, lanes = C - k * b < b ? C - k * b : b;
            int64_t in_blocks = ((n * blocks + k) * t->space + p) * b;
            int64_t in_rows = (n * t->space + p) * C + k * b;

            memcpy(j->y + (to ? in_blocks : in_rows), j->x + (to ? in_rows : in_blocks),
                   (size_t)lanes * sizeof(*j->y));
            if (to && lanes < b)
                memset(j->y + in_blocks + lanes, 0, (size_t)(b - lanes) * sizeof(*j->y));
        }
}

static void run_blocked(const struct transpose *t, const float *x, float *y, int threads)
{
    struct job j = { .t = t, .x = x, .y = y };

    pare_parallel(t->images * t->channels * t->space > 16384 ? threads : 1, t->images * t->space,
                  blocked_places, &j);
}

static int transpose_tiles_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct transpose *t = s->state;

    (void)err;
    if (t->from_block > 1 || t->to_block > 1)
        run_blocked(t, pare_f32(&s->in_buf[0]->t), pare_f32_mut(&s->out_buf[0]->t), b->threads);
    else
        run_plain(t, pare_f32(&s->in_buf[0]->t), pare_f32_mut(&s->out_buf[0]->t), b->threads);
    return 0;
}

PARE_SIMD static void add(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static int transpose_tiles_backward(struct pare_step *s, struct pare_backend *b,
                                    struct pare_err *err)
{
    const struct transpose *t = s->state;
    float *gx = pare_f32_mut(&s->in_buf[0]->grad->t);
    float *to = s->grad_assign[0] ? gx : pare_f32_mut(&s->work[1]->t);

    (void)err;
    run_plain(t->back, pare_f32(&s->out_buf[0]->grad->t), to, b->threads);
    if (to != gx)
        add(gx, to, pare_numel(&s->in[0]->t));
    return 0;
}

const struct pare_kernel pare_kernel_transpose_tiles = {
    .name = "transpose_tiles",
    .doc = "Transpose by tiles, also from and to the blocked layout.",
    .match = transpose_tiles_match,
    .run = transpose_tiles_run,
    .backward = transpose_tiles_backward,
};
