/* winograd_int8_loops.h - transforms and products of winograd_int8.c for one instruction set.
 *
 * winograd_int8.c includes it once per instruction set, after ints512.h or ints256.h and a
 * definition of ROWS, the rows whose sums registers hold.
 */
#ifdef INTS

#define PART TARGET static inline __attribute__((always_inline))

/* ---- input transform -------------------------------------------------------------------- */

/* y = B^T x for 2 LANES channels. */
PART void NAME(input_transform6)(const INTS x[6], INTS y[6])
{
    INTS a = SUB16(x[4], SHIFT16(x[2], 2)), b = SUB16(x[3], SHIFT16(x[1], 2));
    INTS c = SUB16(x[4], x[2]), d = SHIFT16(SUB16(x[3], x[1]), 1);

    y[0] = ADD16(SHIFT16(SUB16(x[0], x[2]), 2), c);
    y[1] = ADD16(a, b);
    y[2] = SUB16(a, b);
    y[3] = ADD16(c, d);
    y[4] = SUB16(c, d);
    y[5] = ADD16(SHIFT16(SUB16(x[1], x[3]), 2), SUB16(x[5], x[3]));
}

PART INTS NAME(load)(const struct pare_winograd_int8 *k, const uint8_t *x, int64_t c)
{
    HALF q;

    if (!x)
        return NONE();
    q = GET_BYTES(x + c, k->C - c, k->zero);
    return SUB16(WIDEN(q, k->is_signed), ALL16(k->zero));
}

TARGET static void NAME(input_tile)(const struct pare_winograd_int8 *k, const uint8_t *const at[36],
                                    int64_t step, int16_t *v)
{
    int64_t row = pare_winograd_int8_pairs(k->C) * 2;

    for (int64_t c = 0; c < k->C; c += 2 * LANES) {
        INTS t[6][6], x[6], y[6];

        for (int j = 0; j < 6; j++) {
            for (int i = 0; i < 6; i++)
                x[i] = NAME(load)(k, at[i * 6 + j], c);
            NAME(input_transform6)(x, y);
            for (int i = 0; i < 6; i++)
                t[i][j] = y[i];
        }
        for (int i = 0; i < 6; i++) {
            NAME(input_transform6)(t[i], y);
            for (int j = 0; j < 6; j++)
                PUT16(v + (i * 6 + j) * step + c, y[j], row - c);
        }
    }
}

/* ---- products --------------------------------------------------------------------------- */

