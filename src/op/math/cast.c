/* cast.c - Cast: convert to another element type.
 *
 * Numbers become text as numpy prints them: the fewest digits that read back as the same number,
 * without an exponent from 1e-4 up to 1e16.
 */
#include "cast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct cast {
    int64_t to, saturate;
    const char *round_mode;
};

static const struct pare_opt cast_attrs[] = {
    { "to", "the element type, as a TensorProto.DataType number", PARE_OPT_INT,
      offsetof(struct cast, to), 0, PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, true, NULL },
    PARE_INT("saturate", offsetof(struct cast, saturate), "for float8, which is not supported", 1,
             0, 1),
    PARE_TEXT("round_mode", offsetof(struct cast, round_mode), NULL,
              "for float8, which is not supported", "up"),
    PARE_OPT_END
};

/* ---- numbers to text ----------------------------------------------------------- */

#define NUMBER_TEXT 64 /* room for any number and its terminating zero */

/* Whether the text reads back as v, in a type with fewer digits. */
static bool reads_back(enum pare_dtype d, double v, const char *text)
{
    switch ((int)d) {
    case PARE_F64: return strtod(text, NULL) == v;
    case PARE_F16: return pare_f32_to_f16(strtof(text, NULL)) == pare_f32_to_f16((float)v);
    case PARE_BF16: return pare_f32_to_bf16(strtof(text, NULL)) == pare_f32_to_bf16((float)v);
    default: return strtof(text, NULL) == (float)v;
    }
}

/* sci is d.ddde+xx; write the same digits in positional notation. */
static void plain_text(char *out, const char *sci, int exponent)
{
    const char *digit = sci + (*sci == '-');
    int left = exponent;

    if (*sci == '-')
        *out++ = '-';
    if (left < 0) {
        *out++ = '0', *out++ = '.';
        for (; left < -1; left++)
            *out++ = '0';
    }
    for (; *digit != 'e'; digit++) {
        if (*digit == '.')
            continue;
        *out++ = *digit;
        if (left-- == 0)
            *out++ = '.';
    }
    if (exponent >= 0) {
        for (; left >= 0; left--) {
            *out++ = '0';
            if (!left)
                *out++ = '.';
        }
        if (out[-1] == '.')
            *out++ = '0';
    }
    *out = '\0';
}

