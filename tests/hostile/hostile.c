/* hostile.c - run a command on every malicious or broken file and compare the error message.
 *
 *     hostile PARE FOLDER [CASE...]
 *
 * FOLDER/cases.txt has a paragraph for each case:
 *
 *     [name]                  copy the files FOLDER/name.*
 *     make symlink /etc x     make a file that cannot be committed: symlink, hardlink, move, copy
 *                             A B (A is a file of tests/); fifo, dir A; sparse A BYTES;
 *                             bytes A COUNT; many A COUNT: A000000, ... of four bytes
 *     preload endless_folder  preload this library of the folder SHIMS
 *     limit PARE_MAX_NODES    the limit of base/limits.h that the file exceeds (check_limits.sh)
 *     run inspect name.onnx   the arguments of pare
 *     says pare: ...          its complete standard error
 *     code 1                  its exit code (default: 1)
 *     memory 500              limit of its memory in megabytes (default: MEMORY)
 *     writes                  it may leave files in its folder
 *
 * The command runs in a new folder.  It must print exactly that message within SECONDS of CPU time
 * and the memory limit, and must not change the folder, its parent or the file victim.bin there.
 * A file name.x.rep is a short description of name.x, see tools/make_hostile.py.  BLESS=1 writes
 * the messages into cases.txt instead; read the diff before committing it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SECONDS
#define SECONDS 10 /* of CPU time */
#endif
#define PATIENCE 6 /* elapsed time may be this multiple of SECONDS, on a busy machine */
#ifndef MEMORY
#define MEMORY 200 /* MB */
#endif
#define MAX_WORDS 32
#define MAX_MAKE 64
#define VICTIM 72 /* bytes */

struct test {
    char *name, *run, *says, *preload;
    char *make[MAX_MAKE];
    int n_make, code;
    long memory;
    bool writes;
};

struct outcome {
    char text[4096]; /* standard error, without the last newline */
    int status;
    double seconds;
    long memory; /* MB */
    bool hung;
};

static const char *folder, *pare;
static char top[512]; /* parent of the folder that the command runs in */

static void die(const char *what, const char *name)
{
    fprintf(stderr, "hostile: %s %s: %s\n", what, name, strerror(errno));
    exit(2);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- making files ------------------------------------------------------------------------- */

static FILE *open_or_die(const char *name, const char *how)
{
    FILE *f = fopen(name, how);

    if (!f)
        die("cannot open", name);
    return f;
}

static void copy(const char *from, const char *to)
{
    FILE *in = open_or_die(from, "rb"), *out = open_or_die(to, "wb");
    char buf[65536];

    for (size_t n; (n = fread(buf, 1, sizeof(buf), in)) > 0;)
        fwrite(buf, 1, n, out);
    fclose(in);
    if (fclose(out))
        die("cannot write", to);
}

/* Expand lines of "count hex"; ## is the number of the repetition in six digits. */
static void expand(const char *from, const char *to)
{
    static char line[1 << 16], bytes[1 << 15];
    FILE *in = open_or_die(from, "r"), *out = open_or_die(to, "wb");

    while (fgets(line, sizeof(line), in)) {
        char *hex, number[8];
        long count = strtol(line, &hex, 10);
        size_t n = 0, at[4], n_at = 0;
        unsigned v;

        for (hex++; *hex == '#' || sscanf(hex, "%2x", &v) == 1; hex += 2) {
            if (*hex != '#') {
                bytes[n++] = (char)v;
            } else if (n_at < 4) {
                at[n_at++] = n;
                n += 6;
            }
        }
        for (long i = 0; i < count; i++) {
            snprintf(number, sizeof(number), "%06ld", i % 1000000);
            for (size_t k = 0; k < n_at; k++)
                memcpy(bytes + at[k], number, 6);
            fwrite(bytes, 1, n, out);
        }
    }
    fclose(in);
    if (fclose(out))
        die("cannot write", to);
}

/* A file of n bytes 0, 1, 2, ... */
static void write_bytes(const char *name, int n)
{
    FILE *f = open_or_die(name, "wb");

    for (int i = 0; i < n; i++)
        fputc(i & 255, f);
    fclose(f);
}

static void make_many(const char *name, int n)
{
    char path[1040];

    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s%06d", name, i);
        write_bytes(path, 4);
    }
}

