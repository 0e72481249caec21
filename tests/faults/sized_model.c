/* sized_model.c - generate models that are large in one dimension, and measure the memory of
 * commands.
 *
 *     sized_model chain N FILE      N elementwise nodes, one after the other
 *     sized_model wide N FILE       N nodes whose outputs are all inputs of one Concat
 *     sized_model layers N FILE     N small linear layers
 *     sized_model empty 0 FILE      no nodes: the output is the input
 *     sized_model rank 8 FILE       eight axes, through operators that keep or move them
 *     sized_model external MB FILE  two weights of MB megabytes each in FILE.data, a sparse file
 *     sized_model full MB FILE      the same with values other than 0 written to the file
 *     sized_model peak MB COMMAND...    run a command and print its peak memory; fails above MB
 */
#include "../unit/make_model.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *name(int i)
{
    return i < 0 ? "x" : pare_sprintf(pool, "v%d", i);
}

static struct bin one_node(const char *type, const char *const *in, int n_in, int out)
{
    struct bin all = NOTHING;

    for (int i = 0; i < n_in; i++)
        all = CAT(all, text(1, in[i]));
    return msg(1, CAT(all, text(2, name(out)), text(3, name(out)), text(4, type)));
}

static struct bin weight(const char *of)
{
    float eye[64] = { 0 };

    for (int i = 0; i < 8; i++)
        eye[9 * i] = 0.99f;
    return msg(5, CAT(num(1, 8), num(1, 8), num(2, PARE_F32), text(8, of), blob(9, eye, 256)));
}

/* The nodes of a kind; the last value is the output. */
static struct bin nodes(const char *kind, int n)
{
    struct bin *part = pare_alloc(pool, 2 * (size_t)n + 1, sizeof(*part));
    const char **all = pare_alloc(pool, (size_t)n + 1, sizeof(*all));
    struct bin concat = NOTHING;
    int at = 0;

    for (int i = 0; i < n; i++) {
        const char *in[2] = { name(kind[0] == 'w' ? -1 : i - 1), pare_sprintf(pool, "w%d", i) };

        all[i] = name(i);
        if (kind[0] == 'l') {
            part[at++] = weight(in[1]);
            part[at++] = one_node("MatMul", in, 2, i);
        } else {
            part[at++] = one_node(i % 2 ? "Relu" : "Sigmoid", in, 1, i);
        }
    }
    if (kind[0] != 'w')
        return join(part, (size_t)at);
    concat = NOTHING;
    for (int i = 0; i < n; i++)
        part[i + n] = text(1, all[i]);
    concat = CAT(join(part + n, (size_t)n), text(2, name(n)), text(3, "all"), text(4, "Concat"),
                 at_int("axis", 1));
    return CAT(join(part, (size_t)n), msg(1, concat));
}

static void write_graph(const char *path, struct bin graph)
{
    struct bin file = CAT(num(1, 8), msg(7, graph), opset("", 17));
    FILE *f = fopen(path, "wb");

    if (!f || fwrite(file.p, 1, file.n, f) != file.n || fclose(f))
        exit(1);
}

static void write_nodes(const char *kind, int n, const char *path)
{
    const char *last = name(kind[0] == 'w' ? n : n - 1);

    write_graph(path, CAT(nodes(kind, n), msg(11, build_info("x", PARE_F32, INTS(1, 8))),
                          msg(12, build_info(last, PARE_F32, -1, NULL))));
}

static void write_rank(const char *path)
{
    struct build b = { .opset = 17 };
    const char *x = build_input(&b, PARE_F32, INTS(2, 3, 1, 2, 3, 1, 2, 2)), *y;

    y = build_node(&b, "Transpose", NAMES(x), at_ints("perm", INTS(7, 6, 5, 4, 3, 2, 1, 0)));
    y = build_node(&b, "Add", NAMES(y, build_floats(&b, INTS(3, 1), (float[]){ 1, 2, 3 })),
                   NOTHING);
    y = build_node(&b, "Relu", NAMES(y), NOTHING);
    y = build_node(&b, "Concat", NAMES(y, y), at_int("axis", 7));
    y = build_node(&b, "ReduceMean", NAMES(y), at_ints("axes", INTS(0, 3, 7)));
    build_output(&b, build_node(&b, "Softmax", NAMES(y), at_int("axis", 6)));
    write_graph(path, join(b.part, (size_t)b.n));
}

