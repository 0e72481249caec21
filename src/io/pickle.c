/* pickle.c - interpreter for the pickles of torch.save; executes nothing. */
#include "pickle.h"

#include <string.h>

#include "../base/arena.h"
#include "pickle_machine.h"

struct opcode {
    const char *name;
    int (*run)(struct pare_machine *m, unsigned char code); /* NULL: the opcode is rejected */
};

int pare_pickle_no_memory(struct pare_machine *m)
{
    return pare_fail(m->err, PARE_ENOMEM, "no memory for the pickle");
}

int pare_pickle_bad(struct pare_machine *m, const char *what)
{
    pare_fail(m->err, PARE_EFORMAT, "the pickle is malformed at byte %zu: %s",
              (size_t)(m->at - m->begin), what);
    return PARE_EFORMAT;
}

/* ---- bytes, stack, memory ------------------------------------------------------- */

static int take_bytes(struct pare_machine *m, uint64_t n, const unsigned char **p)
{
    if (n > (uint64_t)(m->end - m->at))
        return pare_pickle_bad(m, "it ends within an opcode");
    *p = m->at;
    m->at += n;
    return 0;
}

/* A little-endian number of n bytes. */
static int take_number(struct pare_machine *m, int n, uint64_t *v)
{
    const unsigned char *p;

    PARE_TRY(take_bytes(m, (uint64_t)n, &p));
    for (*v = 0; n; n--)
        *v = *v << 8 | p[n - 1];
    return 0;
}

static int push(struct pare_machine *m, struct pare_pickled v)
{
    if (m->n == PARE_PICKLE_STACK)
        return pare_fail(m->err, PARE_ELIMIT,
                         "the pickle has more than %d entries on its stack, which is the limit",
                         PARE_PICKLE_STACK);
    m->stack = pare_grow(m->arena, m->stack, m->n, &m->cap, sizeof(*m->stack));
    if (!m->stack)
        return pare_pickle_no_memory(m);
    m->stack[m->n++] = v;
    return 0;
}

static int pop(struct pare_machine *m, struct pare_pickled *v)
{
    if (!m->n || m->stack[m->n - 1].kind == PARE_PICKLED_MARK)
        return pare_pickle_bad(m, "the stack is empty");
    *v = m->stack[--m->n];
    return 0;
}

/* The container below the popped values, or below the values above the last mark. */
static int top(struct pare_machine *m, enum pare_pickled_kind kind, struct pare_batch_check **items)
{
    if (!m->n || m->stack[m->n - 1].kind != kind)
        return pare_pickle_bad(m, kind == PARE_PICKLED_DICT ? "there is no dict to put into"
                                                            : "there is no list to append to");
    *items = m->stack[m->n - 1].items;
    return 0;
}

/* Pop everything above the last mark, and the mark. */
static int pop_mark(struct pare_machine *m, struct pare_pickled **first, int *count)
{
    int k = m->n;

    while (k && m->stack[k - 1].kind != PARE_PICKLED_MARK)
        k--;
    if (!k)
        return pare_pickle_bad(m, "there is no mark on the stack");
    *first = m->stack + k;
    *count = m->n - k;
    m->n = k - 1;
    return 0;
}

void *pare_pickle_object(struct pare_machine *m, size_t size)
{
    void *p;

    if (m->objects == PARE_PICKLE_OBJECTS) {
        pare_fail(m->err, PARE_ELIMIT, "the pickle makes more than %d objects, which is the limit",
                  PARE_PICKLE_OBJECTS);
        return NULL;
    }
    m->objects++;
    p = pare_alloc(m->arena, 1, size);
    if (!p)
        pare_pickle_no_memory(m);
    return p;
}

static int append(struct pare_machine *m, struct pare_batch_check *to, struct pare_pickled v)
{
    to->item = pare_grow(m->arena, to->item, to->n, &to->cap, sizeof(*to->item));
    if (!to->item)
        return pare_pickle_no_memory(m);
    to->item[to->n++] = v;
    return 0;
}

int pare_pickle_items(struct pare_machine *m, enum pare_pickled_kind kind, struct pare_pickled *v)
{
    *v = (struct pare_pickled){ .kind = kind, .items = pare_pickle_object(m, sizeof(*v->items)) };
    return v->items ? 0 : m->err->code;
}

