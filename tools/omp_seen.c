/* omp_seen.c - OMPT tool that lists parallel regions executed by more than one thread.
 *
 * The OpenMP runtime loads it from OMP_TOOL_LIBRARIES.  There can be only one tool, so this one
 * loads the next from OMP_SEEN_NEXT (Archer, which reports fork, join and barriers to the thread
 * sanitizer) and forwards all events.  At the end of the program the regions are appended to the
 * file OMP_SEEN, one per line: the program's file and an address in it, for addr2line.
 * tools/tsan.sh compares them with src/.
 */
#include <dlfcn.h>
#include <omp-tools.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 4096

typedef ompt_start_tool_result_t *start_fn(unsigned version, const char *runtime);

static struct {
    ompt_start_tool_result_t *tool;
    ompt_callback_parallel_begin_t begin;
    ompt_callback_implicit_task_t implicit;
} next;
static ompt_set_callback_t set;
static ompt_function_lookup_t look_up;

/* Regions at work, by what the next tool has put into their data, which it uses again for others.
 * And the places that were seen. */
static struct {
    _Atomic uintptr_t region, place;
} at[PLACES];
static _Atomic uintptr_t seen[PLACES];

static size_t slot_of(uintptr_t region)
{
    size_t i = region / 16 % PLACES;

    for (size_t tried = 0; tried < PLACES; tried++, i = (i + 1) % PLACES) {
        uintptr_t was = 0;

        if (at[i].region == region || atomic_compare_exchange_strong(&at[i].region, &was, region) ||
            was == region)
            break;
    }
    return i;
}

static void begin(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *parallel,
                  unsigned requested, int flags, const void *place)
{
    if (next.begin)
        next.begin(task, frame, parallel, requested, flags, place);
    if (!parallel->ptr)
        parallel->ptr = (void *)(uintptr_t)place;
    at[slot_of((uintptr_t)parallel->ptr)].place = (uintptr_t)place;
}

static void note(uintptr_t place)
{
    for (size_t i = place % PLACES, tried = 0; place && tried < PLACES; tried++) {
        uintptr_t was = 0;

        if (seen[i] == place || atomic_compare_exchange_strong(&seen[i], &was, place) ||
            was == place)
            return;
        i = (i + 1) % PLACES;
    }
}

static void implicit(ompt_scope_endpoint_t end, ompt_data_t *parallel, ompt_data_t *task,
                     unsigned threads, unsigned index, int flags)
{
    if (end == ompt_scope_begin && parallel && threads > 1 && index)
        note(at[slot_of((uintptr_t)parallel->ptr)].place);
    if (next.implicit)
        next.implicit(end, parallel, task, threads, index, flags);
}

/* What the next tool gets for ompt_set_callback. */
static ompt_set_result_t set_both(ompt_callbacks_t event, ompt_callback_t f)
{
    if (event == ompt_callback_parallel_begin)
        next.begin = (ompt_callback_parallel_begin_t)f;
    else if (event == ompt_callback_implicit_task)
        next.implicit = (ompt_callback_implicit_task_t)f;
    else
        return set(event, f);
    return ompt_set_always;
}

static ompt_interface_fn_t look_up_both(const char *name)
{
    return strcmp(name, "ompt_set_callback") ? look_up(name) : (ompt_interface_fn_t)set_both;
}

static int start(ompt_function_lookup_t lookup, int device, ompt_data_t *data)
{
    look_up = lookup;
    set = (ompt_set_callback_t)lookup("ompt_set_callback");
    set(ompt_callback_parallel_begin, (ompt_callback_t)begin);
    set(ompt_callback_implicit_task, (ompt_callback_t)implicit);
    return next.tool ? next.tool->initialize(look_up_both, device, data) : 1;
}

static void finish(ompt_data_t *data)
{
    if (next.tool)
        next.tool->finalize(data);
}

/* The runtime may be too late to call a tool at the end. */
__attribute__((destructor)) static void tell(void)
{
    const char *name = getenv("OMP_SEEN");
    FILE *f = name ? fopen(name, "a") : NULL;
    Dl_info info;

    for (size_t i = 0; f && i < PLACES; i++)
        if (seen[i] && dladdr((void *)seen[i], &info))
            fprintf(f, "%s 0x%lx\n", info.dli_fname,
                    (unsigned long)(seen[i] - (uintptr_t)info.dli_fbase - 1));
    if (f)
        fclose(f);
}

start_fn ompt_start_tool;
ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static ompt_start_tool_result_t tool = { start, finish, { 0 } };
    const char *path = getenv("OMP_SEEN_NEXT");
    void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
    start_fn *first = library ? (start_fn *)dlsym(library, "ompt_start_tool") : NULL;

    next.tool = first ? first(version, runtime) : NULL;
    return &tool;
}
