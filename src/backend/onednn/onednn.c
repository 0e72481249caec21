/* onednn.c - oneDNN engine and stream, memory descriptors, packed constants. */
#include "onednn.h"

#include <stdlib.h>
#include <string.h>

#include "../../base/cpu_limit.h"

int pare_dnnl(struct pare_err *err, dnnl_status_t s, const char *what)
{
    static const char *const text[] = {
        "success",       "out of memory", "invalid arguments", "unimplemented",
        "iterator ends", "runtime error", "not required",
    };

    if (s == dnnl_success)
        return 0;
    return pare_fail(err, s == dnnl_out_of_memory ? PARE_ENOMEM : PARE_EUNSUPPORTED,
                     "oneDNN: %s: %s", what,
                     (size_t)s < sizeof(text) / sizeof(*text) ? text[s] : "unknown");
}

/* A dnnl_cpu_isa_t is a set of bits. */
static bool has_isa(dnnl_cpu_isa_t isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

const bool pare_has_onednn = true;

/* PARE_ISA limits oneDNN, too, which accepts a limit only before its first use.  Without it, oneDNN
 * does not use AMX: int8 convolutions of oneDNN 2.6 with few channels execute tile instructions
 * without a tile configuration there, which is an illegal instruction.  A limit by oneDNN's own
 * variables stays. */
static int limit_isa(struct pare_err *err)
{
    static const dnnl_cpu_isa_t isa[] = {
        dnnl_cpu_isa_sse41,
        dnnl_cpu_isa_avx2,
        dnnl_cpu_isa_avx512_core,
        dnnl_cpu_isa_avx512_core_vnni,
        dnnl_cpu_isa_avx512_core_bf16,
    };
    enum pare_isa limit;

    PARE_TRY(pare_isa_limit(&limit, err));
    if (limit != PARE_ISA_ANY)
        dnnl_set_max_cpu_isa(isa[limit]);
    else if (!getenv("ONEDNN_MAX_CPU_ISA") && !getenv("DNNL_MAX_CPU_ISA"))
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    return 0;
}

int pare_backend_open(struct pare_backend *b, struct pare_err *err)
{
    struct pare_onednn *o = pare_alloc(b->arena, 1, sizeof(*o));

    if (!o)
        return pare_no_memory(err, "for the oneDNN engine");
    PARE_TRY(limit_isa(err));
    b->onednn = o;
    b->isa = (unsigned)dnnl_get_effective_cpu_isa();
    b->block = has_isa(dnnl_cpu_isa_avx512_core) ? 16 : 8;
    b->vnni = has_isa(dnnl_cpu_isa_avx512_core_vnni) || has_isa(dnnl_cpu_isa_avx2_vnni);
    b->has_bf16 = b->block == 16 && has_isa(dnnl_cpu_isa_avx512_core_bf16);
    PARE_TRY(pare_dnnl(err, dnnl_engine_create(&o->engine, dnnl_cpu, 0), "engine"));
    return pare_dnnl(err, dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags),
                     "stream");
}

void pare_backend_close(struct pare_backend *b)
{
    if (!b->onednn)
        return;
    if (b->onednn->stream)
        dnnl_stream_destroy(b->onednn->stream);
    if (b->onednn->engine)
        dnnl_engine_destroy(b->onednn->engine);
    b->onednn = NULL;
}

static dnnl_data_type_t type_of(enum pare_dtype d)
{
    switch ((int)d) {
    case PARE_U8: return dnnl_u8;
    case PARE_I8: return dnnl_s8;
    case PARE_I32: return dnnl_s32;
    case PARE_NONE: /* shapes that kernels construct have no type */
    case PARE_F32: return dnnl_f32;
    default: return dnnl_data_type_undef;
    }
}

bool pare_dnnl_md(dnnl_memory_desc_t *md, const struct pare_tensor *t, int block)
{
    static const dnnl_format_tag_t plain[] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde
    };
    static const dnnl_format_tag_t by8[] = { 0, 0, 0, dnnl_aBc8b, dnnl_aBcd8b, dnnl_aBcde8b };
    static const dnnl_format_tag_t by16[] = { 0, 0, 0, dnnl_aBc16b, dnnl_aBcd16b, dnnl_aBcde16b };
    static const dnnl_format_tag_t last[] = { 0, 0, 0, dnnl_acb, dnnl_acdb, dnnl_acdeb };
    dnnl_dims_t dims = { 0 };

    if (t->rank < 1 || t->rank > 5 || (block != 1 && t->rank < 3))
        return false;
    for (int i = 0; i < t->rank; i++)
        dims[i] = t->dim[i];
    return dnnl_memory_desc_init_by_tag(md, t->rank, dims, type_of(t->dtype),
                                        block == 16  ? by16[t->rank]
                                        : block == 8 ? by8[t->rank]
                                        : block == PARE_CHANNELS_LAST
                                            ? last[t->rank]
                                            : plain[t->rank]) == dnnl_success;
}