static int push_tuple(struct pare_machine *m, const struct pare_pickled *first, int n)
{
    struct pare_pickled v;

    PARE_TRY(pare_pickle_items(m, PARE_PICKLED_TUPLE, &v));
    if (n) {
        v.items->item = pare_alloc_raw(m->arena, (size_t)n, sizeof(*first));
        if (!v.items->item)
            return pare_pickle_no_memory(m);
        memcpy(v.items->item, first, (size_t)n * sizeof(*first));
        v.items->n = v.items->cap = n;
    }
    return push(m, v);
}

/* ---- opcodes ----- ------------------------------------------------------------------- */

static int op_proto(struct pare_machine *m, unsigned char code)
{
    uint64_t v;

    (void)code;
    PARE_TRY(take_number(m, 1, &v));
    if (v < 2 || v > 5)
        return pare_fail(m->err, PARE_EUNSUPPORTED, "pickle protocol %d, 2 to 5 are supported",
                         (int)v);
    return 0;
}

/* Frames only help readers of a pipe. */
static int op_frame(struct pare_machine *m, unsigned char code)
{
    const unsigned char *p;

    (void)code;
    return take_bytes(m, 8, &p);
}

static int op_stop(struct pare_machine *m, unsigned char code)
{
    (void)code;
    PARE_TRY(pop(m, &m->out->root));
    if (m->n)
        return pare_pickle_bad(m, "it stops with values left on the stack");
    m->done = true;
    return 0;
}

static int op_constant(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled v = { .kind = PARE_PICKLED_NONE };

    if (code != 'N') {
        v.kind = PARE_PICKLED_BOOL;
        v.i = code == 0x88;
    }
    return push(m, v);
}

static int op_mark(struct pare_machine *m, unsigned char code)
{
    (void)code;
    return push(m, (struct pare_pickled){ .kind = PARE_PICKLED_MARK });
}

static int op_int(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled v = { .kind = PARE_PICKLED_INT };
    uint64_t u;

    PARE_TRY(take_number(m, code == 'K' ? 1 : code == 'M' ? 2 : 4, &u));
    v.i = code == 'J' ? (int64_t)(int32_t)(uint32_t)u : (int64_t)u;
    return push(m, v);
}

/* Two's complement of n bytes; 0 bytes are the number 0. */
static int op_long(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled v = { .kind = PARE_PICKLED_INT };
    uint64_t n, u;

    (void)code;
    PARE_TRY(take_number(m, 1, &n));
    if (n > 8)
        return pare_pickle_bad(m, "a number has more than 64 bits");
    PARE_TRY(take_number(m, (int)n, &u));
    if (n && n < 8 && u >> (8 * n - 1))
        u |= UINT64_MAX << (8 * n);
    v.i = (int64_t)u;
    return push(m, v);
}

static int op_float(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled v = { .kind = PARE_PICKLED_FLOAT };
    const unsigned char *p;
    uint64_t u = 0;

    (void)code;
    PARE_TRY(take_bytes(m, 8, &p));
    for (int i = 0; i < 8; i++)
        u = u << 8 | p[i];
    memcpy(&v.f, &u, 8);
    return push(m, v);
}

static int op_text(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled v = { .kind = PARE_PICKLED_TEXT };
    const unsigned char *p;
    uint64_t n;

    PARE_TRY(take_number(m, code == 'X' ? 4 : 1, &n));
    PARE_TRY(take_bytes(m, n, &p));
    v.text = (struct pare_str){ (const char *)p, (size_t)n };
    return push(m, v);
}

static int op_empty(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled v;

    PARE_TRY(pare_pickle_items(m,
                               code == '}'   ? PARE_PICKLED_DICT
                               : code == ']' ? PARE_PICKLED_LIST
                                             : PARE_PICKLED_TUPLE,
                               &v));
    return push(m, v);
}

static int op_tuple(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled *first;
    int n = code - 0x84; /* TUPLE1 is 0x85 */

    if (code == 't') {
        PARE_TRY(pop_mark(m, &first, &n));
    } else {
        for (int i = 0; i < n; i++)
            if (m->n <= i || m->stack[m->n - 1 - i].kind == PARE_PICKLED_MARK)
                return pare_pickle_bad(m, "the stack has too little for a tuple");
        m->n -= n;
        first = m->stack + m->n;
    }
    return push_tuple(m, first, n);
}

static int op_append(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled v, *first = &v;
    struct pare_batch_check *list;
    int n = 1;

    if (code == 'a')
        PARE_TRY(pop(m, &v));
    else
        PARE_TRY(pop_mark(m, &first, &n));
    PARE_TRY(top(m, PARE_PICKLED_LIST, &list));
    for (int i = 0; i < n; i++)
        PARE_TRY(append(m, list, first[i]));
    return 0;
}

