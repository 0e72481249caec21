/* qlinear_where.c - QLinearWhere (com.microsoft): select from two quantized tensors, quantized with
 * another scale. */
#include "qlinear_family.h"

enum { COND, X, X_SCALE, X_ZERO, Y, Y_SCALE, Y_ZERO, Z_SCALE, Z_ZERO };

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor z;

    for (int i = X_SCALE; i <= Z_ZERO; i++)
        if (i != Y)
            PARE_TRY(pare_qlinear_single(n, i, PARE_NONE, err));
    PARE_TRY(pare_broadcast(&z, &n->in[COND]->t, &n->in[X]->t, err));
    PARE_TRY(pare_broadcast(&z, &z, &n->in[Y]->t, err));
    return pare_shape_set(&n->out[0]->t, n->in[X]->t.dtype, z.rank, z.dim, err);
}

/* The byte of the result for each byte of an operand. */
static void table_of(const struct pare_node *n, int k, uint8_t *table)
{
    float scale = pare_f32(&n->in[k + 1]->t)[0], zero = (float)pare_get_int(&n->in[k + 2]->t, 0);
    float to = pare_f32(&n->in[Z_SCALE]->t)[0], z = (float)pare_get_int(&n->in[Z_ZERO]->t, 0);

    for (int i = 0; i < 256; i++) {
        int byte = n->in[k]->t.dtype == PARE_I8 && i > 127 ? i - 256 : i;
        float v = ((float)byte - zero) * scale;

        pare_quantize_values(n->in[k]->t.dtype, table + i, &v, 1, &to, &z, 0);
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *in[3] = { &n->in[COND]->t, &n->in[X]->t, &n->in[Y]->t };
    uint8_t table[2][256], *z = n->out[0]->t.data;
    struct pare_walk w;

    (void)c, (void)err;
    table_of(n, X, table[0]);
    table_of(n, Y, table[1]);
    pare_walk_start(&w, &n->out[0]->t, in, 3);
    for (int64_t i = 0; i < pare_numel(&n->out[0]->t); i++, pare_walk_next(&w)) {
        bool left = ((const uint8_t *)in[0]->data)[w.at[0]] != 0;

        z[i] = left ? table[0][((const uint8_t *)in[1]->data)[w.at[1]]]
                    : table[1][((const uint8_t *)in[2]->data)[w.at[2]]];
    }
    return 0;
}

const struct pare_op pare_op_qlinear_where = {
    .type = "QLinearWhere",
    .doc = "Select from two quantized tensors by a condition, quantized.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "BTFTTFTFT",
    .types = PARE_T_BYTES,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .settings = 0x1fe,
};
