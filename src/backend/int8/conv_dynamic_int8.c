/* conv_dynamic_int8.c - ConvInteger with constant weights and a zero point known at run time.
 *
 * As after DynamicQuantizeLinear; fused with what follows: Add of an int32 bias by channel, Cast to
 * float, Mul with one scale, Add of a float bias, activations and a residual Add.  Tensors have
 * their channels last.  The windows of some pixels become rows of bytes (taps, channels), with the
 * zero point as padding, for the product of gemm_int8.h; dynamic_weights.h explains how any zero
 * point of the weights fits.  The sums are exact.
 */
#include <string.h>

#include "../../base/simd.h"
#include "../../op/nn/window.h"
#include "../fuse/post_ops.h"
#include "dynamic_weights.h"
#include "gemm_int8.h"
#include "../../base/team.h"

#define PLACES 48           /* pixels at a time */
#define LONGEST (65536 / 2) /* products 255 * 255 whose sum fits in 32 bits */
#define FUSED (4 + PARE_MAX_POST)

enum { X, W, X_ZERO, W_ZERO };
enum { IN_X, IN_ZERO, IN_OFFSET, IN_SCALE, IN_SUM, INPUTS };

struct conv_dynamic {
    struct pare_window w; /* over three axes */
    int64_t N, C, O;      /* images; channels of x and y */
    int64_t K, row;       /* products in a sum; bytes of a row */
    bool direct;          /* the rows are x itself */
    bool flip;            /* x is int8 */
    const struct pare_value *weights, *weights_zero;
    struct pare_value *in[INPUTS]; /* NULL: none */
    int at[INPUTS];                /* the input of the step; -1: a constant or none */
    struct pare_value *bias, *out;
    struct pare_node *fused[FUSED];
    int n_fused;
    struct pare_post post;
    struct pare_value integers; /* describes the sums to gemm_int8.h */
    int8_t *packed;
    int32_t *column, *shift; /* sums of the weights, padded to whole panels; see
                                dynamic_weights.h */
};

/* ---- match --------------------------------------------------------------------------- */

static bool is_ready(const struct pare_match *v, const struct pare_value *x)
{
    return pare_is_const(x) ? x->t.data != NULL : v->layout[x->id] != 0;
}

/* One number for each channel of y, of rank `rank`? */
static bool is_channels(const struct pare_value *x, int rank, int64_t O)
{
    int axis = 1 - (rank - x->t.rank);

    return pare_numel(&x->t) == O && axis >= 0 && x->t.dim[axis] == O;
}

static void take(struct conv_dynamic *c, struct pare_node *n)
{
    c->fused[c->n_fused++] = n;
    c->out = n->out[0];
}

/* The int32 bias; a Reshape of it may run after this step. */
static void take_offset(const struct pare_match *v, struct conv_dynamic *c)
{
    struct pare_value *b;
    struct pare_node *add = pare_dynamic_next(v, c->out, &pare_op_add, PARE_I32, &b), *shaped;

    if (!add || b->t.dtype != PARE_I32 || !is_channels(b, c->out->t.rank, c->O))
        return;
    shaped = b->maker;
    if (!is_ready(v, b) && pare_node_is(shaped, &pare_op_reshape))
        b = shaped->in[0];
    if (!is_ready(v, b))
        return;
    c->in[IN_OFFSET] = b;
    take(c, add);
}

static void follow(const struct pare_match *v, struct conv_dynamic *c)
{
    struct pare_value *other;
    struct pare_node *cast, *mul, *add;

    take_offset(v, c);
    cast = pare_dynamic_next(v, c->out, &pare_op_cast, PARE_F32, &other);
    mul = cast ? pare_dynamic_next(v, cast->out[0], &pare_op_mul, PARE_F32, &other) : NULL;
    if (!mul || pare_numel(&other->t) != 1 || !pare_is_f32(other) || !is_ready(v, other))
        return;
    take(c, cast);
    take(c, mul);
    c->in[IN_SCALE] = other;
    add = pare_dynamic_next(v, c->out, &pare_op_add, PARE_F32, &other);
    if (add && pare_is_const(other) && other->t.data && pare_is_f32(other) &&
        is_channels(other, c->out->t.rank, c->O)) {
        take(c, add);
        c->bias = other;
    }
    c->out = pare_post_follow(v, c->out, true, &c->post);
    c->in[IN_SUM] = c->post.sum;
    for (int i = 0; i < c->post.n_nodes; i++)
        c->fused[c->n_fused++] = c->post.node[i];
}

