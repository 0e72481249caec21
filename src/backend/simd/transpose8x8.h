/* transpose8x8.h - transpose 8 x 8 floats in registers. */
#ifndef PARE_BACKEND_SIMD_TRANSPOSE8X8_H
#define PARE_BACKEND_SIMD_TRANSPOSE8X8_H

#include "../../base/simd.h"

#ifdef __clang__
#define PARE_ZIP8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PARE_ZIP8(a, b, ...) __builtin_shuffle(a, b, (pare_m8){ __VA_ARGS__ })
#endif

/* Exchange halves, then quarters, then eighths of 8 rows. */
PARE_SIMD_PART void pare_transpose8x8(pare_v8 r[8])
{
    pare_v8 h[8], q[8];

    for (int i = 0; i < 4; i++) {
        h[i] = PARE_ZIP8(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        h[i + 4] = PARE_ZIP8(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = i; k < i + 2; k++) {
            q[k] = PARE_ZIP8(h[k], h[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            q[k + 2] = PARE_ZIP8(h[k], h[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 8; i += 2) {
        r[i] = PARE_ZIP8(q[i], q[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        r[i + 1] = PARE_ZIP8(q[i], q[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
}

#endif
