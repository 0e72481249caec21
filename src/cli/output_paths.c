/* output_paths.c - reject output paths that would overwrite an input or another output.
 *
 * Outputs are renamed into place when they are complete, so an input is never damaged while it is
 * read; but it would be replaced.
 */
#include "output_paths.h"

#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/arena.h"
#include "../onnx/model.h"

static bool is_written(const struct pare_cli *c, const struct pare_given *g)
{
    const char *const *name = c->cmd->writes;

    while (name && *name && strcmp(*name, g->name) != 0)
        name++;
    return name && *name;
}

/* Is the option given again later?  The last one applies. */
static bool is_replaced(const struct pare_cli *c, int i)
{
    for (int k = i + 1; k < c->n_texts; k++)
        if (!strcmp(c->texts[k].name, c->texts[i].name))
            return true;
    return false;
}

/* Is `text` this file, or name=file? */
static bool names_file(const char *text, const char *path)
{
    const char *equals = strchr(text, '=');

    return pare_same_file(text, path) || (equals && pare_same_file(equals + 1, path));
}

static int check_one(const struct pare_cli *c, int i, struct pare_err *err)
{
    const char *path = c->texts[i].text;

    for (int k = 0; k < c->n_args; k++)
        if (pare_same_file(c->arg[k], path))
            return pare_fail(err, PARE_EIO, "%s: would overwrite an input; choose another name",
                             path);
    for (int k = 0; k < c->n_texts; k++) {
        const struct pare_given *g = &c->texts[k];

        if (k == i || !strcmp(g->name, c->texts[i].name))
            continue;
        if (!is_written(c, g) && names_file(g->text, path))
            return pare_fail(err, PARE_EIO,
                             "%s: would overwrite the input --%s; choose another name", path,
                             g->name);
        if (k < i && is_written(c, g) && !is_replaced(c, k) && pare_same_path(g->text, path))
            return pare_fail(err, PARE_EIO,
                             "%s: is named by both --%s and --%s; choose different names", path,
                             g->name, c->texts[i].name);
    }
    return 0;
}

int pare_output_paths_check(const struct pare_cli *c, struct pare_err *err)
{
    for (int i = 0; i < c->n_texts; i++)
        if (is_written(c, &c->texts[i]) && !is_replaced(c, i))
            PARE_TRY(check_one(c, i, err));
    return 0;
}

int pare_output_paths_model(const struct pare_cli *c, const struct pare_model *m,
                            const char *output, struct pare_err *err)
{
    const char *external = output ? pare_sprintf(c->arena, "%s.data", output) : NULL;

    if (output && !external)
        return pare_no_memory(err, "for a file name");
    if (output)
        PARE_TRY(pare_at(err, pare_model_target(m, output, err), "%s", output));
    if (external)
        PARE_TRY(pare_at(err, pare_model_target(m, external, err), "%s", external));
    for (int i = 0; i < c->n_texts; i++)
        if (is_written(c, &c->texts[i]) && !is_replaced(c, i))
            PARE_TRY(
                pare_at(err, pare_model_target(m, c->texts[i].text, err), "%s", c->texts[i].text));
    return 0;
}

int pare_output_path_check(struct pare_cli *c, const char *path, struct pare_err *err)
{
    struct stat out;
    char *copy = pare_strdup(c->arena, path);
    const char *dir = copy ? dirname(copy) : ".";

    if (pare_same_path(path, c->arg[0]))
        return pare_fail(err, PARE_EIO, "%s: would overwrite the model; choose another name", path);
    if (!stat(path, &out) && !S_ISREG(out.st_mode))
        return pare_fail(err, PARE_EIO, "%s: exists and is not a regular file", path);
    if (access(dir, W_OK | X_OK))
        return pare_fail(err, PARE_EIO, "%s: folder '%s' cannot be written to: %s", path, dir,
                         strerror(errno));
    return 0;
}

const char *pare_default_output(struct pare_arena *a, const char *model, const char *suffix)
{
    size_t n = strlen(model);

    if (pare_ends_with(model, ".onnx"))
        n -= strlen(".onnx");
    return pare_sprintf(a, "%.*s-%s.onnx", (int)n, model, suffix);
}
