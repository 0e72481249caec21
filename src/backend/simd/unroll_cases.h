/* unroll_cases.h - switches that turn a loop count into a compile-time constant.
 *
 *     switch (n) {
 *         PARE_CASES_12(rows, p, first);
 *     default: break;
 *     }
 *
 * calls rows(p, first, n) for n from 1 to 12, where n is a constant in each call.
 */
#ifndef PARE_BACKEND_SIMD_UNROLL_CASES_H
#define PARE_BACKEND_SIMD_UNROLL_CASES_H

#define PARE_CASE(n, call, ...) \
    case n:                     \
        call(__VA_ARGS__, n);   \
        break

#define PARE_CASES_2(...)      \
    PARE_CASE(1, __VA_ARGS__); \
    PARE_CASE(2, __VA_ARGS__)

#define PARE_CASES_6(...)      \
    PARE_CASES_2(__VA_ARGS__); \
    PARE_CASE(3, __VA_ARGS__); \
    PARE_CASE(4, __VA_ARGS__); \
    PARE_CASE(5, __VA_ARGS__); \
    PARE_CASE(6, __VA_ARGS__)

#define PARE_CASES_8(...)      \
    PARE_CASES_6(__VA_ARGS__); \
    PARE_CASE(7, __VA_ARGS__); \
    PARE_CASE(8, __VA_ARGS__)

#define PARE_CASES_12(...)      \
    PARE_CASES_8(__VA_ARGS__);  \
    PARE_CASE(9, __VA_ARGS__);  \
    PARE_CASE(10, __VA_ARGS__); \
    PARE_CASE(11, __VA_ARGS__); \
    PARE_CASE(12, __VA_ARGS__)

#define PARE_CASES_16(...)      \
    PARE_CASES_12(__VA_ARGS__); \
    PARE_CASE(13, __VA_ARGS__); \
    PARE_CASE(14, __VA_ARGS__); \
    PARE_CASE(15, __VA_ARGS__); \
    PARE_CASE(16, __VA_ARGS__)

#endif
