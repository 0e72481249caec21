/* channel_rows.h - loops over quantized tensors, in rows of one channel, on several threads.
 *
 * Also shared by quantizers: a quantization point (one tensor of a layer) with its scales, and the
 * range of its values.
 */
#ifndef PARE_QUANT_CHANNEL_ROWS_H
#define PARE_QUANT_CHANNEL_ROWS_H

#include <pare/plugin.h>

#define PARE_SCALE_MIN 1.1920929e-07f /* smallest scale: PyTorch's float32 eps */
#define PARE_SCALE_MAX 5e33f          /* largest scale: times 65535 it is still finite */

/* Elements at..at+n-1 of the tensor, which belong to one channel.  Each `thread` gets a contiguous
 * share of the rows, in order, so that sums per thread are the same in every run. */
struct pare_row {
    int64_t channel, at, n;
    int thread;
};
typedef void pare_row_fn(const struct pare_row *row, void *user);
void pare_rows_each(const struct pare_quant *q, const struct pare_tensor *x, pare_row_fn *fn,
                    void *user);
int pare_rows_threads(const struct pare_quant *q, const struct pare_tensor *x);
int64_t pare_rows_channels(const struct pare_quant *q, const struct pare_tensor *x);

/* Option of quantizers that quantize a convolution together with the following BatchNormalization:
 * a bool `fold_bn` of their struct. */
#define PARE_FOLD_BN(opts)                               \
    PARE_FLAG("fold_bn", offsetof(struct opts, fold_bn), \
              "quantize convolutions with the following batch normalization folded in", 1)

/* ---- quantization points --------------------------------------------------------------------- */

struct pare_quant_point {
    struct pare_layer *layer;
    enum pare_quant_site site;
    const struct pare_quant *q;
    int64_t n; /* number of scales: channels, or 1 */
    float *scale, *zero;
};

/* Opens the quantization point of x with its buffers, which are 0 the first time. */
int pare_quant_point_open(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, struct pare_quant_point *p,
                          struct pare_err *err);

/* The minimum and maximum of each channel.  NaN and infinities are ignored; a channel without
 * finite values has 0 and 0. */
int pare_quant_point_range(const struct pare_quant_point *p, const struct pare_tensor *x, float *lo,
                           float *hi, struct pare_err *err);

/* Clamps a scale to PARE_SCALE_MIN..PARE_SCALE_MAX. */
float pare_scale_limit(float scale);

/* Sets scales and zero points from the min-max range of x. */
int pare_quant_point_fit(const struct pare_quant_point *p, const struct pare_tensor *x,
                         struct pare_err *err);

/* Is quant_start_step still ahead?  Until then values pass unchanged. */
bool pare_layer_waits(const struct pare_layer *l);

void pare_copy(const struct pare_tensor *x, struct pare_tensor *y); /* y = x */

/* y = x quantized by the point's scales; y = x while the layer waits, or if the scales are not
 * `known`. */
void pare_quant_point_round(const struct pare_quant_point *p, bool known,
                            const struct pare_tensor *x, struct pare_tensor *y);

/* Implements a quantizer's weight(), by the current min-max range of the weights. */
int pare_weight_by_range(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                         struct pare_err *err);

/* Defines a quantizer's input() and output() by
 *     static int round(struct pare_layer *l, enum pare_quant_site site,
 *                      const struct pare_tensor *x, struct pare_tensor *y, struct pare_err *err) */
#define PARE_ACTIVATIONS(round)                                                                 \
    static int input(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,  \
                     struct pare_err *err)                                                      \
    {                                                                                           \
        return round(l, PARE_INPUT, x, y, err);                                                 \
    }                                                                                           \
                                                                                                \
    static int output(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y, \
                      struct pare_err *err)                                                     \
    {                                                                                           \
        return round(l, PARE_OUTPUT, x, y, err);                                                \
    }

/* The buffer "<what>_<site>", for example "tracked_min_input". */
struct pare_tensor *pare_quant_point_buffer(const struct pare_quant_point *p, const char *what,
                                            struct pare_err *err);

/* Fails if the point is per_channel; for quantizers with one scale per tensor. */
int pare_quant_point_whole(const struct pare_quant_point *p, const char *quantizer,
                           struct pare_err *err);

#endif
