/* compress_view.h - what people see of a recipe at work. */
#ifndef PARE_CLI_VIEW_COMPRESS_VIEW_H
#define PARE_CLI_VIEW_COMPRESS_VIEW_H

#include "../recipe/recipe.h"

struct json_t;

/* A step begins; and came to its end, with its part of the record and that of the first model. */
void pare_compress_begin(const struct pare_recipe *r, int i, bool before);
void pare_compress_end(const struct json_t *step, const struct json_t *input);

/* The table at the end: before and after. */
int pare_compress_print(struct pare_arena *a, const struct pare_recipe *r, const struct json_t *run,
                        struct pare_err *err);

/* --dry-run: the steps, and what the model would come to. */
int pare_compress_plan(struct pare_cli *c, const struct pare_recipe *r, struct pare_err *err);

#endif
