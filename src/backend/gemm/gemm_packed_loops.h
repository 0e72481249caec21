/* gemm_packed_loops.h - packed GEMM loops for one instruction set.
 *
 * gemm_packed.c includes it once per instruction set, after vec512.h, vec256.h or vec_plain.h, with
 * ROWS set to the number of rows that the registers hold and PIXEL to the elements of x, floats or
 * pairs, of a pixel in the blocked layout.
 */
#ifdef VEC

/* Strides of the operands. */
#ifndef STEPS
#define STEPS
struct steps {
    int64_t x_row, x_step, w_step, run; /* w_step 0: packed */
};
#endif

/* sum += x w over `count` neighboring elements of the rows; returns the next element of w. */
TARGET static inline __attribute__((always_inline)) const float *
NAME(walk)(const float *x, const struct steps s, const float *w, int64_t count, VEC sum[ROWS][2],
           const int n, const int nv)
{
    for (int64_t k = 0; k < count; k++) {
        VEC b[2];

        for (int v = 0; v < nv; v++)
            b[v] = LOAD(w + v * BLOCK);
        w += s.w_step ? s.w_step : nv * BLOCK;
#pragma GCC unroll 16
        for (int r = 0; r < n; r++) {
            VEC a = ALL(x[r * s.x_row + k * s.x_step]);

            for (int v = 0; v < nv; v++)
                sum[r][v] = FMA(a, b[v], sum[r][v]);
        }
    }
    return w;
}

/* Start and clamp.  max and min return their second operand if one is NaN. */
TARGET static inline __attribute__((always_inline)) void NAME(put)(const struct pare_packed_gemm *p,
                                                                   int64_t first, int64_t block,
                                                                   VEC sum[ROWS][2], const int n,
                                                                   const int nv)
{
    const int64_t at = first * p->y_row + block * p->y_block;

    if (p->columns && (block + nv) * BLOCK > p->columns) {
#pragma GCC unroll 16
        for (int r = 0; r < n; r++) {
            float part[2 * BLOCK];

            for (int v = 0; v < nv; v++)
                STORE(part + v * BLOCK, sum[r][v]);
            put_row(p, first + r, block, part, nv * BLOCK);
        }
        return;
    }
    if (p->start) {
#pragma GCC unroll 16
        for (int r = 0; r < n; r++)
            for (int v = 0; v < nv; v++)
                sum[r][v] = ADD(sum[r][v], LOAD(p->start + at + r * p->y_row + v * p->y_block));
    }
    if (p->clamp) {
#pragma GCC unroll 16
        for (int r = 0; r < n; r++)
            for (int v = 0; v < nv; v++)
                sum[r][v] = MIN(ALL(p->high), MAX(ALL(p->low), sum[r][v]));
    }
#pragma GCC unroll 16
    for (int r = 0; r < n; r++)
        for (int v = 0; v < nv; v++)
            STORE(p->y + at + r * p->y_row + v * p->y_block, sum[r][v]);
}

/* n rows from `first` on, nv blocks of columns; n <= ROWS and nv <= 2 are constants at each inlined
 * call, and so are most of the strides. */
