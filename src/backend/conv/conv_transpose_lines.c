/* conv_transpose_lines.c - ConvTranspose with constant filters as convolutions of parity classes,
 * by packed GEMM, with post-ops.
 *
 * The outputs whose position has the same remainder modulo the stride get the same taps.  Such a
 * class is a convolution of stride 1 over the input, whose results are at every stride-th pixel.
 * The pixels of a class in an output line are the rows of a product (gemm_packed.h) whose columns
 * are the output channels.  If taps reach beyond the input, it is copied into a frame of zeros.
 * Groups are multiplied with as many others as fill blocks of channels.
 */
#include "../fuse/conv_fuse.h"

#include "../gemm/gemm_packed.h"
#include "../../base/team.h"

#define CACHE_BYTES (384 << 10)
#define MOST_CLASSES 4096
#define MOST_FRAME 16 /* times the input */
#define PIECE 192     /* pixels of a class at a time */

/* Outputs that are r modulo the stride along an axis. */
struct residue {
    int64_t n, *tap, *from; /* taps, and the position in the frame that they read for output r */
};

/* A class: its filters in all groups, and the offsets of their runs. */
struct class
{
    int64_t runs, tails, K, *offset;
    float *w;
};

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_post_op post[PARE_MAX_POST];
    int n_post;
    bool clamp;
    float low, high;
    int64_t N, C, O;         /* channels of a part: of all groups, or of some that fill blocks */
    int64_t parts;           /* of groups */
    int64_t planes, columns; /* blocks of a part's input and output channels */
    int block, threads;
    int64_t size[2], before[2]; /* of the frame, or of the input; its border */
    bool frame;
    struct residue *residue[2];
    struct class *class;
    float *bias;
};

/* ---- match -------------------------------------------------------------------------- */

/* Two axes: a single one is a line. */
static bool set_axes(struct pare_window *w)
{
    if (w->nd == 1) {
        int64_t *list[] = { w->kernel,  w->stride, w->dilation, w->pad_begin,
                            w->pad_end, w->in,     w->out };
        const int64_t first[] = { 1, 1, 1, 0, 0, 1, 1 };

        for (int i = 0; i < 7; i++) {
            list[i][1] = list[i][0];
            list[i][0] = first[i];
        }
        w->nd = 2;
    }
    return w->nd == 2;
}

static bool set_frame(struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;

    for (int i = 0; i < 2; i++) {
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] - w->pad_begin[i], s = w->stride[i];
        int64_t end = (w->out[i] - 1 + w->pad_begin[i]) / s + 1;

        if (w->pad_begin[i] < 0)
            return false;
        c->before[i] = reach > 0 ? (reach + s - 1) / s : 0;
        c->size[i] = c->before[i] + (end > w->in[i] ? end : w->in[i]);
        c->frame |= c->size[i] != w->in[i];
        if (c->size[i] > MOST_FRAME * (w->in[i] + 4))
            return false;
    }
    return true;
}

/* Join groups until their channels fill blocks. */
static void join_groups(struct conv *c, int64_t C, int64_t O)
{
    int64_t group = c->fuse.win.group, together = 1;

    while (
        group > 1 &&
        (group % together || C / group * together % c->block || O / group * together % c->block) &&
        together < group)
        together++;
    c->parts = group / together;
    c->C = C / c->parts;
    c->O = O / c->parts;
    c->planes = (c->C + c->block - 1) / c->block;
    c->columns = (c->O + c->block - 1) / c->block;
}

/* The post-ops up to the first that the product cannot apply. */
static void set_post_ops(struct conv *c, const struct pare_node *n)
{
    bool padded = n->out[0]->t.dim[1] % c->block != 0;
    int keep = c->fuse.post.n;

    while ((c->n_post = pare_conv_fuse_vector_ops(&c->fuse, padded, c->post)) < 0)
        pare_conv_fuse_cut(n, &c->fuse, --keep);
    c->clamp = pare_post_bounds(c->post, &c->n_post, &c->low, &c->high);
}