/* Copy or expand all files of the case. */
static void copy_files(const char *name)
{
    DIR *d = opendir(folder);
    size_t len = strlen(name);
    char from[PATH_MAX];

    if (!d)
        die("cannot read", folder);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        size_t n = strlen(e->d_name);

        if (strncmp(e->d_name, name, len) || e->d_name[len] != '.')
            continue;
        snprintf(from, sizeof(from), "%s/%s", folder, e->d_name);
        if (n > 4 && !strcmp(e->d_name + n - 4, ".rep")) {
            e->d_name[n - 4] = '\0';
            expand(from, e->d_name);
        } else {
            copy(from, e->d_name);
        }
    }
    closedir(d);
}

static void make_file(const char *line)
{
    char what[16] = "", a[1024] = "", b[1024] = "", from[PATH_MAX];
    int rc = 0;

    sscanf(line, "%15s %1023s %1023s", what, a, b);
    snprintf(from, sizeof(from), "%s/../%.1000s", folder, a);
    if (!strcmp(what, "symlink"))
        rc = symlink(a, b);
    else if (!strcmp(what, "hardlink"))
        rc = link(a, b);
    else if (!strcmp(what, "fifo"))
        rc = mkfifo(a, 0600);
    else if (!strcmp(what, "dir"))
        rc = mkdir(a, 0777);
    else if (!strcmp(what, "move"))
        rc = rename(a, b);
    else if (!strcmp(what, "copy"))
        copy(from, b);
    else if (!strcmp(what, "bytes"))
        write_bytes(a, (int)strtol(b, NULL, 10));
    else if (!strcmp(what, "many"))
        make_many(a, (int)strtol(b, NULL, 10));
    else if (!strcmp(what, "sparse"))
        fclose(open_or_die(a, "wb")), rc = truncate(a, (off_t)strtoll(b, NULL, 10));
    else
        errno = EINVAL, rc = -1;
    if (rc)
        die("cannot make", line);
}

/* ---- state of a folder -------------------------------------------------------------------- */

/* A hash of names, types, sizes and times of everything below the folder, without entries named
 * `except`. */
static uint64_t hash_tree(const char *path, const char *except)
{
    DIR *d = opendir(path);
    uint64_t sum = 0;

    if (!d)
        die("cannot read", path);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char sub[PATH_MAX];
        uint64_t h = 14695981039346656037u;
        struct stat st;

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, except))
            continue;
        snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
        if (lstat(sub, &st))
            die("cannot stat", sub);
        for (const char *p = sub; *p; p++)
            h = (h ^ (unsigned char)*p) * 1099511628211u;
        h = (h ^ (uint64_t)st.st_mode) * 1099511628211u;
        h = (h ^ (uint64_t)(S_ISREG(st.st_mode) ? st.st_size : 0)) * 1099511628211u;
        h = (h ^ (uint64_t)(S_ISDIR(st.st_mode) ? 0 : st.st_mtim.tv_nsec)) * 1099511628211u;
        sum += h;
        if (S_ISDIR(st.st_mode))
            sum += hash_tree(sub, except);
    }
    closedir(d);
    return sum;
}

static void remove_tree(const char *path)
{
    char command[PATH_MAX + 16];

    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    if (system(command))
        die("cannot remove", path);
}

/* ---- running ------------------------------------------------------------------------------ */

static void preload(const char *name)
{
    const char *more = getenv("LD_PRELOAD");
    char path[PATH_MAX];

    if (!getenv("SHIMS"))
        _exit(126);
    snprintf(path, sizeof(path), "%s/%s.so%s%s", getenv("SHIMS"), name, more ? ":" : "",
             more ? more : "");
    setenv("LD_PRELOAD", path, 1);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
}

