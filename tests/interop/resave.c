/* resave.c - load a model and save it again: resave IN.onnx OUT.onnx [--external]. */
#include <stdio.h>
#include <string.h>

#include <pare/pare.h>

int main(int argc, char **argv)
{
    struct pare_save_opts opts = { .external = argc == 4 && !strcmp(argv[3], "--external") };
    struct pare_model *model = NULL;
    struct pare_err err = { 0 };
    int rc;

    if (argc < 3 || argc > 4 || (argc == 4 && !opts.external)) {
        fputs("usage: resave IN.onnx OUT.onnx [--external]\n", stderr);
        return 2;
    }
    rc = pare_model_load(argv[1], &model, &err);
    if (!rc)
        rc = pare_model_save(model, argv[2], &opts, &err);
    pare_model_free(model);
    if (rc)
        fprintf(stderr, "resave: %s\n", err.msg);
    return rc != 0;
}
