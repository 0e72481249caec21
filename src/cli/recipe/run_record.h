/* run_record.h - the run record (run.json): hashes, sizes, accuracy and latency of each step. */
#ifndef PARE_CLI_RECIPE_RUN_RECORD_H
#define PARE_CLI_RECIPE_RUN_RECORD_H

#include "recipe.h"
#include "../../base/sha256.h"

#ifdef __clang__
#define PARE_COMPILER __VERSION__ /* has the name */
#else
#define PARE_COMPILER "gcc " __VERSION__
#endif

struct json_t;

/* Run a command, in all processes if it is shared, and store its result in *result. */
int pare_call(const struct pare_recipe *r, const struct pare_call *k, struct json_t **result,
              struct pare_err *err);

/* Hash of a model's file and of all files with its external data. */
int pare_model_sha256(const char *path, char text[PARE_SHA256_TEXT], struct pare_err *err);

/* Adds size and time of change of a file or folder with data; other names add nothing. */
void pare_record_hash_data(struct pare_sha256 *h, const char *path);

/* Describe a model's file: hash, bytes, parameters, MACs, zeros, accuracy.  Set *inspected, unless
 * `inspected` is NULL, to the output of `pare inspect`. */
int pare_record_model(const struct pare_recipe *r, struct pare_arena *a, const char *path,
                      struct json_t **facts, struct json_t **inspected, struct pare_err *err);

/* Measure the models of all steps alternately and add their latencies to the record. */
int pare_record_latency(const struct pare_recipe *r, struct pare_arena *a, struct json_t *run,
                        struct pare_err *err);

/* Add a list of layers: shapes, parameters, sparsity, bits, noise, histograms of the weights. */
int pare_record_layers(const struct json_t *before, const struct json_t *after, struct json_t *run,
                       struct pare_err *err);

/* Histograms of the weights of both models' layers, by name. */
int pare_weight_bins(const char *before, const char *after, struct json_t **bins,
                     struct pare_err *err);

int pare_record_save(struct pare_arena *a, const struct json_t *run, const char *path,
                     struct pare_err *err);

/* Warn if the last step's model has lost much accuracy; an error if it is more than r->max_drop, or
 * if the accuracy is not known.  `folder` has the models of the steps. */
int pare_record_check_drop(const struct pare_recipe *r, const struct json_t *run,
                           const char *folder, struct pare_err *err);

#endif
