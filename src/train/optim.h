/* optim.h - optimizers: how gradients change parameters.
 *
 * An optimizer is src/train/optim_<name>.c with a descriptor at the bottom and one line in
 * optimizers.def.  Numbers are PyTorch's.
 */
#ifndef PARE_TRAIN_OPTIM_H
#define PARE_TRAIN_OPTIM_H

#include <pare/plugin.h>

#include "../io/npz.h"

#define PARE_OPTIM_SLOTS 4

/* A run of elements of one parameter, for one update. */
struct pare_update {
    double lr;         /* with the group's factor */
    int64_t step;      /* this update's number, from 1 */
    float clip, scale; /* the gradient is scale * clamp(grad, -clip, clip) */
    float *w;
    const float *grad;
    float *slot[PARE_OPTIM_SLOTS]; /* NULL where uses() says so */
    int64_t n;
};

struct pare_optimizer {
    uint32_t abi; /* PARE_ABI */
    const char *name, *doc;
    const struct pare_opt *opts; /* an option named weight_decay can differ by group */
    size_t conf_size;
    int n_slots; /* state tensors of a parameter, of its shape, at first 0 */
    const char *slot_name[PARE_OPTIM_SLOTS];

    /* Is slot i needed with these settings?  NULL: all are. */
    bool (*uses)(const void *conf, int slot);

    /* Do the settings go together?  NULL: whatever the table allows does. */
    int (*check)(const void *conf, struct pare_err *err);

    /* One pass over the elements.  Called from several threads, with different elements. */
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

/* By name; an error that names the nearest one when there is none. */
int pare_find_optimizer(const char *name, const struct pare_optimizer **type, struct pare_err *err);

/* ---- an optimizer at work ------------------------------------------------------ */

struct pare_optim_param {
    const char *name;               /* of its state in checkpoints; kept, not copied */
    struct pare_tensor value, grad; /* float32, one shape; grad.data NULL: never changed */
    int group;                      /* index */

    /* A masked parameter: gradients of elements whose mask is 0 count as 0, and after each update
     * out = value * mask.  NULL: not masked. */
    const uint8_t *mask;
    float *out;
};

struct pare_optim_group {
    double lr_factor;    /* times the learning rate; 1 for the usual */
    double weight_decay; /* instead of the configured one; negative: that one */
};

struct pare_optim_opts {
    const struct pare_optimizer *type;
    const void *conf; /* type->conf_size bytes, filled from type->opts; kept */
    const struct pare_optim_param *param;
    int n_params;
    const struct pare_optim_group *group; /* NULL: one, { 1, -1 } */
    int n_groups;
    double clip_norm;  /* 0: none; else at most this norm of all gradients... */
    double clip_value; /* 0: none; else each clamped to it, before the norm */
    int threads;       /* 0 means 1 */
};

struct pare_optim_chunk;

struct pare_optim {
    struct pare_optim_opts o; /* lists are copies; clip_norm and clip_value may be changed */
    const void **conf;        /* by group */
    float *(*slot)[PARE_OPTIM_SLOTS]; /* by parameter */
    struct pare_optim_chunk *chunk;   /* what is updated at a time */
    int n_chunks;
    int64_t step; /* updates done; a checkpoint's may be put here */
    int64_t born; /* updates done when the state was last zeroed */
    double norm;  /* of all gradients in the last step, before clip_norm;
                                           0 when clip_norm is off */
};

/* State tensors and all else are in the arena. */
int pare_optim_new(struct pare_arena *a, const struct pare_optim_opts *o, struct pare_optim **optim,
                   struct pare_err *err);

/* One update of all parameters.  Gradients are read, not changed.  The result does not depend on
 * the number of threads.  A norm that is not finite is an error, and changes nothing. */
int pare_optim_step(struct pare_optim *o, double lr, struct pare_err *err);

/* The state as "<parameter>.<slot>" (slots have PyTorch's names, say "conv1.weight.exp_avg"): views
 * to save or to copy into.  The list is in the arena given. */
int pare_optim_state(const struct pare_optim *o, struct pare_arena *a, struct pare_named **list,
                     int *n, struct pare_err *err);

/* Mask a parameter from now on, or with NULL no longer; `value` is where it is updated. */
void pare_optim_mask(struct pare_optim *o, int param, const struct pare_tensor *value,
                     const uint8_t *mask, float *out);

/* out = value * mask again, after a mask or a value was changed. */
void pare_optim_refresh(const struct pare_optim *o);

/* Forget all state: the next update is like the first. */
void pare_optim_reset(struct pare_optim *o);

/* The norm of all gradients, as clip_norm sees it; the same for any number of threads. */
double pare_optim_norm(const struct pare_optim *o);

#endif