static void real_text(char *out, enum pare_dtype d, double v)
{
    char sci[NUMBER_TEXT];
    int exponent;

    if (isnan(v) || isinf(v)) {
        snprintf(out, NUMBER_TEXT, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 0; digits < 17; digits++) {
        snprintf(sci, sizeof(sci), "%.*e", digits, v);
        if (reads_back(d, v, sci))
            break;
    }
    exponent = (int)strtol(strchr(sci, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16)
        snprintf(out, NUMBER_TEXT, "%s", sci);
    else
        plain_text(out, sci, exponent);
}

static int to_text(const struct pare_tensor *y, const struct pare_tensor *x, struct pare_ctx *c,
                   struct pare_err *err)
{
    struct pare_str *out = y->data;
    int64_t count = pare_numel(x);
    char buf[NUMBER_TEXT];

    for (int64_t i = 0; i < count; i++) {
        switch ((int)x->dtype) {
        case PARE_F32:
        case PARE_F64:
        case PARE_F16:
        case PARE_BF16: real_text(buf, x->dtype, pare_get(x, i)); break;
        case PARE_BOOL:
            snprintf(buf, sizeof(buf), "%s", pare_get_int(x, i) ? "True" : "False");
            break;
        case PARE_U64:
            snprintf(buf, sizeof(buf), "%llu", (unsigned long long)pare_get_int(x, i));
            break;
        default: snprintf(buf, sizeof(buf), "%lld", (long long)pare_get_int(x, i)); break;
        }
        out[i].len = strlen(buf);
        out[i].s = pare_strndup(c->results, buf, out[i].len);
        if (!out[i].s)
            return pare_no_memory(err, "for the text of a number");
    }
    return 0;
}

/* ---- text to numbers ----------------------------------------------------------- */

static bool is_whole(enum pare_dtype d)
{
    return (PARE_T(d) & PARE_T_INTS) || d == PARE_U4 || d == PARE_I4;
}

/* Into *whole if an integer is expected and found, else into *real. */
static int read_number(struct pare_str s, enum pare_dtype to, int64_t *whole, double *real,
                       struct pare_err *err)
{
    char buf[NUMBER_TEXT], *end;

    if (s.len && s.len < sizeof(buf)) {
        memcpy(buf, s.s, s.len);
        buf[s.len] = '\0';
        *whole = to == PARE_U64 ? (int64_t)strtoull(buf, &end, 10) : strtoll(buf, &end, 10);
        *real = (double)*whole;
        if (is_whole(to) && end == buf + s.len)
            return 0;
        *real = to == PARE_F64 ? strtod(buf, &end) : (double)strtof(buf, &end);
        if (end == buf + s.len) {
            if (is_whole(to))
                PARE_TRY(pare_convert(PARE_I64, whole, PARE_F64, real, 1, err));
            return 0;
        }
    }
    return pare_fail(err, PARE_EFORMAT, "the text '%.*s' is not a number",
                     (int)(s.len < 40 ? s.len : 40), s.len ? s.s : "");
}

static int from_text(const struct pare_tensor *y, const struct pare_tensor *x, struct pare_err *err)
{
    size_t size = pare_dtype_size(y->dtype);
    int64_t count = pare_numel(x);

    for (int64_t i = 0; i < count; i++) {
        char *to = (char *)y->data + (size_t)i * size;
        int64_t whole;
        double real;

        PARE_TRY(read_number(((const struct pare_str *)x->data)[i], y->dtype, &whole, &real, err));
        if (is_whole(y->dtype))
            PARE_TRY(pare_convert(y->dtype, to, PARE_I64, &whole, 1, err));
        else
            PARE_TRY(pare_convert(y->dtype, to, PARE_F64, &real, 1, err));
    }
    return 0;
}

int pare_cast(const struct pare_tensor *y, const struct pare_tensor *x, struct pare_ctx *c,
              struct pare_err *err)
{
    int64_t count = pare_numel(x);

    if (x->dtype == PARE_STR && y->dtype == PARE_STR) {
        if (count)
            memcpy(y->data, x->data, (size_t)count * sizeof(struct pare_str));
        return 0;
    }
    if (y->dtype == PARE_STR)
        return to_text(y, x, c, err);
    if (x->dtype == PARE_STR)
        return from_text(y, x, err);
    return pare_convert(y->dtype, y->data, x->dtype, x->data, count, err);
}

/* ---- the operator ------------------------------------------------------------------------- */

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct cast *a = n->attr;

    if (a->to < 0 || a->to > 1000 || !pare_dtype_size((enum pare_dtype)a->to))
        return pare_fail(err, PARE_EUNSUPPORTED, "element type %lld is not supported",
                         (long long)a->to);
    PARE_TRY(pare_infer_same(n, err));
    n->out[0]->t.dtype = (enum pare_dtype)a->to;
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_cast(&n->out[0]->t, &n->in[0]->t, c, err);
}

const struct pare_op pare_op_cast = {
    .type = "Cast",
    .doc = "Convert to another element type.",
    .since = 6,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_KEEPS_AXES | PARE_OP_STORAGE | PARE_OP_FLOAT_ONLY | PARE_OP_COPIES |
             PARE_OP_STEPS,
    .attrs = cast_attrs,
    .attr_size = sizeof(struct cast),
    .infer = infer,
    .forward = forward,
    .backward = pare_backward_copy,
    .ties = pare_ties_elementwise,
    .constant_channel = pare_constant_channel_same,
};
