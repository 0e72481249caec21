/* checkpoint.h - checkpoints: everything needed to resume training, in a .safetensors file.
 *
 * Tensors are named "<kind>/<name>": "weight/conv1.weight", "optim/conv1.weight.exp_avg",
 * "rng/data".  Numbers and texts (epoch, position, step, seed, ...) are in the file's metadata.
 */
#ifndef PARE_TRAIN_CHECKPOINT_H
#define PARE_TRAIN_CHECKPOINT_H

#include "../base/rng.h"
#include "../io/safetensors.h"

/* Empty if zeroed except for the arena. */
struct pare_checkpoint {
    struct pare_arena *arena; /* names, lists, and the contents of a file that was read */
    struct pare_safetensors st;
    int cap_tensors, cap_meta;
};

/* ---- writing: tensors are not copied -------------------------------------------- */

int pare_checkpoint_add(struct pare_checkpoint *c, const char *kind, const char *name,
                        const struct pare_tensor *t, struct pare_err *err);
int pare_checkpoint_add_rng(struct pare_checkpoint *c, const char *name, struct pare_rng *r,
                            struct pare_err *err);
int pare_checkpoint_set(struct pare_checkpoint *c, const char *key, const char *value,
                        struct pare_err *err);
int pare_checkpoint_set_int(struct pare_checkpoint *c, const char *key, int64_t value,
                            struct pare_err *err);
int pare_checkpoint_set_float(struct pare_checkpoint *c, const char *key, double value,
                              struct pare_err *err); /* without rounding */

/* The old file stays until the new one is complete. */
int pare_checkpoint_write(const struct pare_checkpoint *c, const char *path, struct pare_err *err);

/* ---- resuming ------------------------------------------------------------------ */

/* Read into an empty checkpoint.  A .safetensors file of another format is an error. */
int pare_checkpoint_read(struct pare_checkpoint *c, const char *path, struct pare_err *err);

/* Copy a tensor's contents into t, whose type and shape must agree. */
int pare_checkpoint_load(const struct pare_checkpoint *c, const char *kind, const char *name,
                         const struct pare_tensor *t, struct pare_err *err);
int pare_checkpoint_load_rng(const struct pare_checkpoint *c, const char *name, struct pare_rng *r,
                             struct pare_err *err);

/* NULL when absent. */
const struct pare_tensor *pare_checkpoint_find(const struct pare_checkpoint *c, const char *kind,
                                               const char *name);
const char *pare_checkpoint_get(const struct pare_checkpoint *c, const char *key);

/* An error if the key is absent or its text is not a number. */
int pare_checkpoint_get_int(const struct pare_checkpoint *c, const char *key, int64_t *value,
                            struct pare_err *err);
int pare_checkpoint_get_float(const struct pare_checkpoint *c, const char *key, double *value,
                              struct pare_err *err);

#endif
