/* config.h - config_list: which layers are compressed, and how.
 *
 *     [ { "sparsity": 0.8, "op_types": ["default"] },
 *       { "sparsity": 0.6, "op_names": ["conv1", "re:layer[12]\\..*"] },
 *       { "exclude": true, "op_names": ["fc"] } ]
 *
 * A list of objects.  For each layer the last entry that matches counts, as a whole: nothing is
 * merged from earlier ones.  An entry matches when its op_types has the layer's type (as PyTorch or
 * ONNX calls it; "default" is a list of types) and its op_names has the layer's name; a selector
 * that is not there matches everything, but one of the two must be there.  "exclude": true leaves
 * the layer alone.  All other keys are the algorithm's.
 */
#ifndef PARE_COMPRESS_CONFIG_H
#define PARE_COMPRESS_CONFIG_H

#include <pare/compress.h>

#include "../base/options.h"
#include "../graph/layer.h"

struct pare_entry {
    struct pare_strs op_types, op_names; /* n -1: not given */
    bool exclude;
    struct pare_setting *set; /* all other keys, in order: see pare_entry_apply() */
    int n_set;
    bool text;      /* the settings are texts, whose types are those of the options they are for */
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
};

/* From JSON text; `file` is its name for messages, or NULL.  Values may be numbers, strings,
 * booleans, lists of numbers, lists of strings, and objects of numbers or strings, whose members
 * become settings "key.member" (quant_bits: {"weight": 8} is quant_bits.weight). */
int pare_config_parse(struct pare_arena *a, const char *text, const char *file,
                      struct pare_config *c, struct pare_err *err);

/* `spec` is JSON text when its first letter is [ or {, else the name of a file. */
int pare_config_read(struct pare_arena *a, const char *spec, struct pare_config *c,
                     struct pare_err *err);

/* From C, see <pare/compress.h>. */
int pare_config_rules(struct pare_arena *a, const struct pare_rule *rule, int n,
                      struct pare_config *c, struct pare_err *err);

/* Every name, pattern and type must match some layer (the nearest name is in the message), except
 * "default" and its types; and what has both op_types and op_names must match some layer. */
int pare_config_check(const struct pare_config *c, const struct pare_layer_info *layer, int n,
                      struct pare_err *err);

/* Is the type one of those that "default" stands for? */
bool pare_is_default_type(const char *type);

/* Each of the entry's keys goes to the one table that knows it, into the zeroed struct of that
 * table; defaults and ranges are the tables'.  An unknown key is an error with the nearest name. */
int pare_entry_apply(const struct pare_entry *e, const struct pare_opt *const *tables,
                     void *const *into, int n_tables, struct pare_arena *a, struct pare_err *err);

/* The entry that counts for this layer; NULL: none, or one that excludes it. */
const struct pare_entry *pare_config_match(const struct pare_config *c,
                                           const struct pare_layer_info *layer);

/* Fill several structs from one entry: tables[i] (may be NULL) describes the zeroed struct into[i].
 * Defaults first, then each setting goes into every table that knows its name, checked for type and
 * range.  What no table knows is an error with the nearest name that one does; all messages begin
 * with the entry's `where`. */
int pare_entry_apply(const struct pare_entry *e, const struct pare_opt *const *tables,
                     void *const *into, int n_tables, struct pare_arena *a, struct pare_err *err);

#endif
