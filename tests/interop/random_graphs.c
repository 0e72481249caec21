/* random_graphs.c - write random networks, inputs and Pare's outputs as files.
 *
 *     random_graphs FOLDER COUNT SEED
 * writes FOLDER/<seed>.onnx, <seed>.in.npz and <seed>.out.npz for COUNT seeds from SEED on.  Even
 * seeds have bodies, sequences and operators of com.microsoft as well.
 */
#include "../unit/random_graph_bodies.h"

#include <stdio.h>

#include "io/npz.h"

enum { OUTPUTS = 64 };

static void stop(const char *what)
{
    fprintf(stderr, "random_graphs: %s\n", what);
    exit(1);
}

static void write_model(const char *path, const struct rg *g)
{
    struct bin bytes = build_bytes(&g->b);
    FILE *f = fopen(path, "wb");

    if (!f || fwrite(bytes.p, 1, bytes.n, f) != bytes.n || fclose(f))
        stop(path);
}

static void one(const char *folder, uint64_t seed)
{
    const char *base = pare_sprintf(pool, "%s/%llu", folder, (unsigned long long)seed);
    static struct rg g;
    struct pare_named in[RG_INPUTS], out[OUTPUTS];
    struct pare_tensor x[RG_INPUTS], y[OUTPUTS];
    const struct pare_io *io;
    struct pare_model *m;
    struct pare_plan *p;
    struct pare_err err;
    int n;

    if (seed % 2)
        rg_make(&g, seed);
    else
        rg_make_with_bodies(&g, seed);
    write_model(pare_sprintf(pool, "%s.onnx", base), &g);
    m = build_model(&g.b);
    pare_model_inputs(m, &io);
    for (int i = 0; i < g.n_in; i++) {
        x[i] = build_tensor(PARE_F32, g.in[i].rank, g.in[i].dim);
        rg_fill(&g.r, &x[i], 1);
        in[i] = (struct pare_named){ io[i].name, x[i] };
    }
    n = pare_model_outputs(m, &io);
    if (n > OUTPUTS || pare_plan_make(m, NULL, &p, &err) || pare_plan_execute(p, x, y, &err))
        stop(pare_sprintf(pool, "seed %llu: %s", (unsigned long long)seed, err.msg));
    for (int i = 0; i < n; i++)
        out[i] = (struct pare_named){ io[i].name, y[i] };
    if (pare_npz_write(pare_sprintf(pool, "%s.in.npz", base), in, g.n_in, &err) ||
        pare_npz_write(pare_sprintf(pool, "%s.out.npz", base), out, n, &err))
        stop(err.msg);
    pare_plan_free(p);
    pare_model_free(m);
}

int main(int argc, char **argv)
{
    long count = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
    uint64_t seed = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;

    for (long i = 0; i < count; i++) {
        pool = pare_arena_new(1 << 16);
        one(argv[1], seed + (uint64_t)i);
        pare_arena_free(pool);
    }
    return count <= 0;
}
