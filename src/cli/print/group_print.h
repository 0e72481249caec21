/* group_print.h - print dependency groups: layers whose channels must be removed together. */
#ifndef PARE_CLI_PRINT_GROUP_PRINT_H
#define PARE_CLI_PRINT_GROUP_PRINT_H

#include <jansson.h>

#include "../cli.h"
#include "../../graph/layer.h"

/* A dependency group: the layers that produce its channels and those that consume them. */
struct pare_group {
    int64_t channels;
    const struct pare_layer_info **maker, **user;
    int n_makers, n_users;
    const char *why; /* why no channel can be removed; NULL: they can */
    const struct pare_node
        *node; /* the node that forbids it; NULL: the model's inputs or outputs */
};

/* Append the groups, in the order of the first layer that produces their channels.  g: a graph to
 * analyze (graph/free_dims.h); constants that several of its nodes share are duplicated.  Layers in
 * its bodies are left out.  path: of g, if it is that of a body; NULL: the main graph. */
int pare_groups_find(struct pare_arena *a, struct pare_graph *g, const char *path,
                     struct pare_group **list, int *n, struct pare_err *err);

void pare_groups_print(struct pare_arena *a, const struct pare_group *list, int n);
json_t *pare_groups_json(const struct pare_group *list, int n);

#endif
