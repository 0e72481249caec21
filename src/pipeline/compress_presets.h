/* compress_presets.h - the presets of pare_compress() and of `pare compress --preset`: tiny,
 * balanced, int8. */
#ifndef PARE_PIPELINE_COMPRESS_PRESETS_H
#define PARE_PIPELINE_COMPRESS_PRESETS_H

#include <pare/option.h>

#define PARE_COMPRESS_PRESETS "tiny|balanced|int8"

/* Prune channels, remove them, distill from the original, quantize. */
struct pare_compress_preset {
    const char *name, *doc;
    const char *pruner;               /* NULL: neither pruned nor distilled */
    double sparsity;                  /* fraction of the channels to remove */
    bool dependency_aware;            /* the same channels in all layers of a group */
    const struct pare_given *distill; /* options of training */
    int n_distill;
    const char *quantize; /* a preset of pare_quantize() */
};

/* By name; NULL: there is none of that name. */
const struct pare_compress_preset *pare_compress_preset(const char *name);

/* The i-th; NULL after the last. */
const struct pare_compress_preset *pare_compress_preset_at(int i);

#endif
