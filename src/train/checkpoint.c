/* checkpoint.c - checkpoints: everything needed to resume training, in a .safetensors file. */
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"

#define FORMAT_KEY "format"
#define FORMAT "pare checkpoint 1"

/* ---- writing ------------------------------------------------------------------- */

int pare_checkpoint_add(struct pare_checkpoint *c, const char *kind, const char *name,
                        const struct pare_tensor *t, struct pare_err *err)
{
    struct pare_safetensors *st = &c->st;
    char *full = pare_sprintf(c->arena, "%s/%s", kind, name);
    void *list = pare_grow(c->arena, st->tensor, st->n_tensors, &c->cap_tensors,
                           sizeof(*st->tensor));

    if (!full || !list)
        return pare_no_memory(err, "for a checkpoint");
    st->tensor = list;
    st->tensor[st->n_tensors++] = (struct pare_named){ full, *t };
    return 0;
}

int pare_checkpoint_add_rng(struct pare_checkpoint *c, const char *name, struct pare_rng *r,
                            struct pare_err *err)
{
    struct pare_tensor t = { .dtype = PARE_U64, .rank = 1, .dim = { 4 }, .data = r->s };

    return pare_checkpoint_add(c, "rng", name, &t, err);
}

static struct pare_meta *find_meta(const struct pare_checkpoint *c, const char *key)
{
    for (int i = 0; i < c->st.n_meta; i++)
        if (!strcmp(c->st.meta[i].key, key))
            return &c->st.meta[i];
    return NULL;
}

int pare_checkpoint_set(struct pare_checkpoint *c, const char *key, const char *value,
                        struct pare_err *err)
{
    struct pare_meta *m = find_meta(c, key);
    char *text = pare_strdup(c->arena, value), *name;
    void *list;

    if (!text)
        return pare_no_memory(err, "for a checkpoint");
    if (m) {
        m->value = text;
        return 0;
    }
    name = pare_strdup(c->arena, key);
    list = pare_grow(c->arena, c->st.meta, c->st.n_meta, &c->cap_meta, sizeof(*c->st.meta));
    if (!name || !list)
        return pare_no_memory(err, "for a checkpoint");
    c->st.meta = list;
    c->st.meta[c->st.n_meta++] = (struct pare_meta){ name, text };
    return 0;
}

int pare_checkpoint_set_int(struct pare_checkpoint *c, const char *key, int64_t value,
                            struct pare_err *err)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", (long long)value);
    return pare_checkpoint_set(c, key, text, err);
}

int pare_checkpoint_set_float(struct pare_checkpoint *c, const char *key, double value,
                              struct pare_err *err)
{
    char text[64];

    snprintf(text, sizeof(text), "%.17g", value);
    return pare_checkpoint_set(c, key, text, err);
}

int pare_checkpoint_write(const struct pare_checkpoint *c, const char *path, struct pare_err *err)
{
    struct pare_checkpoint marked = *c;

    PARE_TRY(pare_checkpoint_set(&marked, FORMAT_KEY, FORMAT, err));
    return pare_safetensors_write(path, &marked.st, err);
}

/* ---- resuming ------------------------------------------------------------------ */

int pare_checkpoint_read(struct pare_checkpoint *c, const char *path, struct pare_err *err)
{
    const char *format;

    PARE_TRY(pare_safetensors_read(c->arena, path, &c->st, err));
    c->cap_tensors = c->st.n_tensors;
    c->cap_meta = c->st.n_meta;
    format = pare_checkpoint_get(c, FORMAT_KEY);
    if (!format || strcmp(format, FORMAT))
        return pare_fail(err, PARE_EFORMAT,
                         "%s: not a checkpoint: the format is '%.64s', expected '%s'", path,
                         format ? format : "", FORMAT);
    return 0;
}

const struct pare_tensor *pare_checkpoint_find(const struct pare_checkpoint *c, const char *kind,
                                               const char *name)
{
    size_t len = strlen(kind);

    for (int i = 0; i < c->st.n_tensors; i++) {
        const char *full = c->st.tensor[i].name;

        if (!strncmp(full, kind, len) && full[len] == '/' && !strcmp(full + len + 1, name))
            return &c->st.tensor[i].t;
    }
    return NULL;
}

int pare_checkpoint_load(const struct pare_checkpoint *c, const char *kind, const char *name,
                         const struct pare_tensor *t, struct pare_err *err)
{
    const struct pare_tensor *from = pare_checkpoint_find(c, kind, name);
    char a[PARE_SHAPE_TEXT], b[PARE_SHAPE_TEXT];

    if (!from)
        return pare_fail(err, PARE_EFORMAT, "the checkpoint has no '%s/%s'", kind, name);
    if (from->dtype != t->dtype || !pare_same_shape(from, t))
        return pare_fail(err, PARE_ESHAPE, "'%s/%s' of the checkpoint is %s %s, expected %s %s",
                         kind, name, pare_dtype_name(from->dtype),
                         pare_shape_text(from, a, sizeof(a)), pare_dtype_name(t->dtype),
                         pare_shape_text(t, b, sizeof(b)));
    if (pare_numel(t))
        memcpy(t->data, from->data, (size_t)pare_numel(t) * pare_dtype_size(t->dtype));
    return 0;
}

int pare_checkpoint_load_rng(const struct pare_checkpoint *c, const char *name, struct pare_rng *r,
                             struct pare_err *err)
{
    struct pare_rng read;
    struct pare_tensor t = { .dtype = PARE_U64, .rank = 1, .dim = { 4 }, .data = read.s };

    PARE_TRY(pare_checkpoint_load(c, "rng", name, &t, err));
    /* A generator whose state is all zeros only produces zeros. */
    if (!(read.s[0] | read.s[1] | read.s[2] | read.s[3]))
        return pare_fail(err, PARE_EFORMAT, "'rng/%s' of the checkpoint is all zeros", name);
    *r = read;
    return 0;
}

const char *pare_checkpoint_get(const struct pare_checkpoint *c, const char *key)
{
    const struct pare_meta *m = find_meta(c, key);

    return m ? m->value : NULL;
}

int pare_checkpoint_get_int(const struct pare_checkpoint *c, const char *key, int64_t *value,
                            struct pare_err *err)
{
    const char *text = pare_checkpoint_get(c, key);
    char *end = NULL;
    long long v;

    if (!text)
        return pare_fail(err, PARE_EFORMAT, "the checkpoint has no '%s'", key);
    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return pare_fail(err, PARE_EFORMAT, "'%s' of the checkpoint is '%.64s', not an integer",
                         key, text);
    *value = v;
    return 0;
}

int pare_checkpoint_get_float(const struct pare_checkpoint *c, const char *key, double *value,
                              struct pare_err *err)
{
    const char *text = pare_checkpoint_get(c, key);
    char *end = NULL;
    double v;

    if (!text)
        return pare_fail(err, PARE_EFORMAT, "the checkpoint has no '%s'", key);
    v = strtod(text, &end);
    if (end == text || *end)
        return pare_fail(err, PARE_EFORMAT, "'%s' of the checkpoint is '%.64s', not a number", key,
                         text);
    *value = v;
    return 0;
}
