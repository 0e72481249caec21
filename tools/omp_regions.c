/* omp_regions.c - OMPT tool that lists parallel regions executed by more than one thread.
 *
 * The OpenMP runtime loads it from OMP_TOOL_LIBRARIES.  There can be only one tool, so this one
 * loads the next from OMP_REGIONS_NEXT (Archer, which reports fork, join and barriers to the thread
 * sanitizer) and forwards all events.  At the end of the program the regions are appended to the
 * file OMP_REGIONS, one per line: the program's file and an address in it, for addr2line.
 * tools/tsan.sh compares them with src/.
 */
#include <dlfcn.h>
#include <omp-tools.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REGIONS 4096

typedef ompt_start_tool_result_t *start_fn(unsigned version, const char *runtime);

static struct {
    ompt_start_tool_result_t *tool;
    ompt_callback_parallel_begin_t begin;
    ompt_callback_implicit_task_t implicit;
} next;
static ompt_set_callback_t set;
static ompt_function_lookup_t look_up;

/* Active regions: the pointer that the next tool stores in their data, and reuses, and the address
 * of their code.  parallel_address has the regions that ran on several threads. */
static struct {
    _Atomic uintptr_t region, address;
} active[MAX_REGIONS];
static _Atomic uintptr_t parallel_address[MAX_REGIONS];

static size_t slot_of(uintptr_t region)
{
    size_t i = region / 16 % MAX_REGIONS;

    for (size_t tried = 0; tried < MAX_REGIONS; tried++, i = (i + 1) % MAX_REGIONS) {
        uintptr_t was = 0;

        if (active[i].region == region ||
            atomic_compare_exchange_strong(&active[i].region, &was, region) || was == region)
            break;
    }
    return i;
}

static void begin(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *parallel,
                  unsigned requested, int flags, const void *address)
{
    if (next.begin)
        next.begin(task, frame, parallel, requested, flags, address);
    if (!parallel->ptr)
        parallel->ptr = (void *)(uintptr_t)address;
    active[slot_of((uintptr_t)parallel->ptr)].address = (uintptr_t)address;
}

static void record(uintptr_t address)
{
    for (size_t i = address % MAX_REGIONS, tried = 0; address && tried < MAX_REGIONS; tried++) {
        uintptr_t was = 0;

        if (parallel_address[i] == address ||
            atomic_compare_exchange_strong(&parallel_address[i], &was, address) || was == address)
            return;
        i = (i + 1) % MAX_REGIONS;
    }
}

static void implicit(ompt_scope_endpoint_t end, ompt_data_t *parallel, ompt_data_t *task,
                     unsigned threads, unsigned index, int flags)
{
    if (end == ompt_scope_begin && parallel && threads > 1 && index)
        record(active[slot_of((uintptr_t)parallel->ptr)].address);
    if (next.implicit)
        next.implicit(end, parallel, task, threads, index, flags);
}

/* The next tool calls this instead of ompt_set_callback. */
static ompt_set_result_t set_next(ompt_callbacks_t event, ompt_callback_t f)
{
    if (event == ompt_callback_parallel_begin)
        next.begin = (ompt_callback_parallel_begin_t)f;
    else if (event == ompt_callback_implicit_task)
        next.implicit = (ompt_callback_implicit_task_t)f;
    else
        return set(event, f);
    return ompt_set_always;
}

static ompt_interface_fn_t look_up_next(const char *name)
{
    return strcmp(name, "ompt_set_callback") ? look_up(name) : (ompt_interface_fn_t)set_next;
}

static int start(ompt_function_lookup_t lookup, int device, ompt_data_t *data)
{
    look_up = lookup;
    set = (ompt_set_callback_t)lookup("ompt_set_callback");
    set(ompt_callback_parallel_begin, (ompt_callback_t)begin);
    set(ompt_callback_implicit_task, (ompt_callback_t)implicit);
    return next.tool ? next.tool->initialize(look_up_next, device, data) : 1;
}

static void finish(ompt_data_t *data)
{
    if (next.tool)
        next.tool->finalize(data);
}

/* A destructor, because the runtime does not always finalize a tool at the end. */
__attribute__((destructor)) static void write_regions(void)
{
    const char *name = getenv("OMP_REGIONS");
    FILE *f = name ? fopen(name, "a") : NULL;
    Dl_info info;

    for (size_t i = 0; f && i < MAX_REGIONS; i++)
        if (parallel_address[i] && dladdr((void *)parallel_address[i], &info))
            fprintf(f, "%s 0x%lx\n", info.dli_fname,
                    (unsigned long)(parallel_address[i] - (uintptr_t)info.dli_fbase - 1));
    if (f)
        fclose(f);
}

start_fn ompt_start_tool;
ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static ompt_start_tool_result_t tool = { start, finish, { 0 } };
    const char *path = getenv("OMP_REGIONS_NEXT");
    void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
    start_fn *first = library ? (start_fn *)dlsym(library, "ompt_start_tool") : NULL;

    next.tool = first ? first(version, runtime) : NULL;
    return &tool;
}
