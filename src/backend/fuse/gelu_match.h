/* gelu_match.h - Gelu where it is spelled out, as before operator set 20.
 *
 *     y = x (1 + erf(x / sqrt 2)) / 2
 *
 * Exporters write Div, Erf, Add, Mul and Mul.
 */
#ifndef PARE_BACKEND_FUSE_GELU_MATCH_H
#define PARE_BACKEND_FUSE_GELU_MATCH_H

#include "../backend.h"

#define PARE_GELU_NODES 4 /* behind the first */

/* Is n the first of them, with x as its input 0?  Then list those behind it. */
bool pare_gelu_match(const struct pare_match *v, const struct pare_node *n,
                     struct pare_node *list[PARE_GELU_NODES]);

#endif
