/* wrap.h - layers of a model become layers of a run. */
#ifndef PARE_COMPRESS_WRAP_H
#define PARE_COMPRESS_WRAP_H

#include "run.h"

/* Fill r->layer with the layers that the config chooses. */
int pare_run_wrap(struct pare_run *r, const struct pare_config *c, struct pare_err *err);

#endif
