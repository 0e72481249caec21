/* int8_norm_loops.h - the loop of int8_norm.c for one instruction set.
 *
 * int8_norm.c includes it once per instruction set, after ints512.h or ints256.h.
 */
#ifdef INTS

TARGET static inline __attribute__((always_inline)) FLOATS
NAME(values)(const struct strip *t, int64_t at, const enum pare_dtype type)
{
    if (type == PARE_F32)
        return GET_FLOATS((const float *)t->x + at);
    return TO_FLOATS(WIDEN32((const uint8_t *)t->x + at, type == PARE_I8));
}

/* LANES channels of all pixels; `type` is a constant at each inlined call. */
TARGET static inline __attribute__((always_inline)) void
NAME(column)(const struct strip *t, int64_t c, const enum pare_dtype type)
{
    const struct int8_norm *k = t->k;
    const FLOATS a = GET_FLOATS(t->a + c), b = GET_FLOATS(t->b + c);
    const FLOATS lo = ALL_FLOATS(k->lo), hi = ALL_FLOATS(k->hi);
    const INTS zero = ALL32(k->end.q.zero);

    for (int64_t i = 0; i < t->pixels; i++) {
        FLOATS v = ADD_FLOATS(MUL_FLOATS(NAME(values)(t, i * t->len + c, type), a), b);

        v = MIN_FLOATS(MAX_FLOATS(v, lo), hi);
        PUT_BYTES(t->y + i * k->C + c, ADD32(TO_INTS(v), zero), LANES);
    }
}

TARGET static void NAME(strip)(const struct strip *t)
{
    int64_t c = 0;

    for (; c + LANES <= t->len; c += LANES)
        if (t->type == PARE_F32)
            NAME(column)(t, c, PARE_F32);
        else if (t->type == PARE_U8)
            NAME(column)(t, c, PARE_U8);
        else
            NAME(column)(t, c, PARE_I8);
    for (int64_t i = 0; c < t->len && i < t->pixels; i++)
        single(t, i, c);
}

#endif
