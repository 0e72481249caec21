/* chain_ops.h - chains of elementwise operators, applied chunk by chunk.
 *
 * Each link applies its operator's map or map2 to a chunk that stays in the L1 cache, so a chain of
 * any length reads its operands once and writes its result once.  Inference-mode BatchNormalization
 * is a link, too: y = s x + t per channel.
 *
 * The result is divided into rows of equal length such that along a row every operand has stride 1
 * or 0:
 *     row-major   split after k axes: rows = d0..dk-1, length = dk..
 *     blocked     rows = N * C / b, length = spatial * b
 * In the blocked layout a per-channel operand is repeated b by b into a separate chunk.
 */
#ifndef PARE_BACKEND_ROWS_CHAIN_OPS_H
#define PARE_BACKEND_ROWS_CHAIN_OPS_H

#include "../backend.h"

#define PARE_MAX_CHAIN 12
#define PARE_MAX_OPERANDS 8

/* Strides of an operand along the rows. */
struct pare_operand {
    struct pare_value *value; /* NULL: `table` */
    struct pare_tensor shape; /* its shape, with leading ones up to the result's rank */
    const float *data;
    float *table; /* scale or shift of BatchNormalization, (C) */
    bool full, scalar, channel;
    int64_t rows, row_size; /* a row starts at (row % rows) * row_size */
    int stride;             /* along a row: 0 or 1 */
};

struct pare_chain {
    struct pare_chain_link {
        struct pare_node *node;
        int a, b, c; /* operands; -1: the running value; -2: none */
    } link[PARE_MAX_CHAIN];
    struct pare_operand op[PARE_MAX_OPERANDS];
    int n_links, n_ops;
    int block;
    int64_t rows, length, channels;
};

/* Can this node be a link? */
bool pare_is_link(const struct pare_node *n);

/* Begin with n in the layout c->block, and add as many nodes after it as possible; false if n
 * itself does not fit. */
bool pare_chain_from(const struct pare_match *v, struct pare_node *n, struct pare_chain *c);

/* The chain after x, a row-major value that the caller computes into the memory of the chain's
 * result; false if the chain is empty or x has other consumers. */
bool pare_chain_after(const struct pare_match *v, const struct pare_value *x, struct pare_chain *c);

/* The result of the last link. */
struct pare_value *pare_chain_out(const struct pare_chain *c);

/* Locate the operands: those with values in in_buf, in order; `made`, if not NULL, in y. */
int pare_chain_init(struct pare_chain *c, struct pare_backend *b, struct pare_buf **in_buf,
                    const struct pare_value *made, const float *y, struct pare_err *err);

/* Compute elements [from, to) of the result, in the order of its layout. */
void pare_chain_run(const struct pare_chain *c, int64_t from, int64_t to, float *y);

#endif
