/* run_record.h - run.json: all that a compression did and came to, in numbers. */
#ifndef PARE_CLI_RECIPE_RUN_RECORD_H
#define PARE_CLI_RECIPE_RUN_RECORD_H

#include "recipe.h"
#include "../../base/sha256.h"

struct json_t;

/* Call a command, by all processes if it is one that they share, and take its result.  Its memory
 * is gone when this returns. */
int pare_call(const struct pare_recipe *r, const struct pare_call *k, struct json_t **result,
              struct pare_err *err);

/* The hash of a model's file, and of the one with its weights beside it. */
int pare_model_sha256(struct pare_arena *a, const char *path, char text[PARE_SHA256_TEXT],
                      struct pare_err *err);

/* What can be said about a model's file: hash, bytes, parameters, MACs, zeros, accuracy.  In
 * *looked, which may be NULL, goes what `pare inspect` knows. */
int pare_record_model(const struct pare_recipe *r, struct pare_arena *a, const char *path,
                      struct json_t **facts, struct json_t **looked, struct pare_err *err);

/* Measure the models of the run in turn, and write their latencies into it. */
int pare_record_latency(const struct pare_recipe *r, struct pare_arena *a, struct json_t *run,
                        struct pare_err *err);

/* A line for each layer: shapes, parameters, sparsity, bits, noise, histograms of the weights. */
int pare_record_layers(const struct json_t *before, const struct json_t *after, struct json_t *run,
                       struct pare_err *err);

/* Histograms of the weights of both models' layers, by name (weight_histogram.c). */
int pare_weight_bins(const char *before, const char *after, struct json_t **bins,
                     struct pare_err *err);

#endif
