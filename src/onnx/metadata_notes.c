/* metadata_notes.c - key-value notes that are saved with a model (metadata_props). */
#include <string.h>

#include "../base/arena.h"
#include "build.h"

static Onnx__StringStringEntryProto *find(const Onnx__ModelProto *p, const char *key)
{
    for (size_t i = 0; i < p->n_metadata_props; i++)
        if (p->metadata_props[i]->key && !strcmp(p->metadata_props[i]->key, key))
            return p->metadata_props[i];
    return NULL;
}

int pare_model_note(struct pare_model *m, const char *key, const char *value, struct pare_err *err)
{
    Onnx__ModelProto *p = m->proto;
    Onnx__StringStringEntryProto *e = pare_alloc(m->arena, 1, sizeof(*e)), **list;
    Onnx__StringStringEntryProto *old = find(p, key);

    list = pare_alloc(m->arena, p->n_metadata_props + 1, sizeof(*list));
    if (!e || !list)
        return pare_no_memory(err, "for the note '%s'", key);
    pare_model_touch(m);
    onnx__string_string_entry_proto__init(e);
    e->key = pare_strdup(m->arena, key);
    e->value = pare_strdup(m->arena, value);
    if (!e->key || !e->value)
        return pare_no_memory(err, "for the note '%s'", key);
    for (size_t i = 0; i < p->n_metadata_props; i++)
        list[i] = p->metadata_props[i] == old ? e : p->metadata_props[i];
    if (!old)
        list[p->n_metadata_props++] = e;
    p->metadata_props = list;
    return 0;
}

const char *pare_model_noted(const struct pare_model *m, const char *key)
{
    const Onnx__StringStringEntryProto *e = find(m->proto, key);

    return e ? e->value : NULL;
}
