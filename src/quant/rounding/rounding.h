/* rounding.h - methods that round weights: one file round_<name>.c and one line in roundings.def.
 *
 * A method chooses scales for groups of weights (fit), levels for whole rows by the Gram matrix of
 * the layer's inputs (round), or both.
 */
#ifndef PARE_QUANT_ROUNDING_H
#define PARE_QUANT_ROUNDING_H

#include <pare/pare.h>

#include "round_grid.h"

struct pare_round_job;

/* Weights that share a scale. */
struct pare_fit {
    const struct pare_round_grid *grid;
    const double *w; /* (n) */
    int64_t n;
};

struct pare_rounding_method {
    const char *name, *doc;
    bool needs_data;
    int64_t steps; /* of learning, unless given; 0: it does not learn */
    /* A scale and a zero point of the grid for w; NULL: those of option rounding_scales. */
    void (*fit)(const struct pare_fit *f, float *scale, float *zero);
    /* Improves the levels and scales of all rows; NULL: the levels are the nearest to what fit
     * gives. */
    int (*round)(struct pare_round_job *j, struct pare_err *err);
};

/* All methods, ending with NULL; their names for option tables, "a|b|c"; of those that choose
 * scales without data. */
extern const struct pare_rounding_method *const pare_roundings[];
extern const char pare_rounding_list[], pare_rounding_scale_list[], pare_rounding_help[];
#define PARE_ROUNDING_NAMES (pare_rounding_list + 1)
#define PARE_ROUNDING_SCALES (pare_rounding_scale_list + 1)

/* By name, or NULL. */
const struct pare_rounding_method *pare_find_rounding(const char *name);

#endif
