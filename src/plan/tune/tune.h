/* tune.h - the fastest of the kernels that can run a layer. */
#ifndef PARE_PLAN_TUNE_TUNE_H
#define PARE_PLAN_TUNE_TUNE_H

#include "passes.h"

#define PARE_TUNE_KEY 4096
#define PARE_TUNE_PASS 16 /* of that for a pass behind it */

/* What a time depends on, as a line: the operator and those behind it, shapes, layouts, threads,
 * instructions; with `zeros`, the part of zeros among its constants.  False when it does not
 * fit. */
bool pare_tune_key(const struct pare_plan *p, const struct pare_step *s, bool zeros, bool cold,
                   char key[PARE_TUNE_KEY]);

/* The same for one pass of a training plan's step. */
void pare_tune_pass_key(const char *key, const char *pass, char with[PARE_TUNE_KEY]);

/* The same for how a whole batch is run: its shape, the nodes, as a number, and the machine. */
bool pare_tune_batch_key(const struct pare_plan *p, char key[PARE_TUNE_KEY]);

/* What was chosen for it, or NULL; what is chosen now, for later plans, too. */
const char *pare_tune_known(const struct pare_plan *p, const char *key, bool *listed);
int pare_tune_note(struct pare_plan *p, const char *key, const char *name, struct pare_err *err);

#define PARE_TUNE_LIMIT 3 /* seconds for a plan; the rules decide on what is left then */

/* While a plan is made; all do nothing when it is not to be tuned.  `left`: seconds that several
 * plans have together, or NULL. */
int pare_tune_start(struct pare_plan *p, const struct pare_plan_opts *o, double *left,
                    struct pare_err *err);
int pare_tune_step(struct pare_plan *p, struct pare_step *s, struct pare_passes *passes,
                   struct pare_err *err); /* `passes`: by the rules, and what is chosen */
int pare_tune_end(struct pare_plan *p, struct pare_err *err);
void pare_tune_free(struct pare_plan *p);

#endif
