/* zoo.c - find a network by name and build it. */
#include "zoo.h"

#include <string.h>

#include "../base/options.h"
#include "zoo_layers.h"

#define NETWORK(name) extern const struct pare_network pare_network_##name;
#include "networks.def"
#undef NETWORK

const struct pare_network *const pare_networks[] = {
#define NETWORK(name) &pare_network_##name,
#include "networks.def"
#undef NETWORK
    NULL
};

int pare_find_network(const char *name, const struct pare_network **net, struct pare_err *err)
{
    const char *names[64], *near;
    int n = 0;

    for (; pare_networks[n] && n < 64; n++) {
        names[n] = pare_networks[n]->name;
        if (!strcmp(names[n], name)) {
            *net = pare_networks[n];
            return 0;
        }
    }
    near = pare_nearest(name, names, n);
    return pare_fail(err, PARE_ECONFIG, "there is no network '%s'%s%s%s", name,
                     near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static int check(const struct pare_network *net, const struct pare_network_opts *o,
                 struct pare_err *err)
{
    if (o->c < 1 || o->h < 1 || o->w < 1 || o->c > 65536 || o->h > 65536 || o->w > 65536)
        return pare_fail(err, PARE_ESHAPE,
                         "an input of (%lld, %lld, %lld) is out of range, each must be in "
                         "[1, 65536]",
                         (long long)o->c, (long long)o->h, (long long)o->w);
    if (o->h < net->least || o->w < net->least)
        return pare_fail(err, PARE_ESHAPE,
                         "%s needs images of at least %lld x %lld, these are "
                         "%lld x %lld",
                         net->name, (long long)net->least, (long long)net->least, (long long)o->h,
                         (long long)o->w);
    if (o->classes < 1 || o->classes > 10000000)
        return pare_fail(err, PARE_ECONFIG, "%lld classes are out of range, expected 1 to 10000000",
                         (long long)o->classes);
    if (o->width > 0 && !net->scales)
        return pare_fail(err, PARE_ECONFIG, "%s cannot be scaled: it has only one width",
                         net->name);
    if (o->width > 64)
        return pare_fail(err, PARE_ECONFIG, "a width of %g is out of range, expected at most 64",
                         o->width);
    return 0;
}

int pare_network_make(const struct pare_network *net, const struct pare_network_opts *o,
                      struct pare_model **model, struct pare_err *err)
{
    struct pare_net n = { .classes = o->classes, .width = o->width > 0 ? o->width : 1 };
    struct pare_flow x = { .c = o->c, .h = o->h, .w = o->w };

    *model = NULL;
    PARE_TRY(check(net, o, err));
    PARE_TRY(pare_builder_new(net->name, &n.make, err));
    pare_rng_init(&n.rng, o->seed);
    x.value = pare_builder_input(n.make, "input", 4, (int64_t[]){ -1, o->c, o->h, o->w });
    x = net->build(&n, x);
    pare_builder_output(n.make, "output", 2, (int64_t[]){ -1, x.c });
    return pare_at(err, pare_builder_done(n.make, model, err), "%s", net->name);
}

int pare_model_new(const char *network, const int64_t chw[3], int64_t classes, uint64_t seed,
                   struct pare_model **model, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_network_opts o = { chw[0], chw[1], chw[2], classes, seed, 0 };
    const struct pare_network *net = NULL;

    *model = NULL;
    PARE_TRY(pare_find_network(network, &net, err));
    return pare_network_make(net, &o, model, err);
}
