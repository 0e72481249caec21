/* channel_rows.h - loops over tensors that are quantized: in rows of one channel, on several threads.
 *
 * Also what quantizers share: a place of a layer with its scales, and the range of its numbers.
 */
#ifndef PARE_QUANT_CHANNEL_ROWS_H
#define PARE_QUANT_CHANNEL_ROWS_H

#include <pare/plugin.h>

#define PARE_SCALE_MIN 1.1920929e-07f /* PyTorch's float32 eps: no scale is smaller, ... */
#define PARE_SCALE_MAX 5e33f          /* ... or larger: times 65535 it is still a float */

/* Numbers at..at+n-1 of the tensor are of one channel.  Who runs is `thread`: each has a part of
 * the rows, in order, so that sums kept for each thread come out the same in every run. */
struct pare_row {
    int64_t channel, at, n;
    int thread;
};
typedef void pare_row_fn(const struct pare_row *row, void *user);
void pare_rows_each(const struct pare_quant *q, const struct pare_tensor *x, pare_row_fn *fn,
                    void *user);
int pare_rows_threads(const struct pare_quant *q, const struct pare_tensor *x);
int64_t pare_rows_channels(const struct pare_quant *q, const struct pare_tensor *x);

/* A setting of quantizers whose convolutions are rounded together with the normalization behind
 * them: a bool `fold_bn` of their struct. */
#define PARE_FOLD_BN(opts)                               \
    PARE_FLAG("fold_bn", offsetof(struct opts, fold_bn), \
              "round convolutions as they are with the normalization behind them folded in", 1)

/* ---- places ---------------------------------------------------------------------------------- */

struct pare_quant_point {
    struct pare_layer *layer;
    enum pare_quant_site site;
    const struct pare_quant *q;
    int64_t n; /* channels, or 1 */
    float *scale, *zero;
};

/* The place of x in its layer, with its buffers; the first time they are 0. */
int pare_quant_point_open(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, struct pare_quant_point *p,
                          struct pare_err *err);

/* The smallest and the largest number of each channel; NaN and infinities do not count, and a
 * channel without others has 0 and 0. */
int pare_quant_point_range(const struct pare_quant_point *p, const struct pare_tensor *x, float *lo,
                           float *hi, struct pare_err *err);

/* The scale, or the nearest one that can be used. */
float pare_scale_limit(float scale);

/* Scales and zero points for the numbers of x as they are. */
int pare_quant_point_fit(const struct pare_quant_point *p, const struct pare_tensor *x,
                         struct pare_err *err);

/* quant_start_step is still to come: numbers pass as they are. */
bool pare_layer_waits(const struct pare_layer *l);

void pare_copy(const struct pare_tensor *x, struct pare_tensor *y); /* y = x */

/* y = x by the place's scales; as it is while the layer waits, and where they are not `known`. */
void pare_quant_point_round(const struct pare_quant_point *p, bool known,
                            const struct pare_tensor *x, struct pare_tensor *y);

/* A quantizer's weight(): by the range of the weights as they are now. */
int pare_weight_by_range(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                         struct pare_err *err);

/* A quantizer's input() and output(), by
 *     static int round(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
 *                      struct pare_tensor *y, struct pare_err *err) */
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

/* "tracked_min_input" and the like. */
struct pare_tensor *pare_place_buffer(const struct pare_quant_point *p, const char *what,
                                      struct pare_err *err);

/* For quantizers without scales for each channel: per_channel is an error. */
int pare_quant_point_whole(const struct pare_quant_point *p, const char *quantizer,
                           struct pare_err *err);

#endif
