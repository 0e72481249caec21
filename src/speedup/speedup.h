/* speedup.h - taking channels out of a model: what the files of this folder share.
 *
 * A channel is an index of an axis of a value.  It may go when nobody needs what is there: it is
 * one number all over, which whoever sums over it can add to a bias instead, or its weights are 0
 * in all that do.
 *
 *     float16_widen.c      float16 is looked at as float32
 *     constant_channels.c   which channels are one number all over
 *     constant_branches.c        operands that are, as a whole
 *     linear_nodes.c        weights of nodes that sum over channels, and their bias
 *     needed_channels.c       which channels are needed
 *     fold_into_bias.c       what sums take over from channels that go
 *     shrink_attrs.c        what nodes change: attributes, lists of sizes
 *     shrink_model.c      the smaller model
 *     verify.c      ... computes the same
 */
#ifndef PARE_SPEEDUP_SPEEDUP_H
#define PARE_SPEEDUP_SPEEDUP_H

#include <pare/compress.h>

#include "../graph/keep_sets.h"
#include "../onnx/edit.h"

/* A node that could not be said with fewer channels: those of all it touches stay. */
struct pare_stuck {
    int node; /* its number */
    const char *why;
    struct pare_stuck *next;
};

/* An input of a node that became another value. */
struct pare_rewire {
    const struct pare_node *n;
    int input;
    const struct pare_value *v;
    struct pare_rewire *next;
};

struct pare_speedup {
    struct pare_arena *arena;
    const struct pare_model *from;
    const struct pare_speedup_opts *opts;
    struct pare_graph *was;   /* of the model, shapes inferred for a batch of 1 */
    struct pare_graph *g;     /* the same, with constants that nodes shared copied for each */
    struct pare_graph *now;   /* of the smaller model, for the same shapes of inputs */
    struct pare_graph *more;  /* for a batch of 2, or NULL: tells which axes follow the batch */
    struct pare_tensor *file; /* by value: what it is in the file, where `g` has float32 instead */
    int cap_file;
    struct pare_keep_sets *kept;
    int *first_tie; /* by node: its ties are first_tie[id] .. first_tie[id + 1] - 1 */
    int *uses;      /* by value: how many live nodes and outputs use it */
    bool *live;     /* by node: an output depends on it, and it is no constant */
    float ***even;  /* by value and axis: the numbers, NAN: none; NULL: none anywhere */
    struct pare_stuck *stuck;
    struct pare_rewire *rewire;
    bool *gone;       /* by node: nothing of its results stays, and nobody minds */
    bool *must;       /* by value: a computed constant that has to be written down */
    uint64_t *forced; /* by node: inputs that have to be written down for it alone, as bits */
};

/* ---- constant_channels.c ------------------------------------------------------------------------ */

/* Fill s->even. */
int pare_speedup_constants(struct pare_speedup *s, struct pare_err *err);

/* Index i of the axis is this number all over; NAN: it is not, or not known. */
float pare_constant_channel(const struct pare_speedup *s, const struct pare_value *v, int axis,
                            int64_t i);

/* What operators are told. */
struct pare_needed {
    struct pare_speedup *s;
    bool grown;
};

/* ---- float16_widen.c --------------------------------------------------------------------------- */

/* All that follows looks at float32: make that of float16 and its like in s->g. */
int pare_speedup_widen(struct pare_speedup *s, struct pare_err *err);

/* A value as the file has it. */
const struct pare_tensor *pare_speedup_file(const struct pare_speedup *s,
                                            const struct pare_value *v);

/* Remember that a new value is of the type that another has in the file. */
int pare_speedup_like(struct pare_speedup *s, const struct pare_value *v,
                      const struct pare_value *other, struct pare_err *err);

/* float32 as the type that the value has in the file. */
int pare_speedup_narrow(struct pare_arena *a, const struct pare_speedup *s,
                        const struct pare_value *v, struct pare_tensor *t, struct pare_err *err);

/* ---- constant_branches.c ----------------------------------------------------------------------------- */

/* An operand that is a constant as a whole is written down as one, or left out: then nobody needs
 * what made it.  Says whether the graph changed, so that all has to be looked at again. */
int pare_speedup_cut(struct pare_speedup *s, bool *changed, struct pare_err *err);

/* Find nodes of whose results nothing stays, and whose users all do without. */
void pare_speedup_gone(struct pare_speedup *s);

/* Input k of the node is such a result, and the node goes on without it. */
bool pare_speedup_left_out(const struct pare_speedup *s, const struct pare_node *n, int k);

