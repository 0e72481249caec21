/* tensor_file.c - files of named tensors, whatever their format: PyTorch's, safetensors,
 * numpy's. */
#include "tensor_file.h"

#include <string.h>
#include <strings.h>

#include "file.h"
#include "pth.h"
#include "safetensors.h"

#define CHOICES ".pth, .pt, .bin, .safetensors or .npz"

enum format { UNKNOWN, PTH, SAFETENSORS, NPZ };

static enum format by_name(const char *path)
{
    static const struct {
        const char *ending;
        enum format format;
    } known[] = { { ".pth", PTH },
                  { ".pt", PTH },
                  { ".bin", PTH },
                  { ".safetensors", SAFETENSORS },
                  { ".npz", NPZ } };
    size_t n = strlen(path);

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        size_t k = strlen(known[i].ending);

        if (n > k && !strcasecmp(path + n - k, known[i].ending))
            return known[i].format;
    }
    return UNKNOWN;
}

/* Detect the format by the first bytes: a zip archive (NPZ, or else PTH), PyTorch's old magic
 * number, or a length and a brace. */
static enum format by_contents(const unsigned char *head, size_t n)
{
    if (n >= 4 && !memcmp(head, "PK", 2))
        return NPZ;
    if (n >= 4 && !memcmp(head, "\x80\x02\x8a\x0a", 4))
        return PTH;
    if (n >= 9 && head[8] == '{' && !head[4] && !head[5] && !head[6] && !head[7])
        return SAFETENSORS;
    return UNKNOWN;
}

static int detect_format(const char *path, enum format *format, struct pare_err *err)
{
    unsigned char head[16];
    struct pare_file_metadata f;
    bool pth = false;

    PARE_TRY(pare_file_look(path, head, sizeof(head), &f, err));
    *format = by_contents(head, f.head);
    if (*format == NPZ)
        PARE_TRY(pare_pth_looks(path, &pth, err));
    *format = pth ? PTH : *format;
    return 0;
}

int pare_tensor_file_check(const char *path, struct pare_err *err)
{
    if (by_name(path) == UNKNOWN)
        return pare_fail(err, PARE_ECONFIG, "%s: the name should end in " CHOICES, path);
    return 0;
}

bool pare_tensor_file_looks(const char *path)
{
    enum format format = UNKNOWN;
    struct pare_err err;

    return !detect_format(path, &format, &err) && format != UNKNOWN;
}

int pare_tensor_file_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                          struct pare_err *err)
{
    enum format format = UNKNOWN;
    struct pare_safetensors st;
    struct pare_pth pth;

    *list = NULL;
    *n = 0;
    PARE_TRY(pare_at(err, detect_format(path, &format, err), "%s", path));
    switch (format) {
    case PTH:
        PARE_TRY(pare_pth_read(a, path, &pth, err));
        *list = pth.tensor;
        *n = pth.n_tensors;
        return 0;
    case SAFETENSORS:
        PARE_TRY(pare_safetensors_read(a, path, &st, err));
        *list = st.tensor;
        *n = st.n_tensors;
        return 0;
    case NPZ: return pare_npz_read(a, path, list, n, err);
    default:
        return pare_fail(err, PARE_EFORMAT,
                         "%s: not a file of named tensors: it does not begin like " CHOICES, path);
    }
}

static int write_as(enum format format, const char *path, const struct pare_named *list, int n,
                    struct pare_err *err)
{
    /* The writer does not change the tensors; the cast is for the shared struct. */
    struct pare_safetensors st = { .tensor = (struct pare_named *)(uintptr_t)list, .n_tensors = n };

    switch (format) {
    case PTH: return pare_pth_write(path, list, n, err);
    case SAFETENSORS: return pare_safetensors_write(path, &st, err);
    case NPZ: return pare_npz_write(path, list, n, err);
    default: return pare_tensor_file_check(path, err);
    }
}

int pare_tensor_file_write(const char *path, const struct pare_named *list, int n,
                           struct pare_err *err)
{
    return write_as(by_name(path), path, list, n, err);
}

static int check_masks(const char *path, const struct pare_named *list, int n, struct pare_err *err)
{
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(list[i].name, '.');

        if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
            return pare_fail(err, PARE_ECONFIG,
                             "%s: the mask '%.128s' is named neither LAYER.weight nor LAYER.bias",
                             path, list[i].name);
    }
    return 0;
}

int pare_masks_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                    struct pare_err *err)
{
    PARE_TRY(pare_tensor_file_read(a, path, list, n, err));
    return check_masks(path, *list, *n, err);
}

int pare_masks_write(const char *path, const struct pare_named *list, int n, struct pare_err *err)
{
    enum format format = by_name(path);

    PARE_TRY(check_masks(path, list, n, err));
    if (format == PTH)
        return pare_pth_write_masks(path, list, n, err);
    return write_as(format, path, list, n, err);
}
