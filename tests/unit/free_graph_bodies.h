/* free_graph_bodies.h - put a random network of free_graph.h into the body of an If or a Loop.
 *
 * The inputs stay in the main graph, where the body captures them.
 */
#ifndef PARE_TEST_FREE_GRAPH_BODIES_H
#define PARE_TEST_FREE_GRAPH_BODIES_H

#include "free_graph.h"

enum { FG_NODE = 1 << 3 | 2, FG_INPUT = 11 << 3 | 2, FG_OUTPUT = 12 << 3 | 2 };

/* Copy the fields of the graph: inputs, or everything else. */
static inline void fg_copy(const struct fg *g, bool inputs, bool outputs, struct build *to)
{
    for (int i = 0; i < g->b.n; i++) {
        unsigned char tag = g->b.part[i].p[0];

        if (inputs ? tag == FG_INPUT : tag != FG_INPUT && (tag == FG_OUTPUT) == outputs)
            build_put(to, g->b.part[i]);
    }
}

static inline int fg_count_outputs(const struct fg *g)
{
    int n = 0;

    for (int i = 0; i < g->b.n; i++)
        n += g->b.part[i].p[0] == FG_OUTPUT;
    return n;
}

/* True for every input, but computed. */
static inline const char *fg_condition(struct fg *g, struct build *b)
{
    const char *least = build_node(b, "ReduceMin", NAMES(g->v[0].name), at_int("keepdims", 0));

    return build_node(b, "Less", NAMES(least, build_scalar(b, 1000)), NOTHING);
}

/* Both bodies are the network, with the same names and weights of their own. */
static inline void fg_into_if(struct fg *g)
{
    static struct build body, main;
    const char *out[64];
    int n = fg_count_outputs(g);

    body = (struct build){ .opset = g->b.opset };
    main = (struct build){ .opset = g->b.opset, .prefix = "main" };
    build_put(&body, text(2, "network"));
    fg_copy(g, false, false, &body);
    fg_copy(g, false, true, &body);
    fg_copy(g, true, false, &main);
    build_node_outs(&main, "If", NAMES(fg_condition(g, &main)),
                    CAT(at_graph("then_branch", &body), at_graph("else_branch", &body)), n, out);
    for (int i = 0; i < n; i++)
        build_output(&main, out[i]);
    g->b = main;
}

/* Twice, always with the same result: outputs are stacked. */
static inline void fg_into_loop(struct fg *g)
{
    static struct build body, main;
    const char *out[64], *in[2];
    int n = fg_count_outputs(g);
    int64_t twice = 2;

    body = (struct build){ .opset = g->b.opset, .prefix = "body" };
    main = (struct build){ .opset = g->b.opset, .prefix = "main" };
    build_put(&body, text(2, "network"));
    build_put(&body, msg(11, build_info("i", PARE_I64, 0, NULL)));
    build_put(&body, msg(11, build_info("more", PARE_BOOL, 0, NULL)));
    fg_copy(g, false, false, &body);
    build_output(&body, build_node(&body, "Identity", NAMES("more"), NOTHING));
    fg_copy(g, false, true, &body);
    fg_copy(g, true, false, &main);
    in[0] = build_const(&main, PARE_I64, 0, NULL, &twice);
    in[1] = fg_condition(g, &main);
    build_node_outs(&main, "Loop", 2, in, at_graph("body", &body), n, out);
    for (int i = 0; i < n; i++)
        build_output(&main, out[i]);
    g->b = main;
}

#endif
