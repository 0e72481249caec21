/* simd.h - function multiversioning: compile a loop for several instruction sets.
 *
 * PARE_SIMD before a function makes the compiler emit it for plain x86-64, for AVX2 and for
 * AVX-512, and the loader pick one at start-up, so that one portable binary runs at the
 * machine's width.  The function itself stays plain C.  Sanitizer builds and other machines get
 * the plain version, and so does clang: the resolver that clang 14 makes for a static function is
 * global, so two files could not have clones of the same name.
 */
#ifndef PARE_BASE_SIMD_H
#define PARE_BASE_SIMD_H

#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || !defined(__x86_64__) || \
    !defined(__linux__)
#define PARE_NO_CLONES 1
#endif

#ifdef PARE_NO_CLONES
#define PARE_SIMD
#else
#define PARE_SIMD __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif

/* A helper that is inlined into such functions; on its own it would be compiled for plain
 * x86-64. */
#define PARE_SIMD_PART static inline __attribute__((always_inline))

/* a * b + c, rounded once, in loops of such functions.  Without clones the FMA instruction may be
 * missing; then float64 is used, which holds a * b exactly. */
#ifdef PARE_NO_CLONES
#define PARE_FMA(a, b, c) ((float)((double)(a) * (double)(b) + (double)(c)))
#else
#define PARE_FMA(a, b, c) __builtin_fmaf(a, b, c)
#endif

/* Eight floats, for loops that compilers do not vectorize: gcc and clang compile +, -, * and
 * comparisons for the instruction set of the function.  (With sixteen, gcc 12 splits comparisons
 * into scalars.)  They need not be aligned.  Do not use them as parameters: the calling
 * convention depends on the machine. */
typedef float pare_v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int pare_m8 __attribute__((vector_size(32), aligned(4), may_alias));

#define PARE_V8(p) (*(const pare_v8 *)(p))
#define PARE_PUT8(p, v) (*(pare_v8 *)(p) = (v))
#define PARE_ALL8(a) ((a) - (pare_v8){ 0 })

/* The lanes that are NaN. */
#define PARE_NAN8(v) ((v) != (v)) /* NOLINT(misc-redundant-expression) */

/* v in the lanes where a comparison holds, 0 elsewhere. */
#define PARE_WHERE8(holds, v) ((pare_v8)((holds) & (pare_m8)(v)))

#endif
