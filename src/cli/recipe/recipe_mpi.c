/* recipe_mpi.c - several processes go through a recipe: the first says what to do, the others follow.
 *
 * A call travels as texts, each with its zero byte: the command, names and values of the options,
 * the arguments.  No text at all is the end.
 */
#include "recipe_mpi.h"

#include <string.h>

#include <jansson.h>

#include "../../base/arena.h"

struct head {
    int64_t bytes, n_given, n_args;
};

/* ---- the first process ---------------------------------------------------------------------- */

static void put(char *to, int64_t *at, const char *text)
{
    size_t n = strlen(text) + 1;

    if (to)
        memcpy(to + *at, text, n);
    *at += (int64_t)n;
}

/* `to` NULL: only count. */
static int64_t put_all(char *to, const struct pare_call *k)
{
    int64_t at = 0;

    put(to, &at, k->cmd->name);
    for (int i = 0; i < k->n_given; i++) {
        put(to, &at, k->given[i].name);
        put(to, &at, k->given[i].text);
    }
    for (int i = 0; i < k->n_args; i++)
        put(to, &at, k->arg[i]);
    return at;
}

/* The others may have been waiting for minutes, so they sleep until somebody comes. */
static int send(struct pare_dist *d, struct head *h, char *text, struct pare_err *err)
{
    PARE_TRY(pare_dist_rest(d, err));
    PARE_TRY(pare_dist_send(d, h, sizeof(*h), err));
    return pare_dist_send(d, text, (size_t)h->bytes, err);
}

int pare_recipe_mpi(struct pare_dist *d, const struct pare_call *k, struct pare_dist **dist,
                    struct pare_err *err)
{
    struct head h = { .n_given = k->n_given, .n_args = k->n_args };
    struct pare_arena *a;
    char *text;
    int rc;

    *dist = d && k->cmd->shared ? d : NULL;
    if (!*dist)
        return 0;
    a = pare_arena_new(1 << 12);
    h.bytes = put_all(NULL, k);
    text = a ? pare_alloc(a, (size_t)h.bytes, 1) : NULL;
    if (text)
        put_all(text, k);
    rc = text ? send(d, &h, text, err) : pare_no_memory(err, "for a call");
    pare_arena_free(a);
    return rc;
}

int pare_recipe_mpi_end(struct pare_dist *d, struct pare_err *err)
{
    struct head h = { .bytes = 0 };

    return d ? send(d, &h, NULL, err) : 0;
}

/* ---- the others ----------------------------------------------------------------------------- */

static const char *next_text(char **at)
{
    const char *s = *at;

    *at += strlen(s) + 1;
    return s;
}

static int call(struct pare_cli *c, const struct head *h, char *text, struct pare_err *err)
{
    struct pare_given *given = pare_alloc(c->arena, (size_t)h->n_given + 1, sizeof(*given));
    const char **arg = pare_alloc(c->arena, (size_t)h->n_args + 1, sizeof(*arg));
    struct pare_call k = { .n_given = (int)h->n_given, .n_args = (int)h->n_args };

    if (!given || !arg)
        return pare_no_memory(err, "for a call");
    k.cmd = pare_find_command(next_text(&text));
    if (!k.cmd)
        return pare_fail(err, PARE_EUNSUPPORTED, "the processes are not of the same version");
    for (int i = 0; i < k.n_given; i++) {
        given[i].name = next_text(&text);
        given[i].text = next_text(&text);
    }
    for (int i = 0; i < k.n_args; i++)
        arg[i] = next_text(&text);
    k.given = given;
    k.arg = arg;
    PARE_TRY(pare_cli_fill(&k, c, err));
    return k.cmd->run(c, err);
}

static int receive(struct pare_dist *d, struct pare_arena *a, struct head *h, struct pare_err *err)
{
    json_t *result = NULL;
    struct pare_cli c = { .arena = a, .result = &result, .dist = d };
    char *text;
    int rc;

    PARE_TRY(pare_dist_rest(d, err));
    PARE_TRY(pare_dist_send(d, h, sizeof(*h), err));
    if (!h->bytes)
        return 0;
    text = pare_alloc(a, (size_t)h->bytes, 1);
    if (!text)
        return pare_no_memory(err, "for a call");
    PARE_TRY(pare_dist_send(d, text, (size_t)h->bytes, err));
    rc = call(&c, h, text, err);
    json_decref(result);
    return rc;
}

int pare_recipe_mpi_follow(struct pare_dist *d, struct pare_err *err)
{
    struct head h = { .bytes = 1 };
    int rc = 0;

    while (!rc && h.bytes) {
        struct pare_arena *a = pare_arena_new(1 << 16);

        rc = a ? receive(d, a, &h, err) : pare_no_memory(err, "for a call");
        pare_arena_free(a);
    }
    return rc;
}
