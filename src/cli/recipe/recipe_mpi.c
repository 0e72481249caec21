/* recipe_mpi.c - run a recipe with several MPI processes: the first sends each call to the others.
 *
 * A call is sent as zero-terminated texts: the command, names and values of the options, and the
 * arguments.  A call of 0 bytes ends the loop.
 */
#include "recipe_mpi.h"

#include <string.h>

#include <jansson.h>

#include "../../base/arena.h"

struct call_header {
    int64_t bytes, n_given, n_args, keep_training_mode;
};

/* ---- the first process ---------------------------------------------------------------------- */

static void put_text(char *to, int64_t *at, const char *text)
{
    size_t n = strlen(text) + 1;

    if (to)
        memcpy(to + *at, text, n);
    *at += (int64_t)n;
}

/* Write the call to `to`, or only count its bytes if `to` is NULL. */
static int64_t put_call(char *to, const struct pare_call *k)
{
    int64_t at = 0;

    put_text(to, &at, k->cmd->name);
    for (int i = 0; i < k->n_given; i++) {
        put_text(to, &at, k->given[i].name);
        put_text(to, &at, k->given[i].text);
    }
    for (int i = 0; i < k->n_args; i++)
        put_text(to, &at, k->arg[i]);
    return at;
}

/* pare_dist_idle_barrier(): the others may wait for minutes, so they sleep instead of polling. */
static int send_call(struct pare_dist *d, struct call_header *h, char *text, struct pare_err *err)
{
    PARE_TRY(pare_dist_idle_barrier(d, err));
    PARE_TRY(pare_dist_broadcast(d, h, sizeof(*h), err));
    return pare_dist_broadcast(d, text, (size_t)h->bytes, err);
}

int pare_recipe_mpi(struct pare_dist *d, const struct pare_call *k, struct pare_dist **dist,
                    struct pare_err *err)
{
    struct call_header h = { .n_given = k->n_given,
                             .n_args = k->n_args,
                             .keep_training_mode = k->keep_training_mode };
    struct pare_arena *a;
    char *text;
    int rc;

    *dist = d && k->cmd->shared ? d : NULL;
    if (!*dist)
        return 0;
    a = pare_arena_new(1 << 12);
    h.bytes = put_call(NULL, k);
    text = a ? pare_alloc(a, (size_t)h.bytes, 1) : NULL;
    if (text)
        put_call(text, k);
    rc = text ? send_call(d, &h, text, err) : pare_no_memory(err, "for a call");
    pare_arena_free(a);
    return rc;
}

int pare_recipe_mpi_end(struct pare_dist *d, struct pare_err *err)
{
    struct call_header h = { .bytes = 0 };

    return d ? send_call(d, &h, NULL, err) : 0;
}

/* ---- the others ----------------------------------------------------------------------------- */

static const char *next_text(char **at)
{
    const char *s = *at;

    *at += strlen(s) + 1;
    return s;
}

static int run_call(struct pare_cli *c, const struct call_header *h, char *text,
                    struct pare_err *err)
{
    struct pare_given *given = pare_alloc(c->arena, (size_t)h->n_given + 1, sizeof(*given));
    const char **arg = pare_alloc(c->arena, (size_t)h->n_args + 1, sizeof(*arg));
    struct pare_call k = { .n_given = (int)h->n_given, .n_args = (int)h->n_args };

    if (!given || !arg)
        return pare_no_memory(err, "for a call");
    k.cmd = pare_find_command(next_text(&text));
    if (!k.cmd)
        return pare_fail(err, PARE_EUNSUPPORTED, "the processes run different versions of pare");
    for (int i = 0; i < k.n_given; i++) {
        given[i].name = next_text(&text);
        given[i].text = next_text(&text);
    }
    for (int i = 0; i < k.n_args; i++)
        arg[i] = next_text(&text);
    k.given = given;
    k.arg = arg;
    k.keep_training_mode = h->keep_training_mode != 0;
    PARE_TRY(pare_cli_fill(&k, c, err));
    return k.cmd->run(c, err);
}

static int receive_call(const struct pare_cli *own, struct pare_arena *a, struct call_header *h,
                        struct pare_err *err)
{
    json_t *result = NULL;
    struct pare_dist *d = own->dist;
    struct pare_cli c = { .in_recipe = true,
                          .arena = a,
                          .result = &result,
                          .dist = d,
                          .host = own->host };
    char *text;
    int rc;

    PARE_TRY(pare_dist_idle_barrier(d, err));
    PARE_TRY(pare_dist_broadcast(d, h, sizeof(*h), err));
    if (!h->bytes)
        return 0;
    text = pare_alloc(a, (size_t)h->bytes, 1);
    if (!text)
        return pare_no_memory(err, "for a call");
    PARE_TRY(pare_dist_broadcast(d, text, (size_t)h->bytes, err));
    rc = run_call(&c, h, text, err);
    json_decref(result);
    return rc;
}

int pare_recipe_mpi_follow(const struct pare_cli *c, struct pare_err *err)
{
    struct call_header h = { .bytes = 1 };
    int rc = 0;

    while (!rc && h.bytes) {
        struct pare_arena *a = pare_arena_new(1 << 16);

        rc = a ? receive_call(c, a, &h, err) : pare_no_memory(err, "for a call");
        pare_arena_free(a);
    }
    return rc;
}
