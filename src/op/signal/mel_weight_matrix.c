/* mel_weight_matrix.c - MelWeightMatrix: triangles that sum a spectrum in bands of the mel scale.
 *
 *     mel(f) = 2595 log10(1 + f / 700)
 *
 * The range of frequencies is divided into num_mel_bins + 2 equal steps in mel; band b rises from
 * point b to b + 1 and falls to b + 2.  Points are rounded down to elements of the spectrum.
 */
#include <math.h>

#include "taper.h"

enum { BANDS, LENGTH, RATE, LOWER, UPPER };

struct mel {
    int64_t output_datatype;
};

static const struct pare_opt attrs[] = { PARE_INT("output_datatype",
                                                  offsetof(struct mel, output_datatype),
                                                  "element type of the matrix", 1, 1, 64),
                                         PARE_OPT_END };

#define MOST 0x7fffffff

static int find_sizes(const struct pare_node *n, int64_t *bands, int64_t *length,
                      struct pare_err *err)
{
    PARE_TRY(pare_signal_number(n, BANDS, "num_mel_bins", 0, bands, err));
    PARE_TRY(pare_signal_number(n, LENGTH, "dft_length", 0, length, err));
    if (*bands < 0 || *bands > MOST || *length < 0 || *length > MOST)
        return pare_fail(err, PARE_ELIMIT,
                         "%lld bands of the spectrum of %lld elements; both must be positive and "
                         "below 2^31",
                         (long long)*bands, (long long)*length);
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct mel *a = n->attr;
    int64_t bands, length;

    PARE_TRY(pare_signal_type(a->output_datatype, err));
    PARE_TRY(find_sizes(n, &bands, &length, err));
    for (int i = RATE; i <= UPPER; i++)
        if (pare_numel(&n->in[i]->t) != 1)
            return pare_fail(err, PARE_ESHAPE, "input %d has %lld elements, must be one number", i,
                             (long long)pare_numel(&n->in[i]->t));
    return pare_shape_set(&n->out[0]->t, (enum pare_dtype)a->output_datatype, 2,
                          (int64_t[]){ length / 2 + 1, bands }, err);
}

static double to_mel(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

/* The element of the spectrum at point k of bands + 2. */
static int64_t point(const struct pare_node *n, int64_t bands, int64_t length, int64_t k)
{
    double low = to_mel(pare_get(&n->in[LOWER]->t, 0));
    double step = (to_mel(pare_get(&n->in[UPPER]->t, 0)) - low) / (double)(bands + 2);
    double hertz = 700 * (pow(10, (low + (double)k * step) / 2595) - 1);

    return (int64_t)floor((double)(length + 1) * hertz / pare_get(&n->in[RATE]->t, 0));
}

static int put(const struct pare_tensor *y, int64_t row, int64_t band, double v,
               struct pare_err *err)
{
    size_t at = (size_t)(row * y->dim[1] + band) * pare_dtype_size(y->dtype);

    return pare_convert(y->dtype, (char *)y->data + at, PARE_F64, &v, 1, err);
}

static int check_edges(const struct pare_node *n, int64_t length, struct pare_err *err)
{
    double low = pare_get(&n->in[LOWER]->t, 0), high = pare_get(&n->in[UPPER]->t, 0);
    double rate = pare_get(&n->in[RATE]->t, 0);

    if (!(low >= 0) || !(high >= low) || !(rate > 0) ||
        !(floor((double)(length + 1) * high / rate) < (double)(length / 2 + 1)))
        return pare_fail(err, PARE_ESHAPE,
                         "bands from %g to %g Hz at %g samples per second, expected ascending "
                         "frequencies up to half the rate",
                         low, high, rate);
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *y = &n->out[0]->t;
    int64_t bands, length, p[3];
    size_t bytes;

    (void)c;
    PARE_TRY(find_sizes(n, &bands, &length, err));
    PARE_TRY(check_edges(n, length, err));
    PARE_TRY(pare_tensor_size(y, NULL, &bytes, err));
    if (!bytes)
        return 0;
    memset(y->data, 0, bytes);
    for (int64_t b = 0; b < bands; b++) {
        for (int k = 0; k < 3; k++)
            p[k] = point(n, bands, length, b + k);
        for (int64_t i = p[0]; i <= p[1]; i++)
            PARE_TRY(
                put(y, i, b, p[1] > p[0] ? (double)(i - p[0]) / (double)(p[1] - p[0]) : 1, err));
        for (int64_t i = p[1]; i < p[2]; i++)
            PARE_TRY(put(y, i, b, (double)(p[2] - i) / (double)(p[2] - p[1]), err));
    }
    return 0;
}

const struct pare_op pare_op_mel_weight_matrix = {
    .type = "MelWeightMatrix",
    .doc = "Weights that sum a spectrum in bands of the mel scale.",
    .since = 17,
    .in = "IIITT",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct mel),
    .infer = infer,
    .forward = forward,
    .settings = 0x1f,
    .flags = PARE_OP_FLOAT_ONLY,
};
