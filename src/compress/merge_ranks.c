/* merge_ranks.c - several processes compress one model: merge statistics, compare masks.
 *
 * Before collectors run, only the last process keeps its sums (it always has an item of the
 * batch); the others start from 0.  Afterward the sums of all processes are added up.
 */
#include <string.h>

#include "../base/arena.h"
#include "compression.h"

struct pare_tensor *pare_layer_statistic(struct pare_layer *l, const char *name,
                                         enum pare_merge merge, enum pare_dtype dtype, int64_t n,
                                         struct pare_err *err)
{
    PARE_ERR(err);
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

int pare_compression_merge(struct pare_compression *c, enum pare_merge merge, enum pare_dtype dtype,
                           void *data, int64_t n, struct pare_err *err)
{
    PARE_ERR(err);
    return pare_dist_merge_batch(c->dist, merge, dtype, data, n, err);
}

double pare_compression_share(const struct pare_compression *c)
{
    return pare_dist_part(c->dist);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void zero_sums(struct pare_compression *c)
{
    for (int i = 0; i < c->n_layers; i++)
        for (struct pare_buffer *b = c->layer[i].buffers; b; b = b->next)
            if (b->merge == PARE_MERGE_SUM)
                memset(b->t.data, 0, (size_t)pare_numel(&b->t) * pare_dtype_size(b->t.dtype));
}

void pare_compression_share_begin(struct pare_compression *c)
{
    if (c->dist && pare_dist_rank(c->dist) != pare_dist_size(c->dist) - 1)
        zero_sums(c);
}

int pare_compression_share_end(struct pare_compression *c, struct pare_err *err)
{
    if (!c->dist)
        return 0;
    if (!(pare_compression_share(c) > 0))
        zero_sums(c);
    for (int i = 0; i < c->n_layers; i++)
        for (struct pare_buffer *b = c->layer[i].buffers; b; b = b->next)
            if (b->merge != PARE_MERGE_NONE)
                PARE_TRY(pare_dist_merge(c->dist, b->merge, b->t.dtype, b->t.data,
                                         pare_numel(&b->t), err));
    return 0;
}

/* ---- masks ----------------------------------------------------------------------------------- */

int pare_compression_check_masks(struct pare_compression *c, struct pare_err *err)
{
    struct pare_mark mark = pare_mark(c->scratch);
    int64_t which = -1;
    uint64_t *hash;
    int rc;

    if (!c->dist)
        return 0;
    hash = pare_alloc(c->scratch, (size_t)c->n_layers, sizeof(*hash));
    if (!hash)
        return pare_no_memory(err, "to compare masks");
    for (int i = 0; i < c->n_layers; i++)
        if (c->layer[i].mask.data)
            hash[i] = pare_dist_hash(c->layer[i].mask.data, (size_t)pare_numel(&c->layer[i].mask));
    rc = pare_dist_same(c->dist, hash, c->n_layers, &which, err);
    pare_rewind(c->scratch, mark);
    if (rc || which < 0)
        return rc;
    return pare_fail(err, PARE_EIO,
                     "the mask of layer '%s' is not the same in all %d processes; what the pruner "
                     "knows of the data must be in statistics (pare_layer_statistic)",
                     c->layer[which].info.name, pare_dist_size(c->dist));
}
