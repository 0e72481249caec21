/* tune_key.c - keys of the tuning cache: everything that the time of a step depends on, as a line.
 */
#include "tune.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../base/sha256.h"

struct text {
    char *s;
    size_t n;
};

static void add_text(struct text *t, const char *fmt, ...) PARE_PRINTF(2, 3);

/* Text beyond the end is dropped. */
static void add_text(struct text *t, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(t->s + t->n, PARE_TUNE_KEY - t->n, fmt, ap);
    va_end(ap);
    t->n = n < 0 || t->n + (size_t)n >= PARE_TUNE_KEY ? PARE_TUNE_KEY - 1 : t->n + (size_t)n;
}

/* Names come from files and may contain anything. */
static void add_word(struct text *t, const char *s)
{
    for (; *s; s++)
        add_text(t, "%c", *s > ' ' && *s <= '~' ? *s : '_');
}

static void add_ints(struct text *t, const char *name, struct pare_ints v)
{
    add_text(t, " %s=", name);
    for (int i = 0; i < v.n; i++)
        add_text(t, "%s%lld", i ? "," : "", (long long)v.v[i]);
}

static void add_floats(struct text *t, const char *name, struct pare_floats v)
{
    add_text(t, " %s=", name);
    for (int i = 0; i < v.n; i++)
        add_text(t, "%s%.9g", i ? "," : "", v.v[i]);
}

/* Only attributes that differ from their defaults. */
static void add_attr(struct text *t, const struct pare_opt *o, const void *field)
{
    if (o->type == PARE_OPT_BOOL && *(const bool *)field != (o->def > 0 || o->def < 0)) {
        add_text(t, " %s=%d", o->name, *(const bool *)field);
    } else if (o->type == PARE_OPT_INT && *(const int64_t *)field != (int64_t)o->def) {
        add_text(t, " %s=%lld", o->name, (long long)*(const int64_t *)field);
    } else if (o->type == PARE_OPT_FLOAT && (float)*(const double *)field != (float)o->def) {
        add_text(t, " %s=%.9g", o->name, *(const double *)field);
    } else if (o->type == PARE_OPT_STR && *(const char *const *)field) {
        add_text(t, " %s=", o->name);
        add_word(t, *(const char *const *)field);
    } else if (o->type == PARE_OPT_INTS && ((const struct pare_ints *)field)->n) {
        add_ints(t, o->name, *(const struct pare_ints *)field);
    } else if (o->type == PARE_OPT_FLOATS && ((const struct pare_floats *)field)->n) {
        add_floats(t, o->name, *(const struct pare_floats *)field);
    }
}

static void add_node(struct text *t, const struct pare_node *n)
{
    add_word(t, n->type);
    for (const struct pare_opt *o = n->op->attrs; o && o->name; o++)
        add_attr(t, o, (const char *)n->attr + o->offset);
}

static void add_value(struct text *t, const struct pare_value *v)
{
    add_text(t, " | %s ", pare_dtype_name(v->t.dtype));
    for (int i = 0; i < v->t.rank; i++)
        add_text(t, "%s%lld", i ? "," : "", (long long)v->t.dim[i]);
}

/* Are four elements from `at` on, in steps of `step`, zero?  With step 0: is the one at `at`? */
static bool is_zero(const char *data, int64_t at, int64_t step)
{
    for (int i = 0; i < (step ? 4 : 1); i++) {
        float x;

        memcpy(&x, data + (size_t)(at + i * step) * sizeof(x), sizeof(x));
        if (x < 0 || x > 0 || x != x)
            return false;
    }
    return true;
}

/* Shares of zeros in tenths, in a sample of short runs: of single elements, of blocks of four along
 * the first axis, and of four neighbors. */
static void add_zeros(struct text *t, const struct pare_value *v)
{
    const int runs = 64, len = 32;
    const int64_t n = pare_numel(&v->t);
    const char *data = pare_const_raw(v);
    int64_t zeros[3] = { 0 }, seen = 0, row;

    if (v->t.dtype != PARE_F32 || !data || !v->t.rank || v->t.dim[0] < 4 || n < 4 * len)
        return;
    row = n / v->t.dim[0];
    for (int r = 0; r < runs; r++)
        for (int64_t i = 0, from = (n - 4 * len) / runs * r; i < len; i++, seen++) {
            int64_t at = from + i, four = at / row / 4 * 4; /* first row of its block */

            zeros[0] += is_zero(data, at, 0);
            zeros[1] += is_zero(data, (four + 4 <= n / row ? four : 0) * row + at % row, row);
            zeros[2] += is_zero(data, (from + 4 * i) / 4 * 4, 1);
        }
    add_text(t, " zeros");
    for (int k = 0; k < 3; k++)
        add_text(t, "%c%d0%%", k ? ',' : ' ', (int)((10 * zeros[k] + seen / 2) / seen));
}

bool pare_tune_key(const struct pare_plan *p, const struct pare_step *s, bool zeros, bool cold,
                   char key[PARE_TUNE_KEY])
{
    struct text t = { key, 0 };
    const struct pare_node *n = s->node;

    key[0] = '\0';
    add_node(&t, n);
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i])
            continue;
        add_value(&t, n->in[i]);
        if (!pare_is_fixed(n->in[i]))
            add_text(&t, " in %d", pare_layout_of(&p->view, n->in[i]));
        else if (zeros)
            add_zeros(&t, n->in[i]);
    }
    for (int k = 0; k < s->n_fused; k++) {
        add_text(&t, " | then ");
        add_node(&t, s->fused[k]);
    }
    for (int k = 1; k < s->n_in; k++) { /* operands of the fused nodes */
        add_value(&t, s->in[k]);
        add_text(&t, " in %d", pare_layout_of(&p->view, s->in[k]));
    }
    add_text(&t, " | %d threads, isa %x%s%s", p->backend.threads, p->backend.isa,
             p->backend.bf16 ? ", bf16" : "", cold ? ", cold" : "");
    return t.n < PARE_TUNE_KEY - 1;
}

/* Hash a node with its shapes. */
static void hash_node(struct pare_sha256 *h, const struct pare_node *n)
{
    char line[PARE_TUNE_KEY] = "";
    struct text t = { line, 0 };

    if (n->op)
        add_node(&t, n);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i])
            add_value(&t, n->in[i]);
    pare_sha256_add(h, line, t.n + 1);
}

bool pare_tune_batch_key(const struct pare_plan *p, char key[PARE_TUNE_KEY])
{
    const struct pare_graph *g = p->graph;
    struct text t = { key, 0 };
    char hash[PARE_SHA256_TEXT];
    struct pare_sha256 h;

    key[0] = '\0';
    pare_sha256_init(&h);
    for (int i = 0; i < g->n_nodes; i++)
        hash_node(&h, g->node[i]);
    pare_sha256_text(&h, hash);
    add_text(&t, "batch");
    for (int i = 0; i < g->n_in; i++)
        add_value(&t, g->in[i]);
    add_text(&t, " | %d nodes %.16s | %d threads, isa %x%s", g->n_nodes, hash, p->backend.threads,
             p->backend.isa, p->backend.bf16 ? ", bf16" : "");
    return t.n < PARE_TUNE_KEY - 1;
}
