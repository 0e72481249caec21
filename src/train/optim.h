/* optim.h - optimizers: update parameters by their gradients.
 *
 * An optimizer is src/train/optim_<name>.c with a descriptor at the bottom and one line in
 * optimizers.def.  Formulas and defaults are PyTorch's.
 */
#ifndef PARE_TRAIN_OPTIM_H
#define PARE_TRAIN_OPTIM_H

#include <pare/plugin.h>

#include "../io/npz.h"

#define PARE_OPTIM_SLOTS 4

/* A run of elements of one parameter, for one update. */
struct pare_update {
    double lr;         /* including the group's factor */
    int64_t step;      /* number of this update, from 1 */
    float clip, scale; /* the gradient is scale * clamp(grad, -clip, clip) */
    float *w;
    const float *grad;
    float *slot[PARE_OPTIM_SLOTS]; /* NULL: not used, see uses() */
    int64_t n;
};

struct pare_optimizer {
    uint32_t abi; /* PARE_ABI */
    const char *name, *doc;
    const struct pare_opt *opts; /* an option weight_decay can differ by group */
    size_t conf_size;
    double lr, low_lr; /* default rates: usual; of attention and of quantization-aware training */
    int n_slots;       /* state tensors of a parameter, of its shape, initially 0 */
    const char *slot_name[PARE_OPTIM_SLOTS];

    /* Is slot i needed with these options?  NULL: all are. */
    bool (*uses)(const void *conf, int slot);

    /* Are the options consistent?  NULL: always. */
    int (*check)(const void *conf, struct pare_err *err);

    /* Update the elements.  Called concurrently for different elements. */
    void (*update)(const void *conf, const struct pare_update *u);
};

/* The gradient that update() uses.  NaN stays NaN. */
static inline float pare_clipped(float g, float clip, float scale)
{
    g = g > clip ? clip : g;
    g = g < -clip ? -clip : g;
    return g * scale;
}

extern const struct pare_optimizer *const pare_optimizers[]; /* ends with NULL */

/* By name; the error names the closest one. */
int pare_find_optimizer(const char *name, const struct pare_optimizer **type, struct pare_err *err);

/* ---- updates ------------------------------------------------------------------- */

struct pare_optim_param {
    const char *name;               /* of its state in checkpoints; not copied */
    struct pare_tensor value, grad; /* float32, of one shape; grad.data NULL: never updated */
    int group;                      /* index in the list of groups */
    bool idle; /* it has no gradient now, so it is not updated, as in PyTorch: no decay either */

    /* A masked parameter: elements whose mask is 0 have gradient 0, and after each update out =
     * value * mask.  NULL: not masked. */
    const uint8_t *mask;
    float *out;
};

struct pare_optim_group {
    double lr_factor;    /* factor of the learning rate, usually 1 */
    double weight_decay; /* replaces the configured one; negative: it does not */
};

struct pare_optim_opts {
    const struct pare_optimizer *type;
    const void *conf; /* type->conf_size bytes, filled from type->opts; not copied */
    const struct pare_optim_param *param;
    int n_params;
    const struct pare_optim_group *group; /* NULL: one, { 1, -1 } */
    int n_groups;
    double clip_norm;  /* limit of the norm of all gradients; 0: none */
    double clip_value; /* limit of each element, applied before clip_norm; 0: none */
    int threads;       /* 0 means 1 */
};

struct pare_optim_chunk;

struct pare_optim {
    struct pare_optim_opts o; /* lists are copies; clip_norm and clip_value may be changed */
    const void **conf;        /* by group */
    float *(*slot)[PARE_OPTIM_SLOTS]; /* by parameter */
    struct pare_optim_chunk *chunk;   /* units of work of the threads */
    int n_chunks;
    int64_t step; /* updates done; may be set from a checkpoint */
    int64_t born; /* `step` when the state was last zeroed */
    /* norm of all gradients in the last step, before clip_norm; 0 if clip_norm is off */
    double norm;
};

/* Everything is in the arena. */
int pare_optim_new(struct pare_arena *a, const struct pare_optim_opts *o, struct pare_optim **optim,
                   struct pare_err *err);

/* One update of all parameters.  Gradients are not changed.  The result does not depend on the
 * number of threads.  A norm that is not finite is an error; then nothing is updated. */
int pare_optim_step(struct pare_optim *o, double lr, struct pare_err *err);

/* The state as "<parameter>.<slot>" with PyTorch's names, for example "conv1.weight.exp_avg": views
 * to save or to copy into.  The list is in the arena. */
int pare_optim_state(const struct pare_optim *o, struct pare_arena *a, struct pare_named **list,
                     int *n, struct pare_err *err);

/* Mask a parameter from now on; NULL: stop masking it.  `value` is the memory that is updated. */
void pare_optim_mask(struct pare_optim *o, int param, const struct pare_tensor *value,
                     const uint8_t *mask, float *out);

/* Set `idle` of a parameter. */
void pare_optim_idle(struct pare_optim *o, int param, bool idle);

/* out = value * mask, after a mask or a value was changed. */
void pare_optim_refresh(const struct pare_optim *o);

/* Zero all state: the next update is like the first. */
void pare_optim_reset(struct pare_optim *o);

/* The norm of all gradients, after clip_value; the same for any number of threads. */
double pare_optim_norm(const struct pare_optim *o);

#endif
