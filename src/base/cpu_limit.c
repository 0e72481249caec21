/* cpu_limit.c - the environment variable PARE_ISA: use no instruction set beyond the named one. */
#include "cpu_limit.h"

#include <stdlib.h>
#include <string.h>

#include "simd.h"

static const char *const names[] = { "plain", "avx2", "avx512", "avx512_vnni", "avx512_bf16" };

/* Called before the C library is ready, so it calls nothing. */
static int find_name(const char *name, int len)
{
    for (int i = 0; i < (int)PARE_ISA_ANY; i++) {
        int k = 0;

        while (k < len && names[i][k] && names[i][k] == name[k])
            k++;
        if (k == len && !names[i][k])
            return i;
    }
    return (int)PARE_ISA_ANY;
}

int pare_isa_limit(enum pare_isa *limit, struct pare_err *err)
{
    const char *name = getenv("PARE_ISA");

    *limit = PARE_ISA_ANY;
    if (!name || !*name)
        return 0;
    *limit = (enum pare_isa)find_name(name, (int)strlen(name));
    if (*limit != PARE_ISA_ANY)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "the environment variable PARE_ISA is '%.32s', must be plain, avx2, avx512, "
                     "avx512_vnni or avx512_bf16",
                     name);
}

#if defined(__x86_64__)

/* ---- clones ---------------------------------------------------------------------------------- */

#ifndef PARE_NO_CLONES

/* The loader chooses the clone of a function before main(), by what libgcc found out about the CPU;
 * __builtin_cpu_supports() reads the same words.  The linker lets those calls come here instead
 * (--wrap, CMakeLists.txt).  The C library is not ready then: the environment is read by system
 * calls.  The numbers are those of gcc's i386-cpuinfo.h, which never change. */
extern struct {
    unsigned vendor, type, subtype, features[1];
} __cpu_model;                     /* NOLINT(bugprone-reserved-identifier) */
extern unsigned __cpu_features2[]; /* NOLINT(bugprone-reserved-identifier) */

/* Weak: a program that links the static library without --wrap has no limit for clones. */
__attribute__((weak)) int
__real___cpu_indicator_init(void);     /* NOLINT(bugprone-reserved-identifier) */
int __wrap___cpu_indicator_init(void); /* NOLINT(bugprone-reserved-identifier) */

#define VARIABLE "PARE_ISA="
#define LONGEST 16 /* characters of a name */

static long call(long number, long a, long b, long c)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

/* What follows the variable's name in the environment; the number of characters. */
static int read_limit(char *name)
{
    enum { OPEN = 2, READ = 0, CLOSE = 3 };
    long file = call(OPEN, (long)"/proc/self/environ", 0, 0), n;
    int at = 0, len = -1; /* at: characters of VARIABLE that agree, -1: none until the next 0 */
    bool complete = file < 0;
    char part[512];

    while (!complete && (n = call(READ, file, (long)part, sizeof(part))) > 0)
        for (long i = 0; i < n && !complete; i++) {
            if (len >= 0 && len < LONGEST && part[i])
                name[len++] = part[i];
            else if (len >= 0)
                complete = true;
            else if (!part[i])
                at = 0;
            else if (at >= 0 && part[i] == VARIABLE[at])
                len = ++at == (int)sizeof(VARIABLE) - 1 ? 0 : -1;
            else
                at = -1;
        }
    if (file >= 0)
        call(CLOSE, file, 0, 0);
    return len > 0 ? len : 0;
}

static void drop(int feature)
{
    if (feature < 32)
        __cpu_model.features[0] &= ~(1u << feature);
    else
        __cpu_features2[feature / 32 - 1] &= ~(1u << feature % 32);
}

int __wrap___cpu_indicator_init(void)
{
    static const struct {
        enum pare_isa isa;
        int feature;
    } all[] = {
        { PARE_ISA_AVX2, 10 /* avx2 */ },      { PARE_ISA_AVX2, 14 /* fma */ },
        { PARE_ISA_AVX2, 97 /* x86-64-v3 */ }, { PARE_ISA_AVX512, 15 /* avx512f */ },
        { PARE_ISA_AVX512, 20 /* vl */ },      { PARE_ISA_AVX512, 21 /* bw */ },
        { PARE_ISA_AVX512, 22 /* dq */ },      { PARE_ISA_AVX512, 98 /* x86-64-v4 */ },
        { PARE_ISA_AVX512, 26 /* vbmi */ },    { PARE_ISA_AVX512_VNNI, 34 },
        { PARE_ISA_AVX512_BF16, 36 },
    };
    static bool done;
    char name[LONGEST];
    int rc = __real___cpu_indicator_init(), limit;

    if (done)
        return rc;
    done = true;
    limit = find_name(name, read_limit(name));
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if ((int)all[i].isa > limit)
            drop(all[i].feature);
    return rc;
}

/* For programs without clones. */
__attribute__((constructor)) static void limit_cpu(void)
{
    if (__real___cpu_indicator_init)
        __wrap___cpu_indicator_init();
}

#endif

bool pare_has_isa(enum pare_isa isa)
{
    enum pare_isa limit;
    struct pare_err err;

    if (!pare_isa_limit(&limit, &err) && isa > limit)
        return false;
    switch ((int)isa) {
    case PARE_ISA_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case PARE_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    case PARE_ISA_AVX512_VNNI:
        return pare_has_isa(PARE_ISA_AVX512) && __builtin_cpu_supports("avx512vnni");
    case PARE_ISA_AVX512_BF16:
        return pare_has_isa(PARE_ISA_AVX512_VNNI) && __builtin_cpu_supports("avx512bf16");
    default: return isa == PARE_ISA_PLAIN;
    }
}

#else

bool pare_has_isa(enum pare_isa isa)
{
    return isa == PARE_ISA_PLAIN;
}

#endif