int pare_dnnl_block(const dnnl_memory_desc_t *md, const struct pare_tensor *t)
{
    static const int blocks[] = { 1, 16, 8 };
    dnnl_memory_desc_t own;

    for (int i = 0; i < 3; i++)
        if (pare_dnnl_md(&own, t, blocks[i]) && dnnl_memory_desc_equal(&own, md))
            return blocks[i];
    return 0;
}

static int pack_attr(const struct pare_pack *k, dnnl_primitive_attr_t *attr, struct pare_err *err)
{
    PARE_TRY(pare_dnnl(err, dnnl_primitive_attr_create(attr), "weights"));
    if (!k->scale)
        return 0;
    return pare_dnnl(err,
                     dnnl_primitive_attr_set_output_scales(*attr, k->n_scales, k->mask, k->scale),
                     "weights");
}

int pare_dnnl_pack(struct pare_backend *b, const struct pare_pack *k, dnnl_memory_t *packed,
                   struct pare_err *err)
{
    dnnl_engine_t e = b->onednn->engine;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t prim = NULL;
    dnnl_memory_t from = NULL;
    void *memory = pare_alloc_raw(b->arena, dnnl_memory_desc_get_size(k->want), 1);
    int rc = memory ? 0 : pare_no_memory(err, "for the weights");

    if (!rc)
        rc = pare_dnnl(err, dnnl_memory_create(&from, k->have, e, (void *)(uintptr_t)k->data),
                       "weights");
    if (!rc)
        rc = pare_dnnl(err, dnnl_memory_create(packed, k->want, e, memory), "weights");
    if (!rc)
        rc = pack_attr(k, &attr, err);
    if (!rc)
        rc = pare_dnnl(err, dnnl_reorder_primitive_desc_create(&pd, k->have, e, k->want, e, attr),
                       "weights");
    if (!rc)
        rc = pare_dnnl(err, dnnl_primitive_create(&prim, pd), "weights");
    if (!rc) {
        dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, *packed } };

        rc = pare_dnnl(err, dnnl_primitive_execute(prim, b->onednn->stream, 2, args), "weights");
    }
    if (prim)
        dnnl_primitive_destroy(prim);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (from)
        dnnl_memory_destroy(from);
    return rc;
}

int pare_dnnl_share(struct pare_backend *b, dnnl_memory_t have, dnnl_memory_t *shared,
                    struct pare_err *err)
{
    const dnnl_memory_desc_t *md;
    void *data;

    PARE_TRY(pare_dnnl(err, dnnl_memory_get_memory_desc(have, &md), "weights"));
    PARE_TRY(pare_dnnl(err, dnnl_memory_get_data_handle(have, &data), "weights"));
    return pare_dnnl(err, dnnl_memory_create(shared, md, b->onednn->engine, data), "weights");
}

bool pare_dnnl_user_scratch(dnnl_primitive_attr_t attr)
{
    return dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success;
}

size_t pare_dnnl_scratch_bytes(const_dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);

    return md ? dnnl_memory_desc_get_size(md) : 0;
}

int pare_dnnl_scratch(struct pare_backend *b, const_dnnl_primitive_desc_t pd,
                      const struct pare_step *s, dnnl_memory_t *scratch, struct pare_err *err)
{
    if (!s->work[0])
        return 0;
    return pare_dnnl(
        err,
        dnnl_memory_create(scratch, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0),
                           b->onednn->engine, s->work[0]->t.data),
        "working memory");
}

int pare_dnnl_ends(struct pare_backend *b, const_dnnl_primitive_desc_t pd,
                   const struct pare_step *s, dnnl_memory_t *src, dnnl_memory_t *dst,
                   struct pare_err *err)
{
    const dnnl_memory_desc_t *from = dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    const dnnl_memory_desc_t *to = dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    dnnl_engine_t e = b->onednn->engine;

    PARE_TRY(pare_dnnl(err, dnnl_memory_create(src, from, e, s->in_buf[0]->t.data), "input"));
    return pare_dnnl(err, dnnl_memory_create(dst, to, e, s->out_buf[0]->t.data), "output");
}

int pare_dnnl_bias(struct pare_backend *b, const_dnnl_primitive_desc_t pd, const float *data,
                   dnnl_memory_t *bias, struct pare_err *err)
{
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1);
    void *at = (void *)(uintptr_t)data;

    return pare_dnnl(err, dnnl_memory_create(bias, md, b->onednn->engine, at), "bias");
}

void pare_dnnl_destroy(const dnnl_memory_t *mem, int n, dnnl_primitive_t prim,
                       dnnl_primitive_desc_t pd)
{
    for (int i = 0; i < n; i++)
        if (mem[i])
            dnnl_memory_destroy(mem[i]);
    if (prim)
        dnnl_primitive_destroy(prim);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
}
