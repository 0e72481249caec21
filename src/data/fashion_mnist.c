/* fashion_mnist.c - Fashion-MNIST from Debian's package dataset-fashion-mnist. */
#include <stddef.h>

#include "source.h"

static const char *const names[] = { "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                     "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot" };

static const char *const places[] = { "/usr/share/datasets/fashion-mnist",
                                      "/usr/local/share/datasets/fashion-mnist" };

static int open_fashion(struct pare_data *d, const char *path, struct pare_err *err)
{
    bool test = pare_wants_test(d);
    const char *images = NULL, *labels = NULL;

    (void)path;
    for (int i = 0; i < 2 && !(images && labels); i++) {
        images = pare_file_in(d->arena, places[i],
                              test ? "t10k-images-idx3-ubyte.gz" : "train-images-idx3-ubyte.gz");
        labels = pare_file_in(d->arena, places[i],
                              test ? "t10k-labels-idx1-ubyte.gz" : "train-labels-idx1-ubyte.gz");
    }
    if (!images || !labels)
        return pare_fail(err, PARE_EIO,
                         "fashion-mnist is not installed; Debian has it: "
                         "apt-get install dataset-fashion-mnist");
    d->classes = 10;
    d->classes_known = true;
    d->class_name = names;
    d->parts->norm = "fashion-mnist";
    return pare_idx_open(d, images, labels, err);
}

const struct pare_source pare_source_fashion_mnist = {
    .name = "fashion-mnist",
    .help = "Fashion-MNIST, (1, 28, 28): 60000 and 10000 images; Debian's dataset-fashion-mnist",
    .by_name = true,
    .open = open_fashion,
};