/* An initializer of external data. */
static struct bin external_weight(const char *of, const char *file, int64_t rows, int64_t at)
{
    const char *entry[3][2] = { { "location", file },
                                { "offset", pare_sprintf(pool, "%lld", (long long)at) },
                                { "length", pare_sprintf(pool, "%lld", (long long)rows * 4096) } };
    struct bin all = CAT(num(1, 1024), num(1, rows), num(2, PARE_F32), text(8, of), num(14, 1));

    for (int i = 0; i < 3; i++)
        all = CAT(all, msg(13, CAT(text(1, entry[i][0]), text(2, entry[i][1]))));
    return msg(5, all);
}

/* Write values other than 0. */
static void fill(int fd, int64_t bytes)
{
    static float some[1 << 18];

    for (int i = 0; i < 1 << 18; i++)
        some[i] = (float)((i * 7919) % 1000 + 1) / 100000 * (i % 3 ? 1 : -1);
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof(some))
        if (pwrite(fd, some, sizeof(some), at) != (ssize_t)sizeof(some))
            exit(1);
}

static void write_external(int mb, bool full, const char *path)
{
    const char *data = pare_sprintf(pool, "%s.data", path), *slash = strrchr(data, '/');
    const char *file = slash ? slash + 1 : data, *in[2];
    int64_t rows = (int64_t)mb * 256, bytes = rows * 4096;
    struct bin graph = NOTHING;
    int fd = open(data, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    if (fd < 0 || ftruncate(fd, 2 * bytes))
        exit(1);
    if (full)
        fill(fd, 2 * bytes);
    close(fd);
    for (int i = 0; i < 2; i++) {
        in[0] = "x";
        in[1] = i ? "w1" : "w0";
        graph = CAT(graph, external_weight(in[1], file, rows, i * bytes),
                    one_node("MatMul", in, 2, i));
    }
    in[0] = name(0);
    in[1] = name(1);
    graph = CAT(graph, one_node("Add", in, 2, 2), msg(11, build_info("x", PARE_F32, INTS(1, 1024))),
                msg(12, build_info(name(2), PARE_F32, -1, NULL)));
    write_graph(path, graph);
}

static int peak(long limit, char **command)
{
    struct timespec from, to;
    struct rusage use;
    int status;
    pid_t child;

    clock_gettime(CLOCK_MONOTONIC, &from);
    child = fork();
    if (!child) {
        execvp(command[0], command);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &use) < 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &to);
    fprintf(stderr, "%ld MB, %.1f s: ", use.ru_maxrss / 1024,
            (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    for (int i = 1; command[i]; i++)
        fprintf(stderr, "%s ", command[i]);
    fprintf(stderr, "\n");
    if (use.ru_maxrss / 1024 > limit)
        fprintf(stderr, "more than %ld MB\n", limit);
    return use.ru_maxrss / 1024 > limit ? 100 : WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

int main(int argc, char **argv)
{
    if (argc > 3 && !strcmp(argv[1], "peak"))
        return peak(strtol(argv[2], NULL, 10), argv + 3);
    if (argc != 4)
        return 2;
    pool = pare_arena_new(1 << 20);
    if (!strcmp(argv[1], "rank"))
        write_rank(argv[3]);
    else if (!strcmp(argv[1], "external") || !strcmp(argv[1], "full"))
        write_external((int)strtol(argv[2], NULL, 10), argv[1][0] == 'f', argv[3]);
    else if (!strcmp(argv[1], "empty"))
        write_graph(argv[3], CAT(msg(11, build_info("x", PARE_F32, INTS(1, 8))),
                                 msg(12, build_info("x", PARE_F32, INTS(1, 8)))));
    else
        write_nodes(argv[1], (int)strtol(argv[2], NULL, 10), argv[3]);
    pare_arena_free(pool);
    return 0;
}
