/* new_compression.c - pare_compression_new(): choose between pruning and quantization. */
#include "../base/sized.h"
#include "../compress/method.h"

int pare_compression_new(struct pare_model *model, const struct pare_compression_opts *opts,
                         struct pare_compression **c, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_compression_opts o;

    *c = NULL;
    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    if (!o.pruner == !o.quantizer)
        return pare_fail(err, PARE_ECONFIG, "a run has either a pruner or a quantizer");
    return pare_compression_open(o.pruner ? &pare_method_prune : &pare_method_quant, model, &o,
                                 NULL, c, err);
}
