/* compress_presets.h - the presets of `pare compress --preset`: fast, balanced, tiny are budgets,
 * int8 is a recipe; the recipes of pare_compress(): tiny, balanced, int8. */
#ifndef PARE_PIPELINE_COMPRESS_PRESETS_H
#define PARE_PIPELINE_COMPRESS_PRESETS_H

#include <pare/option.h>

#define PARE_COMPRESS_PRESETS "fast|balanced|tiny|int8"
#define PARE_COMPRESS_RECIPES "tiny|balanced|int8"

/* What the command searches for, or the recipe: prune channels, remove them, distill from the
 * original, quantize. */
struct pare_compress_preset {
    const char *name, *doc;
    const char *budget;    /* as of pare_compress_budget(); NULL: the command runs the recipe */
    double max_drop;       /* of the command: percentage points; 0: no bound */
    int finetune;          /* of the budget: epochs */
    const char *pruner;    /* of the recipe; NULL: neither pruned nor distilled */
    double sparsity;       /* fraction of the channels to remove */
    bool dependency_aware; /* the same channels in all layers of a group */
    const struct pare_given *distill; /* options of training */
    int n_distill;
    const char *quantize; /* a preset of pare_quantize(); NULL: there is no recipe */
};

/* By name; NULL: there is none of that name. */
const struct pare_compress_preset *pare_compress_preset(const char *name);

/* The i-th; NULL after the last. */
const struct pare_compress_preset *pare_compress_preset_at(int i);

#endif
