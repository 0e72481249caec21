/* err.c - error codes and messages; the conventions are at the top of pare.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <pare/pare.h>

int pare_fail(struct pare_err *err, int code, const char *fmt, ...)
{
    PARE_ERR(err);
    va_list ap;

    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    return code;
}

int pare_no_memory(struct pare_err *err, const char *fmt, ...)
{
    PARE_ERR(err);
    va_list ap;
    int n;

    err->code = PARE_ENOMEM;
    n = snprintf(err->msg, sizeof(err->msg), "no memory ");
    va_start(ap, fmt);
    vsnprintf(err->msg + n, sizeof(err->msg) - (size_t)n, fmt, ap);
    va_end(ap);
    return PARE_ENOMEM;
}

int pare_at(struct pare_err *err, int code, const char *fmt, ...)
{
    char was[sizeof(err->msg)];
    va_list ap;
    size_t n;

    if (!code || !err)
        return code;
    memcpy(was, err->msg, sizeof(was));
    was[sizeof(was) - 1] = '\0';
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg) / 2, fmt, ap);
    va_end(ap);
    n = strlen(err->msg);
    snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", was);
    return code;
}

const char *pare_code_text(int code)
{
    switch (code) {
    case PARE_OK: return "ok";
#define X(name, text) \
    case PARE_E##name: return text;
        PARE_ERRORS(X)
#undef X
    default: return "unknown error";
    }
}
