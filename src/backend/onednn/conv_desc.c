/* conv_desc.c - oneDNN descriptors of convolutions: strides, padding, weights. */
#include "conv_desc.h"

/* `end` is the padding that the last window reads, which may be less than the attribute. */
void pare_conv_sides(const struct pare_window *w, struct pare_conv_sides *g)
{
    memset(g, 0, sizeof(*g));
    for (int i = 0; i < w->nd; i++) {
        g->stride[i] = w->stride[i];
        g->dilate[i] = w->dilation[i] - 1;
        g->begin[i] = w->pad_begin[i];
        g->end[i] = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 -
                    w->in[i] - w->pad_begin[i];
    }
}

struct pare_tensor pare_conv_weight(const struct pare_tensor *w, int64_t group)
{
    struct pare_tensor t = *w;

    if (group == 1)
        return t;
    t.rank = w->rank + 1;
    t.dim[0] = group;
    t.dim[1] = w->dim[0] / group;
    for (int i = 1; i < w->rank; i++)
        t.dim[i + 1] = w->dim[i];
    return t;
}

int pare_conv_weight_md(const struct pare_tensor *w, int64_t group, dnnl_memory_desc_t *md,
                        struct pare_err *err)
{
    static const dnnl_format_tag_t tags[] = {
        0, 0, 0, dnnl_abc, dnnl_abcd, dnnl_abcde, dnnl_abcdef
    };
    struct pare_tensor t = pare_conv_weight(w, group);
    dnnl_dims_t dims = { 0 };

    for (int i = 0; i < t.rank; i++)
        dims[i] = t.dim[i];
    return pare_dnnl(err,
                     dnnl_memory_desc_init_by_tag(md, t.rank, dims,
                                                  w->dtype == PARE_I8 ? dnnl_s8 : dnnl_f32,
                                                  tags[t.rank]),
                     "weights");
}

int pare_conv_blocked_md(const struct pare_tensor *w, int block, dnnl_memory_desc_t *md,
                         struct pare_err *err)
{
    dnnl_dims_t dims = { 0 };

    for (int i = 0; i < w->rank; i++)
        dims[i] = w->dim[i];
    return pare_dnnl(err,
                     dnnl_memory_desc_init_by_tag(md, w->rank, dims, dnnl_f32,
                                                  block == 16 ? dnnl_OIhw16i16o : dnnl_OIhw8i8o),
                     "weights");
}

void pare_dnnl_any(dnnl_memory_desc_t *md, const struct pare_tensor *t)
{
    dnnl_dims_t dims = { 0 };

    for (int i = 0; i < t->rank; i++)
        dims[i] = t->dim[i];
    dnnl_memory_desc_init_by_tag(md, t->rank, dims, dnnl_f32, dnnl_format_tag_any);
}

bool pare_dnnl_is_reference(const_dnnl_primitive_desc_t pd)
{
    const char *impl = "";

    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl);
    return !strncmp(impl, "ref", 3);
}
