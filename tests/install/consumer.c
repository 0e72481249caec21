/* consumer.c - the smallest program that uses the installed library. */
#include <stdio.h>
#include <string.h>

#include <pare/pare.h>
#include <pare/plugin.h>

int main(void)
{
    struct pare_model *model = NULL;
    struct pare_err err;

    /* A missing file gives an error message with its name. */
    memset(&err, 0, sizeof(err));
    if (!pare_model_load("no-such-file.onnx", &model, &err) || !strstr(err.msg, "no-such-file")) {
        fprintf(stderr, "unexpected message: %s\n", err.msg);
        return 1;
    }
    puts(pare_version());
    return 0;
}