static bool read_node(const struct pare_match *v, const struct pare_node *n, struct conv_dynamic *c)
{
    struct pare_value *zero = n->n_in > X_ZERO ? n->in[X_ZERO] : NULL;
    struct pare_err err;

    if (!pare_node_is(n, &pare_op_conv_integer) || n->op->domain || !pare_is_8bit(n->in[X]) ||
        pare_is_const(n->in[X]) || !pare_numel(&n->in[X]->t) || !pare_numel(&n->out[0]->t) ||
        n->in[X]->t.rank < 3 || n->in[X]->t.rank > 5 || pare_conv_window(n, &c->w, &err) ||
        c->w.group != 1 || (zero && (pare_numel(&zero->t) != 1 || !is_ready(v, zero))))
        return false;
    c->weights = n->in[W];
    c->weights_zero = n->n_in > W_ZERO ? n->in[W_ZERO] : NULL;
    c->N = n->in[X]->t.dim[0];
    c->C = n->in[X]->t.dim[1];
    c->O = n->in[W]->t.dim[0];
    c->K = pare_numel(&n->in[W]->t) / c->O;
    c->row = pare_gemm_int8_fours(c->K) * 4;
    c->flip = n->in[X]->t.dtype == PARE_I8;
    pare_window_3d(&c->w);
    c->direct = c->K == c->C && c->row == c->K && !c->flip;
    for (int i = 0; i < 3; i++)
        c->direct &= c->w.stride[i] == 1 && !c->w.pad_begin[i] && c->w.in[i] == c->w.out[i];
    c->in[IN_X] = n->in[X];
    c->in[IN_ZERO] = zero;
    c->out = n->out[0];
    c->integers.t.dtype = PARE_I32;
    return c->K <= LONGEST && pare_dynamic_known(c->weights, c->weights_zero, c->O);
}

/* Bytes of the scratch memory before the rows: sums of columns. */
static size_t head_bytes(const struct conv_dynamic *c)
{
    return ((size_t)pare_gemm_int8_columns(c->O) * 4 + 63) / 64 * 64;
}

/* Bytes of the scratch memory of a thread: sums of rows, rows. */
static size_t thread_bytes(const struct conv_dynamic *c)
{
    return (PLACES * (4 + (c->direct ? 0 : (size_t)c->row)) + 63) / 64 * 64;
}

static bool fill_step(const struct pare_match *v, struct conv_dynamic *c, struct pare_step *s)
{
    int at = 0;

    if (!pare_step_lists(s, v, INPUTS, 1, c->n_fused))
        return false;
    for (int i = 0; i < INPUTS; i++) {
        c->at[i] = -1;
        if (!c->in[i] || pare_is_const(c->in[i]))
            continue;
        s->in_block[at] = i == IN_X || i == IN_SUM ? PARE_CHANNELS_LAST : 1;
        s->in[at] = c->in[i];
        c->at[i] = at++;
    }
    s->n_in = at;
    s->out[0] = c->out;
    s->out_block[0] = PARE_CHANNELS_LAST;
    for (int i = 0; i < c->n_fused; i++)
        s->fused[i] = c->fused[i];
    s->work_bytes[0] = head_bytes(c) + (size_t)v->backend->threads * thread_bytes(c);
    s->state = c;
    return true;
}

static bool conv_dynamic_int8_match(const struct pare_match *v, struct pare_node *n,
                                    struct pare_step *s)
{
    struct conv_dynamic c = { 0 }, *keep;

    if (!pare_gemm_int8_can(v->backend) || !read_node(v, n, &c))
        return false;
    follow(v, &c);
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep)
        return false;
    *keep = c;
    return fill_step(v, keep, s);
}

/* ---- init ---------------------------------------------------------------------------- */

