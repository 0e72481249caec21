/* cost_whole.c - what a cost table knows about the whole model, in files; the file of the cache. */
#include <stddef.h>
#include <string.h>

#include "cost_samples.h"
#include "cost_table.h"

#include "../base/arena.h"
#include "../plan/tune/kernels_hash.h"
#include "../plan/tune/tune_cache.h"

#define AT(field) offsetof(struct pare_cost_table, field)

/* Numbers by name; all are 0 or more. */
static const struct {
    const char *name;
    size_t at;
} numbers[] = {
    { "fixed", AT(fixed) },
    { "alpha", AT(alpha) },
    { "border_us float32", AT(border_us[PARE_COST_F32]) },
    { "border_us int8", AT(border_us[PARE_COST_INT8]) },
    { "border float32", AT(border[PARE_COST_F32]) },
    { "border int8", AT(border[PARE_COST_INT8]) },
    { "bytes", AT(bytes_fixed) },
    { "bytes_layer int8", AT(bytes_layer[PARE_COST_INT8]) },
    { "bytes_channel float32", AT(bytes_channel[PARE_COST_F32]) },
    { "bytes_channel int8", AT(bytes_channel[PARE_COST_INT8]) },
    { "bytes_norm", AT(bytes_norm) },
    { "bytes_norm_channel", AT(bytes_norm_channel) },
    { "bytes_border float32", AT(bytes_border[PARE_COST_F32]) },
    { "bytes_border int8", AT(bytes_border[PARE_COST_INT8]) },
};

#define N (sizeof(numbers) / sizeof(*numbers))

/* Of everything that these numbers depend on, except the machine.  Tables of more formats than are
 * wanted fit as well, so that `formats` is 0 for keys inside files. */
static uint64_t hash_model(const struct pare_cost_table *t, unsigned formats)
{
    uint64_t h = formats;

    for (int i = 0; i < t->n_layers; i++) {
        const struct pare_cost_layer *l = &t->layer[i];
        const uint64_t part[5] = { h, pare_hash(l->key, strlen(l->key)),
                                   pare_hash(l->name, strlen(l->name)),
                                   (uint64_t)(l->cin << 32 | l->cout),
                                   (uint64_t)(l->in_group + 1) << 32 |
                                       (uint64_t)(l->out_group + 1) };

        h = pare_hash(part, sizeof(part));
    }
    return h;
}

static const char *whole_key(const struct pare_cost_table *t)
{
    return pare_sprintf(t->arena, "model %016llx", (unsigned long long)hash_model(t, 0));
}

int pare_cost_whole_save(struct pare_cost_table *t, struct pare_err *err)
{
    const char *key = whole_key(t);

    if (!key)
        return pare_no_memory(err, "for a table of times");
    for (size_t i = 0; i < N; i++) {
        struct pare_cost_sample s = { 0, 0, *(const double *)((const char *)t + numbers[i].at), 1 };

        PARE_TRY(pare_cost_samples_add(t->samples, key, numbers[i].name, &s, err));
    }
    return 0;
}

int pare_cost_whole_load(struct pare_cost_table *t, bool *found, struct pare_err *err)
{
    const char *key = whole_key(t);

    if (!key)
        return pare_no_memory(err, "for a table of times");
    *found = true;
    for (size_t i = 0; i < N; i++) {
        const struct pare_cost_curve *c = pare_cost_samples_find(t->samples, key, numbers[i].name);

        if (c && c->n)
            *(double *)((char *)t + numbers[i].at) = c->s[0].us / c->s[0].n;
        else
            *found = false;
    }
    return 0;
}

/* The list of kernel choices has the machine and the kernels in its name. */
const char *pare_cost_cache_file(const struct pare_cost_table *t, const char *folder, bool make)
{
    const char *choices = pare_tune_cache_file(t->arena, folder, pare_kernels_hash, make);
    const char *name = choices ? strrchr(choices, '/') : NULL,
               *end = name ? strrchr(name, '.') : NULL;

    if (!end || strncmp(name, "/choices-", 9) != 0)
        return NULL;
    return pare_sprintf(t->arena, "%.*s/times-%.*s-%016llx.jsonl", (int)(name - choices), choices,
                        (int)(end - name - 9), name + 9,
                        (unsigned long long)hash_model(t, t->formats));
}
