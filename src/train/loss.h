/* loss.h - loss functions and their gradients.
 *
 * A loss is src/train/loss_<name>.c with a descriptor at the bottom and one line in losses.def.
 */
#ifndef PARE_TRAIN_LOSS_H
#define PARE_TRAIN_LOSS_H

#include <pare/plugin.h>

/* What a loss compares the model's output with. */
enum pare_labels {
    /* int64 class indices: (N) for an output (N, C), (N, d1, ...) for (N, C, d1, ...) */
    PARE_LABELS_CLASS,
    PARE_LABELS_TENSOR,      /* float32, the shape of the output */
    PARE_LABELS_PROBABILITY, /* the same, probabilities of classes */
};

struct pare_loss {
    uint32_t abi; /* PARE_ABI */
    const char *name, *doc;
    const struct pare_opt *opts;
    size_t conf_size; /* of the struct that opts fill */
    enum pare_labels labels;

    /* The loss takes logits: of a model that ends in an operator with one of these flags
     * (PARE_OP_SOFTMAX, PARE_OP_SIGMOID) it gets the input of that operator, not the output.  The
     * same holds for the teacher.  0: the output as it is. */
    unsigned logits;

    /* *loss = the mean loss of the batch; grad = d *loss / d out, assigned, in the shape of `out`
     * (NULL: not computed).  `out` is float32.  Checks types, shapes and labels.  Runs on the
     * calling thread; the same input gives the same bytes. */
    int (*run)(const void *conf, const struct pare_tensor *out, const struct pare_tensor *target,
               float *grad, double *loss, struct pare_err *err);
};

extern const struct pare_loss *const pare_losses[]; /* ends with NULL */

/* By name; the error names the closest one. */
int pare_find_loss(const char *name, const struct pare_loss **loss, struct pare_err *err);

/* For losses of float32 targets: types and shapes agree. */
int pare_loss_check(const struct pare_tensor *out, const struct pare_tensor *target,
                    struct pare_err *err);

/* Same dimensions, except for those of 1: (N, 1) and (N). */
bool pare_loss_same_shape(const struct pare_tensor *a, const struct pare_tensor *b);

#endif
