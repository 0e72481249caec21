/* depthwise_loops.h - depthwise convolution loops for one instruction set.
 *
 * depthwise.c includes it once per instruction set, after vec512.h, vec256.h or vec_plain.h.  A
 * tile is up to TILE neighboring results of a row, held in registers.
 */
#ifdef VEC

/* sum += one row of taps of one channel.  x points to the first tap's input of the tile, column
 * `left` of the input.  Every input is loaded once, for all taps that read it.  n, taps and stride
 * are constants at each inlined call; `edge`: some columns may be outside the input. */
TARGET static inline __attribute__((always_inline)) void
NAME(taps)(const struct pare_depthwise *d, const float *x, int64_t left, const float *w,
           INDEX lanes, VEC sum[TILE], const struct shape s)
{
    VEC f[MOST_TAPS];

#pragma GCC unroll 8
    for (int k = 0; k < s.taps; k++)
        f[k] = LOAD(w + k * BLOCK);
#pragma GCC unroll 32
    for (int j = 0; j < (s.n - 1) * s.stride + s.taps; j++) {
        VEC v;

        if (s.edge && (uint64_t)(left + j) >= (uint64_t)d->in[1])
            continue;
        v = s.grouped ? PERMUTE(LOAD(x + j * BLOCK), lanes) : LOAD(x + j * BLOCK);
        KEEP(v);
#pragma GCC unroll 8
        for (int k = 0; k < s.taps; k++)
            if (j >= k && (j - k) % s.stride == 0 && (j - k) / s.stride < s.n)
                sum[(j - k) / s.stride] = FMA(v, f[k], sum[(j - k) / s.stride]);
    }
}

/* The same for any filter, stride and dilation. */
TARGET static inline __attribute__((always_inline)) void
NAME(any_taps)(const struct pare_depthwise *d, const float *x, int64_t left, const float *w,
               INDEX lanes, VEC sum[TILE], const struct shape s)
{
    for (int64_t k = 0; k < d->kernel[1]; k++) {
        VEC f = LOAD(w + k * BLOCK);

#pragma GCC unroll 8
        for (int i = 0; i < s.n; i++) {
            int64_t at = k * d->dilation[1] + i * d->stride[1];

            if (!s.edge || (uint64_t)(left + at) < (uint64_t)d->in[1]) {
                VEC v = LOAD(x + at * BLOCK);

                sum[i] = FMA(f, s.grouped ? PERMUTE(v, lanes) : v, sum[i]);
            }
        }
    }
}

/* sum += a row of taps of every channel. */
TARGET static inline __attribute__((always_inline)) void
NAME(channels)(const struct pare_depthwise *d, const struct pare_depthwise_plane *p, const float *x,
               const float *w, int64_t left, VEC sum[TILE], const struct shape s)
{
    INDEX lanes = { 0 };

    for (int64_t j = 0; j < (s.grouped ? d->width : 1); j++, w += d->kernel[1] * BLOCK) {
        if (s.grouped)
            lanes = LOAD_INDEX(p->lanes + j * BLOCK);
        if (s.taps)
            NAME(taps)(d, x, left, w, lanes, sum, s);
        else
            NAME(any_taps)(d, x, left, w, lanes, sum, s);
    }
}

/* The tile of s.n results from column `from` of a row; taps [lo, hi) are within the input. */
TARGET static inline __attribute__((always_inline)) void
NAME(tile)(const struct pare_depthwise *d, const struct pare_depthwise_plane *p,
           const struct row *r, int64_t from, const struct shape s)
{
    const int64_t left = from * d->stride[1] - d->pad[1], line = d->in[1] * BLOCK;
    float *y = p->y + (r->at * d->out[1] + from) * BLOCK;
    VEC sum[TILE];

#pragma GCC unroll 8
    for (int i = 0; i < s.n; i++)
        sum[i] = LOAD(p->bias);
    for (int64_t z = 0; z < p->depth; z++)
        for (int64_t k = r->lo; k < r->hi; k++)
            NAME(channels)
    (d, p, p->x + z * p->x_step + (r->top + k * d->dilation[0]) * line + left * BLOCK,
     p->w + z * p->w_step + k * d->width * d->kernel[1] * BLOCK, left, sum, s);
    if (d->clamp) {
#pragma GCC unroll 8
        for (int i = 0; i < s.n; i++)
            sum[i] = MIN(ALL(d->high), MAX(ALL(d->low), sum[i]));
    }
#pragma GCC unroll 8
    for (int i = 0; i < s.n; i++)
        STORE(y + i * BLOCK, sum[i]);
}

#define ONE_TILE(t, s, e, g, i) NAME(tile)(d, p, r, from, (struct shape){ i, t, s, e, g })
#define TILES(name, t, s, e, g)                                                              \
    TARGET static void NAME(name)(const struct pare_depthwise *d,                            \
                                  const struct pare_depthwise_plane *p, const struct row *r, \
                                  int64_t from, int n)                                       \
    {                                                                                        \
        switch (n) {                                                                         \
            PARE_CASES_8(ONE_TILE, t, s, e, g);                                              \
        default: break;                                                                      \
        }                                                                                    \
    }

TILES(tile_any, 0, 1, false, false)
TILES(edge_any, 0, 1, true, false)
TILES(tile_3_1, 3, 1, false, false)
TILES(edge_3_1, 3, 1, true, false)
TILES(tile_3_2, 3, 2, false, false)
TILES(edge_3_2, 3, 2, true, false)
TILES(tile_5_1, 5, 1, false, false)
TILES(edge_5_1, 5, 1, true, false)
TILES(tile_5_2, 5, 2, false, false)
TILES(edge_5_2, 5, 2, true, false)
TILES(tile_7_1, 7, 1, false, false)
TILES(edge_7_1, 7, 1, true, false)

TILES(group_any, 0, 1, false, true)
TILES(group_edge_any, 0, 1, true, true)
TILES(group_3_1, 3, 1, false, true)
TILES(group_edge_3_1, 3, 1, true, true)
TILES(group_3_2, 3, 2, false, true)
TILES(group_edge_3_2, 3, 2, true, true)

#undef TILES
#undef ONE_TILE

/* Choose the functions for inner tiles and for tiles at the edges. */
static void NAME(pick)(const struct pare_depthwise *d, tiler *run[2])
{
    static const struct {
        int64_t taps, stride; /* 0: any */
        bool grouped;
        tiler *inside, *edge;
    } list[] = {
        { 3, 1, false, NAME(tile_3_1), NAME(edge_3_1) },
        { 3, 2, false, NAME(tile_3_2), NAME(edge_3_2) },
        { 5, 1, false, NAME(tile_5_1), NAME(edge_5_1) },
        { 5, 2, false, NAME(tile_5_2), NAME(edge_5_2) },
        { 7, 1, false, NAME(tile_7_1), NAME(edge_7_1) },
        { 0, 0, false, NAME(tile_any), NAME(edge_any) },
        { 3, 1, true, NAME(group_3_1), NAME(group_edge_3_1) },
        { 3, 2, true, NAME(group_3_2), NAME(group_edge_3_2) },
        { 0, 0, true, NAME(group_any), NAME(group_edge_any) },
    };
    size_t i = 0;

    while (list[i].grouped != d->grouped ||
           (list[i].taps && (d->dilation[1] != 1 || list[i].taps != d->kernel[1] ||
                             list[i].stride != d->stride[1])))
        i++;
    run[0] = list[i].inside;
    run[1] = list[i].edge;
}

#endif
