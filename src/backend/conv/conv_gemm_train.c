/* conv_gemm_train.c - training of Conv of any shape by im2col and GEMM.
 *
 * For convolutions that no faster kernel takes; in builds with oneDNN, conv_train.c gets most of
 * them.  For each image, group and strip of pixels, with the columns X (K, strip) of columns.h and
 * the filters W (O, K):
 *     Y = W X + b      dX = W' dY, added to the pixels      dW += dY X'      db += sums of dY
 * The images are divided into parts, whose dW are summed separately: how many does not depend on
 * the number of threads, so neither does the result.
 */
#include <omp.h>
#include <string.h>

#include "columns.h"
#include "../backend.h"

#define PARTS 8

struct conv {
    struct pare_columns c;
    bool want_x, want_w, want_b;
    int64_t parts;
    size_t room; /* floats of the columns of one thread */
};

static bool conv_gemm_train_usable(const struct pare_match *v, const struct pare_node *n)
{
    return v->train && pare_node_is(n, &pare_op_conv) && pare_is_f32(n->in[0]) &&
           pare_is_fixed(n->in[1]) && pare_is_f32(n->in[1]) && pare_numel(&n->out[0]->t) &&
           pare_numel(&n->in[0]->t) &&
           (n->n_in < 3 || !n->in[2] || (pare_is_fixed(n->in[2]) && pare_is_f32(n->in[2])));
}

static bool conv_gemm_train_match(const struct pare_match *v, struct pare_node *n,
                                  struct pare_step *s)
{
    const size_t threads = (size_t)v->backend->threads;
    struct conv *c;
    int n_in;

    if (!conv_gemm_train_usable(v, n))
        return false;
    n_in = n->n_in > 2 && n->in[2] ? 3 : 2;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_columns_init(n, &c->c) || !pare_step_lists(s, v, n_in, 1, 0))
        return false;
    for (int i = 0; i < n_in; i++)
        s->in[i] = n->in[i];
    s->out[0] = n->out[0];
    if (!pare_step_layouts_match(s))
        return false;
    s->state = c;
    s->pass_independent = true;
    s->fast_passes = PARE_ALL_PASSES;
    c->want_x = v->requires_grad[n->in[0]->id] && s->passes & PARE_PASS_BACKWARD_DATA;
    c->want_w = v->requires_grad[n->in[1]->id] && s->passes & PARE_PASS_BACKWARD_WEIGHTS;
    c->want_b = n_in > 2 && v->requires_grad[n->in[2]->id] &&
                s->passes & PARE_PASS_BACKWARD_WEIGHTS;
    c->parts = c->c.N < PARTS ? c->c.N : PARTS;
    c->room = (size_t)(c->c.K * c->c.strip);
    s->unsaved_in = c->want_w ? 0 : 1;
    s->unsaved_out = ~0u;
    if (s->passes & PARE_PASS_FORWARD)
        s->work_bytes[0] = threads * c->room * sizeof(float);
    if (c->want_x || c->want_w)
        s->work_bytes[1] = (threads * c->room +
                            (c->want_w ? (size_t)(c->parts * c->c.O * c->c.K) : 0)) *
                           sizeof(float);
    return true;
}

/* Offset of a group of an image of Y, or of its strip i. */
static int64_t y_at(const struct pare_columns *c, int64_t image, int64_t group, int64_t i)
{
    return (image * c->O + group * c->Q) * c->pixels + i * c->strip;
}

static int64_t x_at(const struct pare_columns *c, int64_t image, int64_t group)
{
    return (image * c->C + group * c->I) * c->plane;
}

/* ---- forward ------------------------------------------------------------------------------ */

static int run_strip(const struct pare_step *s, int64_t image, int64_t group, int64_t i,
                     float *room)
{
    const struct pare_columns *c = &((const struct conv *)s->state)->c;
    const float *bias = s->n_in > 2 ? pare_f32(&s->in_buf[2]->t) + group * c->Q : NULL;
    float *y = pare_f32_mut(&s->out_buf[0]->t) + y_at(c, image, group, i);
    struct pare_sgemm p = { .add = bias,
                            .M = c->Q,
                            .N = pare_strip_pixels(c, i),
                            .K = c->K,
                            .a = pare_f32(&s->in_buf[1]->t) + group * c->Q * c->K,
                            .lda = c->K,
                            .c = y,
                            .ldc = c->pixels };

    p.b = pare_columns_make(c, pare_f32(&s->in_buf[0]->t) + x_at(c, image, group), i, room, &p.ldb);
    for (int64_t o = 0; o < c->Q && bias; o++)
        for (int64_t k = 0; k < p.N; k++)
            y[o * c->pixels + k] = bias[o];
    return pare_sgemm(&p);
}

static int conv_gemm_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *v = s->state;
    const struct pare_columns *c = &v->c;
    const int64_t tasks = c->N * c->w.group * c->strips;
    float *room = pare_f32_mut(&s->work[0]->t);
    int failed = 0;

#pragma omp parallel for num_threads(b->threads) reduction(| : failed) if (tasks > 1)
    for (int64_t i = 0; i < tasks; i++)
        failed |= run_strip(s, i / c->strips / c->w.group, i / c->strips % c->w.group,
                            i % c->strips, room + (size_t)omp_get_thread_num() * v->room);
    return failed ? pare_no_memory(err, "for a matrix product") : 0;
}

