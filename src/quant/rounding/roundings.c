/* roundings.c - the list of all methods that round weights. */
#include "rounding.h"

#include <string.h>

#define ROUNDING(name, help) extern const struct pare_rounding_method pare_rounding_##name;
#define SCALE_ROUNDING(name, help) ROUNDING(name, help)
#include "roundings.def"
#undef ROUNDING

const struct pare_rounding_method *const pare_roundings[] = {
#define ROUNDING(name, help) &pare_rounding_##name,
#include "roundings.def"
#undef ROUNDING
    NULL,
};

const char pare_rounding_list[] =
#define ROUNDING(name, help) "|" #name
#include "roundings.def"
#undef ROUNDING
    ;

const char pare_rounding_help[] = "how to round weights"
#define ROUNDING(name, help) "; " #name ": " help
#include "roundings.def"
#undef ROUNDING
    ;
#undef SCALE_ROUNDING

const char pare_rounding_scale_list[] =
#define ROUNDING(name, help)
#define SCALE_ROUNDING(name, help) "|" #name
#include "roundings.def"
    ;

const struct pare_rounding_method *pare_find_rounding(const char *name)
{
    for (int i = 0; pare_roundings[i]; i++)
        if (!strcmp(pare_roundings[i]->name, name))
            return pare_roundings[i];
    return NULL;
}
