/* simd.h - let the compiler build a loop for several instruction sets.
 *
 * PARE_SIMD before a function makes the compiler emit it for plain x86-64, for AVX2 and for
 * AVX-512, and the loader pick one at start-up, so that one portable binary runs at the
 * machine's width.  The function itself stays plain C.  Sanitizer builds, other machines and clang
 * (which gives the choosers of static functions of one name in two files the same global symbol)
 * get the plain version.
 */
#ifndef PARE_BASE_SIMD_H
#define PARE_BASE_SIMD_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define PARE_NO_CLONES 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__) || !defined(__x86_64__) ||             \
    !defined(__linux__)
#define PARE_NO_CLONES 1
#endif

#ifdef PARE_NO_CLONES
#define PARE_SIMD
#else
#define PARE_SIMD __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif

#endif
