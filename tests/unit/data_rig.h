/* data_rig.h - fixture for tests of data sets: a temporary folder with small data files.
 *
 *     rig_begin(&r);
 *     rig_write(&r, "train/cat/1.png", bytes, len);    creates folders as needed
 *     expect_open(&r, "train", "", "batch=2 pad=1");   path below the folder, split, options
 *     expect_open_error(&r, "x.npz", "", "", "part of the message");
 *     rig_end(&r);
 */
#ifndef PARE_TESTS_DATA_RIG_H
#define PARE_TESTS_DATA_RIG_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/options.h"
#include "data/data.h"

struct rig {
    char dir[64];
    struct pare_arena *arena;
    struct pare_data *data;
    struct pare_loader *loader;
    struct pare_err err;
};

static inline void rig_begin(struct rig *r)
{
    memset(r, 0, sizeof(*r));
    strncpy(r->dir, "/tmp/pare_data_XXXXXX", sizeof(r->dir) - 1);
    assert_non_null(mkdtemp(r->dir));
    r->arena = pare_arena_new(1 << 12);
    assert_non_null(r->arena);
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static inline void close_data(struct rig *r)
{
    pare_loader_free(r->loader);
    pare_data_free(r->data);
    r->loader = NULL;
    r->data = NULL;
}

static inline void rig_end(struct rig *r)
{
    close_data(r);
    nftw(r->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    pare_arena_free(r->arena);
}

static inline const char *rig_path(struct rig *r, const char *name)
{
    return pare_sprintf(r->arena, "%s/%s", r->dir, name);
}

static inline void rig_write(struct rig *r, const char *name, const void *data, size_t len)
{
    char *path = pare_sprintf(r->arena, "%s/%s", r->dir, name);
    FILE *f;

    for (char *p = path + strlen(r->dir) + 1; *p; p++)
        if (*p == '/') {
            *p = '\0';
            mkdir(path, 0700);
            *p = '/';
        }
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Parses options, "name=value name=value". */
static inline int parse_options(struct rig *r, const char *text, struct pare_data_opts *o)
{
    struct pare_setting set[16];
    char *copy = pare_strdup(r->arena, text), *save = NULL;
    int n = 0;

    memset(o, 0, sizeof(*o));
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(w, '=');
        const struct pare_opt *opt;

        assert_non_null(eq);
        *eq = '\0';
        opt = pare_opt_find(pare_data_options, w);
        assert_non_null(opt);
        PARE_TRY(pare_opt_parse(opt, eq + 1, &set[n++], r->arena, &r->err));
    }
    return pare_opts_apply(pare_data_options, set, n, o, r->arena, &r->err);
}

/* `spec` with a leading ':' is a data set's name, else a path below the folder. */
static inline int open_data(struct rig *r, const char *spec, const char *split, const char *opts)
{
    struct pare_data_opts o;
    int rc;

    close_data(r);
    r->err = (struct pare_err){ 0 };
    rc = parse_options(r, opts, &o);
    if (!rc)
        rc = pare_data_open(*spec == ':' ? spec + 1 : rig_path(r, spec), split, &o, &r->data,
                            &r->err);
    assert_int_equal(rc, r->err.code);
    assert_int_equal(rc == 0, r->data != NULL);
    return rc;
}

static inline void expect_open(struct rig *r, const char *spec, const char *split, const char *opts)
{
    if (open_data(r, spec, split, opts))
        fail_msg("%s: %s", spec, r->err.msg);
}

static inline void expect_message(const struct rig *r, const char *part)
{
    if (!strstr(r->err.msg, part))
        fail_msg("expected \"%s\" in: %s", part, r->err.msg);
}

static inline void expect_open_error(struct rig *r, const char *spec, const char *split,
                                     const char *opts, const char *part)
{
    if (!open_data(r, spec, split, opts))
        fail_msg("%s was opened; expected: %s", spec, part);
    expect_message(r, part);
}

/* ---- batches ------------------------------------------------------------------------ */

static inline void start_loader(struct rig *r, bool train, uint64_t seed)
{
    struct pare_loader_opts o = { .train = train, .seed = seed };

    pare_loader_free(r->loader);
    r->loader = NULL;
    if (pare_loader_new(r->data, &o, &r->loader, &r->err))
        fail_msg("%s", r->err.msg);
}

static inline const struct pare_batch *next_batch(struct rig *r)
{
    const struct pare_batch *b;

    if (pare_loader_next(r->loader, &b, &r->err))
        fail_msg("%s", r->err.msg);
    return b;
}

/* Item i of the opened set, as float32: batches of one, in order. */
static inline const float *read_item(struct rig *r, int64_t i)
{
    struct pare_loader_opts o = { .batch = 1 };
    struct pare_loader_pos pos;

    pare_loader_free(r->loader);
    assert_int_equal(pare_loader_new(r->data, &o, &r->loader, &r->err), 0);
    pos = pare_loader_tell(r->loader);
    pos.at = i;
    assert_int_equal(pare_loader_seek(r->loader, &pos, &r->err), 0);
    return pare_f32(&next_batch(r)->x);
}

/* ---- files --------------------------------------------------------------------------- */

/* Makes an IDX file of bytes; returns its length. */
static inline size_t make_idx(unsigned char *buf, int rank, const int *dim, const void *data)
{
    size_t n = 1, head = 4 + 4 * (size_t)rank;

    memset(buf, 0, head);
    buf[2] = 8;
    buf[3] = (unsigned char)rank;
    for (int i = 0; i < rank; i++) {
        buf[6 + 4 * i] = (unsigned char)(dim[i] >> 8);
        buf[7 + 4 * i] = (unsigned char)(dim[i] & 255);
        n *= (size_t)dim[i];
    }
    memcpy(buf + head, data, n);
    return head + n;
}

#endif
