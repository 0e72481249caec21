/* fuzz_recipe.c - fuzz target: any text as a recipe; an accepted one can be converted to commands.
 *
 * Built and run as fuzz_onnx.c.
 */
#include "cli/recipe/recipe.h"
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void bind(struct pare_arena *a, const struct pare_recipe *r)
{
    struct pare_step_files f = { .model = "m.onnx",
                                 .output = "o.onnx",
                                 .checkpoint = "c.safetensors",
                                 .resume = true,
                                 .quiet = true };

    for (int i = 0; i < r->n_steps; i++) {
        struct pare_cli c = { .arena = a };
        struct pare_err err = { 0 };
        int rc = pare_recipe_bind(r, i, &f, &c, &err);

        if (rc != err.code || (rc && !err.msg[0]))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_recipe r, again;
    struct pare_err err = { 0 };
    const char *text = pare_strndup(a, (const char *)data, size);
    int rc = pare_recipe_parse(a, "recipe.json", text, size, &r, &err);

    if (rc != err.code || (rc && !err.msg[0]))
        abort();
    if (!rc) {
        bind(a, &r);
        if (pare_recipe_parse(a, "again", r.text, strlen(r.text), &again, &err) ||
            again.n_steps != r.n_steps)
            abort();
    }
    pare_arena_free(a);
    return 0;
}
