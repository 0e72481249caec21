/* loss.c - the registry of losses, and checks that they share. */
#include "loss.h"

#include <stddef.h>

#include "lookup.h"
#include "../tensor/tensor.h"

#define LOSS(name) extern const struct pare_loss pare_loss_##name;
#include "losses.def"
#undef LOSS

const struct pare_loss *const pare_losses[] = {
#define LOSS(name) &pare_loss_##name,
#include "losses.def"
#undef LOSS
    NULL
};

int pare_find_loss(const char *name, const struct pare_loss **loss, struct pare_err *err)
{
    const char *names[PARE_LOOKUP_MAX];
    int n = 0, i;

    for (; pare_losses[n] && n < PARE_LOOKUP_MAX; n++)
        names[n] = pare_losses[n]->name;
    PARE_TRY(pare_lookup("loss", name, names, n, &i, err));
    *loss = pare_losses[i];
    return 0;
}

bool pare_loss_same_shape(const struct pare_tensor *a, const struct pare_tensor *b)
{
    int i = 0, k = 0;

    for (;; i++, k++) {
        while (i < a->rank && a->dim[i] == 1)
            i++;
        while (k < b->rank && b->dim[k] == 1)
            k++;
        if (i == a->rank || k == b->rank || a->dim[i] != b->dim[k])
            return i == a->rank && k == b->rank;
    }
}

int pare_loss_check(const struct pare_tensor *out, const struct pare_tensor *target,
                    struct pare_err *err)
{
    char a[PARE_SHAPE_TEXT], b[PARE_SHAPE_TEXT];

    if (out->dtype != PARE_F32)
        return pare_fail(err, PARE_ESHAPE, "the model's output is %s, the loss needs float32",
                         pare_dtype_name(out->dtype));
    if (target->dtype != PARE_F32)
        return pare_fail(err, PARE_ESHAPE, "the target is %s, this loss needs float32",
                         pare_dtype_name(target->dtype));
    if (!pare_loss_same_shape(out, target))
        return pare_fail(err, PARE_ESHAPE,
                         "the model's output is %s and the target %s, they must agree",
                         pare_shape_text(out, a, sizeof(a)), pare_shape_text(target, b, sizeof(b)));
    return 0;
}
