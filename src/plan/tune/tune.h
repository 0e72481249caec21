/* tune.h - choose the fastest of the kernels that can run a layer. */
#ifndef PARE_PLAN_TUNE_TUNE_H
#define PARE_PLAN_TUNE_TUNE_H

#include "../plan.h"

#define PARE_TUNE_KEY 4096

/* What the time of a step depends on, as a line: the operator and the fused ones, shapes, layouts,
 * threads, instruction set; with `zeros`, the share of zeros among its constants.  False: too long.
 */
bool pare_tune_key(const struct pare_plan *p, const struct pare_step *s, bool zeros, bool cold,
                   char key[PARE_TUNE_KEY]);

/* The same for the size of micro-batches: shapes of the inputs, a hash of the nodes, the machine.
 */
bool pare_tune_batch_key(const struct pare_plan *p, char key[PARE_TUNE_KEY]);

/* The stored choice for a key, or NULL; store one for this and later plans. */
const char *pare_tune_known(const struct pare_plan *p, const char *key, bool *listed);
int pare_tune_note(struct pare_plan *p, const char *key, const char *name, struct pare_err *err);

#define PARE_TUNE_LIMIT 3 /* seconds of a plan; after that the rules decide */

/* While planning; they do nothing if the plan is not tuned, and training plans never are.  `left`:
 * seconds that several plans share; NULL: PARE_TUNE_LIMIT. */
int pare_tune_start(struct pare_plan *p, const struct pare_plan_opts *o, double *left,
                    struct pare_err *err);
int pare_tune_step(struct pare_plan *p, struct pare_step *s, const struct pare_kernel **k,
                   struct pare_err *err); /* in: by the rules; out: chosen */
int pare_tune_end(struct pare_plan *p, struct pare_err *err);
void pare_tune_free(struct pare_plan *p);

#endif
