/* portable_reorder.c - conversion of values and gradients between layouts, without oneDNN.
 *
 * A tensor is (N, C, S), S the product of the spatial axes.  Element (n, c, s) is at
 *     (n C + c) S + s                                    row-major
 *     ((n ceil(C / b) + c / b) S + s) b + c % b          in blocks of b channels
 *     (n S + s) C + c                                    channels last
 * A line is the elements (n, c, all s), whose stride is the same everywhere: 1, b or C.
 */
#include <string.h>

#include "../backend.h"
#include "../fuse/int8_operands.h"
#include "../../base/team.h"

#define SOME 16384 /* elements that one thread converts */

/* A tensor in one of the layouts. */
struct side {
    char *data;
    int block;
    struct pare_ncs d;
};

static int64_t line_at(const struct side *t, int64_t n, int64_t c)
{
    if (t->block == 1)
        return (n * t->d.c + c) * t->d.s;
    if (t->block == PARE_CHANNELS_LAST)
        return n * t->d.s * t->d.c + c;
    return (n * ((t->d.c + t->block - 1) / t->block) + c / t->block) * t->d.s * t->block +
           c % t->block;
}

static int64_t line_step(const struct side *t)
{
    return t->block == PARE_CHANNELS_LAST ? t->d.c : t->block;
}

#define MOVE(type, op)                      \
    for (int64_t i = 0; i < from->d.s; i++) \
    ((type *)to->data)[y + i * y_step] op((const type *)from->data)[x + i * x_step]

/* Line c of image n; add: to what is there (float32). */
static void move_line(const struct side *from, const struct side *to, int64_t n, int64_t c,
                      size_t size, bool add)
{
    const int64_t x = line_at(from, n, c), y = line_at(to, n, c);
    const int64_t x_step = line_step(from), y_step = line_step(to);

    if (add)
        MOVE(float, +=);
    else if (size == 1)
        MOVE(unsigned char, =);
    else
        MOVE(uint32_t, =);
}

/* The lanes beyond the channels are zero. */
static void clear_padding(const struct side *to, int64_t n, size_t size)
{
    const int64_t c = to->d.c, whole = (c + to->block - 1) / to->block * to->block;
    char *y = to->data + (size_t)line_at(to, n, c - c % to->block) * size;

    for (int64_t i = 0; i < to->d.s && c < whole; i++)
        memset(y + (size_t)(i * to->block + c % to->block) * size, 0, (size_t)(whole - c) * size);
}

struct job {
    const struct side *from, *to;
    size_t size;
    bool add;
};

static void move_lines(void *arg, int64_t first, int64_t end, int thread)
{
    const struct job *j = arg;

    (void)thread;
    for (int64_t i = first; i < end; i++)
        move_line(j->from, j->to, i / j->from->d.c, i % j->from->d.c, j->size, j->add);
}

static void convert(const struct side *from, const struct side *to, size_t size, bool add,
                    const struct pare_backend *b)
{
    const int64_t lines = from->d.n * from->d.c;
    struct job j = { from, to, size, add };

    pare_parallel(lines * from->d.s > SOME ? b->threads : 1, lines, move_lines, &j);
    for (int64_t n = 0; n < to->d.n && to->block > 1 && !add; n++)
        clear_padding(to, n, size);
}

static struct side side_of(const struct pare_buf *b, const struct pare_tensor *shape, int block)
{
    return (struct side){ b->t.data, block, pare_ncs(shape) };
}

static int reorder_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_tensor *t = &s->in_buf[0]->t;
    size_t size = pare_dtype_size(t->dtype);

    (void)b;
    return t->rank >= 3 && (size == 1 || size == 4)
               ? 0
               : pare_fail(err, PARE_EUNSUPPORTED,
                           "cannot reorder '%s': no layout for its shape and element type",
                           s->in[0]->name);
}

static int reorder_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_tensor *t = &s->in_buf[0]->t;
    struct side from = side_of(s->in_buf[0], t, s->in_block[0]),
                to = side_of(s->out_buf[0], t, s->out_block[0]);

    (void)err;
    convert(&from, &to, pare_dtype_size(t->dtype), false, b);
    return 0;
}

/* The gradient in the other direction. */
static int reorder_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_tensor *t = &s->in_buf[0]->t;
    struct side from = side_of(s->out_buf[0]->grad, t, s->out_block[0]),
                to = side_of(s->in_buf[0]->grad, t, s->in_block[0]);

    (void)err;
    convert(&from, &to, sizeof(float), !s->grad_assign[0], b);
    return 0;
}

const struct pare_kernel pare_kernel_reorder = {
    .name = "reorder",
    .doc = "Conversion between layouts.",
    .init = reorder_init,
    .run = reorder_run,
    .backward = reorder_backward,
};
