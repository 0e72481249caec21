/* portable_backend.c - a build without oneDNN: instruction sets, matrix products. */
#include "../../base/cpu_limit.h"
#include "../gemm/sgemm_packed.h"

#include <stdlib.h>
#include <string.h>

const bool pare_has_onednn = false;

enum { ISA_AVX2 = 1, ISA_AVX512 = 2, ISA_VNNI = 4, ISA_AVX512_VNNI = 8, ISA_AVX512_BF16 = 16 };

/* Whether ONEDNN_MAX_CPU_ISA (also DNNL_MAX_CPU_ISA) allows an instruction set, by the names that
 * oneDNN accepts, in increasing order. */
static bool allows(const char *isa)
{
    static const char *const names[] = { "SSE41",           "AVX",         "AVX2",
                                         "AVX2_VNNI",       "AVX512_CORE", "AVX512_CORE_VNNI",
                                         "AVX512_CORE_BF16" };
    const char *most = getenv("ONEDNN_MAX_CPU_ISA");
    const int n = (int)(sizeof(names) / sizeof(*names));
    int limit = n, want = 0;

    if (!most)
        most = getenv("DNNL_MAX_CPU_ISA");
    for (int i = 0; i < n; i++) {
        if (most && !strcmp(most, names[i]))
            limit = i;
        if (!strcmp(isa, names[i]))
            want = i;
    }
    return want <= limit;
}

static unsigned find_isa(void)
{
    unsigned isa = 0;

    if (pare_has_isa(PARE_ISA_AVX2) && allows("AVX2"))
        isa |= ISA_AVX2;
    if (isa && pare_has_isa(PARE_ISA_AVX512) && allows("AVX512_CORE"))
        isa |= ISA_AVX512;
    if (isa & ISA_AVX512 && pare_has_isa(PARE_ISA_AVX512_VNNI) && allows("AVX512_CORE_VNNI"))
        isa |= ISA_AVX512_VNNI;
    if (isa & ISA_AVX512_VNNI && pare_has_isa(PARE_ISA_AVX512_BF16) && allows("AVX512_CORE_BF16"))
        isa |= ISA_AVX512_BF16;
    return isa;
}

int pare_backend_open(struct pare_backend *b, struct pare_err *err)
{
    enum pare_isa limit;

    PARE_TRY(pare_isa_limit(&limit, err));
    b->isa = find_isa();
    b->block = b->isa & ISA_AVX512 ? 16 : 8;
    b->has_bf16 = (b->isa & ISA_AVX512_BF16) != 0;
    b->vnni = (b->isa & (ISA_VNNI | ISA_AVX512_VNNI)) != 0;
    return 0;
}

void pare_backend_close(struct pare_backend *b)
{
    (void)b;
}

int pare_sgemm(const struct pare_sgemm *p)
{
    pare_sgemm_packed(p, find_isa() & ISA_AVX512 ? 16 : 8);
    return 0;
}

int pare_onednn_int8(const struct pare_onednn_int8 *p, struct pare_err *err)
{
    (void)p;
    return pare_fail(err, PARE_EUNSUPPORTED, "this build has no oneDNN");
}
