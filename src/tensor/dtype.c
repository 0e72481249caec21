/* dtype.c - element types: names, sizes, conversion. */
#include <math.h>

#include "tensor.h"

static const struct {
    const char *name;
    size_t size; /* bytes in memory; 0: tensors of this type stay in their file */
    int bits;    /* in a file; 0: 8 * size */
} types[] = {
    [PARE_NONE] = { "none", 0, 0 },
    [PARE_F32] = { "float32", 4, 0 },
    [PARE_U8] = { "uint8", 1, 0 },
    [PARE_I8] = { "int8", 1, 0 },
    [PARE_U16] = { "uint16", 2, 0 },
    [PARE_I16] = { "int16", 2, 0 },
    [PARE_I32] = { "int32", 4, 0 },
    [PARE_I64] = { "int64", 8, 0 },
    [PARE_STR] = { "string", sizeof(struct pare_str), 0 },
    [PARE_BOOL] = { "bool", 1, 0 },
    [PARE_F16] = { "float16", 2, 0 },
    [PARE_F64] = { "float64", 8, 0 },
    [PARE_U32] = { "uint32", 4, 0 },
    [PARE_U64] = { "uint64", 8, 0 },
    [PARE_C64] = { "complex64", 0, 64 },
    [PARE_C128] = { "complex128", 0, 128 },
    [PARE_BF16] = { "bfloat16", 2, 0 },
    [PARE_F8E4M3FN] = { "float8e4m3fn", 0, 8 },
    [PARE_F8E4M3FNUZ] = { "float8e4m3fnuz", 0, 8 },
    [PARE_F8E5M2] = { "float8e5m2", 0, 8 },
    [PARE_F8E5M2FNUZ] = { "float8e5m2fnuz", 0, 8 },
    [PARE_U4] = { "uint4", 1, 4 },
    [PARE_I4] = { "int4", 1, 4 },
    [PARE_F4E2M1] = { "float4e2m1", 0, 4 },
    [PARE_F8E8M0] = { "float8e8m0", 0, 8 },
    [PARE_U2] = { "uint2", 0, 2 },
    [PARE_I2] = { "int2", 0, 2 },
    [PARE_SEQUENCE] = { "a sequence", 0, 0 },
    [PARE_ABSENT] = { "an optional without a value", 0, 0 },
};

#define N_TYPES (sizeof(types) / sizeof(*types))

size_t pare_dtype_size(enum pare_dtype d)
{
    return (size_t)d < N_TYPES ? types[d].size : 0;
}

int pare_dtype_bits(enum pare_dtype d)
{
    if ((size_t)d >= N_TYPES || d == PARE_STR)
        return 0;
    return types[d].bits ? types[d].bits : 8 * (int)types[d].size;
}

const char *pare_dtype_name(enum pare_dtype d)
{
    return (size_t)d < N_TYPES && types[d].name ? types[d].name : "unknown";
}

static float from_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

float pare_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, man = h & 0x3ff;

    if (exp == 31)
        return from_bits(sign | 0x7f800000 | man << 13);
    if (exp)
        return from_bits(sign | (exp + 112) << 23 | man << 13);
    return (sign ? -1.0f : 1.0f) * (float)man * 0x1p-24f; /* subnormal or zero */
}

uint16_t pare_f32_to_f16(float f)
{
    uint32_t u = to_bits(f), sign = (u >> 16) & 0x8000, mag = u & 0x7fffffff;
    uint32_t man, shift, half;

    if (mag > 0x7f800000)
        return (uint16_t)(sign | 0x7e00); /* NaN */
    if (mag >= 0x47800000)
        return (uint16_t)(sign | 0x7c00); /* 65536 and more */
    if (mag < 0x38800000) {               /* below 2^-14: subnormal */
        return (uint16_t)(sign | (uint32_t)rintf(fabsf(f) * 0x1p24f));
    }
    man = mag - 0x38000000; /* rebias by 112 << 23 */
    shift = 13;
    half = (man >> shift) & 1;
    return (uint16_t)(sign | (man + 0xfff + half) >> shift);
}