static void exec_command(const struct test *t, int err)
{
    static char line[4096], *word[MAX_WORDS + 2];
    int n = 0, null = open("/dev/null", O_RDWR);

    snprintf(line, sizeof(line), "%s", t->run);
    word[n++] = (char *)(uintptr_t)pare;
    for (char *w = strtok_r(line, " ", &word[MAX_WORDS + 1]); w && n < MAX_WORDS;
         w = strtok_r(NULL, " ", &word[MAX_WORDS + 1]))
        word[n++] = w;
    word[n] = NULL;
    dup2(null, 0);
    dup2(null, 1);
    dup2(err, 2);
    setrlimit(RLIMIT_CPU, &(struct rlimit){ SECONDS, SECONDS + 1 });
    setenv("LC_ALL", "C", 1);
    setenv("OMP_WAIT_POLICY", "passive", 1);
    if (t->preload)
        preload(t->preload);
    execv(pare, word);
    _exit(127);
}

/* Wait until the process ends; kill it when its time is over. */
static void wait_for(pid_t pid, struct outcome *o)
{
    const struct timespec pause = { 0, 2000000 };
    double begin = now();
    struct rusage use;

    while (wait4(pid, &o->status, WNOHANG, &use) != pid) {
        nanosleep(&pause, NULL);
        if (!o->hung && now() - begin > SECONDS * PATIENCE) {
            o->hung = true;
            kill(pid, SIGKILL);
        }
    }
    o->seconds = now() - begin;
    o->memory = use.ru_maxrss / 1024;
}

static void run(const struct test *t, struct outcome *o)
{
    char path[PATH_MAX];
    ssize_t n;
    pid_t pid;
    int err;

    snprintf(path, sizeof(path), "%s.err", top);
    err = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (err < 0)
        die("cannot write", path);
    pid = fork();
    if (pid < 0)
        die("cannot start", pare);
    if (!pid)
        exec_command(t, err);
    wait_for(pid, o);
    n = pread(err, o->text, sizeof(o->text) - 1, 0);
    o->text[n > 0 ? n : 0] = '\0';
    while (n > 0 && o->text[n - 1] == '\n')
        o->text[--n] = '\0';
    for (char *p = o->text; *p; p++)
        *p = *p == '\n' ? '|' : *p;
    close(err);
    unlink(path);
}

static bool complain(const struct test *t, const char *what, const struct outcome *o)
{
    printf("%s: %s (%.2f s, %ld MB)\n  printed:  %s\n  expected: %s\n", t->name, what, o->seconds,
           o->memory, o->text, t->says ? t->says : "");
    return false;
}

static bool check(const struct test *t, const struct outcome *o, bool changed)
{
    char what[64];

    if (o->hung)
        return complain(t, "did not end in time", o);
    if (WIFSIGNALED(o->status) && WTERMSIG(o->status) == SIGXCPU)
        return complain(t, "exceeded its CPU time", o);
    if (WIFSIGNALED(o->status)) {
        snprintf(what, sizeof(what), "was killed by signal %d", WTERMSIG(o->status));
        return complain(t, what, o);
    }
    if (WEXITSTATUS(o->status) != t->code) {
        snprintf(what, sizeof(what), "exited with %d, not %d", WEXITSTATUS(o->status), t->code);
        return complain(t, what, o);
    }
    if (changed)
        return complain(t, "changed files", o);
    if (o->memory > t->memory)
        return complain(t, "used too much memory", o);
    if (!getenv("BLESS") && strcmp(t->says ? t->says : "", o->text) != 0)
        return complain(t, "printed another message", o);
    return true;
}

