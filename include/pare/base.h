/* base.h - version, errors, progress, memory and tensors; see <pare/pare.h> for the conventions. */
#ifndef PARE_BASE_H
#define PARE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define PARE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define PARE_API __attribute__((visibility("default")))
#else
#define PARE_PRINTF(fmt, args)
#define PARE_API
#endif

/* ---- version -------------------------------------------------------------- */

#define PARE_VERSION_MAJOR 0
#define PARE_VERSION_MINOR 1
#define PARE_VERSION_PATCH 0

/* Number of the binary interface.  It changes when a field of a struct or the meaning of a function
 * changes; appended fields and new functions do not change it. */
#define PARE_ABI 2

PARE_API const char *pare_version(void); /* of the library that is linked: "0.1.0" */
PARE_API unsigned pare_abi(void);        /* PARE_ABI of the library that is linked */

/* sizeof(struct NAME) in the library that is linked, for bindings: pare_struct_size("pare_tensor").
 * 0: no public struct has this name. */
PARE_API size_t pare_struct_size(const char *name);

/* ---- errors --------------------------------------------------------------- */

/* clang-format off */
#define PARE_ERRORS(X)                                 \
    X(NOMEM,       "out of memory")                    \
    X(IO,          "cannot read or write")             \
    X(FORMAT,      "malformed input")                  \
    X(SHAPE,       "shapes do not agree")              \
    X(CONFIG,      "invalid configuration")            \
    X(UNSUPPORTED, "not supported")                    \
    X(LIMIT,       "beyond a limit")                   \
    X(DYNAMIC,     "depends on data that is not known yet") \
    X(CANCEL,      "canceled by the caller")
/* clang-format on */

enum pare_code {
    PARE_OK = 0,
#define X(name, text) PARE_E##name,
    PARE_ERRORS(X)
#undef X
};

struct pare_err {
    int code;      /* PARE_OK or one of PARE_E... */
    char msg[512]; /* what went wrong, where, and what was expected */
};

/* Record an error and return its code, so that callers can write
 * `return pare_fail(err, PARE_ESHAPE, "...")`.  Here, too, err may be NULL. */
PARE_API int pare_fail(struct pare_err *err, int code, const char *fmt, ...) PARE_PRINTF(3, 4);

/* The same for PARE_ENOMEM: "no memory " and what for, as in pare_no_memory(err, "for the
 * plan"). */
PARE_API int pare_no_memory(struct pare_err *err, const char *fmt, ...) PARE_PRINTF(2, 3);

/* Prefix the message with where we were, as the error travels up.  Returns the code unchanged;
 * does nothing when there is no error. */
PARE_API int pare_at(struct pare_err *err, int code, const char *fmt, ...) PARE_PRINTF(3, 4);

PARE_API const char *pare_code_text(int code);

/* For functions that own nothing but arena memory.  A function that owns a FILE, a lock or a
 * handle uses `goto out` instead, and never both. */
#define PARE_TRY(call)         \
    do {                       \
        int pare_rc_ = (call); \
        if (pare_rc_)          \
            return pare_rc_;   \
    } while (0)

/* The first line of a function whose callers may pass NULL for err. */
#define PARE_ERR(err)              \
    struct pare_err err##_unread_; \
    err = (err) ? (err) : &err##_unread_

/* ---- progress --------------------------------------------------------------- */

/* How far a long operation is.  Everything that can take longer than a second calls the function
 * that its options name, in the caller's thread. */
struct pare_progress {
    const char *what;    /* "observe", "train", "tune", "verify", ...; a static string */
    int64_t done, total; /* in units of `what`: items, batches, layers; total 0: not known */
    double seconds;      /* since this operation began */
};

/* Return false to cancel: the operation ends with PARE_ECANCEL, and what it was changing is as it
 * was before, or as its documentation says. */
typedef bool pare_progress_fn(void *user, const struct pare_progress *p);

/* ---- memory --------------------------------------------------------------- */