static int init_weights(struct conv_dynamic *c, struct pare_backend *b, struct pare_err *err)
{
    struct pare_dynamic_weights d = { c->weights, c->weights_zero, c->K, c->O, false, NULL, NULL };
    int64_t taps = c->K / c->C;
    int8_t *u = pare_alloc_raw(b->scratch, (size_t)(c->O * c->K), 1);

    PARE_TRY(pare_dynamic_center(&d, b, err));
    c->shift = d.shift;
    c->packed = pare_alloc_raw(b->arena, pare_gemm_int8_bytes(c->K, c->O), 1);
    c->column = pare_alloc(b->arena, (size_t)pare_gemm_int8_columns(c->O), sizeof(*c->column));
    if (!u || !c->packed || !c->column)
        return pare_no_memory(err, "for the weights");
    for (int64_t o = 0; o < c->O; o++)
        for (int64_t i = 0; i < c->C; i++)
            for (int64_t t = 0; t < taps; t++)
                u[o * c->K + t * c->C + i] = d.u[(o * c->C + i) * taps + t];
    pare_gemm_int8_pack(u, true, c->K, c->O, c->packed);
    pare_gemm_int8_sums(c->packed, c->K, c->O, -1, c->column);
    return 0;
}

static int conv_dynamic_int8_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv_dynamic *c = s->state;

    if (s->share_from) {
        const struct conv_dynamic *like = s->share_from->state;

        c->packed = like->packed;
        c->column = like->column;
        c->shift = like->shift;
        return 0;
    }
    return init_weights(c, b, err);
}

/* ---- run ----------------------------------------------------------------------------- */

struct job {
    const struct conv_dynamic *c;
    const uint8_t *x;
    const float *scale, *sum;
    const int32_t *column; /* by column: what the zero points and the bias add */
    uint8_t pad;           /* the zero point, flipped as rows are */
    char *y;
    char *scratch;
};

PARE_SIMD static void copy_flipped(const uint8_t *x, uint8_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] ^ 128;
}

/* Taps of a line of the window, from the line's first pixel x (NULL: padding) and tap 0's index. */
static void copy_line(const struct job *j, const uint8_t *x, int64_t first, uint8_t *y)
{
    const struct conv_dynamic *c = j->c;
    int64_t taps = c->w.kernel[2], step = c->w.dilation[2], lo = 0, hi = taps;

    while (x && lo < hi && first + lo * step < 0)
        lo++;
    while (x && lo < hi && first + (hi - 1) * step >= c->w.in[2])
        hi--;
    if (!x || lo == hi) {
        memset(y, j->pad, (size_t)(taps * c->C));
        return;
    }
    memset(y, j->pad, (size_t)(lo * c->C));
    memset(y + hi * c->C, j->pad, (size_t)((taps - hi) * c->C));
    for (int64_t k = lo; k < hi; k = step == 1 ? hi : k + 1) {
        int64_t n = (step == 1 ? hi - lo : 1) * c->C;

        if (c->flip)
            copy_flipped(x + (first + k * step) * c->C, y + k * c->C, n);
        else
            memcpy(y + k * c->C, x + (first + k * step) * c->C, (size_t)n);
    }
}

/* The window of a pixel as a row. */
static void copy_window(const struct job *j, int64_t place, uint8_t *y)
{
    const struct pare_window *w = &j->c->w;
    const int64_t C = j->c->C, line = w->kernel[2] * C;
    int64_t at[3];

    for (int i = 2; i >= 0; i--) {
        at[i] = place % w->out[i] * w->stride[i] - w->pad_begin[i];
        place /= w->out[i];
    }
    for (int64_t z = 0; z < w->kernel[0]; z++)
        for (int64_t h = 0; h < w->kernel[1]; h++, y += line) {
            int64_t iz = at[0] + z * w->dilation[0], ih = at[1] + h * w->dilation[1];
            bool inside = iz >= 0 && iz < w->in[0] && ih >= 0 && ih < w->in[1];

            copy_line(j,
                      inside ? j->x + ((place * w->in[0] + iz) * w->in[1] + ih) * w->in[2] * C
                             : NULL,
                      at[2], y);
        }
    memset(y, 0, (size_t)(j->c->row - j->c->K));
}

static void finish(const struct job *j, int64_t first, int64_t n)
{
    const struct conv_dynamic *c = j->c;
    float *y = (float *)(void *)j->y + first * c->O;
    const float *sum = j->sum ? j->sum + first * c->O : NULL;
    struct pare_post_area a = { y, sum, 1, n * c->O, n * c->O };
    bool simple = n * c->O % 8 == 0;

    for (int i = 0; i < c->post.n; i++)
        simple &= c->post.op[i].kind <= PARE_POST_GELU;
    if (simple)
        pare_post_ops_run(c->post.op, c->post.n, &a);
    else
        pare_post_apply(&c->post, y, sum, n * c->O);
}

