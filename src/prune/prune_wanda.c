/* prune_wanda.c - Wanda pruner: remove the weights whose product with the norm of their input is
 * smallest, for each output by itself.  Sun et al., "A simple and effective pruning approach for
 * large language models", 2023, arXiv 2306.11695.
 *
 *     score = |w_ij| * sqrt(E[x_j^2])
 *
 * A block's score is the sum over its weights.  Weights do not change.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "input_grams.h"

/* asked: the layer's scores were read, so that the next call computes new ones. */
struct layer {
    int64_t ready;
};

static const struct pare_opt opts[] = { PARE_INT("items", offsetof(struct pare_gram_options, items),
                                                 "items of the data for statistics of inputs",
                                                 PARE_GRAM_ITEMS, 1, 1e9),
                                        PARE_OPT_END };

static struct pare_tensor *scores(struct pare_layer *l, struct pare_err *err)
{
    return pare_layer_buffer(l, "wanda", PARE_F32, 1, &pare_layer_units(l)->n, err);
}

static int score_layer(const struct pare_input_gram *m, void *user, struct pare_err *err)
{
    struct pare_compression *c = m->l->compression;
    struct pare_mark mark = pare_mark(pare_compression_scratch(c));
    struct pare_tensor *b = scores(m->l, err), product = m->l->w;
    const struct pare_gram *g = &m->gram;

    (void)user;
    product.data = NULL;
    if (!b)
        return err->code;
    PARE_TRY(pare_tensor_alloc(pare_compression_scratch(c), &product, err));
    for (int64_t r = 0; r < g->groups * g->rows; r++)
        for (int64_t k = 0; k < g->k; k++) {
            int64_t at = r * m->row + k * m->column;
            double power = g->diagonal[r / g->rows * g->k + k];

            if (!(power >= 0 && power < 1e300))
                return pare_fail(err, PARE_EFORMAT,
                                 "its inputs are not finite for the data: check "
                                 "the model with pare eval");
            pare_f32_mut(&product)[at] = pare_f32(&m->l->w)[at] * (float)sqrt(power);
        }
    pare_units_sum(pare_layer_units(m->l), &product, 1, pare_f32_mut(b));
    ((struct layer *)pare_layer_state(m->l))->ready = 1;
    pare_rewind(pare_compression_scratch(c), mark);
    return 0;
}

static int score(struct pare_compression *c, struct pare_layer *l, float *to, struct pare_err *err)
{
    const struct pare_gram_options *o = pare_compression_conf(c);
    struct layer *s = pare_layer_state(l);
    struct pare_tensor *b;

    if (!s->ready)
        PARE_TRY(pare_input_grams(&(struct pare_input_grams){ .c = c,
                                                              .items = o->items,
                                                              .diagonal = true,
                                                              .each = score_layer },
                                  err));
    s->ready = 0;
    b = scores(l, err);
    if (!b)
        return err->code;
    memcpy(to, b->data, (size_t)pare_numel(b) * sizeof(*to));
    return 0;
}

const struct pare_algorithm pare_pruner_wanda = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "wanda",
    .doc = "Remove weights with the smallest product of magnitude and input norm, per output.",
    .opts = opts,
    .opts_size = sizeof(struct pare_gram_options),
    .layer_size = sizeof(struct layer),
    .flags = PARE_ONE_SHOT | PARE_NEEDS_DATA | PARE_USES_GRAMS,
    .types = "Conv1d|Conv2d|Conv3d|Linear",
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "element",
            .mode = "row",
            .score = score,
        },
};
