/* metadata.c - IR version, producer, opsets and size of a model file. */
#include "metadata.h"

#include "onnx.pb-c.h"

static const char *str(const char *s)
{
    return s ? s : "";
}

int pare_model_metadata(const struct pare_model *m, struct pare_arena *a, struct pare_metadata *f,
                        struct pare_err *err)
{
    const Onnx__ModelProto *p = m->proto;
    struct pare_opset *list = pare_alloc(a, p->n_opset_import, sizeof(*list));

    if (!list)
        return pare_no_memory(err, "for the model's operator sets");
    for (size_t i = 0; i < p->n_opset_import; i++)
        list[i] = (struct pare_opset){ str(p->opset_import[i]->domain),
                                       p->opset_import[i]->version };
    *f = (struct pare_metadata){
        .ir = p->ir_version,
        .producer = str(p->producer_name),
        .producer_version = str(p->producer_version),
        .graph = p->graph ? str(p->graph->name) : "",
        .n_opsets = (int)p->n_opset_import,
        .opset = list,
    };
    for (const struct pare_pages *g = m->pages; g; g = g->next)
        f->bytes += g->scratch ? 0 : g->len;
    return 0;
}
