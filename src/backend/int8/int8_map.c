/* int8_map.c - int8 elementwise functions by a table of 256 entries.
 *
 * Any run of unary elementwise operators between DequantizeLinear and QuantizeLinear is such a
 * table, and so is a change of scale.  If it changes nothing (pools and views between two equal
 * scales), the memory is shared.
 */
#include "../fuse/int8_function.h"

#include <math.h>

#include "../../op/op.h"
#include "../../base/team.h"

#define CHUNK 8192

struct int8_map {
    struct pare_int8_func f;
    struct pare_int8_end end;
    uint8_t table[256];
    bool same;
};

static void fill_table(struct int8_map *m)
{
    uint8_t x[256];

    for (int i = 0; i < 256; i++)
        x[i] = (uint8_t)i;
    pare_int8_quantize(&m->end, m->f.table.f32, m->table, 0, 256);
    m->same = !memcmp(m->table, x, sizeof(x));
}

/* After a view the int8 tensor has another shape, and only row-major order has meaning. */
static bool int8_source(const struct pare_match *v, const struct pare_value *f32,
                        struct pare_int8_func *f)
{
    uint8_t all[256];

    if (pare_int8_func(v, f32, f))
        return true;
    if (!pare_int8_source(v, f32, &f->x))
        return false;
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    pare_int8_dequantize(&f->x, all, 0, f->table.f32, 256);
    f->transpose = 0;
    return true;
}

static bool int8_map_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct int8_map *m = pare_alloc(v->backend->scratch, 1, sizeof(*m)), *keep;

    if (!m || !pare_node_is(n, &pare_op_quantize_linear) || !pare_numel(&n->in[0]->t) ||
        pare_attr(n, "block_size") != 0 || !int8_source(v, n->in[0], &m->f) ||
        !pare_int8_read(&m->end.q, n->out[0], n->in[1], n->n_in > 2 ? n->in[2] : NULL))
        return false;
    m->end.lo = -INFINITY;
    m->end.hi = INFINITY;
    fill_table(m);
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, 0))
        return false;
    *keep = *m;
    s->state = keep;
    s->in[0] = m->f.x.v;
    s->out[0] = n->out[0];
    s->out_block[0] = pare_int8_func_keep(v, &m->f);
    s->in_block[0] = pare_int8_func_layout(&m->f, s->out_block[0]);
    s->inplace = 1;
    return true;
}

static void map_chunks(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct int8_map *m = s->state;
    const uint8_t *x = s->in_buf[0]->t.data;
    uint8_t *y = s->out_buf[0]->t.data;
    int64_t n = pare_numel(&s->out[0]->t);

    (void)thread;
    for (int64_t i = from * CHUNK; i < to * CHUNK && i < n; i += CHUNK)
        pare_int8_bytes(m->table, x + i, y + i, n - i < CHUNK ? n - i : CHUNK);
}

static int int8_map_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct int8_map *m = s->state;
    const uint8_t *x = s->in_buf[0]->t.data;
    uint8_t *y = s->out_buf[0]->t.data;
    int64_t n = pare_numel(&s->out[0]->t);

    (void)err;
    if (m->same) {
        if (x != y)
            memcpy(y, x, (size_t)n);
        return 0;
    }
    pare_parallel(n > 32768 ? b->threads : 1, (n + CHUNK - 1) / CHUNK, map_chunks, s);
    return 0;
}

const struct pare_kernel pare_kernel_int8_map = {
    .name = "int8_map",
    .doc = "Int8 elementwise functions as a table of 256 entries.",
    .match = int8_map_match,
    .run = int8_map_run,
};
