/* test_cpu_limit.c - PARE_ISA limits what the program sees of the CPU, before and after main(). */
#include "make_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/arena.h"
#include "base/cpu_limit.h"
#include "base/simd.h"

static const char *self;

/* What this process may use: bit i is instruction set i; then the width of blocks. */
static int report(void)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_backend b = { .arena = a };
    struct pare_err err;
    int bits = 0, rc = pare_backend_open(&b, &err);

    for (int i = 0; i < (int)PARE_ISA_ANY; i++)
        bits |= pare_has_isa((enum pare_isa)i) << i;
#ifndef PARE_NO_CLONES
    if (__builtin_cpu_supports("x86-64-v4"))
        bits |= 64;
    if (__builtin_cpu_supports("x86-64-v3"))
        bits |= 128;
#endif
    printf("%d %d %d\n", rc, bits, b.block);
    pare_backend_close(&b);
    pare_arena_free(a);
    return 0;
}

static void ask(const char *isa, int *rc, int *bits, int *block)
{
    char *command = NULL;
    FILE *f;

    assert_true(asprintf(&command, "PARE_ISA=%s %s report", isa, self) > 0);
    f = popen(command, "r"); /* NOLINT(cert-env33-c) */
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d %d %d", rc, bits, block), 3);
    pclose(f);
    free(command);
}

static void test_limits(void **state)
{
    static const char *const name[] = { "plain", "avx2", "avx512", "avx512_vnni", "avx512_bf16" };
    int rc, all, block, bits;

    (void)state;
    ask("", &rc, &all, &block);
    assert_int_equal(rc, 0);
    for (int i = 0; i < (int)PARE_ISA_ANY; i++) {
        ask(name[i], &rc, &bits, &block);
        assert_int_equal(rc, 0);
        assert_int_equal(bits & 31, all & ((2 << i) - 1));
        assert_int_equal(bits & 64, i >= (int)PARE_ISA_AVX512 ? all & 64 : 0);
        assert_int_equal(bits & 128, i >= (int)PARE_ISA_AVX2 ? all & 128 : 0);
        assert_true(block == (bits >> PARE_ISA_AVX512 & 1 ? 16 : 8));
    }
}

static void test_unknown_name(void **state)
{
    int rc, bits, block;

    (void)state;
    ask("sse9", &rc, &bits, &block);
    assert_int_equal(rc, PARE_ECONFIG);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_unknown_name),
    };

    self = argv[0];
    return argc > 1 ? report() : cmocka_run_group_tests(tests, NULL, NULL);
}
