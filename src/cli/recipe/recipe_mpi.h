/* recipe_mpi.h - run a recipe with several MPI processes: the first sends each call to the others.
 *
 * All processes execute shared commands (pare_command.shared) with the same options; everything
 * else is done by the first process alone.
 */
#ifndef PARE_CLI_RECIPE_RECIPE_MPI_H
#define PARE_CLI_RECIPE_RECIPE_MPI_H

#include "../cli.h"
#include "../../dist/dist.h"

/* First process: if the command is shared, make the others execute this call, too, and set *dist to
 * d; else set *dist to NULL. */
int pare_recipe_mpi(struct pare_dist *d, const struct pare_call *k, struct pare_dist **dist,
                    struct pare_err *err);

/* First process: end pare_recipe_mpi_follow() in the others. */
int pare_recipe_mpi_end(struct pare_dist *d, struct pare_err *err);

/* Other processes: execute calls until the end.  Their results are discarded. */
int pare_recipe_mpi_follow(const struct pare_cli *c, struct pare_err *err);

#endif