float pare_bf16_to_f32(uint16_t h)
{
    return from_bits((uint32_t)h << 16);
}

uint16_t pare_f32_to_bf16(float f)
{
    uint32_t u = to_bits(f);

    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

double pare_get(const struct pare_tensor *t, int64_t i)
{
    switch ((int)t->dtype) {
#define X(d, c) \
    case d: return (double)((const c *)t->data)[i];
        PARE_NUMERIC_TYPES(X)
        X(PARE_BOOL, uint8_t)
        X(PARE_U4, uint8_t)
        X(PARE_I4, int8_t)
#undef X
    case PARE_F16: return (double)pare_f16_to_f32(((const uint16_t *)t->data)[i]);
    case PARE_BF16: return (double)pare_bf16_to_f32(((const uint16_t *)t->data)[i]);
    default: return 0;
    }
}

int64_t pare_get_int(const struct pare_tensor *t, int64_t i)
{
    switch ((int)t->dtype) {
#define X(d, c) \
    case d: return (int64_t)((const c *)t->data)[i];
        PARE_INT_TYPES(X)
        X(PARE_BOOL, uint8_t)
        X(PARE_U4, uint8_t)
        X(PARE_I4, int8_t)
#undef X
    default: return (int64_t)pare_get(t, i);
    }
}

/* Convert a float to an integer: values out of range are undefined in C, so convert to int64 and
 * wrap, as other converters do. */
static int64_t to_whole(double v)
{
    if (isnan(v))
        return 0;
    if (v >= 9.2233720368547758e18)
        return INT64_MAX;
    if (v <= -9.2233720368547758e18)
        return INT64_MIN;
    return (int64_t)v;
}

static bool is_float(enum pare_dtype d)
{
    return d == PARE_F32 || d == PARE_F64 || d == PARE_F16 || d == PARE_BF16;
}

int pare_convert(enum pare_dtype to, void *dst, enum pare_dtype from, const void *src, int64_t n,
                 struct pare_err *err)
{
    const struct pare_tensor s = { .dtype = from, .data = (void *)(uintptr_t)src };
    bool real = is_float(from);

    if (!pare_dtype_size(to) || !pare_dtype_size(from) || to == PARE_STR || from == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED, "cannot convert %s to %s", pare_dtype_name(from),
                         pare_dtype_name(to));
    if (to == from) {
        memcpy(dst, src, (size_t)n * pare_dtype_size(to));
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        switch ((int)to) {
        case PARE_F32: ((float *)dst)[i] = (float)pare_get(&s, i); break;
        case PARE_F64: ((double *)dst)[i] = pare_get(&s, i); break;
        case PARE_F16: ((uint16_t *)dst)[i] = pare_f32_to_f16((float)pare_get(&s, i)); break;
        case PARE_BF16: ((uint16_t *)dst)[i] = pare_f32_to_bf16((float)pare_get(&s, i)); break;
        case PARE_BOOL: ((uint8_t *)dst)[i] = pare_get(&s, i) != 0; break;
        case PARE_U64:
            ((uint64_t *)dst)[i] = real && pare_get(&s, i) >= 9.2233720368547758e18
                                       ? (uint64_t)fmin(pare_get(&s, i), 1.8446744073709549e19)
                                       : (uint64_t)(real ? to_whole(pare_get(&s, i))
                                                         : pare_get_int(&s, i));
            break;
#define X(d, c) \
    case d: ((c *)dst)[i] = (c)(real ? to_whole(pare_get(&s, i)) : pare_get_int(&s, i)); break;
            /* clang-format off */
            X(PARE_U8, uint8_t) X(PARE_I8, int8_t) X(PARE_U16, uint16_t) X(PARE_I16, int16_t)
            X(PARE_I32, int32_t) X(PARE_I64, int64_t) X(PARE_U32, uint32_t)
            X(PARE_U4, uint8_t) X(PARE_I4, int8_t)
#undef X
        default: break;
            /* clang-format on */
        }
    }
    return 0;
}
