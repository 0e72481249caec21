/* fuzz_choices.c - fuzz target: any bytes as tuning choices for the layers of a network.
 *
 * The keys of layers are long and depend on the machine, so "@" and a byte after a tab stand for
 * the key of the layer with that number.
 */
#include "base/arena.h"
#include "memory_file.h"
#include "plan/tune/tune_cache.h"
#include "plan/plan.h"
#include "tensor/tensor.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const int64_t chw[] = { 1, 8, 8 };
enum { BATCH = 4, LONGEST = 4096 };

/* Prepared at the first input and used for all of them. */
static struct {
    struct pare_arena *arena;
    struct pare_model *model;
    struct pare_tune_cache layers;
    float x[BATCH * 64];
} all;

/* Keys of the layers, from the choices of a tuned plan. */
static void prepare(void)
{
    char folder[] = "/tmp/pare-choices-XXXXXX", path[64];
    struct pare_plan_opts o = { .threads = 1, .batch = BATCH, .tune = true, .choices = path };
    struct pare_plan *p = NULL;
    struct pare_err err;

    all.arena = pare_arena_new(1 << 16);
    all.layers.arena = all.arena;
    if (!all.arena || !mkdtemp(folder))
        abort();
    snprintf(path, sizeof(path), "%s/list", folder);
    if (pare_model_new("lenet", chw, 10, 1, &all.model, &err) ||
        pare_plan_make(all.model, &o, &p, &err) ||
        pare_tune_cache_read(&all.layers, path, true, &err) || !all.layers.n)
        abort();
    pare_plan_free(p);
    unlink(path);
    rmdir(folder);
}

/* The choices with the keys of layers in place of "@". */
static char *expand_keys(struct pare_arena *a, const unsigned char *data, size_t size, size_t *n)
{
    char *text = pare_alloc(a, size * 1024 + 1, 1);

    *n = 0;
    for (size_t i = 0; text && i < size; i++) {
        const char *key;

        text[(*n)++] = (char)data[i];
        if (data[i] != '\t' || i + 2 >= size || data[i + 1] != '@')
            continue;
        key = all.layers.item[data[i + 2] % all.layers.n]->key;
        if (strlen(key) > 1024)
            abort();
        memcpy(text + *n, key, strlen(key));
        *n += strlen(key);
        i += 2;
    }
    return text;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_tensor x = { PARE_F32, 4, { BATCH, 1, 8, 8 }, all.x }, y;
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_plan_opts o = { .threads = 1, .batch = BATCH };
    struct pare_err err = { 0 };
    struct pare_plan *p = NULL;
    struct memory_file f;
    char *text;
    size_t n;
    int rc;

    if (!all.arena)
        prepare();
    text = size <= LONGEST ? expand_keys(a, data, size, &n) : NULL;
    if (text) {
        f = memory_file(text, n);
        o.choices = f.path;
        rc = pare_plan_make(all.model, &o, &p, &err);
        if (!rc)
            rc = pare_plan_execute(p, &x, &y, &err);
        if (rc && (rc != err.code || !err.msg[0]))
            abort();
        pare_plan_free(p);
        close(f.fd);
    }
    pare_arena_free(a);
    return 0;
}