static int op_set(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled v[2], *first = v;
    struct pare_batch_check *dict;
    int n = 2;

    if (code == 's') {
        PARE_TRY(pop(m, &v[1]));
        PARE_TRY(pop(m, &v[0]));
    } else {
        PARE_TRY(pop_mark(m, &first, &n));
    }
    PARE_TRY(top(m, PARE_PICKLED_DICT, &dict));
    if (n % 2)
        return pare_pickle_bad(m, "a key has no value");
    for (int i = 0; i < n; i++)
        PARE_TRY(append(m, dict, first[i]));
    return 0;
}

/* Attributes of an OrderedDict, for example the module versions of a state dict. */
static int op_build(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled state;
    struct pare_batch_check *dict;

    (void)code;
    PARE_TRY(pop(m, &state));
    return top(m, PARE_PICKLED_DICT, &dict);
}

/* Python numbers memo entries consecutively from 0. */
static int op_put(struct pare_machine *m, unsigned char code)
{
    uint64_t i = (uint64_t)m->n_memo;

    if (code != 0x94)
        PARE_TRY(take_number(m, code == 'q' ? 1 : 4, &i));
    if (i > (uint64_t)m->n_memo || i >= PARE_PICKLE_OBJECTS)
        return pare_pickle_bad(m, "a memo entry does not have the next number");
    if (!m->n || m->stack[m->n - 1].kind == PARE_PICKLED_MARK)
        return pare_pickle_bad(m, "there is nothing to memoize");
    m->memo = pare_grow(m->arena, m->memo, m->n_memo, &m->memo_cap, sizeof(*m->memo));
    if (!m->memo)
        return pare_pickle_no_memory(m);
    m->memo[i] = m->stack[m->n - 1];
    m->n_memo += i == (uint64_t)m->n_memo;
    return 0;
}

static int op_get(struct pare_machine *m, unsigned char code)
{
    uint64_t i;

    PARE_TRY(take_number(m, code == 'h' ? 1 : 4, &i));
    if (i >= (uint64_t)m->n_memo)
        return pare_pickle_bad(m, "a memo entry is read that was not made");
    return push(m, m->memo[i]);
}

static int take_line(struct pare_machine *m, struct pare_str *line)
{
    const unsigned char *p = m->at, *nl = p < m->end ? memchr(p, '\n', (size_t)(m->end - p)) : NULL;

    if (!nl)
        return pare_pickle_bad(m, "it ends within an opcode");
    *line = (struct pare_str){ (const char *)p, (size_t)(nl - p) };
    m->at = nl + 1;
    return 0;
}

static int op_global(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled a, b, v;

    if (code == 'c') {
        PARE_TRY(take_line(m, &a.text));
        PARE_TRY(take_line(m, &b.text));
    } else {
        PARE_TRY(pop(m, &b));
        PARE_TRY(pop(m, &a));
        if (a.kind != PARE_PICKLED_TEXT || b.kind != PARE_PICKLED_TEXT)
            return pare_pickle_bad(m, "the name of a global is not a string");
    }
    PARE_TRY(pare_pickle_global(m, a.text, b.text, &v));
    return push(m, v);
}

static int op_reduce(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled args, what, v;

    (void)code;
    PARE_TRY(pop(m, &args));
    PARE_TRY(pop(m, &what));
    if (what.kind != PARE_PICKLED_GLOBAL || !what.global->call || args.kind != PARE_PICKLED_TUPLE)
        return pare_pickle_bad(m,
                               "it calls something other than a global with a tuple of arguments");
    PARE_TRY(what.global->call(m, args.items, &v));
    return push(m, v);
}

static int op_storage(struct pare_machine *m, unsigned char code)
{
    struct pare_pickled id, v;

    (void)code;
    PARE_TRY(pop(m, &id));
    PARE_TRY(pare_pickle_storage(m, &id, &v));
    return push(m, v);
}

