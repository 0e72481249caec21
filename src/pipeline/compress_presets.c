/* compress_presets.c - the presets of pare_compress() and of `pare compress --preset`. */
#include "compress_presets.h"

#include <string.h>

static const struct pare_given tiny[] = { { "epochs", "15" },
                                          { "optimizer", "adam" },
                                          { "schedule", "cosine" } };
static const struct pare_given balanced[] = { { "epochs", "5" },
                                              { "optimizer", "adam" },
                                              { "schedule", "cosine" } };

static const struct pare_compress_preset presets[] = {
    { .name = "fast", .doc = "half of the latency; trains nothing", .budget = "latency=0.5" },
    { .name = "balanced",
      .doc = "a quarter of the latency and at most 1 point of accuracy lost; trains 5 epochs",
      .budget = "latency=0.25",
      .max_drop = 1,
      .finetune = 5,
      .pruner = "l1",
      .sparsity = 0.5,
      .dependency_aware = true,
      .distill = balanced,
      .n_distill = 3,
      .quantize = "int8" },
    { .name = "tiny",
      .doc = "a tenth of the file's size; trains 5 epochs",
      .budget = "size=0.1",
      .finetune = 5,
      .pruner = "l1",
      .sparsity = 0.75,
      .dependency_aware = true,
      .distill = tiny,
      .n_distill = 3,
      .quantize = "int8" },
    { .name = "int8",
      .doc = "quantize to int8, at most 1 point of accuracy lost; trains nothing",
      .max_drop = 1,
      .quantize = "int8" },
};

const struct pare_compress_preset *pare_compress_preset_at(int i)
{
    return i >= 0 && i < (int)(sizeof(presets) / sizeof(*presets)) ? &presets[i] : NULL;
}

const struct pare_compress_preset *pare_compress_preset(const char *name)
{
    for (size_t i = 0; i < sizeof(presets) / sizeof(*presets); i++)
        if (!strcmp(presets[i].name, name))
            return &presets[i];
    return NULL;
}