static bool conv_transpose_lines_match(const struct pare_match *v, struct pare_node *n,
                                       struct pare_step *s)
{
    int block = v->backend->block;
    struct pare_window *w;
    struct conv *c;

    if (v->train || block < 8 || !pare_node_is(n, &pare_op_conv_transpose))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_conv_transpose_fuse(v, n, &c->fuse))
        return false;
    w = &c->fuse.win;
    c->block = block;
    c->threads = v->backend->threads;
    c->N = n->in[0]->t.dim[0];
    join_groups(c, n->in[0]->t.dim[1], n->out[0]->t.dim[1]);
    set_post_ops(c, n);
    if (!set_axes(w) || w->stride[0] > MOST_CLASSES || w->stride[1] > MOST_CLASSES ||
        w->stride[0] * w->stride[1] > MOST_CLASSES || !set_frame(c) ||
        !pare_conv_fuse_step(v, n, &c->fuse, block, block, s))
        return false;
    s->inplace = 0;
    if (c->frame)
        s->work_bytes[0] = (size_t)(c->N * c->parts * c->planes * c->size[0] * c->size[1] * block) *
                           sizeof(float);
    s->state = c;
    return true;
}

/* ---- filters ------------------------------------------------------------------------ */

static struct residue *find_residues(const struct conv *c, int axis, struct pare_arena *a)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t s = w->stride[axis];
    struct residue *list = pare_alloc(a, (size_t)s, sizeof(*list));

    for (int64_t r = 0; r < s && list; r++) {
        list[r].tap = pare_alloc(a, (size_t)w->kernel[axis], sizeof(*list->tap));
        list[r].from = pare_alloc(a, (size_t)w->kernel[axis], sizeof(*list->from));
        if (!list[r].tap || !list[r].from)
            return NULL;
        for (int64_t k = 0; k < w->kernel[axis]; k++) {
            int64_t at = r + w->pad_begin[axis] - k * w->dilation[axis] + c->before[axis] * s;

            if (at % s)
                continue;
            list[r].tap[list[r].n] = k;
            list[r].from[list[r].n++] = at / s;
        }
    }
    return list;
}

/* Filter element from channel i to channel o of a part, 0 between different groups. */
static float filter_at(const struct conv *c, const struct pare_node *n, int64_t part, int64_t i,
                       int64_t o, int64_t tap)
{
    const struct pare_tensor *w = &n->in[1]->t;
    const int64_t in = n->in[0]->t.dim[1] / c->fuse.win.group, out = w->dim[1];
    const int64_t taps = c->fuse.win.kernel[0] * c->fuse.win.kernel[1];
    float f = 0;

    if (i / in == o / out)
        memcpy(&f,
               (const char *)pare_const_raw(n->in[1]) +
                   (size_t)(((part * c->C + i) * out + o % out) * taps + tap) * sizeof(f),
               sizeof(f));
    return f;
}

/* Run i of a class: its plane and tap, and the number of its elements. */
static int64_t describe_run(const struct conv *c, const struct class *k, const struct residue *h,
                            const struct residue *v, int64_t i, int64_t *plane, int64_t *tap)
{
    int64_t taps = h->n * v->n, y = i % taps / v->n, x = i % taps % v->n;

    *plane = i / taps;
    *tap = h->tap[y] * c->fuse.win.kernel[1] + v->tap[x];
    k->offset[i] = ((*plane * c->size[0] + h->from[y]) * c->size[1] + v->from[x]) * c->block;
    return i < k->runs ? c->block : c->C % c->block;
}

/* Pack the filters of a class: runs of whole blocks of channels for each tap, then the rest. */
static int pack_class(const struct conv *c, const struct pare_node *n, const float *scale,
                      const struct residue *h, const struct residue *v, struct class *k,
                      struct pare_arena *a)
{
    const int64_t taps = h->n * v->n, columns = c->columns * c->block;