TARGET static inline __attribute__((always_inline)) void
NAME(rows)(const struct pare_packed_gemm *p, int64_t first, int64_t block, const int n,
           const int nv, const struct steps s)
{
    const float *x = p->x + first * s.x_row;
    const float *w = p->w + block * (s.w_step ? 1 : pare_packed_gemm_depth(p)) * BLOCK;
    const int64_t count[2] = { s.run, p->last };
    const int64_t runs = p->runs + (!p->last ? 0 : p->tails ? p->tails : 1);
    VEC sum[ROWS][2], begin[2];

    for (int v = 0; v < nv; v++)
        begin[v] = p->bias ? LOAD(p->bias + (block + v) * BLOCK) : ZERO();
#pragma GCC unroll 16
    for (int r = 0; r < n; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = begin[v];
            /* Prefetch y: it arrives while the sums are computed. */
#pragma GCC unroll 16
    for (int r = 0; r < n; r++)
        for (int v = 0; v < nv; v++)
            __builtin_prefetch(p->y + (first + r) * p->y_row + (block + v) * p->y_block, 1);
    for (int64_t i = 0; i < runs; i++)
        w = NAME(walk)(x + run_at(p, i), s, w, count[i >= p->runs], sum, n, nv);
    NAME(put)(p, first, block, sum, n, nv);
}

#define SOME(s, n)                            \
    if (two)                                  \
        NAME(rows)(p, first, block, n, 2, s); \
    else                                      \
        NAME(rows)(p, first, block, n, 1, s)

TARGET static inline __attribute__((always_inline)) void
NAME(some)(const struct pare_packed_gemm *p, int64_t first, int64_t block, int n,
           const struct steps s)
{
    const bool two = block + 1 < p->blocks;

    switch (n) {
#if ROWS > 6
        PARE_CASES_12(SOME, s);
#elif ROWS > 2
        PARE_CASES_6(SOME, s);
#else
        PARE_CASES_2(SOME, s);
#endif
    default: break;
    }
}

#undef SOME

/* Specializations: contiguous pixels; rows with a stride; columns of x times rows of w, or times a
 * packed w. */
TARGET static void NAME(contiguous)(const struct pare_packed_gemm *p, int64_t first, int64_t block,
                                    int n)
{
    NAME(some)(p, first, block, n, (struct steps){ PIXEL, 1, 0, PIXEL });
}

TARGET static void NAME(strided)(const struct pare_packed_gemm *p, int64_t first, int64_t block,
                                 int n)
{
    NAME(some)(p, first, block, n, (struct steps){ p->x_row, 1, 0, p->run });
}

TARGET static void NAME(outer)(const struct pare_packed_gemm *p, int64_t first, int64_t block,
                               int n)
{
    NAME(some)(p, first, block, n, (struct steps){ 1, p->x_step, p->w_step, p->run });
}

/* One row: the sums over every fourth element are separate, since each FMA waits for the one before
 * in the same sum. */
TARGET static inline __attribute__((always_inline)) void
NAME(vector)(const struct pare_packed_gemm *p, int64_t block, const int nv)
{
    const float *x = p->x, *w = p->w + block * p->run * BLOCK;
    VEC sum[ROWS < 4 ? 4 : ROWS][2];
    int64_t k = 0;

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        for (int v = 0; v < nv; v++)
            sum[i][v] = !i && p->bias ? LOAD(p->bias + (block + v) * BLOCK) : ZERO();
    for (; k + 4 <= p->run; k += 4, w += 4 * nv * BLOCK) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            VEC a = ALL(x[k + i]);

            for (int v = 0; v < nv; v++)
                sum[i][v] = FMA(a, LOAD(w + (i * nv + v) * BLOCK), sum[i][v]);
        }
    }
    for (; k < p->run; k++, w += nv * BLOCK)
        for (int v = 0; v < nv; v++)
            sum[0][v] = FMA(ALL(x[k]), LOAD(w + v * BLOCK), sum[0][v]);
    for (int v = 0; v < nv; v++)
        sum[0][v] = ADD(ADD(sum[0][v], sum[1][v]), ADD(sum[2][v], sum[3][v]));
    NAME(put)(p, 0, block, sum, 1, nv);
}

TARGET static void NAME(one_row)(const struct pare_packed_gemm *p, int64_t first, int64_t block,
                                 int n)
{
    (void)first;
    (void)n;
    if (block + 1 < p->blocks)
        NAME(vector)(p, block, 2);
    else
        NAME(vector)(p, block, 1);
}

TARGET static void NAME(columns)(const struct pare_packed_gemm *p, int64_t first, int64_t block,
                                 int n)
{
    NAME(some)(p, first, block, n, (struct steps){ 1, p->x_step, 0, p->run });
}

/* All rows, in tiles of about the same size, so that no tile leaves registers half empty. */
TARGET static void NAME(all)(const struct pare_packed_gemm *p)
{
    void (*run)(const struct pare_packed_gemm *, int64_t, int64_t, int) = NAME(strided);
    int64_t parts = (p->rows + ROWS - 1) / ROWS;

    if (p->x_step)
        run = p->w_step ? NAME(outer) : NAME(columns);
    else if (p->rows == 1 && p->runs == 1 && !p->last && !p->offset)
        run = NAME(one_row);
    else if (p->x_row == PIXEL && p->run == PIXEL)
        run = NAME(contiguous);
    for (int64_t b = 0; b < p->blocks; b += 2) {
        for (int64_t i = 0; i < parts; i++) {
            int64_t first = p->rows * i / parts, end = p->rows * (i + 1) / parts;

            run(p, first, b, (int)(end - first));
        }
        apply_post_ops(p, b, b + 1 < p->blocks ? 2 : 1);
    }
}

#undef ROWS
#undef PIXEL

#endif
