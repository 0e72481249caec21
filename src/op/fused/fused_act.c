/* fused_act.c - the activation that a fused operator of com.microsoft applies to its result. */
#include "fused_act.h"

#include <math.h>

/* The attributes of all such operators are the same from this version to the next change; Clip has
 * its bounds as attributes. */
#define VERSION 10

int pare_fused_act(const struct pare_act_spec *s, struct pare_inner *act, struct pare_err *err)
{
    const struct {
        const char *name;
        double v;
    } named[] = { { "alpha", s->alpha }, { "beta", s->beta }, { "gamma", s->gamma } };
    const struct pare_op *op;
    int k = 0;

    memset(act, 0, sizeof(*act));
    if (!s->name || !*s->name)
        return 0;
    op = pare_find_op("", s->name);
    if (!op || !op->map || !op->dmap)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "activation '%s' is not known, expected one such as Relu or Clip",
                         s->name);
    PARE_TRY(pare_inner_init(act, op, VERSION, err));
    if (s->params.n)
        for (const struct pare_opt *o = op->attrs; o && o->name && k < s->params.n; o++)
            PARE_TRY(pare_inner_set(act, o->name, s->params.v[k++], err));
    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++)
        if (named[i].v < PARE_ACT_ABSENT)
            for (const struct pare_opt *o = op->attrs; o && o->name; o++)
                if (!strcmp(o->name, named[i].name))
                    PARE_TRY(pare_inner_set(act, o->name, named[i].v, err));
    return 0;
}

float pare_fused_act_at(const struct pare_act_spec *s, float v)
{
    struct pare_inner act;
    struct pare_err err;

    if (pare_fused_act(s, &act, &err))
        return NAN;
    if (act.node.op)
        act.node.op->map(&act.node, &v, &v, 1);
    return v;
}

void pare_fused_act_run(const struct pare_inner *act, const struct pare_tensor *y)
{
    if (act->node.op && pare_numel(y))
        act->node.op->map(&act->node, pare_f32(y), pare_f32_mut(y), pare_numel(y));
}

void pare_fused_act_back(const struct pare_inner *act, const float *x, const float *y,
                         const float *gy, float *g, int64_t n)
{
    if (!act->node.op) {
        memcpy(g, gy, (size_t)n * sizeof(*g));
        return;
    }
    memset(g, 0, (size_t)n * sizeof(*g));
    act->node.op->dmap(&act->node, x, y, gy, g, n);
}
