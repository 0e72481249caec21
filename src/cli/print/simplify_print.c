/* simplify_print.c - print what pare export --simplify changed: nodes by operator, sizes. */
#include "simplify_print.h"

#include "../../base/arena.h"

int pare_simplify_print(struct pare_cli *c, const struct pare_simplify_result *r,
                        struct pare_err *err)
{
    struct pare_table *t = pare_table_new(c->arena, "lrr");
    char before[PARE_NUM_TEXT], after[PARE_NUM_TEXT];

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, "operator", "nodes", "left");
    for (int i = 0; i < r->nodes.n_ops; i++)
        pare_table_row(t, r->nodes.op[i].type,
                       pare_whole_text(r->nodes.op[i].before, before, sizeof(before)),
                       pare_whole_text(r->nodes.op[i].after, after, sizeof(after)));
    pare_table_row(t, "all", pare_whole_text(r->nodes.nodes, before, sizeof(before)),
                   pare_whole_text(r->nodes.nodes_left, after, sizeof(after)));
    pare_table_row(t, "size", pare_bytes_text(r->bytes, before, sizeof(before)),
                   pare_bytes_text(r->bytes_left, after, sizeof(after)));
    pare_table_print(t, stdout);
    printf("largest difference of outputs: %.2g, relative: %.2g\n", r->max_abs, r->max_rel);
    for (int i = 0; i < 2; i++)
        if (r->shapes[i] && *r->shapes[i])
            printf("%s %s\n", i ? "and with" : "compared with", r->shapes[i]);
    return 0;
}

json_t *pare_simplify_json(const struct pare_simplify_result *r)
{
    json_t *ops = json_object();

    for (int i = 0; i < r->nodes.n_ops; i++)
        json_object_set_new(ops, r->nodes.op[i].type,
                            json_pack("[ii]", r->nodes.op[i].before, r->nodes.op[i].after));
    return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "nodes", r->nodes.nodes, "nodes_left",
                     r->nodes.nodes_left, "operators", ops, "bytes", pare_json_real(r->bytes),
                     "bytes_left", pare_json_real(r->bytes_left), "max_abs",
                     pare_json_real(r->max_abs), "max_rel", pare_json_real(r->max_rel));
}