    k->runs = c->C / c->block * taps;
    k->tails = c->C % c->block ? taps : 0;
    k->K = c->C * taps;
    k->offset = pare_alloc(a, (size_t)(k->runs + k->tails + 1), sizeof(*k->offset));
    k->w = pare_alloc(a, (size_t)(c->parts * k->K * columns + 1), sizeof(*k->w));
    if (!k->offset || !k->w)
        return -1;
    for (int64_t i = 0, row = 0; i < k->runs + k->tails; i++) {
        int64_t plane, tap, count = describe_run(c, k, h, v, i, &plane, &tap);

#pragma omp parallel for num_threads(c->threads) if (c->parts * c->O * count > 8192)
        for (int64_t o = 0; o < c->parts * c->O; o++) {
            int64_t part = o / c->O, m = o % c->O;
            float *w = k->w + part * k->K * columns;

            for (int64_t e = 0; e < count; e++)
                w[pare_packed_gemm_at(k->K, c->columns, c->block, row + e, m)] =
                    scale[o] * filter_at(c, n, part, plane * c->block + e, m, tap);
        }
        row += count;
    }
    return 0;
}

static int conv_transpose_lines_init(struct pare_step *s, struct pare_backend *b,
                                     struct pare_err *err)
{
    struct conv *c = s->state;
    const struct pare_window *w = &c->fuse.win;
    const int64_t classes = w->stride[0] * w->stride[1];
    const size_t columns = (size_t)(c->parts * c->columns * c->block);
    float *scale = pare_alloc(b->scratch, columns, sizeof(*scale));

    if (s->share_from) {
        c->class = ((const struct conv *)s->share_from->state)->class;
        c->bias = ((const struct conv *)s->share_from->state)->bias;
        return 0;
    }
    c->class = pare_alloc(b->arena, (size_t)classes, sizeof(*c->class));
    c->bias = pare_alloc(b->arena, columns, sizeof(*c->bias));
    for (int i = 0; i < 2; i++)
        c->residue[i] = find_residues(c, i, b->scratch);
    if (!scale || !c->class || !c->bias || !c->residue[0] || !c->residue[1])
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    for (int64_t i = 0; i < classes; i++)
        if (pack_class(c, s->node, scale, &c->residue[0][i / w->stride[1]],
                       &c->residue[1][i % w->stride[1]], &c->class[i], b -> arena))
            return pare_no_memory(err, "for the weights");
    return 0;
}

/* ---- run ---------------------------------------------------------------------------- */

/* Copy a plane into a frame of zeros. */
static void copy_plane(const struct conv *c, const float *x, float *to)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t line = c->size[1] * c->block, left = c->before[1] * c->block;
    const int64_t inside = w->in[1] * c->block;

    for (int64_t r = 0; r < c->size[0]; r++, to += line) {
        int64_t h = r - c->before[0];

        if (h < 0 || h >= w->in[0]) {
            memset(to, 0, (size_t)line * sizeof(*to));
            continue;
        }
        memset(to, 0, (size_t)left * sizeof(*to));
        memcpy(to + left, x + h * inside, (size_t)inside * sizeof(*to));
        memset(to + left + inside, 0, (size_t)(line - left - inside) * sizeof(*to));
    }
}

/* A piece of an output line: image, part of groups, row, and blocks of channels [first, end). */
struct piece {
    int64_t image, part, row, first, end, index;
};