/* Run in a new folder, with a file above it that must not be read or changed. */
static bool try_case(struct test *t, struct outcome *o)
{
    char in[PATH_MAX + 8], *dir;
    uint64_t before;
    bool good;

    snprintf(top, sizeof(top), "%s/hostile.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    dir = mkdtemp(top);
    snprintf(in, sizeof(in), "%s/in", top);
    if (!dir || chdir(top) || mkdir(in, 0777))
        die("cannot make", top);
    write_bytes("victim.bin", VICTIM);
    if (chdir(in))
        die("cannot enter", in);
    copy_files(t->name);
    for (int i = 0; i < t->n_make; i++)
        make_file(t->make[i]);
    before = hash_tree(top, t->writes ? "in" : "");
    run(t, o);
    good = check(t, o, hash_tree(top, t->writes ? "in" : "") != before);
    if (chdir("/"))
        die("cannot enter", "/");
    remove_tree(top);
    return good;
}

/* ---- cases.txt ---------------------------------------------------------------------------- */

static char *next_line(FILE *f)
{
    static char buf[8192];
    size_t n;

    if (!fgets(buf, sizeof(buf), f))
        return NULL;
    n = strlen(buf);
    if (n && buf[n - 1] == '\n')
        buf[n - 1] = '\0';
    return buf;
}

/* The rest of a line that begins with the word; NULL if it does not. */
static const char *after(const char *line, const char *word)
{
    size_t n = strlen(word);

    return !strncmp(line, word, n) && line[n] == ' ' ? line + n + 1 : NULL;
}

static void begin_case(struct test *t, const char *line)
{
    free(t->name), free(t->run), free(t->says), free(t->preload);
    for (int i = 0; i < t->n_make; i++)
        free(t->make[i]);
    *t = (struct test){ .name = strndup(line + 1, strcspn(line + 1, "]")),
                        .code = 1,
                        .memory = MEMORY };
}

static void read_line(struct test *t, const char *line)
{
    const char *v;

    if ((v = after(line, "make")) && t->n_make < MAX_MAKE)
        t->make[t->n_make++] = strdup(v);
    else if ((v = after(line, "run")))
        t->run = strdup(v);
    else if ((v = after(line, "says")))
        t->says = strdup(v);
    else if ((v = after(line, "code")))
        t->code = (int)strtol(v, NULL, 10);
    else if ((v = after(line, "preload")))
        t->preload = strdup(v);
    else if (!strcmp(line, "writes"))
        t->writes = true;
    else if ((v = after(line, "memory")))
        t->memory = strtol(v, NULL, 10) * MEMORY / 200;
    else if (*line && *line != '#' && !after(line, "limit"))
        die("unknown line", line);
}

struct counts {
    int cases, bad;
    double slowest;
    long most;
    int n_only;
    char **only;
};

static bool is_selected(const struct counts *c, const char *name)
{
    for (int i = 0; i < c->n_only; i++)
        if (!strncmp(name, c->only[i], strlen(c->only[i])))
            return true;
    return !c->n_only;
}

/* Run the case that was read; with BLESS, write its message. */
static void finish_case(struct test *t, struct counts *c, FILE *bless)
{
    static struct outcome o;

    if (!t->name)
        return;
    memset(&o, 0, sizeof(o));
    if (!is_selected(c, t->name)) {
        if (bless && t->says)
            fprintf(bless, "says %s\n", t->says);
        return;
    }
    c->cases++;
    c->bad += !try_case(t, &o);
    c->slowest = o.seconds > c->slowest ? o.seconds : c->slowest;
    c->most = o.memory > c->most ? o.memory : c->most;
    if (bless && o.text[0])
        fprintf(bless, "says %s\n", o.text);
}

int main(int argc, char **argv)
{
    static struct test t;
    struct counts c = { .n_only = argc - 3, .only = argv + 3 };
    char table[PATH_MAX], temp[PATH_MAX + 8], here[PATH_MAX], program[PATH_MAX];
    FILE *f, *bless = NULL;

    if (argc < 3 || !realpath(argv[1], program) || !realpath(argv[2], here)) {
        fprintf(stderr, "usage: hostile PARE FOLDER [CASE...]\n");
        return 2;
    }
    pare = program;
    folder = here;
    snprintf(table, sizeof(table), "%.4000s/cases.txt", here);
    snprintf(temp, sizeof(temp), "%s.new", table);
    f = open_or_die(table, "r");
    if (getenv("BLESS"))
        bless = open_or_die(temp, "w");
    for (char *line; (line = next_line(f));) {
        bool ends = !*line || *line == '[';

        if (ends) {
            finish_case(&t, &c, bless);
            begin_case(&t, *line ? line : "]");
            if (!*line)
                free(t.name), t.name = NULL;
        } else {
            read_line(&t, line);
        }
        if (bless && !after(line, "says"))
            fprintf(bless, "%s\n", line);
    }
    finish_case(&t, &c, bless);
    fclose(f);
    if (bless && (fclose(bless) || rename(temp, table)))
        die("cannot write", table);
    printf("%d hostile cases, %d wrong; slowest %.2f s, largest %ld MB\n", c.cases, c.bad,
           c.slowest, c.most);
    return c.bad || !c.cases;
}
