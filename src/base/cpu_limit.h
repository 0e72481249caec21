/* cpu_limit.h - the environment variable PARE_ISA: use no instruction set beyond the named one.
 *
 * For tests and honest figures of other machines.  It limits kernels that are chosen when they run,
 * functions with clones (simd.h) and oneDNN together.
 */
#ifndef PARE_BASE_CPU_LIMIT_H
#define PARE_BASE_CPU_LIMIT_H

#include <pare/base.h>

/* In increasing order; each includes those before it. */
enum pare_isa {
    PARE_ISA_PLAIN, /* x86-64 or aarch64 as every such machine has it */
    PARE_ISA_AVX2,  /* with FMA */
    PARE_ISA_AVX512,
    PARE_ISA_AVX512_VNNI,
    PARE_ISA_AVX512_BF16,
    PARE_ISA_ANY,
};

/* The limit that PARE_ISA names; PARE_ISA_ANY: it is not set.  An error if it names nothing. */
int pare_isa_limit(enum pare_isa *limit, struct pare_err *err);

/* Is this instruction set on the machine, and within the limit? */
bool pare_has_isa(enum pare_isa isa);

#endif