/* m (n, 2 LANES of WIDE) = v (n, C) u; n is a constant at each inlined call. */
PART void NAME(rows)(const struct product *p, const int n)
{
    const int16_t *v = p->v, *u = p->u;
    const int64_t row = p->row, pairs = p->pairs;
    int32_t *m = p->m;
    INTS sum[ROWS][2];

#pragma GCC unroll 12
    for (int r = 0; r < n; r++)
        sum[r][0] = sum[r][1] = NONE();
    for (int64_t k = 0; k < pairs; k++) {
        INTS b0 = GET(u + k * WIDE * 2), b1 = GET(u + k * WIDE * 2 + 2 * LANES);

#pragma GCC unroll 12
        for (int r = 0; r < n; r++) {
            int32_t two;
            INTS a;

            memcpy(&two, v + r * row + k * 2, 4);
            a = ALL32(two);
            sum[r][0] = ADD_PAIRS(sum[r][0], a, b0);
            sum[r][1] = ADD_PAIRS(sum[r][1], a, b1);
            KEEP_ORDER(sum[r][0], sum[r][1]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < n; r++) {
        PUT(m + r * WIDE, sum[r][0]);
        PUT(m + r * WIDE + LANES, sum[r][1]);
    }
}

TARGET static void NAME(some_rows)(const struct product *p, int n)
{
    switch (n) {
        ROW_CASES(NAME(rows), p);
    default: break;
    }
}

static void NAME(multiply)(const struct pare_winograd_int8 *k,
                           const struct pare_winograd_int8_part *p, int64_t panel)
{
    int64_t pairs = pare_winograd_int8_pairs(k->C), parts = (p->n + ROWS - 1) / ROWS;
    const int16_t *u = k->u + panel * 36 * pairs * WIDE * 2;

    for (int64_t i = 0; i < 36 * k->parts * (WIDE / (2 * LANES)); i++) {
        int64_t half = i % (WIDE / (2 * LANES)) * 2 * LANES,
                s = i / (WIDE / (2 * LANES)) % k->parts;
        int64_t q = i / (WIDE / (2 * LANES)) / k->parts, cut = pare_winograd_int8_cut(k, (int)s);

        for (int64_t j = 0; j < parts; j++) {
            int64_t first = p->n * j / parts, end = p->n * (j + 1) / parts;
            struct product one = { .v = p->v + ((q * p->n + first) * pairs + cut) * 2,
                                   .u = u + ((q * pairs + cut) * WIDE + half) * 2,
                                   .row = pairs * 2,
                                   .pairs = pare_winograd_int8_cut(k, (int)s + 1) - cut,
                                   .m = p->m + ((s * 36 + q) * p->n + first) * WIDE + half };

            NAME(some_rows)(&one, (int)(end - first));
        }
    }
}

/* ---- output transform ------------------------------------------------------------------- */

/* y = A' x for LANES channels. */
PART void NAME(output_transform4)(const INTS x[6], INTS y[4])
{
    INTS s12 = ADD32(x[1], x[2]), d12 = SUB32(x[1], x[2]);
    INTS s34 = ADD32(x[3], x[4]), d34 = SUB32(x[3], x[4]);
    INTS twice = SHIFT32(d34, 1), six = ADD32(SHIFT32(x[5], 2), SHIFT32(x[5], 1));

    y[0] = ADD32(SHIFT32(SUB32(x[0], s12), 2), ADD32(SHIFT32(x[0], 1), s34));
    y[1] = SUB32(twice, SHIFT32(d12, 2));
    y[2] = SHIFT32(SUB32(s34, s12), 2);
    y[3] = SHIFT32(ADD32(SUB32(twice, d12), six), 2);
}

/* y from 576 y. */
PART INTS NAME(divide_576)(INTS z)
{
    return SHIFT_BACK32(MUL32(z, ALL32(0x38e38e39)), 6);
}

/* Scale, bias and bounds as in pare_int8_finish(). */
struct NAME(ending) {
    FLOATS f, b, lo, hi;
    INTS zero;
};

PART struct NAME(ending) NAME(load_ending)(const struct pare_int8_out *o, int64_t c)
{
    float lo, hi;

    pare_int8_bounds(o, &lo, &hi);
    return (struct NAME(ending)){ .f = GET_FLOATS(o->f + c),
                                  .b = GET_FLOATS(o->b + c),
                                  .lo = ALL_FLOATS(lo),
                                  .hi = ALL_FLOATS(hi),
                                  .zero = ALL32(o->q.zero) };
}

PART INTS NAME(requantize)(const struct NAME(ending) * e, INTS y)
{
    FLOATS v = MUL_FLOATS(ADD_FLOATS(TO_FLOATS(y), e->b), e->f);

    v = MIN_FLOATS(MAX_FLOATS(v, e->lo), e->hi);
    return ADD32(TO_INTS(v), e->zero);
}

/* The sums of one tile, whose 36 positions have a stride of `step`. */
PART void NAME(transform_sums)(const int32_t *m, int64_t step, INTS y[4][4])
{
    INTS t[4][6], x[6], z[4];

    for (int j = 0; j < 6; j++) {
        for (int i = 0; i < 6; i++)
            x[i] = GET(m + (i * 6 + j) * step);
        NAME(output_transform4)(x, z);
        for (int i = 0; i < 4; i++)
            t[i][j] = z[i];
    }
    for (int i = 0; i < 4; i++) {
        NAME(output_transform4)(t[i], z);
        for (int j = 0; j < 4; j++)
            y[i][j] = NAME(divide_576)(z[j]);
    }
}

/* LANES channels from c on of one tile. */
TARGET static void NAME(output_tile)(const struct pare_winograd_int8 *k, int64_t tile, int64_t c,
                                     const int32_t *m, int64_t step, uint8_t *y)
{
    int64_t each = k->tiles[0] * k->tiles[1], r = tile % each;
    int64_t h = r / k->tiles[1] * 4, w = r % k->tiles[1] * 4;
    struct NAME(ending) e = NAME(load_ending)(&k->finish, c);
    INTS sum[4][4], more[4][4];

    y += (tile / each * k->out[0] * k->out[1] + h * k->out[1] + w) * k->O + c;
    NAME(transform_sums)(m, step, sum);
    for (int s = 1; s < k->parts; s++) {
        NAME(transform_sums)(m + s * 36 * step, step, more);
        for (int i = 0; i < 16; i++)
            sum[i / 4][i % 4] = ADD32(sum[i / 4][i % 4], more[i / 4][i % 4]);
    }
    for (int i = 0; i < 4 && h + i < k->out[0]; i++)
        for (int j = 0; j < 4 && w + j < k->out[1]; j++)
            PUT_BYTES(y + (i * k->out[1] + j) * k->O, NAME(requantize)(&e, sum[i][j]), k->O - c);
}

static void NAME(output_panel)(const struct pare_winograd_int8 *k,
                               const struct pare_winograd_int8_part *p, int64_t panel, uint8_t *y)
{
    NAME(multiply)(k, p, panel);
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t c = panel * WIDE; c < panel * WIDE + WIDE && c < k->O; c += LANES)
            NAME(output_tile)(k, p->first + i, c, p->m + i * WIDE + c % WIDE, p->n * WIDE, y);
}

#undef PART
#endif
