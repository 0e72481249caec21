/* pattern.h - the canonical pass: replace nodes that spell out one operator by that operator.
 *
 * Exporters write LayerNormalization, GELU and others as a dozen nodes, each in its own way.  The
 * pass changes a clone of the graph, which a plan runs or axis relations are read from; the file
 * keeps the nodes that its author wrote.
 *
 * A pattern is one file with one descriptor, and one line in patterns.def.  A pattern of a
 * pointwise function has only an operator: nodes that compute a function of one value are evaluated
 * at sample points, so the spelling does not matter.
 */
#ifndef PARE_GRAPH_PATTERN_PATTERN_H
#define PARE_GRAPH_PATTERN_PATTERN_H

#include "../../base/options.h"
#include "../../op/matrix/attention_parts.h"
#include "../graph.h"

#define PARE_PATTERN_NODES 16

enum pare_pattern_kind {
    PARE_PATTERN_ROWS,      /* normalizes along the last axis, which changes axis relations */
    PARE_PATTERN_SHUFFLE,   /* permutes the indices of one axis, which changes axis relations */
    PARE_PATTERN_POINTWISE, /* a function of one element */
    PARE_PATTERN_ATTENTION, /* softmax of scores times values: found, never replaced */
};

struct pare_found;

struct pare_pattern {
    const char *name;
    enum pare_pattern_kind kind;
    const struct pare_op *op; /* the operator that computes the same; attention: NULL */
    int version;              /* its opset */

    /* Rows, shuffle, attention: match the nodes whose result is output 0 of `last`; list all. */
    bool (*match)(struct pare_graph *g, struct pare_node *last, struct pare_found *f);

    /* Pointwise: a setting of the operator; name NULL: none.  fit: its number, from y = f(1). */
    struct pare_setting setting;
    double (*fit)(double y);
};

/* One match. */
struct pare_found {
    const struct pare_pattern *pattern;
    struct pare_node *node[PARE_PATTERN_NODES]; /* node[0] is the last */
    int n;
    struct pare_value *x;
    struct pare_value *scale, *bias; /* rows; NULL: 1 and 0 */
    double epsilon;                  /* rows */
    struct pare_setting setting;     /* pointwise, name NULL: none; shuffle: the axis */
    struct pare_attention_parts attention;
};

/* Replace all matches of one kind in the graph, whose shapes are inferred.  The last node becomes
 * the operator, and its `parts` are the replaced nodes; the others remain, without consumers and
 * marked as replaced, so that all ids stay the same.  Nodes whose results are observed or read
 * elsewhere do not match.  Not for attention. */
int pare_graph_canonical(struct pare_graph *g, enum pare_pattern_kind kind, struct pare_err *err);

/* The kinds that change axis relations, for questions about channels. */
int pare_graph_canonical_axes(struct pare_graph *g, struct pare_err *err);

/* Which nodes of the graph belong to matches of this kind: part[id], zeroed by the caller.  The
 * graph is not changed. */
int pare_graph_mark_patterns(const struct pare_graph *g, enum pare_pattern_kind kind, bool *part,
                             struct pare_err *err);

/* Does a node of the graph compute the operator of such a pattern, or several nodes spell it out?
 * Not for attention.  The graph is not changed. */
int pare_graph_has_pattern(const struct pare_graph *g, enum pare_pattern_kind kind, bool *has,
                           struct pare_err *err);

/* The attention of the graph, whose shapes are inferred: part_of[id] is the one that the node is a
 * part of, or NULL; an array in the graph's arena.  Results inside may be read elsewhere. */
int pare_graph_attention(const struct pare_graph *g, const struct pare_attention_parts ***part_of,
                         struct pare_err *err);

/* Which values are computed inside a pattern of any kind, that is, are neither its inputs nor its
 * result: inner[id], zeroed by the caller.  The graph is not changed. */
int pare_graph_inner_values(const struct pare_graph *g, bool *inner, struct pare_err *err);

/* Remove the nodes that were replaced; ids change. */
void pare_graph_drop_replaced(struct pare_graph *g);

/* ---- for patterns -------------------------------------------------------------------------- */

/* Add a node to the match; false: there are too many. */
bool pare_found_add(struct pare_found *f, struct pare_node *n);

/* The node that makes v, if it is computed and is that operator; it is added to the match. */
struct pare_node *pare_found_maker(struct pare_found *f, const struct pare_value *v,
                                   const struct pare_op *op);

/* The constant scalar that v is. */
bool pare_value_scalar(const struct pare_value *v, double *x);
bool pare_value_near(const struct pare_value *v, double want);

/* Match y = d / sqrt(mean of d^2 + epsilon) along the last axis, made by `last`; sets *d. */
bool pare_found_normalized(struct pare_found *f, struct pare_node *last, struct pare_value **d);

/* Match v = 1 / sqrt(mean of d^2 + epsilon) along the last axis; sets *d. */
bool pare_found_inverse_root(struct pare_found *f, const struct pare_value *v,
                             struct pare_value **d);

/* Is v the mean of x along the last axis, with that axis kept? */
bool pare_found_row_mean(struct pare_found *f, const struct pare_value *v,
                         const struct pare_value *x);

/* The operand of n, Add or Mul, that is one constant or parameter per channel of the other one. */
struct pare_value *pare_row_operand(const struct pare_node *n, int *which);

/* Shuffle: which index of x each index of the result is. */
void pare_found_order(const struct pare_found *f, int64_t *index);

/* Match nodes that compute the pattern's function. */
bool pare_found_pointwise(struct pare_found *f, struct pare_node *last);

#endif
