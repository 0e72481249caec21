/* presets.h - quantization presets: a quantizer and its rules by name. */
#ifndef PARE_QUANT_PRESETS_H
#define PARE_QUANT_PRESETS_H

#include "../onnx/model.h"
#include "../compress/config.h"

/* A preset is one file preset/preset_<name>.c and one line in preset/presets.def. */
struct pare_preset {
    const char *name;      /* "int8-weights" */
    const char *doc;       /* one sentence */
    const char *quantizer; /* unless another one is given */
    const char *keys;      /* config keys of convolutions and linear layers */
    const char *outputs;   /* keys of output rules; NULL: none */
    const char *convs;     /* keys of convolutions; NULL: as all layers */
    const char *ends;      /* keys of the first and the last of these layers; NULL: as all */
    const char *settings;  /* of the quantizer, unless given: "name=value" */
    bool folds;            /* fold BatchNormalization first */
    bool dynamic;          /* write the file with dynamic activation quantization */
    enum pare_dtype half;  /* PARE_F16, PARE_BF16: convert to this type instead of quantizing */
    bool half_compute;     /* nodes compute in this type, too, unless the user chooses */
};

/* The names of all presets: a list that ends with NULL, and "a|b|c" for option tables. */
extern const char *const pare_preset_names[];
extern const char pare_preset_list[];
#define PARE_PRESETS (pare_preset_list + 1)

/* By name; an unknown name is an error. */
int pare_find_preset(const char *name, const struct pare_preset **p, struct pare_err *err);

/* The preset if it converts to half precision, else NULL.  The name may be NULL. */
const struct pare_preset *pare_half_preset(const char *name);

/* Does the preset write a file with dynamic activation quantization?  NULL: no. */
bool pare_preset_is_dynamic(const char *name);

/* The settings of the preset, or NULL; the name may be NULL. */
const char *pare_preset_settings(const char *name);

/* The quantizer and the config_list of a preset, for the convolutions and linear layers of
 * a model.  g: its graph with the shapes of one item. */
int pare_preset(const char *name, struct pare_graph *g, struct pare_arena *a,
                const char **quantizer, struct pare_rules *rules, struct pare_err *err);

/* The same, except that the layers of these names stay float, so that outputs are quantized only
 * where an int8 layer reads them. */
struct pare_preset_part {
    const char *preset;
    const char *const *leave; /* ends with NULL; NULL: none */
};
int pare_preset_part(const struct pare_preset_part *part, struct pare_graph *g,
                     struct pare_arena *a, const char **quantizer, struct pare_rules *rules,
                     struct pare_err *err);

#endif
