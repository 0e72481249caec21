/* gelu_match.h - match GELU written as Div, Erf, Add, Mul, Mul (before opset 20).
 *
 *     y = x (1 + erf(x / sqrt 2)) / 2
 */
#ifndef PARE_BACKEND_FUSE_GELU_MATCH_H
#define PARE_BACKEND_FUSE_GELU_MATCH_H

#include "../backend.h"

#define PARE_GELU_NODES 4 /* after the first */

/* Is n the Div, with x as input 0?  Then list the nodes after it. */
bool pare_gelu_match(const struct pare_match *v, const struct pare_node *n,
                     struct pare_node *list[PARE_GELU_NODES]);

#endif
