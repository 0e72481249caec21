/* backend.c - the kernel table and the helpers of match() functions. */
#include "backend.h"

#include <string.h>

#ifdef PARE_ONEDNN
#define ONEDNN_KERNEL(name) KERNEL(name)
#else
#define ONEDNN_KERNEL(name)
#endif

#define KERNEL(name) extern const struct pare_kernel pare_kernel_##name;
#include "kernels.def"
#undef KERNEL

const struct pare_kernel *const pare_kernels[] = {
#define KERNEL(name) &pare_kernel_##name,
#include "kernels.def"
#undef KERNEL
    NULL
};

bool pare_is_onednn_kernel(const char *name)
{
#undef ONEDNN_KERNEL
#define KERNEL(name)
#define ONEDNN_KERNEL(name) #name,
    static const char *const names[] = {
#include "kernels.def"
    };
#undef ONEDNN_KERNEL
#undef KERNEL

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

bool pare_step_lists(struct pare_step *s, const struct pare_match *v, int n_in, int n_out,
                     int n_fused)
{
    struct pare_arena *a = v->backend->arena;

    s->n_in = n_in;
    s->n_out = n_out;
    s->n_fused = n_fused;
    s->in = pare_alloc(a, (size_t)n_in, sizeof(*s->in));
    s->out = pare_alloc(a, (size_t)n_out, sizeof(*s->out));
    s->in_block = pare_alloc(a, (size_t)n_in, sizeof(*s->in_block));
    s->out_block = pare_alloc(a, (size_t)n_out, sizeof(*s->out_block));
    s->in_buf = pare_alloc(a, (size_t)n_in, sizeof(*s->in_buf));
    s->out_buf = pare_alloc(a, (size_t)n_out, sizeof(*s->out_buf));
    s->fused = pare_alloc(a, (size_t)n_fused, sizeof(*s->fused));
    if (!s->in || !s->out || !s->in_block || !s->out_block || !s->in_buf || !s->out_buf ||
        !s->fused)
        return false;
    for (int i = 0; i < n_in; i++)
        s->in_block[i] = 1;
    for (int i = 0; i < n_out; i++)
        s->out_block[i] = 1;
    return true;
}

bool pare_step_layouts_match(const struct pare_step *s)
{
    const struct pare_step *o = s->layout_from;
    bool fits = !o || (o->n_in == s->n_in && o->n_out == s->n_out && o->n_fused == s->n_fused);

    for (int k = 0; o && fits && k < s->n_in; k++)
        fits = o->in[k] == s->in[k] && o->in_block[k] == s->in_block[k];
    for (int k = 0; o && fits && k < s->n_out; k++)
        fits = o->out[k] == s->out[k] && o->out_block[k] == s->out_block[k];
    for (int k = 0; o && fits && k < s->n_fused; k++)
        fits = o->fused[k] == s->fused[k];
    return fits;
}

struct pare_node *pare_only_consumer(const struct pare_match *v, const struct pare_value *val)
{
    const struct pare_consumers *u = &v->consumers[val->id];

    return u->n == 1 && !(val->flags & PARE_V_OUTPUT) && !v->claimed[u->node[0]->id] ? u->node[0]
                                                                                     : NULL;
}

bool pare_is_const(const struct pare_value *v)
{
    return v->flags & PARE_V_CONST;
}

bool pare_is_fixed(const struct pare_value *v)
{
    return v->flags & (PARE_V_CONST | PARE_V_PARAM);
}

bool pare_is_computed(const struct pare_match *v, const struct pare_value *val)
{
    const struct pare_node *m = val->maker;

    if (pare_is_fixed(val) || v->layout[val->id])
        return true;
    if (!m || !v->lazy[m->id])
        return false;
    for (int i = 0; i < m->n_in; i++)
        if (m->in[i] && !pare_is_computed(v, m->in[i]))
            return false;
    return true;
}

bool pare_is_f32(const struct pare_value *v)
{
    return v && v->t.dtype == PARE_F32;
}

int pare_block_of(const struct pare_match *v, const struct pare_value *val)
{
    int layout = pare_layout_of(v, val);

    return layout > 0 ? layout : 1;
}

/* A lazy value takes the layout that its reader requests: blocked, if its int8 values are in one of
 * the convolution layouts. */
int pare_layout_of(const struct pare_match *v, const struct pare_value *val)
{
    const struct pare_node *m = val->maker;
    const struct pare_value *x;

    if (v->layout[val->id])
        return v->layout[val->id];
    if (pare_is_fixed(val) || !m || !v->lazy[m->id] || val->t.rank <= 2)
        return 1;
    x = m->in[m->n_in > 1 && m->op->map2 && pare_is_fixed(m->in[0])];
    if (pare_same_shape(&x->t, &val->t) && pare_layout_of(v, x) != 1)
        return v->backend->block;
    return 1;
}

int64_t pare_block_numel(const struct pare_tensor *t, int block)
{
    int64_t n = pare_numel(t);

    if (block <= 1 || t->rank < 2 || !t->dim[1])
        return n;
    return n / t->dim[1] * ((t->dim[1] + block - 1) / block * block);
}

const void *pare_const_raw(const struct pare_value *v)
{
    return v->t.data ? v->t.data : v->raw;
}

const float *pare_const_f32(struct pare_backend *b, struct pare_value *v, struct pare_err *err)
{
    if (v->t.dtype != PARE_F32) {
        pare_fail(err, PARE_EUNSUPPORTED, "constant '%s' is %s, expected float32", v->name,
                  pare_dtype_name(v->t.dtype));
        return NULL;
    }
    if (!v->t.data && v->raw) {
        size_t bytes;

        if (pare_tensor_size(&v->t, NULL, &bytes, err) || pare_tensor_alloc(b->arena, &v->t, err))
            return NULL;
        memcpy(v->t.data, v->raw, bytes);
    }
    return pare_f32(&v->t);
}
