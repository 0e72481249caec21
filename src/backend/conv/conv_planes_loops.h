/* conv_planes_loops.h - sums of conv_planes.c for one instruction set.
 *
 * conv_planes.c includes it once per instruction set, after vec512.h, vec256.h or vec_plain.h, with
 * OUTS set to the output channels whose sums the registers hold for VECTORS vectors of pixels.
 */
#ifdef VEC

/* n vectors of pixels (a constant at each inlined call) of OUTS output channels from o on, of which
 * `channels` exist. */
TARGET static inline __attribute__((always_inline)) void
NAME(tile)(const struct tile *t, const struct spot *at, int64_t o, int64_t channels, const int n)
{
    const float *x = t->x, *w = t->w + o;
    VEC sum[OUTS][VECTORS];

#pragma GCC unroll 8
    for (int k = 0; k < OUTS; k++)
        for (int v = 0; v < n; v++)
            sum[k][v] = ALL(t->bias[o + k]);
    for (int64_t c = 0; c < t->C; c++, x += t->plane)
        for (int64_t i = 0; i < t->taps; i++, w += t->outs) {
            VEC in[VECTORS];

            for (int v = 0; v < n; v++)
                in[v] = LOAD(x + t->tap[i] + at[v].from);
#pragma GCC unroll 8
            for (int k = 0; k < OUTS; k++) {
                VEC a = ALL(w[k]);

                for (int v = 0; v < n; v++)
                    sum[k][v] = FMA(a, in[v], sum[k][v]);
            }
        }
#pragma GCC unroll 8
    for (int k = 0; k < OUTS; k++)
        for (int v = 0; v < n && k < channels; v++) {
            if (t->clamp)
                sum[k][v] = MIN(ALL(t->high), MAX(ALL(t->low), sum[k][v]));
            STORE(t->y + (o + k) * t->y_plane + at[v].to, sum[k][v]);
        }
}

TARGET static void NAME(spots)(const struct tile *t, const struct spot *at, int64_t n)
{
    for (int64_t o = 0; o < t->channels; o += OUTS) {
        int64_t i = 0;

        for (; i + VECTORS <= n; i += VECTORS)
            NAME(tile)(t, at + i, o, t->channels - o, VECTORS);
        if (n - i == 2)
            NAME(tile)(t, at + i, o, t->channels - o, 2);
        else if (n - i == 1)
            NAME(tile)(t, at + i, o, t->channels - o, 1);
    }
}

#undef OUTS
#endif
