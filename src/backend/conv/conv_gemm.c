/* conv_gemm.c - Conv of any shape with BatchNormalization, residual Add and activations, by im2col
 * and GEMM.
 *
 * For convolutions that no faster kernel takes; in builds with oneDNN, conv_onednn.c gets most of
 * them.  Tensors are row-major.  Each thread makes the columns of a strip of pixels, multiplies
 * them with the filters of a group and finishes the strip.
 */
#include <stdatomic.h>

#include "columns.h"
#include "../fuse/conv_fuse.h"
#include "../../base/team.h"

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_columns c;
    float *w, *bias; /* (O, K); O */
};

static bool conv_gemm_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct conv *c = pare_alloc(v->backend->arena, 1, sizeof(*c));

    if (!c || !pare_conv_fuse(v, n, &c->fuse) || !pare_columns_init(n, &c->c) ||
        !pare_conv_fuse_step(v, n, &c->fuse, 1, 1, s))
        return false;
    s->state = c;
    s->inplace = 0; /* the product overwrites y before the residual is added */
    if (!c->c.direct)
        s->work_bytes[0] = (size_t)(v->backend->threads * c->c.K * c->c.strip) * sizeof(float);
    return true;
}

static int conv_gemm_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    const float *w;
    float *scale;

    if (s->share_from) {
        c->w = ((const struct conv *)s->share_from->state)->w;
        c->bias = ((const struct conv *)s->share_from->state)->bias;
        return 0;
    }
    w = pare_const_f32(b, s->node->in[1], err);
    if (!w)
        return err->code;
    c->w = pare_alloc_raw(b->arena, (size_t)(c->c.O * c->c.K), sizeof(*c->w));
    c->bias = pare_alloc(b->arena, (size_t)c->c.O, sizeof(*c->bias));
    scale = pare_alloc(b->scratch, (size_t)c->c.O, sizeof(*scale));
    if (!c->w || !c->bias || !scale)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    for (int64_t o = 0; o < c->c.O; o++)
        for (int64_t k = 0; k < c->c.K; k++)
            c->w[o * c->c.K + k] = scale[o] * w[o * c->c.K + k];
    return 0;
}

/* Strip i of a group of an image. */
static int run_strip(const struct pare_step *s, int64_t image, int64_t group, int64_t i,
                     float *room)
{
    const struct conv *v = s->state;
    const struct pare_columns *c = &v->c;
    const int64_t first = (image * c->O + group * c->Q) * c->pixels + i * c->strip;
    const float *x = pare_f32(&s->in_buf[0]->t) + (image * c->C + group * c->I) * c->plane;
    const float *sum = s->n_in > 1 ? pare_f32(&s->in_buf[1]->t) + first : NULL;
    float *y = pare_f32_mut(&s->out_buf[0]->t) + first;
    struct pare_sgemm p = { .M = c->Q,
                            .N = pare_strip_pixels(c, i),
                            .K = c->K,
                            .a = v->w + group * c->Q * c->K,
                            .lda = c->K,
                            .c = y,
                            .ldc = c->pixels };

    p.b = pare_columns_make(c, x, i, room, &p.ldb);
    if (pare_sgemm(&p))
        return PARE_ENOMEM;
    for (int64_t o = 0; o < c->Q; o++, y += c->pixels) {
        for (int64_t k = 0; k < p.N; k++)
            y[k] += v->bias[group * c->Q + o];
        pare_post_apply(&v->fuse.post, y, sum ? sum + o * c->pixels : NULL, p.N);
    }
    return 0;
}

struct job {
    struct pare_step *s;
    atomic_bool failed;
};

static void run_strips(void *arg, int64_t from, int64_t to, int thread)
{
    struct job *j = arg;
    struct pare_step *s = j->s;
    const struct pare_columns *c = &((const struct conv *)s->state)->c;
    float *room = s->work[0] ? pare_f32_mut(&s->work[0]->t) + thread * c->K * c->strip : NULL;

    for (int64_t i = from; i < to; i++)
        if (run_strip(s, i / c->strips / c->w.group, i / c->strips % c->w.group, i % c->strips,
                      room))
            atomic_store(&j->failed, true);
}

static int conv_gemm_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_columns *c = &((const struct conv *)s->state)->c;
    struct job j = { .s = s };

    pare_parallel(b->threads, c->N * c->w.group * c->strips, run_strips, &j);
    return atomic_load(&j.failed) ? pare_no_memory(err, "for a matrix product") : 0;
}

const struct pare_kernel pare_kernel_conv_gemm = {
    .name = "conv_gemm",
    .doc = "Convolution of any shape with fused normalization, residual sum and activations, by "
           "GEMM.",
    .candidate = true,
    .match = conv_gemm_match,
    .init = conv_gemm_init,
    .run = conv_gemm_run,
};
