/* sequence_family.c - positions in sequences. */
#include "sequence_family.h"

int pare_sequence_position(const struct pare_node *n, int i, int64_t count, int64_t *at,
                           struct pare_err *err)
{
    const struct pare_tensor *t = i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
    int64_t v;

    if (!t)
        return 0;
    if (pare_numel(t) != 1)
        return pare_fail(err, PARE_ESHAPE, "the position has %lld elements, expected 1",
                         (long long)pare_numel(t));
    v = pare_get_int(t, 0);
    if (v < -count || v >= count)
        return pare_fail(err, PARE_ESHAPE, "position %lld is outside of %lld elements",
                         (long long)v, (long long)count);
    *at = v < 0 ? v + count : v;
    return 0;
}
