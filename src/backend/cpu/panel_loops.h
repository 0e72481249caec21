/* panel_loops.h - the loops of panel.c for one instruction set; included once for each.
 *
 * Before: VEC, a vector of BLOCK floats, with LOAD, STORE, ZERO, ALL (one float in all lanes) and
 * FMA; ROWS, how many rows the registers hold; TARGET, the functions' attribute; NAME(x), to tell
 * them apart.
 */

/* Rows r of a panel: 1 <= n <= ROWS and nv <= 2 are constants wherever this is inlined. */
TARGET static inline __attribute__((always_inline)) void
NAME(rows)(const struct pare_panel *p, int64_t first, int64_t block, const int n, const int nv)
{
    const float *x = p->x + first * p->x_row, *w = p->w + block * p->runs * p->run * BLOCK;
    float *y = p->y + first * p->y_row + block * p->y_block;
    VEC sum[ROWS][2];

#pragma GCC unroll 16
    for (int r = 0; r < n; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = ZERO();
    for (int64_t i = 0; i < p->runs; i++)
        for (int64_t k = 0; k < p->run; k++) {
            VEC b[2];

            for (int v = 0; v < nv; v++)
                b[v] = LOAD(w + v * BLOCK);
            w += nv * BLOCK;
#pragma GCC unroll 16
            for (int r = 0; r < n; r++) {
                VEC a = ALL(x[i * p->x_run + r * p->x_row + k]);

                for (int v = 0; v < nv; v++)
                    sum[r][v] = FMA(a, b[v], sum[r][v]);
            }
        }
#pragma GCC unroll 16
    for (int r = 0; r < n; r++)
        for (int v = 0; v < nv; v++)
            STORE(y + r * p->y_row + v * p->y_block, sum[r][v]);
}

#define CASE(n)                                \
    case n:                                    \
        if (two)                               \
            NAME(rows)(p, first, block, n, 2); \
        else                                   \
            NAME(rows)(p, first, block, n, 1); \
        break

TARGET static void NAME(some)(const struct pare_panel *p, int64_t first, int64_t block, int n,
                              bool two)
{
    switch (n) {
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
#if ROWS > 6
        CASE(7);
        CASE(8);
        CASE(9);
        CASE(10);
        CASE(11);
        CASE(12);
#endif
    default: break;
    }
}

#undef CASE

/* All rows, in parts of about the same size, so that none leaves the registers half empty. */
TARGET static void NAME(all)(const struct pare_panel *p)
{
    int64_t parts = (p->rows + ROWS - 1) / ROWS;

    for (int64_t b = 0; b < p->blocks; b += 2)
        for (int64_t i = 0; i < parts; i++) {
            int64_t first = p->rows * i / parts, end = p->rows * (i + 1) / parts;

            NAME(some)(p, first, b, (int)(end - first), b + 1 < p->blocks);
        }
}

#undef VEC
#undef LOAD
#undef STORE
#undef ZERO
#undef ALL
#undef FMA
#undef BLOCK
#undef ROWS
#undef TARGET
#undef NAME
