/* driver.c - run a fuzz target on files, for compilers without libFuzzer and for ctest.
 *
 *     fuzz_onnx PATH...
 * A folder stands for all files below it of at most LARGEST bytes.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LARGEST 2048

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static int run_file(const char *path, size_t size)
{
    unsigned char *data = malloc(size ? size : 1);
    FILE *f = fopen(path, "rb");

    if (!data || !f || fread(data, 1, size, f) != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

/* Run a file or all files below a folder; returns their number. */
static int run_path(const char *path, int depth)
{
    struct dirent **entry;
    struct stat st;
    char sub[4096];
    int n, count = 0;

    if (stat(path, &st)) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    if (!S_ISDIR(st.st_mode))
        return depth && st.st_size > LARGEST ? 0 : run_file(path, (size_t)st.st_size);
    n = scandir(path, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.' &&
            snprintf(sub, sizeof(sub), "%s/%s", path, entry[i]->d_name) < (int)sizeof(sub))
            count += run_path(sub, depth + 1);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;

    for (int i = 1; i < argc; i++)
        count += run_path(argv[i], 0);
    printf("%d files\n", count);
    return count == 0;
}
