/* merge_ranks.c - several processes compress one model: statistics of their parts of the data become
 * those of all, and masks are checked to be the same.
 *
 * Before collectors are called, sums are kept by the last process only (it always has an item of
 * the batch), the others begin with 0; afterwards all are added up.
 */
#include <string.h>

#include "../base/arena.h"
#include "../quant/quant_config.h"

struct pare_tensor *pare_layer_statistic(struct pare_layer *l, const char *name,
                                         enum pare_merge merge, enum pare_dtype dtype, int64_t n,
                                         struct pare_err *err)
{
    struct pare_tensor *t = NULL;

    if (merge == PARE_MERGE_NONE || (dtype != PARE_F32 && dtype != PARE_F64 && dtype != PARE_I64))
        pare_fail(err, PARE_ECONFIG,
                  "statistic '%.64s' of layer '%s' is of %s, must be float32, float64 or int64 "
                  "that are summed or have a least or a largest",
                  name, l->info.name, pare_dtype_name(dtype));
    else
        t = pare_layer_buffer(l, name, dtype, 1, &n, err);
    for (struct pare_buffer *b = l->buffers; b && t; b = b->next)
        if (&b->t == t)
            b->merge = merge;
    return t;
}

int pare_compression_merge(struct pare_compression *r, enum pare_merge merge, enum pare_dtype dtype,
                           void *data, int64_t n, struct pare_err *err)
{
    return pare_dist_merge_batch(r->dist, merge, dtype, data, n, err);
}

double pare_compression_share(const struct pare_compression *r)
{
    return pare_dist_part(r->dist);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void zero_sums(struct pare_compression *r)
{
    for (int i = 0; i < r->n_layers; i++)
        for (struct pare_buffer *b = r->layer[i].buffers; b; b = b->next)
            if (b->merge == PARE_MERGE_SUM)
                memset(b->t.data, 0, (size_t)pare_numel(&b->t) * pare_dtype_size(b->t.dtype));
}

void pare_compression_share_begin(struct pare_compression *r)
{
    if (r->dist && pare_dist_rank(r->dist) != pare_dist_size(r->dist) - 1)
        zero_sums(r);
}

int pare_compression_share_end(struct pare_compression *r, struct pare_err *err)
{
    if (!r->dist)
        return 0;
    if (!(pare_compression_share(r) > 0))
        zero_sums(r);
    for (int i = 0; i < r->n_layers; i++)
        for (struct pare_buffer *b = r->layer[i].buffers; b; b = b->next)
            if (b->merge != PARE_MERGE_NONE)
                PARE_TRY(pare_dist_merge(r->dist, b->merge, b->t.dtype, b->t.data,
                                         pare_numel(&b->t), err));
    return 0;
}

int pare_compression_merge_noise(struct pare_compression *r, struct pare_err *err)
{
    for (int i = 0; i < r->n_layers; i++)
        for (int k = 0; k < PARE_QUANT_SITES; k++) {
            struct pare_noise *s = &r->layer[i].noise[k];
            double v[] = { s->signal, s->noise };

            PARE_TRY(pare_dist_merge(r->dist, PARE_MERGE_SUM, PARE_F64, v, 2, err));
            *s = (struct pare_noise){ v[0], v[1] };
        }
    return 0;
}

/* ---- learned buffers ------------------------------------------------------------------------- */

/* Of inputs and outputs, before those of weights are made.  Who drew random numbers for gradients
 * may have drawn fewer than others. */
int pare_compression_merge_learned(struct pare_compression *r, struct pare_err *err)
{
    if (!r->dist)
        return 0;
    for (struct pare_learned_buffer *b = r->learned; b; b = b->next)
        PARE_TRY(pare_dist_merge(r->dist, PARE_MERGE_SUM, PARE_F32, b->grad.data,
                                 pare_numel(&b->grad), err));
    return pare_dist_broadcast(r->dist, &r->rng, sizeof(r->rng), err);
}

/* ---- masks ----------------------------------------------------------------------------------- */

int pare_compression_check_masks(struct pare_compression *r, struct pare_err *err)
{
    struct pare_mark mark = pare_mark(r->scratch);
    int64_t which = -1;
    uint64_t *hash;
    int rc;

    if (!r->dist)
        return 0;
    hash = pare_alloc(r->scratch, (size_t)r->n_layers, sizeof(*hash));
    if (!hash)
        return pare_no_memory(err, "to compare masks");
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].mask.data)
            hash[i] = pare_dist_hash(r->layer[i].mask.data, (size_t)pare_numel(&r->layer[i].mask));
    rc = pare_dist_same(r->dist, hash, r->n_layers, &which, err);
    pare_rewind(r->scratch, mark);
    if (rc || which < 0)
        return rc;
    return pare_fail(err, PARE_EIO,
                     "the mask of layer '%s' is not the same in all %d processes; what the pruner "
                     "knows of the data must be in statistics (pare_layer_statistic)",
                     r->layer[which].info.name, pare_dist_size(r->dist));
}
