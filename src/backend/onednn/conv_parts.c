/* conv_parts.c - a oneDNN convolution as several primitives of one thread each. */
#include "conv_parts.h"

#include <omp.h>
#include <stdatomic.h>

#include "../../base/team.h"

#define ALIGN 64

/* Do n units divide into shares of about the same size? */
static bool divides(int64_t n, int threads)
{
    return n >= threads && (n + threads - 1) / threads * threads * 7 <= 8 * n;
}

bool pare_conv_parts(struct pare_conv_parts *p, struct pare_backend *b, const struct pare_tensor *y,
                     enum pare_conv_cut cut, int64_t unit)
{
    const int axis = cut == PARE_CUT_CHANNELS ? 1 : 2;
    const int64_t units = (y->dim[axis] + unit - 1) / unit;
    const bool by_image = divides(y->dim[0], b->threads);
    const bool by_unit = y->dim[0] == 1 && cut != PARE_CUT_NOT && divides(units, b->threads);

    p->n = b->threads > 1 && (by_image || by_unit) ? b->threads : 1;
    p->part = pare_alloc(b->arena, (size_t)p->n, sizeof(*p->part));
    if (!p->part) {
        p->n = 0;
        return false;
    }
    for (int k = 0; k < p->n; k++) {
        struct pare_conv_part *t = &p->part[k];
        int64_t *at = by_image ? &t->image : cut == PARE_CUT_CHANNELS ? &t->channel : &t->row;
        int64_t each = by_image ? 1 : unit, n = by_image ? y->dim[0] : units;
        int64_t size = by_image ? n : y->dim[axis], end = n * (k + 1) / p->n * each;

        *t = (struct pare_conv_part){ .images = y->dim[0],
                                      .channels = y->dim[1],
                                      .rows = y->dim[2] };
        if (p->n == 1)
            continue;
        at[0] = n * k / p->n * each;
        at[1] = (end < size ? end : size) - at[0];
    }
    return true;
}

int pare_conv_parts_begin(const struct pare_conv_parts *p)
{
    int threads = omp_get_max_threads();

    if (p->n > 1)
        omp_set_num_threads(1);
    return threads;
}

void pare_conv_parts_end(int threads)
{
    omp_set_num_threads(threads);
}

static size_t scratch_of(const struct pare_conv_part *t)
{
    return (pare_dnnl_scratch_bytes(t->pd) + ALIGN - 1) / ALIGN * ALIGN;
}

size_t pare_conv_parts_bytes(const struct pare_conv_parts *p)
{
    size_t bytes = 0;

    for (int k = 0; k < p->n; k++)
        bytes += scratch_of(&p->part[k]);
    return bytes;
}

int pare_conv_part_init(struct pare_conv_parts *p, int k, const struct pare_step *s,
                        struct pare_backend *b, const size_t at[2], struct pare_err *err)
{
    struct pare_conv_part *t = &p->part[k];
    const dnnl_memory_desc_t *from = dnnl_primitive_desc_query_md(t->pd, dnnl_query_src_md, 0);
    const dnnl_memory_desc_t *to = dnnl_primitive_desc_query_md(t->pd, dnnl_query_dst_md, 0);
    const dnnl_memory_desc_t *room = dnnl_primitive_desc_query_md(t->pd, dnnl_query_scratchpad_md,
                                                                  0);
    dnnl_engine_t e = b->onednn->engine;
    int threads = pare_conv_parts_begin(p), rc;
    size_t before = 0;

    for (int i = 0; i < k; i++)
        before += scratch_of(&p->part[i]);
    rc = pare_dnnl(err, dnnl_primitive_create(&t->prim, t->pd), "convolution");
    if (!rc)
        rc = pare_dnnl(err, dnnl_stream_create(&t->stream, e, dnnl_stream_default_flags), "stream");
    if (!rc)
        rc = pare_dnnl(err,
                       dnnl_memory_create(&t->src, from, e, (char *)s->in_buf[0]->t.data + at[0]),
                       "input");
    if (!rc)
        rc = pare_dnnl(err,
                       dnnl_memory_create(&t->dst, to, e, (char *)s->out_buf[0]->t.data + at[1]),
                       "output");
    if (!rc && pare_dnnl_scratch_bytes(t->pd))
        rc = pare_dnnl(err,
                       dnnl_memory_create(&t->scratch, room, e,
                                          (char *)s->work[0]->t.data + before),
                       "working memory");
    pare_conv_parts_end(threads);
    return rc;
}

struct job {
    const struct pare_conv_parts *p;
    atomic_int status; /* the last dnnl_status_t that is not dnnl_success */
};

static void run_parts(void *arg, int64_t from, int64_t to, int thread)
{
    struct job *j = arg;

    (void)thread;
    for (int64_t k = from; k < to; k++) {
        const struct pare_conv_part *t = &j->p->part[k];
        dnnl_exec_arg_t args[5] = {
            { DNNL_ARG_SRC, t->src },
            { DNNL_ARG_WEIGHTS, t->weights },
            { DNNL_ARG_DST, t->dst },
        };
        dnnl_status_t status;
        int n = 3;

        if (t->bias)
            args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, t->bias };
        if (t->scratch)
            args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, t->scratch };
        status = dnnl_primitive_execute(t->prim, t->stream, n, args);
        if (status != dnnl_success)
            atomic_store(&j->status, (int)status);
    }
}

int pare_conv_parts_run(const struct pare_conv_parts *p, const struct pare_backend *b,
                        struct pare_err *err)
{
    struct job j = { .p = p };

    pare_parallel(b->threads, p->n, run_parts, &j);
    return pare_dnnl(err, (dnnl_status_t)atomic_load(&j.status), "convolution");
}

void pare_conv_parts_destroy(struct pare_conv_parts *p)
{
    for (int k = 0; k < p->n && p->part; k++) {
        struct pare_conv_part *t = &p->part[k];
        dnnl_memory_t mem[] = { t->src, t->dst, t->weights, t->bias, t->scratch };

        pare_dnnl_destroy(mem, 5, t->prim, t->pd);
        if (t->stream)
            dnnl_stream_destroy(t->stream);
    }
    p->n = 0;
}
