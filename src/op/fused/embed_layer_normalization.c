/* embed_layer_normalization.c - EmbedLayerNormalization (com.microsoft): the embeddings of BERT.
 *
 *     s = words[ids] + positions[position] + segments[segment],   y = LayerNormalization(s)
 *
 * The position is the index in the sequence unless position_ids is given.  Output 1 is the number
 * of ones in each row of the mask, 0 without a mask.
 */
#include "../inner_node.h"
#include "../shape/movement.h"

enum { IDS, SEGMENT_IDS, WORDS, POSITIONS, SEGMENTS, GAMMA, BETA, MASK, POSITION_IDS };
enum { Y, MASK_INDEX, SUM };

struct embed {
    double epsilon;
    int64_t mask_index_type;
};

static const struct pare_opt attrs[] = {
    PARE_FLOAT("epsilon", offsetof(struct embed, epsilon), "added to the variance", 1e-12,
               PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("mask_index_type", offsetof(struct embed, mask_index_type),
             "1: output 1 is the length of each sequence", 0, 0, 1),
    PARE_OPT_END
};

extern const struct pare_op pare_op_layer_normalization;

static int check_ids(const struct pare_node *n, int i, const char *name, struct pare_err *err)
{
    const struct pare_tensor *t = pare_given(n, i), *ids = &n->in[IDS]->t;
    char bt[PARE_SHAPE_TEXT], bi[PARE_SHAPE_TEXT];

    if (!t || (t->rank == 2 && t->dim[1] == ids->dim[1] &&
               (t->dim[0] == ids->dim[0] || (i == POSITION_IDS && t->dim[0] == 1))))
        return 0;
    return pare_fail(err, PARE_ESHAPE, "%s is %s but input_ids is %s", name,
                     pare_shape_text(t, bt, sizeof(bt)), pare_shape_text(ids, bi, sizeof(bi)));
}

static int check_table(const struct pare_node *n, int i, const char *name, struct pare_err *err)
{
    const struct pare_tensor *t = pare_given(n, i), *gamma = &n->in[GAMMA]->t;
    bool list = i == GAMMA || i == BETA;
    char bt[PARE_SHAPE_TEXT];

    if (!t ||
        (t->rank == (list ? 1 : 2) && gamma->rank == 1 && t->dim[t->rank - 1] == gamma->dim[0]))
        return 0;
    return pare_fail(err, PARE_ESHAPE, "%s is %s, expected a last axis of %lld", name,
                     pare_shape_text(t, bt, sizeof(bt)), (long long)gamma->dim[0]);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *ids = &n->in[IDS]->t;
    int64_t dim[3];

    if (ids->rank != 2)
        return pare_fail(err, PARE_ESHAPE, "input_ids has %d dimensions, must have 2", ids->rank);
    if (!pare_given(n, SEGMENT_IDS) != !pare_given(n, SEGMENTS))
        return pare_fail(err, PARE_ESHAPE, "segment_ids and segment_embedding must both be given");
    PARE_TRY(check_ids(n, SEGMENT_IDS, "segment_ids", err));
    PARE_TRY(check_ids(n, MASK, "mask", err));
    PARE_TRY(check_ids(n, POSITION_IDS, "position_ids", err));
    PARE_TRY(check_table(n, GAMMA, "gamma", err));
    PARE_TRY(check_table(n, BETA, "beta", err));
    PARE_TRY(check_table(n, WORDS, "word_embedding", err));
    PARE_TRY(check_table(n, POSITIONS, "position_embedding", err));
    PARE_TRY(check_table(n, SEGMENTS, "segment_embedding", err));
    dim[0] = ids->dim[0];
    dim[1] = ids->dim[1];
    dim[2] = n->in[GAMMA]->t.dim[0];
    for (int k = Y; k < n->n_out; k++)
        if (n->out[k] && k != MASK_INDEX)
            PARE_TRY(pare_shape_set(&n->out[k]->t, n->in[WORDS]->t.dtype, 3, dim, err));
    if (n->n_out > MASK_INDEX && n->out[MASK_INDEX])
        return pare_shape_set(&n->out[MASK_INDEX]->t, PARE_I32, 1, dim, err);
    return 0;
}

/* The row of a table for element i of the ids, or -1 and an error. */
static int row_of(const struct pare_node *n, int table, int ids, int64_t i, int64_t *row,
                  struct pare_err *err)
{
    const struct pare_tensor *t = pare_given(n, ids), *words = pare_given(n, table);
    int64_t length = n->in[IDS]->t.dim[1];

    *row = t ? pare_get_int(t, i % pare_numel(t)) : i % length;
    if (*row < 0 || *row >= words->dim[0])
        return pare_fail(err, PARE_ESHAPE, "id %lld is outside a table of %lld rows",
                         (long long)*row, (long long)words->dim[0]);
    return 0;
}

static int add_up(const struct pare_node *n, struct pare_tensor *sum, bool back,
                  struct pare_err *err)
{
    static const int table[3][2] = { { WORDS, IDS },
                                     { POSITIONS, POSITION_IDS },
                                     { SEGMENTS, SEGMENT_IDS } };
    int64_t rows = pare_numel(&n->in[IDS]->t), H = n->in[GAMMA]->t.dim[0], row;

    for (int64_t i = 0; i < rows && H; i++)
        for (int k = 0; k < 3; k++) {
            float *to = pare_f32_mut(sum) + i * H, *from;

            if (!pare_given(n, table[k][0]))
                continue;
            PARE_TRY(row_of(n, table[k][0], table[k][1], i, &row, err));
            from = back ? pare_f32_mut(&n->in[table[k][0]]->grad)
                        : pare_f32_mut(&n->in[table[k][0]]->t);
            for (int64_t h = 0; from && h < H; h++)
                if (back)
                    from[row * H + h] += to[h];
                else
                    to[h] = (k ? to[h] : 0) + from[row * H + h];
        }
    return 0;
}

static int start(const struct pare_node *n, bool grad, struct pare_ctx *c, struct pare_value *sum,
                 struct pare_inner *norm, struct pare_err *err)
{
    const struct embed *a = n->attr;

    PARE_TRY(pare_inner_temp(sum, n->out[Y], grad, c->scratch, err));
    PARE_TRY(add_up(n, &sum->t, false, err));
    PARE_TRY(pare_inner_init(norm, &pare_op_layer_normalization, 17, err));
    PARE_TRY(pare_inner_set(norm, "epsilon", a->epsilon, err));
    pare_inner_in(norm, sum);
    pare_inner_in(norm, n->in[GAMMA]);
    pare_inner_in(norm, n->in[BETA]);
    pare_inner_out(norm, n->out[Y]);
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *mask = pare_given(n, MASK);
    const struct pare_tensor *ids = &n->in[IDS]->t;
    struct pare_inner norm;
    struct pare_value sum;

    PARE_TRY(start(n, false, c, &sum, &norm, err));
    for (int64_t b = 0; n->n_out > MASK_INDEX && n->out[MASK_INDEX] && b < ids->dim[0]; b++) {
        int32_t length = 0;

        for (int64_t i = 0; mask && i < ids->dim[1]; i++)
            length += pare_get_int(mask, b * ids->dim[1] + i) == 1;
        ((int32_t *)n->out[MASK_INDEX]->t.data)[b] = length;
    }
    if (n->n_out > SUM && n->out[SUM] && pare_numel(&sum.t))
        memcpy(n->out[SUM]->t.data, sum.t.data, (size_t)pare_numel(&sum.t) * sizeof(float));
    return norm.node.op->forward(&norm.node, c, err);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_value *out = n->n_out > SUM ? n->out[SUM] : NULL;
    struct pare_inner norm;
    struct pare_value sum;

    PARE_TRY(start(n, true, c, &sum, &norm, err));
    PARE_TRY(norm.node.op->backward(&norm.node, c, err));
    for (int64_t i = 0; out && out->grad.data && i < pare_numel(&sum.t); i++)
        pare_f32_mut(&sum.grad)[i] += pare_f32(&out->grad)[i];
    return add_up(n, &sum.grad, true, err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_tie(t, n->in[IDS], 0, n->out[Y], 0);
    for (int k = SUM; k < n->n_out; k++)
        pare_tie(t, n->out[k], 0, n->out[Y], 0);
    for (int i = SEGMENT_IDS; i < n->n_in; i++)
        if ((i == SEGMENT_IDS || i == MASK || i == POSITION_IDS) && n->in[i] &&
            n->in[i]->t.dim[0] == n->in[IDS]->t.dim[0])
            pare_tie(t, n->in[i], 0, n->out[Y], 0);
}

const struct pare_op pare_op_embed_layer_normalization = {
    .type = "EmbedLayerNormalization",
    .doc = "Sum of word, position and segment embeddings, normalized.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "II?TTT?TTI?I?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 3,
    .attrs = attrs,
    .attr_size = sizeof(struct embed),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};
