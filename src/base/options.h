/* options.h - option tables: fill a struct from settings, with type and range checks.
 *
 * The same code serves config files, command lines, plugin options and ONNX attributes: each
 * converts its input to an array of settings, so defaults and ranges are defined once.
 */
#ifndef PARE_BASE_OPTIONS_H
#define PARE_BASE_OPTIONS_H

#include <stddef.h>

#include <pare/plugin.h>

/* One given value.  Conversions, for example from an integer to a float, are in options.c. */
struct pare_setting {
    const char *name;
    enum pare_opt_type type;
    double num;      /* BOOL, FLOAT */
    int64_t whole;   /* INT */
    const char *str; /* STR */
    struct pare_ints ints;
    struct pare_floats floats;
    struct pare_strs strs;
    const struct pare_tensor *tensor;
    struct pare_graph *graph;
};

/* Apply defaults, then every setting, each checked for type and range.  `into` is the zeroed
 * struct that the table describes.  Lists are not copied; a list that is converted (from ints to
 * floats) is allocated from the arena. */
int pare_opts_apply(const struct pare_opt *opts, const struct pare_setting *set, int n_set,
                    void *into, struct pare_arena *a, struct pare_err *err);

/* Parse a command line's or a config's text as the option's type ("3", "0.5", "1,3,224,224",
 * "true"). */
int pare_opt_parse(const struct pare_opt *o, const char *text, struct pare_setting *set,
                   struct pare_arena *a, struct pare_err *err);

const struct pare_opt *pare_opt_find(const struct pare_opt *opts, const char *name);

/* The name in the list that is most similar to a misspelled one, or NULL if none is. */
const char *pare_nearest(const char *typed, const char *const *names, int n);

/* " (did you mean 'x'?)", or "": for the end of an error message about an unknown option.
 * The text is in buf. */
const char *pare_opt_hint(const struct pare_opt *opts, const char *typed, char *buf, size_t size);

#endif
