/* rnn_cells.c - cells of LSTM, GRU and RNN, by instruction set, and for any activations. */
#include "rnn_cells.h"

#include "../../base/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "../simd/vec512.h"
#include "rnn_cells_loops.h"
#include "../simd/vec_end.h"

#include "../simd/vec256.h"
#include "rnn_cells_loops.h"
#include "../simd/vec_end.h"
#endif

#include "../simd/vec_plain.h"
#include "rnn_cells_loops.h"
#include "../simd/vec_end.h"

#define MOST 16 /* largest block */

/* ---- any activations ------------------------------------------------------------------------- */

/* v = x + r for a block of units. */
static void sum(const struct pare_rnn_units *u, const float *x, const float *r, float *v)
{
    for (int i = 0; i < u->block; i++)
        v[i] = x[i] + r[i];
}

static void any_rnn(const struct pare_rnn_units *u)
{
    for (int64_t b = 0; b < u->blocks; b++) {
        float *h = u->next + b * u->block;

        sum(u, u->x + b * u->block, u->r + b * u->block, h);
        pare_rnn_activate(&u->act[0], h, u->block);
    }
}

/* v += the peepholes of gate k times c. */
static void peep(const struct pare_rnn_units *u, int64_t b, int k, const float *c, float *v)
{
    for (int i = 0; i < u->block && u->p; i++)
        v[i] += u->p[(b * 3 + k) * u->block + i] * c[i];
}

static void any_lstm(const struct pare_rnn_units *u)
{
    const int block = u->block;

    for (int64_t b = 0; b < u->blocks; b++) {
        float g[4][MOST], *c = u->c + b * block, *h = u->next + b * block;

        for (int k = 0; k < 4; k++)
            sum(u, u->x + (b * 4 + k) * block, u->r + (b * 4 + k) * block, g[k]);
        peep(u, b, 0, c, g[0]);
        peep(u, b, 2, c, g[2]);
        pare_rnn_activate(&u->act[0], g[0], block);
        pare_rnn_activate(&u->act[0], g[2], block);
        pare_rnn_activate(&u->act[1], g[3], block);
        for (int i = 0; i < block; i++)
            h[i] = c[i] = (u->tied ? 1 - g[0][i] : g[2][i]) * c[i] + g[0][i] * g[3][i];
        peep(u, b, 1, c, g[1]);
        pare_rnn_activate(&u->act[0], g[1], block);
        pare_rnn_activate(&u->act[2], h, block);
        for (int i = 0; i < block; i++)
            h[i] *= g[1][i];
    }
}

/* h = (1 - z) n + z h for a block of units; n is overwritten. */
static void mix(const struct pare_rnn_units *u, int64_t b, const float *z, float *n)
{
    const float *h = u->h + b * u->block;

    pare_rnn_activate(&u->act[1], n, u->block);
    for (int i = 0; i < u->block; i++)
        u->next[b * u->block + i] = (1 - z[i]) * n[i] + z[i] * h[i];
}

static void any_gru(const struct pare_rnn_units *u)
{
    for (int64_t b = 0; b < u->blocks; b++) {
        const float *x = u->x + b * 3 * u->block, *r = u->r + b * 3 * u->block;
        float g[3][MOST];

        for (int k = 0; k < 2; k++) {
            sum(u, x + k * u->block, r + k * u->block, g[k]);
            pare_rnn_activate(&u->act[0], g[k], u->block);
        }
        for (int i = 0; i < u->block; i++)
            g[2][i] = x[2 * u->block + i] + g[1][i] * r[2 * u->block + i];
        mix(u, b, g[0], g[2]);
    }
}

static void any_gru_gates(const struct pare_rnn_units *u)
{
    for (int64_t b = 0; b < u->blocks; b++) {
        float *z = u->update + b * u->block, *reset = u->reset + b * u->block;

        sum(u, u->x + b * 3 * u->block, u->r + b * 2 * u->block, z);
        sum(u, u->x + (b * 3 + 1) * u->block, u->r + (b * 2 + 1) * u->block, reset);
        pare_rnn_activate(&u->act[0], z, u->block);
        pare_rnn_activate(&u->act[0], reset, u->block);
        for (int i = 0; i < u->block; i++)
            reset[i] *= u->h[b * u->block + i];
    }
}

static void any_gru_state(const struct pare_rnn_units *u)
{
    for (int64_t b = 0; b < u->blocks; b++) {
        float n[MOST];

        sum(u, u->x + (b * 3 + 2) * u->block, u->r + b * u->block, n);
        mix(u, b, u->update + b * u->block, n);
    }
}

static pare_rnn_cell_fn *const any_cells[PARE_CELL_KINDS] = {
    any_rnn, any_lstm, any_gru, any_gru_gates, any_gru_state,
};

pare_rnn_cell_fn *pare_rnn_cell_find(enum pare_rnn_cell_kind kind, int block, bool standard)
{
    if (!standard)
        return any_cells[kind];
#if defined(__x86_64__)
    if (block == 16 && __builtin_cpu_supports("avx512f"))
        return cells_avx512[kind];
    if (block == 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return cells_avx2[kind];
#endif
    return block == 8 ? cells_plain[kind] : any_cells[kind];
}
