/* analyze.h - hints for static analyzers, included before each file: errors are not 0. */
#ifndef PARE_ANALYZE_H
#define PARE_ANALYZE_H

#include <pare/pare.h>

/* An error returns its code, which is not 0. */
#define pare_fail(err, code, ...) (pare_fail(err, code, __VA_ARGS__), (code))

/* Adding the location does not change the code. */
#define pare_at(err, code, ...)                      \
    __extension__({                                  \
        int pare_code_ = (code);                     \
        (void)pare_at(err, pare_code_, __VA_ARGS__); \
        pare_code_;                                  \
    })

#endif
