/* mat_mul_nbits.c - MatMulNBits (com.microsoft): product with packed 2-, 4- or 8-bit weights. */
#include "nbits.h"

enum { A, B, SCALES, ZEROS, INDEX, BIAS };

struct mat_mul_nbits {
    int64_t K, N, bits, block_size, accuracy_level, weight_prepacked;
};

static const struct pare_opt mat_mul_nbits_attrs[] = {
    { "K", "columns of A", PARE_OPT_INT, offsetof(struct mat_mul_nbits, K), 0, 1, 1e15, NULL, NULL,
      true, NULL },
    { "N", "columns of the result", PARE_OPT_INT, offsetof(struct mat_mul_nbits, N), 0, 1, 1e15,
      NULL, NULL, true, NULL },
    PARE_INT("bits", offsetof(struct mat_mul_nbits, bits), "bits of a weight: 2, 4 or 8", 4, 1, 8),
    { "block_size", "weights that share a scale", PARE_OPT_INT,
      offsetof(struct mat_mul_nbits, block_size), 0, 1, 1e15, NULL, NULL, true, NULL },
    PARE_INT("accuracy_level", offsetof(struct mat_mul_nbits, accuracy_level),
             "ignored: products are computed in float32", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("weight_prepacked", offsetof(struct mat_mul_nbits, weight_prepacked),
             "packing of B for a certain machine, which is not supported", 0, 0, 0),
    PARE_OPT_END
};

struct pare_nbits_attrs pare_nbits_get(const struct pare_node *n)
{
    const struct mat_mul_nbits *a = n->attr;

    return (struct pare_nbits_attrs){ a->K, a->N, a->bits, a->block_size,
                                      a->K / a->block_size + (a->K % a->block_size != 0) };
}

static const struct pare_value *input(const struct pare_node *n, int i)
{
    return n->n_in > i ? n->in[i] : NULL;
}

/* Check B's shape against the attributes; elements are counted without overflow. */
static int check_weight(const struct pare_node *n, struct pare_err *err)
{
    struct pare_nbits_attrs a = pare_nbits_get(n);
    const struct pare_tensor *b = &n->in[B]->t;
    char text[PARE_SHAPE_TEXT];
    int64_t bytes;

    if (a.bits != 2 && a.bits != 4 && a.bits != 8)
        return pare_fail(err, PARE_EUNSUPPORTED, "bits is %lld, must be 2, 4 or 8",
                         (long long)a.bits);
    if (a.block < 16 || a.block & (a.block - 1))
        return pare_fail(err, PARE_ESHAPE,
                         "block_size is %lld, expected a power of 2 of at least 16",
                         (long long)a.block);
    bytes = a.block / 8 * a.bits;
    if (b->dtype != PARE_U8)
        return pare_fail(err, PARE_ESHAPE, "B is %s, must be uint8", pare_dtype_name(b->dtype));
    if (!(b->rank == 3 && b->dim[0] == a.N && b->dim[1] == a.blocks && b->dim[2] == bytes) &&
        !(b->rank == 2 && b->dim[0] == a.N && b->dim[1] / bytes == a.blocks &&
          b->dim[1] % bytes == 0))
        return pare_fail(err, PARE_ESHAPE,
                         "B is %s, N %lld, K %lld and blocks of %lld with %lld bits need "
                         "(%lld, %lld, %lld)",
                         pare_shape_text(b, text, sizeof(text)), (long long)a.N, (long long)a.K,
                         (long long)a.block, (long long)a.bits, (long long)a.N, (long long)a.blocks,
                         (long long)bytes);
    return 0;
}

static int check_count(const struct pare_tensor *t, const char *what, int64_t rows, int64_t columns,
                       struct pare_err *err)
{
    int64_t n = pare_numel(t);

    if (n / rows == columns && n % rows == 0)
        return 0;
    return pare_fail(err, PARE_ESHAPE, "%s has %lld elements, must have %lld for each of %lld rows",
                     what, (long long)n, (long long)columns, (long long)rows);
}

static int check_rest(const struct pare_node *n, struct pare_err *err)
{
    struct pare_nbits_attrs a = pare_nbits_get(n);
    const struct pare_value *z = input(n, ZEROS), *bias = input(n, BIAS);
    bool packed = z && z->t.dtype == PARE_U8;
    int64_t row = packed ? a.blocks / 8 * a.bits + (a.blocks % 8 * a.bits + 7) / 8 : a.blocks;

    if (input(n, INDEX))
        return pare_fail(err, PARE_EUNSUPPORTED, "g_idx is given, which is not supported");
    PARE_TRY(check_count(&n->in[SCALES]->t, "scales", a.N, a.blocks, err));
    if (z && !packed && z->t.dtype != n->in[A]->t.dtype)
        return pare_fail(err, PARE_ESHAPE, "zero_points is %s, must be uint8 or A's type",
                         pare_dtype_name(z->t.dtype));
    if (z)
        PARE_TRY(check_count(&z->t, "zero_points", a.N, row, err));
    return bias ? check_count(&bias->t, "bias", 1, a.N, err) : 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_nbits_attrs a = pare_nbits_get(n);
    const struct pare_tensor *x = &n->in[A]->t;
    char text[PARE_SHAPE_TEXT];

    PARE_TRY(check_weight(n, err));
    PARE_TRY(check_rest(n, err));
    if (x->rank < 1 || x->dim[x->rank - 1] != a.K)
        return pare_fail(err, PARE_ESHAPE, "A is %s, its last dimension must be K, %lld",
                         pare_shape_text(x, text, sizeof(text)), (long long)a.K);
    pare_like(&n->out[0]->t, x);
    n->out[0]->t.dim[x->rank - 1] = a.N;
    return 0;
}

/* Dequantize row r of the weights. */
static void real_row(const struct pare_node *n, int64_t r, float *w)
{
    struct pare_nbits_attrs a = pare_nbits_get(n);
    const struct pare_value *z = input(n, ZEROS);
    int bits = (int)a.bits;
    int64_t bytes = a.block / 8 * a.bits * a.blocks;
    int64_t zrow = a.blocks / 8 * a.bits + (a.blocks % 8 * a.bits + 7) / 8;
    const uint8_t *q = (const uint8_t *)n->in[B]->t.data + r * bytes;

    for (int64_t k = 0; k < a.K; k++) {
        int64_t b = k / a.block;
        float zero = (float)(1 << (bits - 1));

        if (z && z->t.dtype == PARE_U8)
            zero = (float)pare_nbits_at((const uint8_t *)z->t.data + r * zrow, bits, b);
        else if (z)
            zero = (float)pare_get(&z->t, r * a.blocks + b);
        w[k] = ((float)pare_nbits_at(q, bits, k) - zero) *
               pare_f32(&n->in[SCALES]->t)[r * a.blocks + b];
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_nbits_attrs a = pare_nbits_get(n);
    const struct pare_tensor *x = &n->in[A]->t, *y = &n->out[0]->t;
    const struct pare_value *bias = input(n, BIAS);
    int64_t rows = pare_numel(x) / a.K;
    float *w = pare_alloc_raw(c->scratch, (size_t)a.K, sizeof(*w));

    if (!w)
        return pare_no_memory(err, "for %lld weights", (long long)a.K);
    for (int64_t j = 0; j < a.N; j++) {
        real_row(n, j, w);
        for (int64_t i = 0; i < rows; i++) {
            double sum = bias ? (double)pare_f32(&bias->t)[j] : 0;

            for (int64_t k = 0; k < a.K; k++)
                sum += (double)pare_f32(x)[i * a.K + k] * (double)w[k];
            pare_f32_mut(y)[i * a.N + j] = (float)sum;
        }
    }
    return 0;
}

static double macs(const struct pare_node *n)
{
    return (double)pare_numel(&n->in[A]->t) * (double)pare_nbits_get(n).N;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    for (int i = 0; i + 1 < n->in[A]->t.rank; i++)
        pare_tie(t, n->in[A], i, n->out[0], i);
}

const struct pare_op pare_op_mat_mul_nbits = {
    .type = "MatMulNBits",
    .doc = "Matrix product with packed weights of 2, 4 or 8 bits and a scale per block.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TATA?A?T?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = mat_mul_nbits_attrs,
    .attr_size = sizeof(struct mat_mul_nbits),
    .infer = infer,
    .scales = { .w = SCALES, .packed = true },
    .forward = forward,
    .ties = ties,
    .macs = macs,
    .torch = "Linear",
    .layer = { .kind = PARE_LAYER_LINEAR,
               .params = PARE_IN(B) | PARE_IN(BIAS),
               .weight = B,
               .bias = BIAS,
               .by_default = true },
    .settings = 0xe,
};
