/* fuzz_config.c - fuzz target: any text as a config_list; an accepted one can be matched and
 * applied.
 *
 * Built and run as fuzz_onnx.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "compress/config.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct keys {
    double sparsity;
    struct pare_ints block;
    const char *granularity;
    bool flag;
};

static const struct pare_opt opts[] = {
    PARE_FLOAT("sparsity", offsetof(struct keys, sparsity), "", 0, 0, 1),
    PARE_INTS("block", offsetof(struct keys, block), "", 1, 64),
    PARE_CHOICE("granularity", offsetof(struct keys, granularity), "", "element",
                "element|out_channel"),
    PARE_FLAG("flag", offsetof(struct keys, flag), "", 0),
    PARE_OPT_END,
};

static const struct pare_layer_info layers[] = {
    { .name = "conv1", .type = "Conv", .torch = "Conv2d" },
    { .name = "layer1.0.fc", .type = "Gemm", .torch = "Linear" },
};

static void use(struct pare_arena *a, const struct pare_config *c)
{
    const struct pare_opt *const tables[] = { opts };
    struct pare_err err = { 0 };
    struct keys k;
    void *const into[] = { &k };
    int rc = pare_config_check(c, layers, 2, &err);

    if (rc != err.code || (rc && !err.msg[0]))
        abort();
    for (int i = 0; i < 2; i++) {
        const struct pare_entry *e = pare_config_match(c, &layers[i]);

        if (e && e->exclude)
            abort();
    }
    for (int i = 0; i < c->n; i++) {
        memset(&k, 0, sizeof(k));
        rc = pare_entry_apply(&c->entry[i], tables, into, 1, a, &err);
        if (!rc && !(k.sparsity >= 0 && k.sparsity <= 1))
            abort();
        if (rc && strncmp(err.msg, c->entry[i].where, strlen(c->entry[i].where)) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    const char *text = a ? pare_strndup(a, (const char *)data, size) : NULL;
    const char *const names[] = { text, NULL };
    const struct pare_rule rule = { .op_names = names, .keys = text };
    struct pare_config c;
    struct pare_err err = { 0 };

    if (text) {
        if (!pare_config_parse(a, text, NULL, &c, &err))
            use(a, &c);
        else if (!err.code || !err.msg[0])
            abort();
        if (!pare_config_rules(a, &rule, 1, &c, &err))
            use(a, &c);
    }
    pare_arena_free(a);
    return 0;
}
