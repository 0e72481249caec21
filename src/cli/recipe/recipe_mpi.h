/* recipe_mpi.h - several processes go through a recipe: the first says what to do, the others follow.
 *
 * Commands that processes share (pare_command.shared) are called by all of them with the same
 * options; all else, and every decision, is the first one's alone.
 */
#ifndef PARE_CLI_RECIPE_RECIPE_MPI_H
#define PARE_CLI_RECIPE_RECIPE_MPI_H

#include "../cli.h"
#include "../../dist/dist.h"

/* The first process: the others now make this call, too, when its command is one that is shared,
 * and then *dist is d, else NULL: nobody takes part. */
int pare_recipe_mpi(struct pare_dist *d, const struct pare_call *k, struct pare_dist **dist,
                    struct pare_err *err);

/* The first process: there is no more to do. */
int pare_recipe_mpi_end(struct pare_dist *d, struct pare_err *err);

/* The others: call what they are told to, to the end.  Their results are the first one's, too. */
int pare_recipe_mpi_follow(struct pare_dist *d, struct pare_err *err);

#endif
