/* chain_ops.h - runs of elementwise operators, applied to a piece of memory at a time.
 *
 * Each link applies its operator's map or map2 to a chunk that stays in the first-level cache, so
 * a chain of any length reads its operands once and writes its result once.  Inference-mode
 * BatchNormalization is a link too: y = s x + t per channel.
 *
 * The result is seen as rows of equal length, chosen so that along a row every operand either
 * moves with it or stands still:
 *     row-major   split after k axes: rows = d0..dk-1, length = dk..
 *     blocked     rows = N * C / b, length = spatial * b
 * In the blocked layout a per-channel operand is repeated b by b into a chunk of its own.
 */
#ifndef PARE_BACKEND_ROWS_CHAIN_OPS_H
#define PARE_BACKEND_ROWS_CHAIN_OPS_H

#include "../backend.h"

#define PARE_MAX_CHAIN 12
#define PARE_MAX_OPERANDS 8

/* How an operand moves along the rows. */
struct pare_operand {
    struct pare_value *value; /* NULL: `table` */
    struct pare_tensor shape; /* its shape, with ones in front to the result's rank */
    const float *data;
    float *table; /* BatchNormalization's scale or shift, (C) */
    bool full, scalar, channel;
    int64_t rows, row_size; /* starts at (row % rows) * row_size ... */
    int stride;             /* ... and moves by 0 or 1 */
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

/* Can this node be a link at all? */
bool pare_is_link(const struct pare_node *n);

/* Begin with n, in the layout c->block, and take as many behind it as possible; false when n itself
 * does not fit. */
bool pare_chain_from(const struct pare_match *v, struct pare_node *n, struct pare_chain *c);

/* All that is done with x, a row-major value that somebody makes in the memory of the chain's
 * result; false when there is nothing or x is used elsewhere. */
bool pare_chain_behind(const struct pare_match *v, const struct pare_value *x,
                       struct pare_chain *c);

/* The value that the last link makes. */
struct pare_value *pare_chain_out(const struct pare_chain *c);

/* Where the operands are: those with values in in_buf, in order; `made`, if not NULL, in y. */
int pare_chain_init(struct pare_chain *c, struct pare_backend *b, struct pare_buf **in_buf,
                    const struct pare_value *made, const float *y, struct pare_err *err);

/* Elements [from, to) of the result, counted in its layout. */
void pare_chain_run(const struct pare_chain *c, int64_t from, int64_t to, float *y);

#endif
