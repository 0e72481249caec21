/* linear_sparse.c - Gemm and MatMul with sparse weights, by blocks of nonzero weights.
 *
 * One row is bound by reading the weights.  More rows are the pixels of a convolution with one tap.
 */
#include "../fuse/post_ops.h"

#include "../fuse/linear_fuse.h"

struct linear {
    struct pare_sparse_conv shape; /* first member, see pare_sparse_step_rows() */
    struct pare_linear_fuse is;
    struct pare_post post;
    struct pare_sparse w;
    float *bias; /* padded with zeros */
};

static struct pare_sparse_from weights_of(const struct pare_linear_fuse *l)
{
    return (struct pare_sparse_from){ pare_const_raw(l->w), l->N, l->K, l->tb ? l->K : 1,
                                      l->tb ? 1 : l->N };
}

static bool linear_sparse_match(const struct pare_match *v, struct pare_node *n,
                                struct pare_step *s)
{
    struct linear *l = pare_alloc(v->backend->scratch, 1, sizeof(*l)), *keep;
    struct pare_value *out;
    struct pare_sparse_from f;
    int at = 0;

    if (v->train || v->backend->sparse_rows < 0 || v->backend->block < 8 || !l ||
        !pare_linear_fuse_read(v, n, &l->is) || !pare_const_raw(l->is.w))
        return false;
    f = weights_of(&l->is);
    l->shape = (struct pare_sparse_conv){
        .N = 1,
        .C = l->is.K,
        .O = l->is.N,
        .in = { l->is.M, 1 },
        .out = { l->is.M, 1 },
        .kernel = { 1, 1 },
        .stride = { 1, 1 },
        .dilation = { 1, 1 },
        .in_block = PARE_CHANNELS_LAST,
        .out_block = PARE_CHANNELS_LAST,
        .lanes = v->backend->block,
        .threads = v->backend->threads,
    };
    if (!pare_sparse_choose(v, &f, &l->shape))
        return false;
    out = pare_post_follow(v, l->is.out, false, &l->post);
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, (l->is.add != NULL) + l->post.n_nodes))
        return false;
    *keep = *l;
    s->state = keep;
    s->in[0] = n->in[0];
    s->out[0] = out;
    s->work_bytes[0] = l->is.M > 1 ? (size_t)(l->shape.floats * l->shape.threads) * sizeof(float)
                                   : 0;
    if (l->is.add)
        s->fused[at++] = l->is.add;
    for (int i = 0; i < l->post.n_nodes; i++)
        s->fused[at++] = l->post.node[i];
    return true;
}

static int linear_sparse_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear *l = s->state;
    struct pare_sparse_from f = weights_of(&l->is);
    int64_t lanes = l->shape.lanes, padded = (f.O + lanes - 1) / lanes * lanes;
    int32_t *at = pare_alloc(b->scratch, (size_t)f.K, sizeof(*at));
    struct pare_sparse_make m = { l->shape.rows, padded, l->is.M > 1 ? at : NULL, NULL };

    if (s->share_from) {
        l->w = ((const struct linear *)s->share_from->state)->w;
        l->bias = ((const struct linear *)s->share_from->state)->bias;
        return 0;
    }
    l->bias = pare_alloc(b->arena, (size_t)padded, sizeof(*l->bias));
    if (!at || !l->bias)
        return pare_no_memory(err, "for the weights");
    if (l->is.b) {
        const float *row = pare_const_f32(b, l->is.b, err);

        if (!row)
            return err->code;
        memcpy(l->bias, row, (size_t)f.O * sizeof(*row));
    }
    for (int64_t k = 0; k < f.K; k++)
        at[k] = pare_sparse_offset(&l->shape, k);
    return pare_sparse_make(&f, &m, b->arena, &l->w, err);
}

/* The first group of a thread's part, such that all parts have about the same number of blocks. */
static int64_t first_group(const struct pare_sparse *w, int64_t part, int64_t parts)
{
    int64_t want = w->first[w->groups] / parts * part, lo = 0, hi = w->groups;

    if (part == parts)
        return w->groups;
    while (lo < hi) {
        int64_t mid = (lo + hi) / 2;

        if (w->first[mid] < want)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void run_row(const struct linear *l, const float *x, float *y, int threads)
{
    int64_t groups = (l->is.N + l->w.rows - 1) / l->w.rows;

#pragma omp parallel for num_threads(threads) if (l->w.first[l->w.groups] * l->w.rows > 16384)
    for (int i = 0; i < threads; i++) {
        int64_t from = first_group(&l->w, i, threads), to = first_group(&l->w, i + 1, threads);

        pare_sparse_times(&l->w, from, to < groups ? to : groups, x, l->bias, y);
    }
    pare_post_apply(&l->post, y, NULL, l->is.N);
}

static int linear_sparse_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct linear *l = s->state;
    struct pare_sparse_run r = {
        .w = &l->w,
        .x = pare_f32(&s->in_buf[0]->t),
        .bias = l->bias,
        .y = pare_f32_mut(&s->out_buf[0]->t),
        .end = pare_post_end(&l->post),
    };

    (void)err;
    if (l->is.M == 1) {
        run_row(l, r.x, r.y, b->threads);
        return 0;
    }
    r.work = pare_f32_mut(&s->work[0]->t);
    pare_sparse_run(&l->shape, &r);
    return 0;
}

const struct pare_kernel pare_kernel_linear_sparse = {
    .name = "linear_sparse",
    .openmp = true,
    .doc = "Gemm and MatMul with block-sparse (4x1, 8x1) or unstructured sparse weights.",
    .candidate = true,
    .sparsity_dependent = true,
    .match = linear_sparse_match,
    .init = linear_sparse_init,
    .run = linear_sparse_run,
};
