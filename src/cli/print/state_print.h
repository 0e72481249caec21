/* state_print.h - list the tensors of a .pth, .safetensors or .npz file. */
#ifndef PARE_CLI_PRINT_STATE_PRINT_H
#define PARE_CLI_PRINT_STATE_PRINT_H

#include "../cli.h"

struct pare_state_print_opts {
    bool zeros; /* count elements that are 0 */
    bool json;
};

/* Print names, types and shapes of the tensors in a file that tensor_file.h reads. */
int pare_state_print(struct pare_cli *c, const char *path, struct pare_state_print_opts how,
                     struct pare_err *err);

#endif
