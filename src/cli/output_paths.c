/* output_paths.c - what a command writes is nothing that it reads, and nothing twice.
 *
 * Files are renamed into their places when they are complete, so none of this could spoil what is
 * being read; but the file that somebody had would be gone.
 */
#include "output_paths.h"

#include <string.h>
#include <sys/stat.h>

#include "../base/arena.h"
#include "../onnx/model.h"

/* Both are there, and one file; whatever they are called. */
static bool is_same(const char *a, const char *b)
{
    struct stat x, y;

    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool is_written(const struct pare_cli *c, const struct pare_given *g)
{
    const char *const *name = c->cmd->writes;

    while (name && *name && strcmp(*name, g->name) != 0)
        name++;
    return name && *name;
}

/* Of two, the later one counts. */
static bool is_replaced(const struct pare_cli *c, int i)
{
    for (int k = i + 1; k < c->n_said; k++)
        if (!strcmp(c->said[k].name, c->said[i].name))
            return true;
    return false;
}

/* A file, or the file of name=file. */
static bool reads(const char *text, const char *path)
{
    const char *equals = strchr(text, '=');

    return is_same(text, path) || (equals && is_same(equals + 1, path));
}

static int check_one(const struct pare_cli *c, int i, struct pare_err *err)
{
    const char *path = c->said[i].text;

    for (int k = 0; k < c->n_args; k++)
        if (is_same(c->arg[k], path))
            return pare_fail(err, PARE_EIO, "%s: is what is read; choose another name to write to",
                             path);
    for (int k = 0; k < c->n_said; k++) {
        const struct pare_given *g = &c->said[k];

        if (k == i || !strcmp(g->name, c->said[i].name))
            continue;
        if (!is_written(c, g) && reads(g->text, path))
            return pare_fail(err, PARE_EIO, "%s: is read as --%s; choose another name to write to",
                             path, g->name);
        if (k < i && is_written(c, g) && !is_replaced(c, k) &&
            (!strcmp(g->text, path) || is_same(g->text, path)))
            return pare_fail(err, PARE_EIO, "%s: is to be written twice, as --%s and as --%s", path,
                             g->name, c->said[i].name);
    }
    return 0;
}

int pare_output_paths_check(const struct pare_cli *c, struct pare_err *err)
{
    for (int i = 0; i < c->n_said; i++)
        if (is_written(c, &c->said[i]) && !is_replaced(c, i))
            PARE_TRY(check_one(c, i, err));
    return 0;
}

int pare_output_paths_model(const struct pare_cli *c, const struct pare_model *m,
                            const char *output, struct pare_err *err)
{
    const char *beside = output ? pare_sprintf(c->arena, "%s.data", output) : NULL;

    if (output && !beside)
        return pare_no_memory(err, "for a name");
    if (output)
        PARE_TRY(pare_at(err, pare_model_target(m, output, err), "%s", output));
    if (beside)
        PARE_TRY(pare_at(err, pare_model_target(m, beside, err), "%s", beside));
    for (int i = 0; i < c->n_said; i++)
        if (is_written(c, &c->said[i]) && !is_replaced(c, i))
            PARE_TRY(
                pare_at(err, pare_model_target(m, c->said[i].text, err), "%s", c->said[i].text));
    return 0;
}
