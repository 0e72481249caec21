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

/* An option by name, with its value as text: { "lr", "0.01" }.  A name can be preceded by the part
 * that it belongs to, "optimizer-alpha"; - and _ are the same. */
struct pare_given {
    const char *name, *text;
};

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
    size_t offset;        /* of the field in your struct */
    double def, min, max; /* numbers; min and max hold for each element of a list */
    const char *str;      /* default of a STR */
    const char *choices;  /* "one|two|three": the values a STR may have; NULL: any */
    bool required;        /* absent is an error */
    const char *metavar;  /* what the help shows as the value: "FILE"; NULL: by the type */
};

/* Rows of an option table.  `at` is offsetof(struct, field); the last two arguments of numbers are
 * the smallest and the largest value, or PARE_NO_MIN and PARE_NO_MAX. */
/* clang-format off */
#define PARE_FLAG(name, at, help, def) \
    { name, help, PARE_OPT_BOOL, at, def, 0, 1, NULL, NULL, false, NULL }
#define PARE_INT(name, at, help, def, min, max) \
    { name, help, PARE_OPT_INT, at, def, min, max, NULL, NULL, false, NULL }
#define PARE_FLOAT(name, at, help, def, min, max) \
    { name, help, PARE_OPT_FLOAT, at, def, min, max, NULL, NULL, false, NULL }
#define PARE_TEXT(name, at, metavar, help, def) \
    { name, help, PARE_OPT_STR, at, 0, PARE_NO_MIN, PARE_NO_MAX, def, NULL, false, metavar }
#define PARE_CHOICE(name, at, help, def, choices) \
    { name, help, PARE_OPT_STR, at, 0, PARE_NO_MIN, PARE_NO_MAX, def, choices, false, NULL }
#define PARE_INTS(name, at, help, min, max) \
    { name, help, PARE_OPT_INTS, at, 0, min, max, NULL, NULL, false, NULL }
#define PARE_FLOATS(name, at, help, min, max) \
    { name, help, PARE_OPT_FLOATS, at, 0, min, max, NULL, NULL, false, NULL }
#define PARE_TEXTS(name, at, metavar, help) \
    { name, help, PARE_OPT_STRS, at, 0, PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, false, metavar }
#define PARE_OPT_END { .name = NULL }
/* clang-format on */
#define PARE_NO_MIN (-1e300) /* min of a number without a lower bound */
#define PARE_NO_MAX 1e300    /* max of one without an upper bound */

#ifdef __cplusplus
}
#endif

#endif
