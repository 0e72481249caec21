/* config.h - config_list: which layers are compressed, and how.
 *
 *     [ { "sparsity": 0.8, "op_types": ["default"] },
 *       { "sparsity": 0.6, "op_names": ["conv1", "re:layer[12]\\..*"] },
 *       { "exclude": true, "op_names": ["fc"] } ]
 *
 * A list of objects.  The last entry that matches a layer applies to it as a whole; nothing is
 * merged from earlier entries.  An entry matches if its op_types contains the layer's type (as
 * PyTorch or ONNX calls it; "default" is a list of types) and its op_names contains the layer's
 * name.  One of the two selectors may be missing; it then matches every layer.  "exclude": true
 * leaves the layer as it is.  All other keys are settings of the algorithm.
 */
#ifndef PARE_COMPRESS_CONFIG_H
#define PARE_COMPRESS_CONFIG_H

#include <pare/compress.h>

#include "../base/options.h"
#include "../graph/layer.h"

struct pare_entry {
    struct pare_strs op_types, op_names; /* n -1: not given */
    bool exclude;
    struct pare_setting *set; /* all other keys, in order */
    int n_set;
    bool text;      /* values are texts, still to be parsed by the options that they are for */
    char where[64]; /* "entry 2 (line 7)": for messages */
};

struct pare_config {
    struct pare_entry *entry;
    int n;
};

/* A config_list made in C. */
struct pare_rules {
    struct pare_rule *rule;
    int n;
    const char *note; /* of a preset: what it leaves as it is, and why; or NULL */
};

/* From JSON text; `file` is its name for messages, or NULL.  Values are numbers, strings, booleans,
 * lists of numbers or strings, and objects of numbers or strings, whose members become settings
 * "key.member" (quant_bits: {"weight": 8} is quant_bits.weight). */
int pare_config_parse(struct pare_arena *a, const char *text, const char *file,
                      struct pare_config *c, struct pare_err *err);

/* `spec` is JSON text if its first character is [ or {, else a file name. */
int pare_config_read(struct pare_arena *a, const char *spec, struct pare_config *c,
                     struct pare_err *err);

/* From C, see <pare/compress.h>. */
int pare_config_rules(struct pare_arena *a, const struct pare_rule *rule, int n,
                      struct pare_config *c, struct pare_err *err);

/* An error if a name, pattern or type matches no layer, with the nearest name; "default" and its
 * types may match none.  An entry with op_types and op_names must match a layer with both. */
int pare_config_check(const struct pare_config *c, const struct pare_layer_info *layer, int n,
                      struct pare_err *err);

/* Is the type one of those that "default" stands for? */
bool pare_is_default_type(const char *type);

/* The entry that applies to this layer; NULL: none, or one that excludes it. */
const struct pare_entry *pare_config_match(const struct pare_config *c,
                                           const struct pare_layer_info *layer);

/* Does the entry that applies to this layer exclude it? */
bool pare_config_excludes(const struct pare_config *c, const struct pare_layer_info *layer);

/* Fill several structs from one entry: tables[i] (may be NULL) describes the zeroed struct into[i].
 * Defaults come first; then each setting is checked for type and range and stored by every table
 * that has its name.  A name that no table has is an error with the nearest one.  Messages begin
 * with the entry's `where`. */
int pare_entry_apply(const struct pare_entry *e, const struct pare_opt *const *tables,
                     void *const *into, int n_tables, struct pare_arena *a, struct pare_err *err);

#endif