/* The value is no part of the file: a copy of a shared constant, or what a cut left behind. */
bool pare_speedup_fresh(const struct pare_speedup *s, const struct pare_value *v);

/* ---- linear_nodes.c ----------------------------------------------------------------------------- */

struct pare_sum {
    struct pare_linear l;
    const struct pare_node *n;
    const struct pare_value *x, *y, *w;
    int64_t C, O;              /* channels of x and y */
    int64_t Ig, Og;            /* ... of one group */
    int64_t in_step, out_step; /* in w, from one channel to the next */
    int64_t taps;              /* elements of w for one pair of channels, one after the other */
    bool in_all, out_all;      /* w's axis counts the channels of all groups */
    const float *data;
};

/* False when the node is none whose weights are known float32. */
bool pare_sum_open(const struct pare_node *n, struct pare_sum *sum);

/* Where the weights between channel i of x and channel o of y, which are of one group, start. */
static inline int64_t pare_sum_at(const struct pare_sum *m, int64_t o, int64_t i)
{
    return (m->out_all ? o : o % m->Og) * m->out_step + (m->in_all ? i : i % m->Ig) * m->in_step;
}

/* Are they all 0?  And their sum. */
bool pare_sum_zero(const struct pare_sum *m, int64_t o, int64_t i);
double pare_sum_total(const struct pare_sum *m, int64_t o, int64_t i);

/* Where a number can be added for each output channel. */
enum pare_bias_kind {
    PARE_BIAS_NONE,  /* nowhere */
    PARE_BIAS_INPUT, /* input l.bias of the node, which may be absent: *b is NULL */
    PARE_BIAS_ADD,   /* *b, the constant operand of the Add behind it */
    PARE_BIAS_AFTER, /* an Add to be put behind it */
};
enum pare_bias_kind pare_sum_bias(const struct pare_speedup *s, const struct pare_sum *m,
                                  const struct pare_value **b);

/* ---- needed_channels.c ------------------------------------------------------------------------------ */

/* Fill in s->kept. */
int pare_speedup_needs(struct pare_speedup *s, struct pare_err *err);

/* Channel i of x goes and is not 0, so the sum has to take it over. */
bool pare_speedup_folds(const struct pare_speedup *s, const struct pare_sum *m, int64_t i);

/* The channel of a group that carries those that go, where there are borders: it stays, and is a
 * number other than 0.  -1: none. */
int64_t pare_speedup_carrier(const struct pare_speedup *s, const struct pare_sum *m, int64_t group);

/* ---- fold_into_bias.c, shrink_attrs.c, shrink_model.c ------------------------------------------------------------ */

/* New contents of a constant input, as its node asks for. */
struct pare_request {
    const struct pare_node *n;
    int input;
    struct pare_tensor t;
    struct pare_request *next;
};

/* A model in the making. */
struct pare_shrink {
    struct pare_speedup *s;
    struct pare_edit *e;
    struct pare_arena *arena;    /* for contents: the new model's */
    struct pare_tensor *instead; /* by value: contents in place of its own; data NULL: none */
    struct pare_request *request;
};

/* Put what goes from x of a sum into its bias or a carrier. */
int pare_shrink_fold(struct pare_shrink *k, const struct pare_sum *m, struct pare_err *err);

/* What stays of a tensor with the axes of v; memory from k->arena. */
int pare_shrink_gather(struct pare_shrink *k, const struct pare_value *v,
                       const struct pare_tensor *t, struct pare_tensor *to, struct pare_err *err);

/* Does a value lose anything? */
bool pare_shrink_loses(const struct pare_speedup *s, const struct pare_value *v);

/* Let the node say its new attributes and constants. */
int pare_shrink_ask(struct pare_shrink *k, const struct pare_node *n, struct pare_err *err);

/* Is the constant computed by nodes, not written in the file? */
bool pare_shrink_computed(const struct pare_value *v);

/* The smaller model, and its graph in s->now.  When a node turned out to be stuck, *out is NULL and s->stuck has it. */
int pare_speedup_shrink(struct pare_speedup *s, struct pare_model **out, struct pare_err *err);

/* Remember the node. */
int pare_speedup_stick(struct pare_speedup *s, const struct pare_node *n, const char *why,
                       struct pare_err *err);

/* ---- verify.c and speedup_report.c ------------------------------------------------------------------- */

int pare_speedup_verify(const struct pare_model *a, const struct pare_model *b,
                        const struct pare_speedup_opts *o, struct pare_speedup_report *r,
                        struct pare_err *err);

int pare_speedup_tell(struct pare_speedup *s, struct pare_arena *a, struct pare_speedup_report *r,
                      struct pare_err *err);

#endif
