/* topics.h - what `pare list` lists and `pare help NAME` explains: registries as rows of a name, a
 * sentence and options. */
#ifndef PARE_CLI_HELP_TOPICS_H
#define PARE_CLI_HELP_TOPICS_H

#include <pare/compress.h>
#include <pare/plugin.h>

#include "../cli.h"

struct pare_topic {
    const char *name, *doc;
    const struct pare_opt *opts; /* NULL: none */
    const char *command;         /* that takes the entry, "quantize"; NULL: any */
};

/* One registry. */
struct pare_topics {
    const char *plural, *kind; /* "optimizers", "optimizer" */

    /* The i-th entry; false after the last.  `g` has the algorithms of plugins and may be NULL. */
    bool (*get)(const struct pare_registry *g, int i, struct pare_topic *t);

    /* Print more than name, sentence and options; NULL: only these. */
    int (*print)(struct pare_cli *c, const struct pare_registry *g, const char *name,
                 struct pare_err *err);
    bool hidden; /* words that are explained, but not listed */
};

extern const struct pare_topics pare_topics[]; /* ends with a NULL name */

/* By name in any registry; false: there is none. */
bool pare_topic_find(const struct pare_registry *g, const char *name, const struct pare_topics **in,
                     struct pare_topic *t);

/* Print help on one entry. */
int pare_topic_print(struct pare_cli *c, const struct pare_registry *g,
                     const struct pare_topics *in, const struct pare_topic *t,
                     struct pare_err *err);

/* A registry with the algorithms of these plugins; freed by pare_registry_free(). */
int pare_topic_plugins(const struct pare_cli *c, const struct pare_strs *plugin,
                       struct pare_registry **g, struct pare_err *err);

#endif
