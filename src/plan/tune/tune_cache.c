/* tune_cache.c - lists of kernel choices, and the files that store them. */
#include "tune_cache.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../backend/backend.h"
#include "../../base/limits.h"
#include "../../base/sha256.h"
#include "../../base/temp_file.h"

const char *pare_tune_cache_get(const struct pare_tune_cache *c, const char *key)
{
    const struct pare_choice *x = pare_map_get(&c->keys, key);

    return x ? x->kernel : NULL;
}

int pare_tune_cache_set(struct pare_tune_cache *c, const char *key, const char *kernel,
                        struct pare_err *err)
{
    struct pare_choice *x = pare_map_get(&c->keys, key), **item;

    kernel = pare_strdup(c->arena, kernel);
    if (!kernel)
        return pare_no_memory(err, "for the list of kernel choices");
    if (x) {
        x->kernel = kernel;
        return 0;
    }
    x = pare_alloc(c->arena, 1, sizeof(*x));
    key = pare_strdup(c->arena, key);
    item = pare_grow(c->arena, c->item, c->n, &c->cap, sizeof(*item));
    if (!x || !key || !item)
        return pare_no_memory(err, "for the list of kernel choices");
    *x = (struct pare_choice){ key, kernel };
    c->item = item;
    c->item[c->n++] = x;
    return pare_map_set(&c->keys, c->arena, key, x, err);
}

/* ---- files ----------------------------------------------------------------------- */

/* Split "kernel<tab>key"; false: the line is something else. */
static bool split_line(char *line, char **key)
{
    size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_");

    if (!name || name > 64 || line[name] != '\t' || !line[name + 1])
        return false;
    for (const char *s = line + name + 1; *s; s++)
        if (*s < ' ' || *s > '~')
            return false;
    line[name] = '\0';
    *key = line + name + 1;
    return true;
}

/* Read a line without its newline; false: end of file.  A line that is too long comes in pieces,
 * for all of which `whole` is false.  A last line without newline is valid if it may be handwritten
 * (`strict`); in a cache it was truncated. */
static bool next_line(FILE *f, char *line, bool strict, bool *whole)
{
    size_t n;
    bool before = *whole;

    if (!fgets(line, PARE_CHOICES_LINE, f))
        return false;
    n = strlen(line);
    *whole = n && (line[n - 1] == '\n' || (strict && feof(f)));
    if (*whole && line[n - 1] == '\n')
        line[n - 1] = '\0';
    if (!before && *whole)
        line[0] = '\0'; /* the end of a line that was too long */
    return true;
}

static int read_lines(struct pare_tune_cache *c, FILE *f, bool strict, struct pare_err *err)
{
    char line[PARE_CHOICES_LINE], *key;
    bool whole = true;

    for (int i = 1; next_line(f, line, strict, &whole); i++) {
        if (i > PARE_CHOICES_LINES)
            return strict ? pare_fail(err, PARE_ELIMIT, "more than %d lines", PARE_CHOICES_LINES)
                          : 0;
        if (whole && (!line[0] || line[0] == '#'))
            continue;
        if (whole && split_line(line, &key))
            PARE_TRY(pare_tune_cache_set(c, key, line, err));
        else if (strict && strlen(line) == PARE_CHOICES_LINE - 1)
            return pare_fail(err, PARE_ELIMIT, "line %d: has %d bytes or more", i,
                             PARE_CHOICES_LINE);
        else if (strict)
            return pare_fail(err, PARE_EFORMAT,
                             "line %d: expected a kernel's name, a tab and a key", i);
    }
    if (ferror(f) && strict)
        return pare_fail(err, PARE_EIO, "cannot read: %s", strerror(errno));
    return 0;
}

int pare_tune_cache_read(struct pare_tune_cache *c, const char *path, bool strict,
                         struct pare_err *err)
{
    struct stat st;
    FILE *f;
    int rc;

