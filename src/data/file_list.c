/* file_list.c - lists of image files: a CSV file with a column of files, or a text file with one
 * path per line.
 *
 *     file,label            or          images/1.png<TAB>cat      or without labels
 *     images/1.png,cat                  images/2.png<TAB>dog
 *
 * Paths are relative to the folder of the list.
 */
#include <string.h>

#include "image_files.h"
#include "table_columns.h"
#include "../base/arena.h"
#include "../io/file.h"

#define HEAD 4096 /* bytes of a CSV file that probe() reads */

static int file_column(const struct pare_csv *c)
{
    static const char *const names[] = { "file", "filename", "file_name", "path", "image" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (pare_csv_find(c, names[i]) >= 0)
            return pare_csv_find(c, names[i]);
    return -1;
}

/* A CSV file whose header has a column of files. */
static bool probe_csv(struct pare_data *d, const char *path)
{
    char *head = pare_alloc(d->parts->tmp, HEAD, 1);
    struct pare_file_metadata f;
    struct pare_err err;
    struct pare_csv c;

    if (!head || pare_file_look(path, head, HEAD, &f, &err))
        return false;
    for (size_t i = 0; i < f.head; i++)
        if (head[i] == '\n' || head[i] == '\r')
            f.head = i;
    return !pare_csv_open(&c, d->parts->tmp, head, f.head, 0, &err) && file_column(&c) >= 0;
}

static bool probe(struct pare_data *d, const char *path)
{
    if (!pare_is_file(path))
        return false;
    if (pare_ends_with(path, ".csv") || pare_ends_with(path, ".tsv"))
        return probe_csv(d, path);
    return pare_ends_with(path, ".txt");
}

struct files {
    struct pare_file_list *list;
    struct pare_label_rows label;
    const char *folder; /* of the list, with a slash at the end; "": the current one */
    int added;          /* lines before the first of the file: a header */
};

static int add_file(struct pare_data *d, struct files *f, const char *path, struct pare_err *err)
{
    const char *full;

    path += strspn(path, " \t");
    if (!*path)
        return pare_fail(err, PARE_EFORMAT, "no file is named");
    full = pare_sprintf(d->arena, "%s%s", *path == '/' ? "" : f->folder, path);
    if (full && !pare_is_file(full))
        return pare_fail(err, PARE_EIO,
                         "'%s' is missing or not a regular file; paths are relative to the list",
                         full);
    return pare_file_list_add(f->list, d->arena, full, err);
}

static int read_csv(struct pare_data *d, struct files *f, const char *bytes, size_t len,
                    char separator, struct pare_err *err)
{
    struct pare_csv c;
    bool more = true;
    int column;

    PARE_TRY(pare_csv_open(&c, d->parts->tmp, bytes, len, separator, err));
    column = file_column(&c);
    if (column < 0)
        return pare_fail(err, PARE_EFORMAT, "the header has no column 'file'");
    PARE_TRY(pare_table_labels(d, &c, false, &f->label.column, err));
    for (;;) {
        PARE_TRY(pare_csv_row(&c, &more, err));
        if (!more)
            return 0;
        PARE_TRY(pare_at(err, add_file(d, f, c.cell[column], err), "line %lld",
                         (long long)c.line - f->added));
        PARE_TRY(pare_label_rows_add(&f->label, &c, err));
    }
}

/* Every line has a label, after a tab, or none has. */
static int check_tabs(const char *text, size_t len, bool *labels, struct pare_err *err)
{
    const char *end = text + len, *eol;
    long long line = 1;

    for (bool first = true; text < end; text = eol + 1, line++) {
        bool tab;

        eol = memchr(text, '\n', (size_t)(end - text));
        eol = eol ? eol : end;
        tab = memchr(text, '\t', (size_t)(eol - text)) != NULL;
        if (eol == text || *text == '\r')
            continue;
        if (!first && tab != *labels)
            return pare_fail(err, PARE_EFORMAT,
                             "line %lld has %s label, the lines before it have %s: write FILE, or "
                             "FILE, a tab and LABEL",
                             line, tab ? "a" : "no", tab ? "none" : "one");
        *labels = tab;
        first = false;
    }
    return 0;
}

/* A text file is a table of one or two columns, without a header. */
static int read_text(struct pare_data *d, struct files *f, const char *text, size_t len,
                     struct pare_err *err)
{
    static const char one[] = "file\n", two[] = "file\tlabel\n";
    size_t head, bom = len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
    bool labels = false;
    char *all;

    PARE_TRY(check_tabs(text + bom, len - bom, &labels, err));
    head = labels ? sizeof(two) - 1 : sizeof(one) - 1;
    all = pare_alloc_raw(d->parts->tmp, head + len + 1, 1);
    if (!all)
        return pare_no_memory(err, "for a list of files");
    f->added = 1;
    memcpy(all, labels ? two : one, head);
    memcpy(all + head, text + bom, len - bom);
    return read_csv(d, f, all, head + len - bom, '\t', err);
}

static int read_list(struct pare_data *d, struct files *f, const char *path, struct pare_err *err)
{
    const void *bytes;
    size_t len;

    PARE_TRY(pare_file_read(d->parts->tmp, path, &bytes, &len, err));
    if (pare_ends_with(path, ".txt"))
        PARE_TRY(pare_at(err, read_text(d, f, bytes, len, err), "%s", path));
    else
        PARE_TRY(pare_at(err, read_csv(d, f, bytes, len, 0, err), "%s", path));
    return f->list->n ? 0 : pare_fail(err, PARE_EFORMAT, "%s: no files are named", path);
}

static int open_list(struct pare_data *d, const char *path, struct pare_err *err)
{
    const char *slash = strrchr(path, '/');
    struct files f = { .list = pare_alloc(d->arena, 1, sizeof(*f.list)) };

    d->parts->whole = true;
    f.label.arena = d->parts->tmp;
    f.folder = slash ? pare_strndup(d->arena, path, (size_t)(slash + 1 - path)) : "";
    if (!f.list || !f.folder)
        return pare_no_memory(err, "for a list of files");
    PARE_TRY(read_list(d, &f, path, err));
    PARE_TRY(pare_image_files_use(d, f.list, err));
    return pare_at(err, pare_label_rows_use(&f.label, d, err), "%s", path);
}

const struct pare_source pare_source_file_list = {
    .name = "file-list",
    .help = "image files named by a CSV file with the columns file and label, or by a .txt file "
            "with one path per line, followed by a tab and the label if there are labels",
    .probe = probe,
    .open = open_list,
    .read = pare_image_files_read,
    .size = pare_image_files_size,
};
