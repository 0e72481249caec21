/* grid_sample_rows.c - GridSample of images, linear or nearest, row-major or in the blocked layout.
 *
 * Offsets and weights of the four elements around a position are computed for STRIP positions at a
 * time, in float64 as the reference kernel does, then applied to all channels.
 */
#include "../backend.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/op.h"
#include "../../base/team.h"

#define STRIP 128

struct grid {
    bool nearest, border;      /* border: positions outside read the nearest element */
    double scale[2], shift[2]; /* position = scale coordinate + shift; vertical, horizontal */
    int64_t in[2], places;     /* places: positions per image */
    int64_t planes, plane;     /* per image: blocks of channels; floats of one */
    int block;
};

/* For each position: four offsets in a plane, -1 outside, and their weights. */
struct strip {
    int32_t at[4][STRIP];
    float weight[4][STRIP];
};

static bool grid_sample_rows_match(const struct pare_match *v, struct pare_node *n,
                                   struct pare_step *s)
{
    const bool is = pare_node_is(n, &pare_op_grid_sample);
    const char *mode = is ? pare_attr_text(n, "mode") : "";
    const struct pare_tensor *x = is ? &n->in[0]->t : NULL;
    struct grid *g;

    if (!is || !pare_is_f32(n->in[0]) || !pare_is_f32(n->in[1]) || x->rank != 4 ||
        !pare_numel(&n->out[0]->t) || strstr(mode, "cubic") ||
        pare_attr_text(n, "padding_mode")[0] == 'r' || x->dim[2] * x->dim[3] > INT32_MAX / 32)
        return false;
    g = pare_alloc(v->backend->arena, 1, sizeof(*g));
    if (!g || !pare_step_lists(s, v, 2, 1, 0))
        return false;
    g->nearest = mode[0] == 'n';
    g->border = pare_attr_text(n, "padding_mode")[0] == 'b';
    g->block = pare_block_of(v, n->in[0]);
    for (int i = 0; i < 2; i++) {
        const double size = (double)x->dim[i + 2];
        const bool corners = pare_attr(n, "align_corners") != 0;

        g->in[i] = x->dim[i + 2];
        g->scale[i] = corners ? (size - 1) / 2 : size / 2;
        g->shift[i] = (size - 1) / 2;
    }
    g->places = n->in[1]->t.dim[1] * n->in[1]->t.dim[2];
    g->planes = (x->dim[1] + g->block - 1) / g->block;
    g->plane = g->in[0] * g->in[1] * g->block;
    s->state = g;
    s->in[0] = n->in[0];
    s->in_block[0] = g->block;
    s->in[1] = n->in[1];
    s->out[0] = n->out[0];
    s->out_block[0] = g->block;
    return true;
}

/* One axis of n positions: two elements, -1 outside, and the weight of the second. */
PARE_SIMD static void find_axis(const struct grid *g, int axis, const float *grid, int n,
                                int32_t low[2][STRIP], float *part)
{
    const double last = (double)(g->in[axis] - 1), scale = g->scale[axis], shift = g->shift[axis];
    const int32_t end = (int32_t)g->in[axis] - 1;
    const double least = g->border ? 0 : -2, most = g->border ? last : last + 2;

    for (int i = 0; i < n; i++) {
        double c = (double)grid[2 * i + 1 - axis] * scale + shift, f;

        c = c > least ? c : least; /* also for NaN */
        c = c < most ? c : most;
        f = g->nearest ? nearbyint(c) : floor(c);
        part[i] = g->nearest ? 0 : (float)(c - f);
        low[0][i] = (int32_t)f;
        low[1][i] = (int32_t)f + 1;
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n; i++)
            low[k][i] = ((low[k][i] < 0) | (low[k][i] > end)) ? -1 : low[k][i];
}

PARE_SIMD static void find_strip(const struct grid *g, const float *grid, int n, struct strip *t)
{
    int32_t row[2][STRIP], column[2][STRIP];
    float below[STRIP], right[STRIP];

    find_axis(g, 0, grid, n, row, below);
    find_axis(g, 1, grid, n, column, right);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < n; i++) {
            const int32_t r = row[k / 2][i], q = column[k % 2][i];

            t->at[k][i] = ((r < 0) | (q < 0)) ? -1 : (r * (int32_t)g->in[1] + q) * g->block;
            t->weight[k][i] = (k / 2 ? below[i] : 1 - below[i]) * (k % 2 ? right[i] : 1 - right[i]);
        }
}

/* y[i] = the weighted sum of the elements of one plane. */
PARE_SIMD static void sample_rows(const struct strip *t, int taps, int n, const float *x, float *y)
{
    for (int i = 0; i < n; i++)
        y[i] = 0;
    for (int k = 0; k < taps; k++)
        for (int i = 0; i < n; i++) {
            const int32_t at = t->at[k][i];
            const float v = x[at < 0 ? 0 : at];

            y[i] += at < 0 ? 0 : t->weight[k][i] * v;
        }
}

PARE_SIMD static void sample_blocks(const struct strip *t, int taps, int n, int block,
                                    const float *x, float *y)
{
    for (int i = 0; i < n; i++)
        for (int c = 0; c < block; c += 8) {
            pare_v8 sum = { 0 };

            for (int k = 0; k < taps; k++)
                if (t->at[k][i] >= 0)
                    sum += PARE_V8(x + t->at[k][i] + c) * t->weight[k][i];
            PARE_PUT8(y + (int64_t)i * block + c, sum);
        }
}

static void sample_strips(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct grid *g = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t), *grid = pare_f32(&s->in_buf[1]->t);
    float *y = pare_f32_mut(&s->out_buf[0]->t);
    const int64_t strips = (g->places + STRIP - 1) / STRIP;
    const int taps = g->nearest ? 1 : 4;

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        const int64_t image = i / strips, first = i % strips * STRIP;
        const int n = (int)(g->places - first < STRIP ? g->places - first : STRIP);
        struct strip t;

        find_strip(g, grid + (image * g->places + first) * 2, n, &t);
        for (int64_t k = image * g->planes; k < (image + 1) * g->planes; k++) {
            float *out = y + (k * g->places + first) * g->block;

            if (g->block == 1)
                sample_rows(&t, taps, n, x + k * g->plane, out);
            else
                sample_blocks(&t, taps, n, g->block, x + k * g->plane, out);
        }
    }
}

static int grid_sample_rows_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct grid *g = s->state;

    (void)err;
    pare_parallel(b->threads, (g->places + STRIP - 1) / STRIP * s->in_buf[0]->t.dim[0],
                  sample_strips, s);
    return 0;
}

const struct pare_kernel pare_kernel_grid_sample_rows = {
    .name = "grid_sample_rows",
    .doc = "Linear and nearest GridSample of images, in any layout.",
    .match = grid_sample_rows_match,
    .run = grid_sample_rows_run,
};
