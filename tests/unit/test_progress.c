/* test_progress.c - what calibration reports to a progress callback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pare/compress.h>

static struct pare_err err;

#define OK(call)                     \
    do {                             \
        if (call)                    \
            fail_msg("%s", err.msg); \
    } while (0)

struct seen {
    int64_t observed, tried; /* totals */
    int tries;
};

static bool note_totals(void *user, const struct pare_progress *p)
{
    struct seen *s = user;

    assert_true(p->total == 0 || p->done <= p->total);
    if (!strcmp(p->what, "observe"))
        s->observed = p->total;
    if (!strcmp(p->what, "try ranges")) {
        s->tried = p->total;
        s->tries++;
    }
    return true;
}

/* Calibration counts items, and the passes that choose an observer are reported, too. */
static void test_calibration_reports_items(void **state)
{
    struct seen seen = { 0 };
    int64_t shape[3] = { 1, 8, 8 };
    struct pare_quantize_opts o = { .preset = "int8", .progress = note_totals, .user = &seen };
    struct pare_model *m, *q;

    (void)state;
    OK(pare_model_new("lenet", shape, 10, 1, &m, &err));
    OK(pare_data_open("digits", "train", NULL, &o.tuning.data, &err));
    OK(pare_quantize(m, &o, &q, NULL, &err));
    assert_true(seen.observed >= 64);
    assert_true(seen.tries >= 2 && seen.tried >= seen.tries);
    pare_model_free(q);
    pare_model_free(m);
    pare_data_free(o.tuning.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calibration_reports_items),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
