/* fuzz_certificate.c - fuzz target: any text as the certificate of a model.
 *
 * Built and run as fuzz_onnx.c.
 */
#include "onnx/model.h"
#include "zoo/zoo.h"

#include <pare/train.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_network_opts o = { .c = 1, .h = 2, .w = 2, .classes = 2, .width = 0.02 };
    const struct pare_network *net;
    struct pare_model *m = NULL;
    struct pare_certificate c;
    struct pare_err err = { 0 };
    char *text = malloc(size + 1);
    bool found = false;
    int rc;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (pare_find_network("mlp", &net, &err) || pare_network_make(net, &o, &m, &err) ||
        pare_model_note(m, "pare.certificate", text, &err))
        abort();
    err = (struct pare_err){ 0 };
    rc = pare_certificate_read(m, &c, &found, &err);
    if (rc != err.code || (rc && !err.msg[0]))
        abort();
    pare_model_free(m);
    free(text);
    return 0;
}
