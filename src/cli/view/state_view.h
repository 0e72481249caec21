/* state_view.h - what is in a file of named tensors, for people and for scripts. */
#ifndef PARE_CLI_VIEW_STATE_VIEW_H
#define PARE_CLI_VIEW_STATE_VIEW_H

#include "../cli.h"

struct pare_state_view {
    bool zeros; /* count them */
    bool json;
};

/* Print names, types and shapes of a file that tensor_file.h reads. */
int pare_state_print(struct pare_cli *c, const char *path, struct pare_state_view how,
                     struct pare_err *err);

#endif
