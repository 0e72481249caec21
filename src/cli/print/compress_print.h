/* compress_print.h - print the steps of a recipe and its result. */
#ifndef PARE_CLI_PRINT_COMPRESS_PRINT_H
#define PARE_CLI_PRINT_COMPRESS_PRINT_H

#include "../recipe/recipe.h"

struct json_t;

/* Print the start of step i, and its result: `step` is its entry in the run record, `input` the
 * record of the original model.  `before`: an earlier run has done the step. */
void pare_compress_begin(const struct pare_recipe *r, int i, bool before);
void pare_compress_end(const struct json_t *step, const struct json_t *input);

/* Print the table of before and after. */
int pare_compress_print(struct pare_arena *a, const struct pare_recipe *r, const struct json_t *run,
                        struct pare_err *err);

/* --dry-run: print the steps and the estimated size of the model after each. */
int pare_compress_plan(struct pare_cli *c, const struct pare_recipe *r, struct pare_err *err);

#endif
