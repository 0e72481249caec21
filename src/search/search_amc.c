/* search_amc.c - amc: NNI's name for a search by reinforcement learning, which points elsewhere. */
#include "search.h"

static const struct pare_opt opts[] = { PARE_SEARCH_OPTS, PARE_OPT_END };

static int check(const void *given, struct pare_err *err)
{
    (void)given;
    return pare_fail(err, PARE_EUNSUPPORTED,
                     "amc is not implemented, because an allocator reaches its results without "
                     "reinforcement learning: use 'pare compress --budget'");
}

static int run(struct pare_search *s, struct pare_err *err)
{
    return check(s->o, err);
}

const struct pare_search_kind pare_search_amc = {
    .algorithm = PARE_SEARCH_ALGORITHM(
        "amc", "NNI's search by reinforcement learning: use 'pare compress --budget' instead.",
        opts, struct pare_search_opts),
    .check = check,
    .run = run,
};
