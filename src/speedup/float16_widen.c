/* float16_widen.c - analyze float16, bfloat16 and double as float32; write the original type. */
#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "speedup.h"

static bool is_widened(enum pare_dtype t)
{
    return t == PARE_F16 || t == PARE_BF16 || t == PARE_F64;
}

const struct pare_tensor *pare_speedup_file(const struct pare_speedup *s,
                                            const struct pare_value *v)
{
    return v->id < s->cap_file && s->file[v->id].dtype != PARE_NONE ? &s->file[v->id] : &v->t;
}

static int widen(struct pare_speedup *s, struct pare_value *v, struct pare_err *err)
{
    struct pare_tensor wide = v->t;

    if (!is_widened(v->t.dtype))
        return 0;
    wide.dtype = PARE_F32;
    wide.data = NULL;
    if (v->t.data) {
        PARE_TRY(pare_tensor_alloc(s->arena, &wide, err));
        PARE_TRY(pare_convert(PARE_F32, wide.data, v->t.dtype, v->t.data, pare_numel(&wide), err));
    }
    s->file[v->id] = v->t;
    v->t = wide;
    return 0;
}

int pare_speedup_widen(struct pare_speedup *s, struct pare_err *err)
{
    s->file = pare_alloc(s->arena, (size_t)s->g->n_values + 1, sizeof(*s->file));
    if (!s->file)
        return pare_no_memory(err, "to convert float16");
    s->cap_file = s->g->n_values + 1;
    for (int i = 0; i < s->g->n_values; i++)
        PARE_TRY(widen(s, s->g->value[i], err));
    return 0;
}

int pare_speedup_like(struct pare_speedup *s, const struct pare_value *v,
                      const struct pare_value *other, struct pare_err *err)
{
    int was = s->cap_file;
    struct pare_tensor *list = pare_grow(s->arena, s->file, v->id, &s->cap_file, sizeof(*list));
    enum pare_dtype dtype = pare_speedup_file(s, other)->dtype;

    if (!list)
        return pare_no_memory(err, "to convert float16");
    s->file = list;
    for (int i = was; i < s->cap_file; i++)
        list[i] = (struct pare_tensor){ .dtype = PARE_NONE };
    if (is_widened(dtype)) {
        list[v->id] = v->t;
        list[v->id].dtype = dtype;
        return pare_speedup_narrow(s->arena, s, v, &list[v->id], err);
    }
    return 0;
}

int pare_speedup_narrow(struct pare_arena *a, const struct pare_speedup *s,
                        const struct pare_value *v, struct pare_tensor *t, struct pare_err *err)
{
    enum pare_dtype dtype = pare_speedup_file(s, v)->dtype;
    const void *from = t->data;

    if (!is_widened(dtype) || !from)
        return 0;
    t->dtype = dtype;
    PARE_TRY(pare_tensor_alloc(a, t, err));
    return pare_convert(dtype, t->data, PARE_F32, from, pare_numel(t), err);
}
