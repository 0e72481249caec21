/* option.h - tables of options, for plugins; included by <pare/plugin.h>. */
#ifndef PARE_OPTION_H
#define PARE_OPTION_H

#include <pare/pare.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- options: one table = parsing + defaults + ranges + help --------------- */

struct pare_ints {
    const int64_t *v;
    int n;
};
struct pare_floats {
    const double *v;
    int n;
};
struct pare_strs {
    const char *const *v;
    int n;
};
struct pare_graph;

/* The field at `offset` is a ... */
enum pare_opt_type {
    PARE_OPT_BOOL,   /* bool */
    PARE_OPT_INT,    /* int64_t */
    PARE_OPT_FLOAT,  /* double */
    PARE_OPT_STR,    /* const char * */
    PARE_OPT_INTS,   /* struct pare_ints */
    PARE_OPT_FLOATS, /* struct pare_floats */
    PARE_OPT_STRS,   /* struct pare_strs */
    PARE_OPT_TENSOR, /* const struct pare_tensor *, NULL when absent */
    PARE_OPT_GRAPH,  /* struct pare_graph *, NULL when absent */
};

struct pare_opt {
    const char *name, *help;
    enum pare_opt_type type;
    size_t offset;        /* where in your struct */
    double def, min, max; /* numbers; min and max hold for each element of a list */
    const char *str;      /* default of a STR */
    const char *choices;  /* "one|two|three": the values a STR may have; NULL: any */
    bool required;        /* absent is an error */
};
/* clang-format off */
#define PARE_OPT_END { .name = NULL }
/* clang-format on */
#define PARE_ANY (-1e300), 1e300 /* the range of a number that may be anything */

#ifdef __cplusplus
}
#endif

#endif
