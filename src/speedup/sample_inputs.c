/* sample_inputs.c - random inputs that make sense to a model: token ids, masks, lengths, floats.
 *
 * What an integer input means is seen from its consumers: indices into a table must be below its
 * size, and a number that is compared with a constant selects a case.  Masks and lengths are known
 * by their names.
 */
#include <string.h>

#include "../base/arena.h"
#include "../base/rng.h"
#include "../tensor/tensor.h"
#include "speedup.h"

#define PIECE 256       /* elements that are converted at a time */
#define MOST_SETTINGS 8 /* elements of an input of scales or thresholds */

static bool is_real(enum pare_dtype t)
{
    return t == PARE_F32 || t == PARE_F64 || t == PARE_F16 || t == PARE_BF16;
}

/* ---- the meaning of an input ----------------------------------------------------------------- */

struct meaning {
    int64_t limit; /* indices are below it; 0: it is not an index */
    double equals; /* it is compared with this constant */
    bool compared;
    bool mask;
};

/* The constant that the node compares input k with. */
static void look_at_comparison(const struct pare_node *n, int k, struct meaning *m)
{
    const struct pare_value *c = n->n_in == 2 ? n->in[!k] : NULL;

    if (!(n->op->flags & PARE_OP_STEPS) || !c || !(c->flags & PARE_V_CONST) || !c->t.data ||
        pare_numel(&c->t) != 1 || m->compared)
        return;
    m->compared = true;
    m->equals = pare_get(&c->t, 0);
}

/* Follow integers from the input to the nodes that use them as indices. */
static int find_meaning(struct pare_arena *a, const struct pare_graph *g,
                        const struct pare_value *input, struct meaning *m, struct pare_err *err)
{
    uint8_t *seen = pare_alloc(a, (size_t)g->n_values + 1, 1);

    *m = (struct meaning){ 0 };
    if (!seen)
        return pare_no_memory(err, "for inputs");
    seen[input->id] = 1;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; n->op && k < n->n_in; k++) {
            const struct pare_value *v = n->in[k];
            int64_t limit;

            if (!v || v->id >= g->n_values || g->value[v->id] != v || !seen[v->id])
                continue;
            limit = n->op->index_limit && n->in[0]->t.rank > 0 ? n->op->index_limit(n, k) : 0;
            if (limit > 0 && (!m->limit || limit < m->limit))
                m->limit = limit;
            look_at_comparison(n, k, m);
            for (int j = 0; j < n->n_out && !limit; j++)
                if (n->out[j] && !is_real(n->out[j]->t.dtype) && !(n->op->flags & PARE_OP_SHAPES))
                    seen[n->out[j]->id] = 1;
        }
    }
    return 0;
}

static bool has_word(const char *name, const char *word)
{
    size_t n = strlen(word);

    for (; *name; name++)
        if (!strncasecmp(name, word, n))
            return true;
    return false;
}

/* The length of the sequences: the second axis of the first input that has one. */
static int64_t sequence_length(const struct pare_tensor *in, int n)
{
    for (int i = 0; i < n; i++)
        if (in[i].rank >= 2)
            return in[i].dim[1];
    return 1;
}

/* ---- contents -------------------------------------------------------------------------------- */

/* A few floats are scales, speeds, thresholds: numbers between 0 and 1 make sense to them. */
static bool is_setting(const struct pare_io *io)
{
    return is_real(io->dtype) &&
           (!io->rank || (io->rank == 1 && io->dim[0] >= 0 && io->dim[0] <= MOST_SETTINGS));
}

/* One element; at: its position in a row of `row` elements. */
static double draw(struct pare_rng *r, const struct pare_io *io, const struct meaning *m,
                   int64_t at, int64_t row)
{
    if (m->mask) /* no row of zeros */
        return at < (row + 1) / 2 || pare_rng_below(r, 2);
    if (is_setting(io))
        return 0.5 + 0.5 * pare_rng_uniform(r);
    if (is_real(io->dtype))
        return pare_rng_normal(r);
    if (m->limit)
        return (double)pare_rng_below(r, (uint64_t)m->limit);
    if (m->compared && row == 1)
        return m->equals;
    if (io->dtype == PARE_U8)
        return (double)pare_rng_below(r, 256);
    return (double)pare_rng_below(r, 2);
}

static int fill(struct pare_sample *s, int i, const struct meaning *m, struct pare_rng *r,
                struct pare_err *err)
{
    struct pare_tensor *t = &s->in[i];
    const struct pare_io *io = &s->io[i];
    int64_t row = t->rank ? t->dim[t->rank - 1] : 1, length = sequence_length(s->in, s->n);
    bool lengths = !is_real(t->dtype) && t->rank <= 1 && has_word(io->name, "len") && !m->limit;
    size_t size = pare_dtype_size(t->dtype);

    for (int64_t at = 0, total = pare_numel(t); at < total; at += PIECE) {
        int64_t n = total - at < PIECE ? total - at : PIECE;
        double v[PIECE];

        for (int64_t k = 0; k < n; k++)
            v[k] = lengths ? (double)length : draw(r, io, m, (at + k) % row, row);
        PARE_TRY(pare_convert(t->dtype, (char *)t->data + (size_t)at * size, PARE_F64, v, n, err));
    }
    return 0;
}

int pare_sample_fill(struct pare_sample *s, const struct pare_graph *g, uint64_t seed,
                     struct pare_err *err)
{
    struct pare_rng r;

    pare_rng_init(&r, seed);
    for (int i = 0; i < s->n; i++) {
        struct meaning m = { 0 };

        if (s->in[i].dtype == PARE_STR || s->given[i])
            continue;
        if (!is_real(s->in[i].dtype))
            PARE_TRY(find_meaning(s->arena, g, g->in[i], &m, err));
        m.mask = has_word(s->io[i].name, "mask") || s->io[i].dtype == PARE_BOOL;
        PARE_TRY(fill(s, i, &m, &r, err));
    }
    return 0;
}

int pare_sample_infer(const struct pare_sample *s, const struct pare_model *m,
                      const struct pare_tensor *in, struct pare_graph **g, struct pare_err *err)
{
    *g = pare_graph_clone(s->arena, m->graph, err);
    if (!*g)
        return err->code;
    for (int i = 0; i < s->n; i++) {
        struct pare_value *v = pare_graph_find(*g, s->io[i].name);

        if (v)
            v->t = in[i];
    }
    return pare_graph_infer(*g, true, err);
}
