/* rnn_cells_loops.h - cells with default activations for one instruction set.
 *
 * rnn_cells.c includes it once per instruction set, after vec512.h, vec256.h or vec_plain.h.
 */
#ifdef VEC

#include "../simd/vec_math.h"

/* The sum of gate g of `gates` of a block of units. */
#define GATE(g, gates) \
    ADD(LOAD(u->x + (b * (gates) + (g)) * BLOCK), LOAD(u->r + (b * (gates) + (g)) * BLOCK))

TARGET static void NAME(rnn)(const struct pare_rnn_units *u)
{
    const VEC low = ALL(-u->clip), high = ALL(u->clip);

    for (int64_t b = 0; b < u->blocks; b++) {
        VEC h = GATE(0, 1);

        h = MAX(low, h);
        h = MIN(high, h);
        NAME(tanh)(&h, &h);
        STORE(u->next + b * BLOCK, h);
    }
}

TARGET static void NAME(lstm)(const struct pare_rnn_units *u)
{
    const VEC low = ALL(-u->clip), high = ALL(u->clip);

    for (int64_t b = 0; b < u->blocks; b++) {
        VEC g[4], c, h;

#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            g[k] = GATE(k, 4);
            g[k] = MAX(low, g[k]);
            g[k] = MIN(high, g[k]);
        }
        NAME(sigmoid)(&g[0], &g[0]);
        NAME(sigmoid)(&g[1], &g[1]);
        NAME(sigmoid)(&g[2], &g[2]);
        NAME(tanh)(&g[3], &g[3]);
        c = LOAD(u->c + b * BLOCK);
        c = FMA(g[2], c, MUL(g[0], g[3]));
        STORE(u->c + b * BLOCK, c);
        h = MAX(low, c);
        h = MIN(high, h);
        NAME(tanh)(&h, &h);
        STORE(u->next + b * BLOCK, MUL(g[1], h));
    }
}

/* h = n + z (h - n) */
TARGET static void NAME(gru)(const struct pare_rnn_units *u)
{
    const VEC low = ALL(-u->clip), high = ALL(u->clip);

    for (int64_t b = 0; b < u->blocks; b++) {
        VEC g[2], n, h = LOAD(u->h + b * BLOCK);

#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            g[k] = GATE(k, 3);
            g[k] = MAX(low, g[k]);
            g[k] = MIN(high, g[k]);
            NAME(sigmoid)(&g[k], &g[k]);
        }
        n = FMA(g[1], LOAD(u->r + (b * 3 + 2) * BLOCK), LOAD(u->x + (b * 3 + 2) * BLOCK));
        n = MAX(low, n);
        n = MIN(high, n);
        NAME(tanh)(&n, &n);
        h = SUB(h, n);
        STORE(u->next + b * BLOCK, FMA(g[0], h, n));
    }
}

TARGET static void NAME(gru_gates)(const struct pare_rnn_units *u)
{
    const VEC low = ALL(-u->clip), high = ALL(u->clip);

    for (int64_t b = 0; b < u->blocks; b++) {
        VEC g[2];

#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            g[k] = ADD(LOAD(u->x + (b * 3 + k) * BLOCK), LOAD(u->r + (b * 2 + k) * BLOCK));
            g[k] = MAX(low, g[k]);
            g[k] = MIN(high, g[k]);
            NAME(sigmoid)(&g[k], &g[k]);
        }
        STORE(u->update + b * BLOCK, g[0]);
        STORE(u->reset + b * BLOCK, MUL(g[1], LOAD(u->h + b * BLOCK)));
    }
}

TARGET static void NAME(gru_state)(const struct pare_rnn_units *u)
{
    const VEC low = ALL(-u->clip), high = ALL(u->clip);

    for (int64_t b = 0; b < u->blocks; b++) {
        VEC n = ADD(LOAD(u->x + (b * 3 + 2) * BLOCK), LOAD(u->r + b * BLOCK)), h;

        n = MAX(low, n);
        n = MIN(high, n);
        NAME(tanh)(&n, &n);
        h = SUB(LOAD(u->h + b * BLOCK), n);
        STORE(u->next + b * BLOCK, FMA(LOAD(u->update + b * BLOCK), h, n));
    }
}

static pare_rnn_cell_fn *const NAME(cells)[PARE_CELL_KINDS] = {
    NAME(rnn), NAME(lstm), NAME(gru), NAME(gru_gates), NAME(gru_state),
};

#undef GATE

#endif
