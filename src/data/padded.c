/* padded.c - join tensors along their first axis; shorter ones are padded at their ends. */
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../tensor/tensor.h"

/* The shape of the result; dimensions after the first are those of the largest tensor. */
static int find_shape(const struct pare_data *d, const struct pare_tensor *const *t, int n,
                      struct pare_tensor *all, struct pare_err *err)
{
    char one[PARE_SHAPE_TEXT], other[PARE_SHAPE_TEXT];

    *all = *t[0];
    all->data = NULL;
    for (int i = 1; i < n; i++) {
        struct pare_tensor like = *t[i];

        like.dim[0] = t[0]->dim[0];
        if (like.dtype != t[0]->dtype || like.rank != t[0]->rank ||
            (!d->opts.fill && !pare_same_shape(&like, t[0])))
            return pare_fail(err, PARE_ESHAPE, "set %d has %s %s, but the first %s %s%s", i,
                             pare_dtype_name(like.dtype), pare_shape_text(t[i], one, sizeof(one)),
                             pare_dtype_name(t[0]->dtype),
                             pare_shape_text(t[0], other, sizeof(other)),
                             like.rank == t[0]->rank ? "; --fill 0 pads the shorter ones" : "");
        if (t[i]->dim[0] > INT64_MAX - all->dim[0])
            return pare_fail(err, PARE_ELIMIT, "too many items");
        all->dim[0] += t[i]->dim[0];
        for (int a = 1; a < like.rank; a++)
            all->dim[a] = like.dim[a] > all->dim[a] ? like.dim[a] : all->dim[a];
    }
    return 0;
}

/* Copy a tensor to items [at, ...) of `all`, row by row. */
static void copy_part(const struct pare_tensor *t, const struct pare_tensor *all, int64_t at)
{
    int last = t->rank - 1;
    int64_t width = last > 0 ? t->dim[last] : 1, rows = width ? pare_numel(t) / width : 0;
    size_t size = pare_dtype_size(t->dtype);

    for (int64_t r = 0; r < rows; r++) {
        int64_t left = r, to = 0, step = last > 0 ? all->dim[last] : 1;

        for (int a = last > 0 ? last - 1 : 0; a >= 0; a--) {
            to += (left % t->dim[a] + (a ? 0 : at)) * step;
            left /= t->dim[a];
            step *= all->dim[a];
        }
        memcpy((char *)all->data + (size_t)to * size,
               (const char *)t->data + (size_t)(r * width) * size, (size_t)width * size);
    }
}

int pare_tensors_join(struct pare_data *d, const struct pare_tensor *const *t, int n,
                      struct pare_tensor *all, struct pare_err *err)
{
    int64_t at = 0, numel;
    float fill;

    PARE_TRY(pare_data_fill(d, &fill, err));
    PARE_TRY(find_shape(d, t, n, all, err));
    PARE_TRY(pare_tensor_size(all, &numel, NULL, err));
    PARE_TRY(pare_tensor_alloc(d->arena, all, err));
    for (int64_t i = 0; d->opts.fill && i < numel; i++)
        PARE_TRY(pare_convert(all->dtype,
                              (char *)all->data + (size_t)i * pare_dtype_size(all->dtype), PARE_F32,
                              &fill, 1, err));
    for (int i = 0; i < n; i++) {
        copy_part(t[i], all, at);
        at += t[i]->dim[0];
    }
    return 0;
}
