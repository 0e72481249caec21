/* resave_tensors.c - read a file of named tensors and write it again.
 *
 *     resave_tensors IN OUT [--masks]
 */
#include <stdio.h>
#include <string.h>

#include "io/tensor_file.h"

int main(int argc, char **argv)
{
    bool masks = argc == 4 && !strcmp(argv[3], "--masks");
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_named *list;
    struct pare_err err = { 0 };
    int n, rc;

    if (!a || argc < 3 || argc > 4 || (argc == 4 && !masks)) {
        fputs("usage: resave_tensors IN OUT [--masks]\n", stderr);
        return 2;
    }
    rc = (masks ? pare_masks_read : pare_tensor_file_read)(a, argv[1], &list, &n, &err);
    if (!rc)
        rc = (masks ? pare_masks_write : pare_tensor_file_write)(argv[2], list, n, &err);
    pare_arena_free(a);
    if (rc)
        fprintf(stderr, "resave_tensors: %s\n", err.msg);
    return rc != 0;
}