/* ---- backward ----------------------------------------------------------------------------- */

/* dX of a group of an image. */
static int backward_data(const struct pare_step *s, int64_t image, int64_t group, float *room)
{
    const struct pare_columns *c = &((const struct conv *)s->state)->c;
    float *gx = pare_f32_mut(&s->in_buf[0]->grad->t) + x_at(c, image, group);
    int failed = 0;

    if (s->grad_assign[0])
        memset(gx, 0, (size_t)(c->I * c->plane) * sizeof(*gx));
    for (int64_t i = 0; i < c->strips; i++) {
        struct pare_sgemm p = { .ta = true,
                                .M = c->K,
                                .N = pare_strip_pixels(c, i),
                                .K = c->Q,
                                .a = pare_f32(&s->in_buf[1]->t) + group * c->Q * c->K,
                                .lda = c->K,
                                .b = pare_f32(&s->out_buf[0]->grad->t) + y_at(c, image, group, i),
                                .ldb = c->pixels,
                                .c = room,
                                .ldc = c->strip };

        failed |= pare_sgemm(&p);
        pare_columns_add(c, room, i, gx);
    }
    return failed;
}

/* dW of the images of part k. */
static int backward_weights(const struct pare_step *s, int64_t k, float *room, float *gw)
{
    const struct conv *v = s->state;
    const struct pare_columns *c = &v->c;
    const int64_t from = c->N * k / v->parts, to = c->N * (k + 1) / v->parts;
    int failed = 0;

    for (int64_t at = from * c->w.group; at < to * c->w.group; at++) {
        int64_t image = at / c->w.group, group = at % c->w.group;
        const float *x = pare_f32(&s->in_buf[0]->t) + x_at(c, image, group);

        for (int64_t i = 0; i < c->strips; i++) {
            struct pare_sgemm p = { .tb = true,
                                    .add = image > from || i,
                                    .M = c->Q,
                                    .N = c->K,
                                    .K = pare_strip_pixels(c, i),
                                    .a = pare_f32(&s->out_buf[0]->grad->t) +
                                         y_at(c, image, group, i),
                                    .lda = c->pixels,
                                    .c = gw + group * c->Q * c->K,
                                    .ldc = c->K };

            p.b = pare_columns_make(c, x, i, room, &p.ldb);
            failed |= pare_sgemm(&p);
        }
    }
    return failed;
}

static void sum_parts(const struct pare_step *s, const float *parts)
{
    const struct conv *v = s->state;
    const int64_t size = v->c.O * v->c.K;
    float *gw = pare_f32_mut(&s->in_buf[1]->grad->t);

    if (s->grad_assign[1])
        memset(gw, 0, (size_t)size * sizeof(*gw));
    for (int64_t k = 0; k < v->parts; k++)
        for (int64_t i = 0; i < size; i++)
            gw[i] += parts[k * size + i];
}

static void backward_bias(const struct pare_step *s)
{
    const struct pare_columns *c = &((const struct conv *)s->state)->c;
    const float *gy = pare_f32(&s->out_buf[0]->grad->t);
    float *gb = pare_f32_mut(&s->in_buf[2]->grad->t);

    for (int64_t o = 0; o < c->O; o++) {
        double sum = 0;

        for (int64_t n = 0; n < c->N; n++)
            for (int64_t i = 0; i < c->pixels; i++)
                sum += (double)gy[(n * c->O + o) * c->pixels + i];
        gb[o] = (float)sum + (s->grad_assign[2] ? 0 : gb[o]);
    }
}

static int conv_gemm_train_backward(struct pare_step *s, struct pare_backend *b,
                                    struct pare_err *err)
{
    const struct conv *v = s->state;
    const struct pare_columns *c = &v->c;
    float *room = s->work[1] ? pare_f32_mut(&s->work[1]->t) : NULL;
    float *parts = room + (size_t)b->threads * v->room;
    const int64_t groups = v->want_x ? c->N * c->w.group : 0;
    int failed = 0;

    if (v->want_w) {
#pragma omp parallel for num_threads(b->threads) reduction(| : failed) if (v->parts > 1)
        for (int64_t k = 0; k < v->parts; k++)
            failed |= backward_weights(s, k, room + (size_t)omp_get_thread_num() * v->room,
                                       parts + k * c->O * c->K);
        sum_parts(s, parts);
    }
#pragma omp parallel for num_threads(b->threads) reduction(| : failed) if (groups > 1)
    for (int64_t i = 0; i < groups; i++)
        failed |= backward_data(s, i / c->w.group, i % c->w.group,
                                room + (size_t)omp_get_thread_num() * v->room);
    if (v->want_b)
        backward_bias(s);
    return failed ? pare_no_memory(err, "for a matrix product") : 0;
}

const struct pare_kernel pare_kernel_conv_gemm_train = {
    .name = "conv_gemm_train",
    .doc = "Training of convolutions of any shape, by GEMM.",
    .match = conv_gemm_train_match,
    .run = conv_gemm_train_run,
    .backward = conv_gemm_train_backward,
};
