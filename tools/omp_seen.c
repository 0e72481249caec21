/* omp_seen.c - which parallel regions of a program more than one thread has worked in.
 *
 * A tool in OpenMP's sense (OMPT): the runtime loads it from OMP_TOOL_LIBRARIES.  At the end of the
 * program the places are appended to the file OMP_SEEN, one a line: the program's file and the
 * address in it behind the region's call, as addr2line wants it.  tools/tsan.sh compares them with
 * what src/ has.
 */
#include <dlfcn.h>
#include <omp-tools.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PLACES 4096

static _Atomic uintptr_t seen[PLACES];

/* The region's first thread says where it is; any other that comes to it tells of it. */
static void begin(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *parallel,
                  unsigned requested, int flags, const void *place)
{
    (void)task, (void)frame, (void)requested, (void)flags;
    parallel->ptr = (void *)(uintptr_t)place;
}

static void implicit(ompt_scope_endpoint_t end, ompt_data_t *parallel, ompt_data_t *task,
                     unsigned threads, unsigned index, int flags)
{
    uintptr_t place, was = 0;

    (void)task, (void)flags;
    if (end != ompt_scope_begin || !parallel || threads < 2 || !index)
        return;
    place = (uintptr_t)parallel->ptr;
    for (size_t i = place % PLACES, tried = 0; place && tried < PLACES; i = (i + 1) % PLACES, tried++) {
        was = seen[i];
        if (was == place || (!was && atomic_compare_exchange_strong(&seen[i], &was, place)) ||
            was == place)
            return;
    }
}

static int start(ompt_function_lookup_t lookup, int device, ompt_data_t *data)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");

    (void)device, (void)data;
    set(ompt_callback_parallel_begin, (ompt_callback_t)begin);
    set(ompt_callback_implicit_task, (ompt_callback_t)implicit);
    return 1;
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

static void finish(ompt_data_t *data)
{
    (void)data;
}

ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime);
ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static ompt_start_tool_result_t tool = { start, finish, { 0 } };

    (void)version, (void)runtime;
    return &tool;
}
