/* sequence.c - sequences and optionals: values that are not tensors. */
#include "tensor.h"

#include "../base/arena.h"
#include "../base/limits.h"

int pare_sequence_new(struct pare_arena *a, struct pare_tensor *t, int64_t n, struct pare_err *err)
{
    struct pare_tensor *list;

    if (n > PARE_MAX_SEQUENCE)
        return pare_fail(err, PARE_ELIMIT, "a sequence of %lld tensors, at most %d are handled",
                         (long long)n, PARE_MAX_SEQUENCE);
    list = pare_alloc(a, (size_t)n + 1, sizeof(*list));
    if (!list)
        return pare_no_memory(err, "for a sequence");
    *t = (struct pare_tensor){ .dtype = PARE_SEQUENCE, .rank = 1, .dim = { n }, .data = list };
    return 0;
}

void pare_set_absent(struct pare_tensor *t)
{
    static char nothing;

    *t = (struct pare_tensor){ .dtype = PARE_ABSENT, .data = &nothing };
}

static int copy_tensor(struct pare_arena *a, const struct pare_tensor *from, struct pare_tensor *to,
                       struct pare_err *err)
{
    struct pare_tensor t = *from;
    size_t bytes;

    PARE_TRY(pare_tensor_size(&t, NULL, &bytes, err));
    PARE_TRY(pare_tensor_alloc(a, &t, err));
    if (bytes)
        memcpy(t.data, from->data, bytes);
    *to = t;
    return 0;
}

int pare_value_copy(struct pare_arena *a, const struct pare_tensor *from, struct pare_tensor *to,
                    struct pare_err *err)
{
    struct pare_tensor t;

    if (from->dtype == PARE_ABSENT) {
        *to = *from;
        return 0;
    }
    if (from->dtype != PARE_SEQUENCE)
        return copy_tensor(a, from, to, err);
    PARE_TRY(pare_sequence_new(a, &t, from->dim[0], err));
    for (int64_t i = 0; i < t.dim[0]; i++)
        PARE_TRY(copy_tensor(a, &pare_elements(from)[i], (struct pare_tensor *)t.data + i, err));
    *to = t;
    return 0;
}
