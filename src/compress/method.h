/* method.h - what differs between pruning and quantization: one descriptor for each.
 *
 * pare_method_prune (prune/prune_method.c) and pare_method_quant (quant/quant_method.c) are the
 * two instances.  compress/ calls them and knows nothing else about either.  Where a callback
 * replaces a stage, it calls the common part of that stage (named below) itself.
 */
#ifndef PARE_COMPRESS_METHOD_H
#define PARE_COMPRESS_METHOD_H

#include "../base/option_groups.h"
#include "compression.h"

struct pare_method {
    const char *name;                             /* "pruner", "quantizer": for messages */
    const char *group;                            /* "pruning": option group of `settings` */
    const struct pare_opt *settings;              /* settings that all algorithms share */
    const struct pare_opt *keys;                  /* config_list keys that all algorithms share */
    size_t keys_size;                             /* size of the struct that `keys` fills */
    const struct pare_algorithm *const *builtin;  /* built-in algorithms; ends with NULL */
    const struct pare_algorithm *const *searches; /* the same, of searches; NULL: none */
    bool all_layers;                              /* also wrap nodes without weights */
    bool skips_layers; /* layers that are not supported and that no entry names are skipped */
    bool paged;        /* float weights are in scratch pages; masks are created when needed */

    /* Is a descriptor complete?  Copies a->pruner or a->quantizer, see pare_descriptor_copy(). */
    int (*check)(struct pare_registry *g, struct pare_algorithm *a, struct pare_err *err);

    /* Allocate c->prune or c->quant, find c->algorithm[] by name; *settings is the struct that the
     * library fills from `settings` afterward. */
    int (*open)(struct pare_compression *c, const struct pare_compression_opts *o,
                const struct pare_given *g, int n, void **settings, struct pare_err *err);

    /* Wrap the layers that the config chooses: pare_compression_wrap() and what comes before and
     * after it. */
    int (*wrap)(struct pare_compression *c, const struct pare_config *config, struct pare_err *err);
    int (*wrap_layer)(struct pare_layer *l, const void *keys, struct pare_err *err);

    /* Start the algorithms (pare_compression_start()) and write the first effective weights. */
    int (*start)(struct pare_compression *c, struct pare_err *err);

    /* Write the effective weight of a layer that has one into the model. */
    int (*write_weight)(struct pare_layer *l, struct pare_err *err);

    /* Training hooks; they call pare_compression_on_epoch(), _before_step() and _on_step(). */
    int (*at_epoch)(struct pare_compression *c, int64_t epoch, struct pare_err *err);
    int (*after_backward)(struct pare_compression *c, struct pare_err *err);
    int (*after_step)(struct pare_compression *c, int64_t step, struct pare_err *err);

    /* Does the next step read weights or masks, besides hooks and collectors? */
    bool (*reads_weights)(const struct pare_compression *c);

    /* pare_hooks.keep; NULL: nothing to keep. */
    int (*keep)(struct pare_compression *c, bool back, struct pare_err *err);

    /* State of c->prune or c->quant in checkpoints, besides masks and buffers. */
    int (*checkpoint)(struct pare_compression *c, const struct pare_checkpoint_pass *p,
                      struct pare_err *err);

    /* Is there anything to export?  NULL: yes. */
    int (*check_export)(const struct pare_compression *c, struct pare_err *err);

    /* Write files, see struct pare_export.  NULL: the model as it is; no calibration. */
    int (*save_onnx)(struct pare_compression *c, const char *path, const struct pare_export *e,
                     struct pare_err *err);
    int (*save_calibration)(struct pare_compression *c, const char *path, struct pare_err *err);

    /* Undo changes of the model's graph before the compression is freed.  NULL: none. */
    void (*close)(struct pare_compression *c);
};

extern const struct pare_method pare_method_prune, pare_method_quant;

#endif