/* A growing region freed all at once. */
struct pare_arena;
struct pare_mark {
    void *block;
    size_t used;
};

PARE_API struct pare_arena *pare_arena_new(size_t block_bytes); /* NULL when out of memory */
PARE_API void pare_arena_free(struct pare_arena *a);            /* NULL is fine */
PARE_API void *pare_alloc(struct pare_arena *a, size_t n, size_t size);     /* zeroed, 64-aligned */
PARE_API void *pare_alloc_raw(struct pare_arena *a, size_t n, size_t size); /* not zeroed */
PARE_API struct pare_mark pare_mark(const struct pare_arena *a);
PARE_API void pare_reset(struct pare_arena *a, struct pare_mark m); /* drop all since m */

/* ---- tensors -------------------------------------------------------------- */

#define PARE_MAX_RANK 8

/* The numbers are those of ONNX's TensorProto.DataType. */
enum pare_dtype {
    PARE_NONE = 0,
    PARE_F32 = 1,
    PARE_U8 = 2,
    PARE_I8 = 3,
    PARE_U16 = 4,
    PARE_I16 = 5,
    PARE_I32 = 6,
    PARE_I64 = 7,
    PARE_STR = 8,  /* elements are struct pare_str */
    PARE_BOOL = 9, /* one byte, 0 or 1 */
    PARE_F16 = 10,
    PARE_F64 = 11,
    PARE_U32 = 12,
    PARE_U64 = 13,
    PARE_C64 = 14, /* these and float8, float4 and 2-bit types are loaded and saved, not computed */
    PARE_C128 = 15,
    PARE_BF16 = 16,
    PARE_F8E4M3FN = 17,
    PARE_F8E4M3FNUZ = 18,
    PARE_F8E5M2 = 19,
    PARE_F8E5M2FNUZ = 20,
    PARE_U4 = 21, /* in memory one byte an element; packed only in files */
    PARE_I4 = 22,
    PARE_F4E2M1 = 23,
    PARE_F8E8M0 = 24,
    PARE_U2 = 25,
    PARE_I2 = 26,

    /* Values that are not tensors; these numbers are not ONNX's. */
    PARE_SEQUENCE = 30, /* rank 1, dim[0] elements, each a struct pare_tensor */
    PARE_ABSENT = 31,   /* an optional without a value: rank 0, data points to nothing useful */
};

struct pare_str {
    const char *s; /* not terminated by a zero */
    size_t len;
};

/* A view.  It never owns `data`; the arena it came from does. */
struct pare_tensor {
    enum pare_dtype dtype;
    int rank;
    int64_t dim[PARE_MAX_RANK];
    void *data;
};

/* Fill in t and take zeroed memory for it from the arena. */
PARE_API int pare_tensor_new(struct pare_arena *a, struct pare_tensor *t, enum pare_dtype dtype,
                             int rank, const int64_t *dim, struct pare_err *err);
PARE_API int64_t pare_numel(const struct pare_tensor *t); /* 1 for a scalar */
PARE_API size_t pare_dtype_size(enum pare_dtype d);       /* bytes; 0: not computed with */
PARE_API const char *pare_dtype_name(enum pare_dtype d);  /* "float32", "int64", ... */

/* The elements of a float32 or int64 tensor, to read; and to write (_mut).  A tensor is a view, so
 * a const one may point to memory that can be written: functions that return tensors which must not
 * be written say so. */
static inline const float *pare_f32(const struct pare_tensor *t)
{
    return (const float *)t->data;
}
static inline const int64_t *pare_i64(const struct pare_tensor *t)
{
    return (const int64_t *)t->data;
}
static inline float *pare_f32_mut(const struct pare_tensor *t)
{
    return (float *)t->data;
}
static inline int64_t *pare_i64_mut(const struct pare_tensor *t)
{
    return (int64_t *)t->data;
}

#ifdef __cplusplus
}
#endif

#endif