/* At most PLACES pixels. */
static void run_pixels(const struct job *j, int64_t first, int64_t n, char *scratch)
{
    const struct conv_dynamic *c = j->c;
    int32_t *row_sum = (int32_t *)(void *)scratch;
    uint8_t *rows = (uint8_t *)scratch + PLACES * 4;
    const uint8_t *x = c->direct ? j->x + first * c->C : rows;
    struct pare_gemm_int8 p = {
        .x = x,
        .w = c->packed,
        .sum = j->column,
        .out = { .out = &c->integers },
        .y = j->y + first * c->O * 4,
        .shift = c->shift,
        .row_sum = row_sum,
        .scale = j->scale,
        .bias = c->bias ? pare_f32(&c->bias->t) : NULL,
        .one_scale = true,
        .rows = n,
        .K = c->K,
        .N = c->O,
        .x_row = c->row,
        .y_row = c->O,
        .to = c->O,
    };

    for (int64_t i = 0; i < n && !c->direct; i++)
        copy_window(j, first + i, rows + i * c->row);
    for (int64_t i = 0; i < n && c->shift; i++) {
        int32_t all = pare_dynamic_row_sum(x + i * c->row, c->K, false);

        row_sum[i] = c->flip ? all - 128 * (int32_t)c->K : all;
    }
    pare_gemm_int8_run(&p);
    if (c->post.n)
        finish(j, first, n);
}

static const void *operand(const struct pare_step *s, int k)
{
    const struct conv_dynamic *c = s->state;

    return !c->in[k] ? NULL : c->at[k] < 0 ? c->in[k]->t.data : s->in_buf[c->at[k]]->t.data;
}

/* What is added to each sum. */
static void find_columns(const struct conv_dynamic *c, int zero, const int32_t *offset,
                         int32_t *column)
{
    for (int64_t i = 0; i < pare_gemm_int8_columns(c->O); i++) {
        column[i] = -(zero + (c->flip ? 128 : 0)) * c->column[i];
        if (i < c->O && c->shift)
            column[i] += (int32_t)c->K * zero * c->shift[i];
        if (i < c->O && offset) /* may wrap, as the operator's sum does */
            column[i] = (int32_t)((uint32_t)column[i] + (uint32_t)offset[i]);
    }
}

static void run_groups(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct conv_dynamic *c = j->c;
    const int64_t places = c->N * c->w.out[0] * c->w.out[1] * c->w.out[2];

    to = to * PLACES < places ? to * PLACES : places;
    for (int64_t i = from * PLACES; i < to; i += PLACES)
        run_pixels(j, i, to - i < PLACES ? to - i : PLACES,
                   j->scratch + head_bytes(c) + (size_t)thread * thread_bytes(c));
}

static int conv_dynamic_int8_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv_dynamic *c = s->state;
    const uint8_t *z = operand(s, IN_ZERO);
    int zero = !z ? 0 : c->flip ? (int8_t)*z : *z;
    char *scratch = s->work[0]->t.data;
    struct job j = { .c = c,
                     .x = operand(s, IN_X),
                     .scale = operand(s, IN_SCALE),
                     .sum = operand(s, IN_SUM),
                     .column = (int32_t *)(void *)scratch,
                     .pad = (uint8_t)(zero + (c->flip ? 128 : 0)),
                     .y = s->out_buf[0]->t.data,
                     .scratch = scratch };
    int64_t places = c->N * c->w.out[0] * c->w.out[1] * c->w.out[2];

    (void)err;
    find_columns(c, zero, operand(s, IN_OFFSET), (int32_t *)(void *)scratch);
    pare_parallel(places * c->O * c->K > 262144 ? b->threads : 1, (places + PLACES - 1) / PLACES,
                  run_groups, &j);
    return 0;
}

const struct pare_kernel pare_kernel_conv_dynamic_int8 = {
    .name = "conv_dynamic_int8",
    .doc = "ConvInteger after DynamicQuantizeLinear, with bias, scale and activation, by VNNI.",
    .reads_int8 = true,
    .match = conv_dynamic_int8_match,
    .init = conv_dynamic_int8_init,
    .run = conv_dynamic_int8_run,
};
