/* plan_rewrite.c - change a plan's graph: the graph rewrites, the canonical pass, and rewrites for
 * kernels, in order. */
#include "../../graph/pattern/pattern.h"
#include "../../graph/rewrite/rewrite.h"
#include "../plan.h"

int pare_plan_rewrite(struct pare_plan *p, struct pare_err *err)
{
    struct pare_rewrite_opts o = { .train = p->train, .without = p->without_rewrites };

    if (p->reference || p->like)
        return 0;
    PARE_TRY(pare_plan_split_fused(p, err));
    PARE_TRY(pare_graph_rewrite(p->graph, &o, NULL, err));
    PARE_TRY(pare_graph_canonical(p->graph, PARE_PATTERN_ROWS, err));
    PARE_TRY(pare_graph_canonical(p->graph, PARE_PATTERN_POINTWISE, err));
    pare_graph_drop_replaced(p->graph);
    o.late = true;
    PARE_TRY(pare_graph_rewrite(p->graph, &o, NULL, err));
    PARE_TRY(pare_plan_gather_upstream(p, err));
    if (p->train)
        return 0;
    PARE_TRY(pare_plan_widen_int4(p, err));
    PARE_TRY(pare_plan_sink_dequantize(p, err));
    pare_plan_hoist_quantize(p);
    return 0;
}
