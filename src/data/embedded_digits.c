/* embedded_digits.c - the built-in data set: 1,797 handwritten digits of 8 x 8 pixels. */
#include "embedded.h"
#include "source.h"

static const char *const names[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };

static int open_digits(struct pare_data *d, const char *path, struct pare_err *err)
{
    const struct pare_embedded *f = pare_digits_files + (pare_wants_test(d) ? 2 : 0);
    struct pare_tensor x, y;

    (void)path;
    d->classes = 10;
    d->classes_known = true;
    d->class_name = names;
    d->parts->scale = 16;
    PARE_TRY(pare_idx_parse(d->arena, f[0].data, f[0].len, &x, err));
    PARE_TRY(pare_idx_parse(d->arena, f[1].data, f[1].len, &y, err));
    return pare_data_arrays(d, &x, &y, err);
}

const struct pare_source pare_source_embedded_digits = {
    .name = "digits",
    .help = "handwritten digits, (1, 8, 8): 1437 for training, 360 for testing; built in",
    .by_name = true,
    .open = open_digits,
};