    if (stat(path, &st))
        return !strict || errno == ENOENT
                   ? 0
                   : pare_fail(err, PARE_EIO, "%s: cannot open: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return strict ? pare_fail(err, PARE_EIO, "%s: not a regular file", path) : 0;
    f = fopen(path, "r");
    if (!f)
        return strict ? pare_fail(err, PARE_EIO, "%s: cannot open: %s", path, strerror(errno)) : 0;
    rc = read_lines(c, f, strict, err);
    fclose(f);
    return pare_at(err, rc, "%s", path);
}

/* The contents of the file; NULL: out of memory. */
static const char *as_text(const struct pare_tune_cache *c)
{
    static const char head[] = "# pare: the kernels chosen for layers, see docs/tuning.md\n";
    int first = c->n > PARE_CHOICES_LINES / 2 ? c->n - PARE_CHOICES_LINES / 2 : 0;
    size_t size = sizeof(head), at = sizeof(head) - 1;
    char *text;

    for (int i = first; i < c->n; i++)
        size += strlen(c->item[i]->kernel) + strlen(c->item[i]->key) + 2;
    text = pare_alloc(c->arena, size, 1);
    if (!text)
        return NULL;
    memcpy(text, head, at);
    for (int i = first; i < c->n; i++)
        at += (size_t)snprintf(text + at, size - at, "%s\t%s\n", c->item[i]->kernel,
                               c->item[i]->key);
    return text;
}

static bool write_text(int fd, const char *text)
{
    for (size_t left = strlen(text); left;) {
        ssize_t n = write(fd, text, left);

        if (n < 0 && errno != EINTR)
            return false;
        text += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Write a temporary file and rename it, so that readers never see half of it.  O_EXCL and
 * O_NOFOLLOW: do not write through a symbolic link. */
static int replace(const struct pare_tune_cache *c, const char *path, struct pare_err *err)
{
    const char *tmp = pare_sprintf(c->arena, "%s.%ld-%lx.tmp", path, (long)getpid(),
                                   (unsigned long)(uintptr_t)c);
    const char *text = as_text(c);
    int fd, why;
    bool ok;

    if (!tmp || !text)
        return pare_no_memory(err, "for the list of kernel choices");
    pare_temp_sweep_folder(path);
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return pare_fail(err, PARE_EIO, "%s: cannot create: %s", path, strerror(errno));
    pare_temp_hold(fd);
    ok = write_text(fd, text);
    why = errno;
    if (close(fd) && ok) {
        ok = false;
        why = errno;
    }
    if (ok && rename(tmp, path)) {
        ok = false;
        why = errno;
    }
    if (ok)
        return 0;
    unlink(tmp);
    return pare_fail(err, PARE_EIO, "%s: cannot write: %s", path, strerror(why));
}

int pare_tune_cache_save(const struct pare_tune_cache *c, const char *path, bool strict,
                         struct pare_err *err)
{
    struct pare_tune_cache all = { .arena = c->arena };

    PARE_TRY(pare_tune_cache_read(&all, path, strict, err));
    for (int i = 0; i < c->n; i++)
        PARE_TRY(pare_tune_cache_set(&all, c->item[i]->key, c->item[i]->kernel, err));
    return replace(&all, path, err);
}

/* ---- this machine ------------------------------------------------------------------ */

/* Hash the lines of /proc/cpuinfo that do not change from one boot to the next. */
static void add_processor(struct pare_sha256 *h, char *name, size_t size)
{
    static const char *const facts[] = { "vendor_id", "cpu family",      "model",    "stepping",
                                         "flags",     "CPU implementer", "CPU part", "Features" };
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[PARE_CHOICES_LINE];

    while (f && fgets(line, sizeof(line), f) && line[0] != '\n') {
        const char *colon = strchr(line, ':');

        for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++)
            if (!strncmp(line, facts[i], strlen(facts[i])))
                pare_sha256_add(h, line, strlen(line));
        if (colon && !strncmp(line, "model name", 10))
            snprintf(name, size, "%s", colon + 1 + strspn(colon + 1, " "));
    }
    if (f)
        fclose(f);
}

/* Keep letters and digits; everything else becomes single dashes. */
static void clean(char *s)
{
    char *to = s;

    for (const char *at = s; *at; at++)
        if (isalnum((unsigned char)*at))
            *to++ = (char)tolower((unsigned char)*at);
        else if (to != s && to[-1] != '-')
            *to++ = '-';
    if (to != s && to[-1] == '-')
        to--;
    *to = '\0';
}

static void make_folders(struct pare_arena *a, const char *folder)
{
    char *path = pare_strdup(a, folder);

    for (char *s = path ? path + 1 : NULL; s && *s; s++)
        if (*s == '/') {
            *s = '\0';
            mkdir(path, 0777);
            *s = '/';
        }
    if (path)
        mkdir(path, 0777);
}

const char *pare_tune_cache_file(struct pare_arena *a, const char *folder, const char *build,
                                 bool make)
{
    char name[64] = "processor", hash[PARE_SHA256_TEXT];
    struct pare_sha256 h;

    if (make)
        make_folders(a, folder);
    pare_sha256_init(&h);
    add_processor(&h, name, sizeof(name));
    clean(name);
    pare_sha256_add(&h, build, strlen(build) + 1);
    pare_sha256_text(&h, hash);
    return pare_sprintf(a, "%s/choices-%s-%.8s.txt", folder, name, hash);
}

const char *pare_cache_folder(struct pare_arena *a)
{
    const char *own = getenv("PARE_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (own)
        return *own ? pare_strdup(a, own) : NULL;
    if (xdg && *xdg)
        return pare_sprintf(a, "%s/pare", xdg);
    return home && *home ? pare_sprintf(a, "%s/.cache/pare", home) : NULL;
}