static void run_piece(const struct conv *c, const struct pare_step *s, const float *x,
                      const struct piece *at)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t block = c->block, plane = w->out[0] * w->out[1] * block;
    const int64_t line = at->row / w->stride[0], step = w->stride[1];
    const int64_t top = (at->image * c->parts + at->part) * c->planes * c->size[0] + line;
    const int64_t to = ((at->image * c->parts + at->part) * c->columns + at->first) * plane +
                       at->row * w->out[1] * block;

    for (int64_t r = 0; r < step && r < w->out[1]; r++) {
        const struct class *k = &c->class[at->row % w->stride[0] * step + r];
        int64_t pixels = (w->out[1] - r + step - 1) / step, begin = at->index * PIECE;
        int64_t y = to + (r + begin * step) * block, left = pixels - begin;
        struct pare_packed_gemm p = {
            .x = x + (top * c->size[1] + begin) * block,
            .w = k->w + (at->part * c->columns + at->first) * block * k->K,
            .bias = c->bias + at->part * c->O + at->first * block,
            .clamp = c->clamp,
            .low = c->low,
            .high = c->high,
            .post = c->post,
            .n_post = c->n_post,
            .sum = c->fuse.post.sum ? pare_f32(&s->in_buf[1]->t) + y : NULL,
            .y = pare_f32_mut(&s->out_buf[0]->t) + y,
            .rows = left < PIECE ? left : PIECE,
            .blocks = at->end - at->first,
            .runs = k->runs,
            .run = block,
            .last = k->tails ? c->C % block : 0,
            .tails = k->tails,
            .offset = k->offset,
            .x_row = block,
            .y_row = step * block,
            .y_block = plane,
            .block = c->block,
        };

        if (left > 0)
            pare_packed_gemm_run(&p);
    }
}

struct job {
    struct pare_step *s;
    const float *x;        /* the input, or its frame */
    float *frame;          /* NULL: none */
    int64_t some, lots;    /* lots of `some` blocks of columns */
    int64_t lines, pieces; /* pieces of all lines of an image, and of one */
};

static void copy_planes(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct job *j = arg;
    const struct conv *c = j->s->state;
    const struct pare_window *w = &c->fuse.win;
    const int64_t from = w->in[0] * w->in[1] * c->block, to = c->size[0] * c->size[1] * c->block;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        copy_plane(c, j->x + i * from, j->frame + i * to);
}

static void run_pieces(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct conv *c = j->s->state;

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        int64_t lot = i / j->lines, end = (lot % j->lots + 1) * j->some;
        struct piece at = {
            .image = lot / j->lots / c->parts,
            .part = lot / j->lots % c->parts,
            .row = i % j->lines / j->pieces,
            .first = lot % j->lots * j->some,
            .end = end < c->columns ? end : c->columns,
            .index = i % j->pieces,
        };

        run_piece(c, j->s, j->x, &at);
    }
}

/* As many weights at a time as stay in the cache over all lines of an image. */
static int conv_transpose_lines_run(struct pare_step *s, struct pare_backend *b,
                                    struct pare_err *err)
{
    const struct conv *c = s->state;
    const struct pare_window *w = &c->fuse.win;
    const int64_t bytes = 2 * c->block * c->C * w->kernel[0] * w->kernel[1] *
                          (int64_t)sizeof(float);
    const int64_t some = 2 * (CACHE_BYTES / bytes ? CACHE_BYTES / bytes : 1);
    const int64_t planes = c->N * c->parts * c->planes;
    const int64_t wide = (w->out[1] + w->stride[1] - 1) / w->stride[1];
    const int64_t pieces = (wide + PIECE - 1) / PIECE;
    float *frame = c->frame ? pare_f32_mut(&s->work[0]->t) : NULL;
    struct job j = {
        .s = s,
        .x = pare_f32(&s->in_buf[0]->t),
        .frame = frame,
        .some = some,
        .lots = (c->columns + some - 1) / some,
        .lines = w->out[0] * pieces,
        .pieces = pieces,
    };

    (void)err;
    if (frame) {
        pare_parallel(b->threads, planes, copy_planes, &j);
        j.x = frame;
    }
    pare_parallel(b->threads, c->N * c->parts * j.lots * j.lines, run_pieces, &j);
    return 0;
}

const struct pare_kernel pare_kernel_conv_transpose_lines = {
    .name = "conv_transpose_lines",
    .doc = "Transposed convolution with constant filters by packed GEMM, with post-ops.",
    .match = conv_transpose_lines_match,
    .init = conv_transpose_lines_init,
    .run = conv_transpose_lines_run,
};
