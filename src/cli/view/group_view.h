/* group_view.h - which channels of a model belong together, for people and for scripts. */
#ifndef PARE_CLI_VIEW_GROUP_VIEW_H
#define PARE_CLI_VIEW_GROUP_VIEW_H

#include <jansson.h>

#include "../cli.h"
#include "../../graph/layer.h"

/* A coupled set of axes: the layers that make these channels, and those that use them. */
struct pare_group {
    int64_t channels;
    const struct pare_layer_info **maker, **user;
    int n_makers, n_users;
    const char *why;              /* why none may go; NULL: they may */
    const struct pare_node *node; /* who says so, or NULL: the model itself */
};

/* Sets in which a layer has its output channels, in the order of the first such layer.  Constants
 * that nodes of g share are taken apart. */
int pare_groups_find(struct pare_arena *a, struct pare_graph *g,
                     const struct pare_layer_info *layer, int n_layers, struct pare_group **list,
                     int *n, struct pare_err *err);

void pare_groups_print(struct pare_arena *a, const struct pare_group *list, int n);
json_t *pare_groups_json(const struct pare_group *list, int n);

#endif