/* All opcodes of Python, so that a rejected one can be named. */
static const struct opcode opcodes[256] = {
    ['('] = { "MARK", op_mark },
    [')'] = { "EMPTY_TUPLE", op_empty },
    ['.'] = { "STOP", op_stop },
    ['0'] = { "POP", NULL },
    ['1'] = { "POP_MARK", NULL },
    ['2'] = { "DUP", NULL },
    ['B'] = { "BINBYTES", NULL },
    ['C'] = { "SHORT_BINBYTES", NULL },
    ['F'] = { "FLOAT", NULL },
    ['G'] = { "BINFLOAT", op_float },
    ['I'] = { "INT", NULL },
    ['J'] = { "BININT", op_int },
    ['K'] = { "BININT1", op_int },
    ['L'] = { "LONG", NULL },
    ['M'] = { "BININT2", op_int },
    ['N'] = { "NONE", op_constant },
    ['P'] = { "PERSID", NULL },
    ['Q'] = { "BINPERSID", op_storage },
    ['R'] = { "REDUCE", op_reduce },
    ['S'] = { "STRING", NULL },
    ['T'] = { "BINSTRING", NULL },
    ['U'] = { "SHORT_BINSTRING", NULL },
    ['V'] = { "UNICODE", NULL },
    ['X'] = { "BINUNICODE", op_text },
    [']'] = { "EMPTY_LIST", op_empty },
    ['a'] = { "APPEND", op_append },
    ['b'] = { "BUILD", op_build },
    ['c'] = { "GLOBAL", op_global },
    ['d'] = { "DICT", NULL },
    ['e'] = { "APPENDS", op_append },
    ['g'] = { "GET", NULL },
    ['h'] = { "BINGET", op_get },
    ['i'] = { "INST", NULL },
    ['j'] = { "LONG_BINGET", op_get },
    ['l'] = { "LIST", NULL },
    ['o'] = { "OBJ", NULL },
    ['p'] = { "PUT", NULL },
    ['q'] = { "BINPUT", op_put },
    ['r'] = { "LONG_BINPUT", op_put },
    ['s'] = { "SETITEM", op_set },
    ['t'] = { "TUPLE", op_tuple },
    ['u'] = { "SETITEMS", op_set },
    ['}'] = { "EMPTY_DICT", op_empty },
    [0x80] = { "PROTO", op_proto },
    [0x81] = { "NEWOBJ", NULL },
    [0x82] = { "EXT1", NULL },
    [0x83] = { "EXT2", NULL },
    [0x84] = { "EXT4", NULL },
    [0x85] = { "TUPLE1", op_tuple },
    [0x86] = { "TUPLE2", op_tuple },
    [0x87] = { "TUPLE3", op_tuple },
    [0x88] = { "NEWTRUE", op_constant },
    [0x89] = { "NEWFALSE", op_constant },
    [0x8a] = { "LONG1", op_long },
    [0x8b] = { "LONG4", NULL },
    [0x8c] = { "SHORT_BINUNICODE", op_text },
    [0x8d] = { "BINUNICODE8", NULL },
    [0x8e] = { "BINBYTES8", NULL },
    [0x8f] = { "EMPTY_SET", NULL },
    [0x90] = { "ADDITEMS", NULL },
    [0x91] = { "FROZENSET", NULL },
    [0x92] = { "NEWOBJ_EX", NULL },
    [0x93] = { "STACK_GLOBAL", op_global },
    [0x94] = { "MEMOIZE", op_put },
    [0x95] = { "FRAME", op_frame },
    [0x96] = { "BYTEARRAY8", NULL },
    [0x97] = { "NEXT_BUFFER", NULL },
    [0x98] = { "READONLY_BUFFER", NULL },
};

int pare_pickle_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_pickle *p,
                      struct pare_err *err)
{
    struct pare_machine m = { .arena = a, .begin = bytes, .at = bytes, .out = p, .err = err };

    memset(p, 0, sizeof(*p));
    if (len > PARE_PICKLE_MAX)
        return pare_fail(err, PARE_ELIMIT, "a pickle of %zu bytes, at most %zu are supported", len,
                         PARE_PICKLE_MAX);
    if (!len || *m.at != 0x80)
        return pare_fail(err, PARE_EFORMAT, "not a pickle: it does not start with a protocol");
    for (m.end = m.at + len; !m.done;) {
        const unsigned char *code;
        const struct opcode *op;

        PARE_TRY(take_bytes(&m, 1, &code));
        op = &opcodes[*code];
        if (!op->run)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "the pickle has opcode 0x%02x (%s) at byte %zu, which tensors and "
                             "plain data do not need; nothing was executed",
                             *code, op->name ? op->name : "unknown to Python too",
                             (size_t)(code - m.begin));
        PARE_TRY(op->run(&m, *code));
    }
    if (m.at != m.end)
        return pare_pickle_bad(&m, "it has data after its end");
    return 0;
}
