/* blocked_filters.c - convert filters between row-major and channel-blocked layout. */
#include "blocked_filters.h"

#include <string.h>

bool pare_filters_fit(const struct pare_tensor *w, int block)
{
    return w->rank == 4 && block > 1 && pare_numel(w) && w->dim[0] % block == 0 &&
           w->dim[1] % block == 0;
}

/* Convert filters [ob * b, ob * b + b). */
static inline void convert_block(const struct pare_filters *f, int64_t ob, const char *from,
                                 char *to, size_t size)
{
    size_t I = (size_t)f->shape->dim[1], taps = (size_t)(f->shape->dim[2] * f->shape->dim[3]);
    size_t b = (size_t)f->block, first = (size_t)ob * b, at = first * I * taps;

    for (size_t ib = 0; ib < I; ib += b)
        for (size_t t = 0; t < taps; t++)
            for (size_t i = ib; i < ib + b; i++)
                for (size_t o = first; o < first + b; o++, at++) {
                    size_t row = (o * I + i) * taps + t;

                    if (f->to_row_major)
                        memcpy(to + row * size, from + at * size, size);
                    else
                        memcpy(to + at * size, from + row * size, size);
                }
}

void pare_filters_convert(const struct pare_filters *f, const void *from, void *to)
{
    int64_t blocks = f->shape->dim[0] / f->block;

#pragma omp parallel for num_threads(f->threads) if (blocks > 1)
    for (int64_t ob = 0; ob < blocks; ob++) {
        if (f->size == sizeof(float))
            convert_block(f, ob, from, to, sizeof(float));
        else
            convert_block(f, ob, from, to, 1);
    }
}
