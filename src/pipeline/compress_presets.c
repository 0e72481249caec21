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
    { "tiny", "remove 3/4 of the channels, train 15 epochs, quantize to int8", "l1", 0.75, true,
      tiny, 3, "int8" },
    { "balanced", "remove half of the channels, train 5 epochs, quantize to int8", "l1", 0.5, true,
      balanced, 3, "int8" },
    { .name = "int8", .doc = "quantize to int8; trains nothing", .quantize = "int8" },
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
