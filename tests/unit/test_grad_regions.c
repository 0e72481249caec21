/* test_grad_regions.c - gradients of operators that read regions or grids of an image, and of
 * determinants, against finite differences. */
#include "grad.h"

static const struct grad_opts of_x = { .skip = 6 }; /* regions have no gradient */

static void test_gradients_of_grid_sample(void **state)
{
    static const char *const modes[] = { "linear", "nearest", "cubic" };
    static const char *const pads[] = { "zeros", "border", "reflection" };
    /* Away from centers and edges of elements, where the gradient jumps. */
    static const double grid[] = { -0.37, 0.21, 0.63,  -0.81, 0.12, 0.47,  -0.55, -0.13,
                                   1.13,  0.37, -1.27, 1.41,  0.33, -1.61, -0.07, 0.91 };

    (void)state;
    for (int m = 0; m < 3; m++)
        for (int p = 0; p < 3; p++)
            for (int align = 0; align < 2; align++) {
                struct one_op f;

                op_begin(&f, "GridSample", 20);
                op_attr(&f, "mode", modes[m]);
                op_attr(&f, "padding_mode", pads[p]);
                op_attr(&f, "align_corners", align ? "1" : "0");
                grad_in(&f, "2,3,4,5", -1, 1);
                op_in(&f, PARE_F32, "2,2,2,2", grid);
                grad_check_with(&f, &(struct grad_opts){ .step = 5e-3 });
            }
}

static void test_gradients_of_grid_sample_of_other_ranks(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "GridSample", 20);
    grad_in(&f, "1,2,6", -1, 1);
    op_in(&f, PARE_F32, "1,3,1", LIST(-0.41, 0.27, 0.72));
    grad_check(&f);
    op_begin(&f, "GridSample", 20);
    grad_in(&f, "1,2,3,4,5", -1, 1);
    op_in(&f, PARE_F32, "1,1,1,2,3", LIST(-0.41, 0.27, 0.12, 0.23, -0.37, 0.44));
    grad_check_with(&f, &(struct grad_opts){ .step = 5e-3 });
}

static void test_gradients_of_roi_align(void **state)
{
    static const char *const modes[] = { "avg", "max" };
    static const char *const coords[] = { "half_pixel", "output_half_pixel" };

    (void)state;
    for (int m = 0; m < 2; m++)
        for (int k = 0; k < 4; k++) {
            struct one_op f;

            op_begin(&f, "RoiAlign", 16);
            op_attr(&f, "mode", modes[m]);
            op_attr(&f, "coordinate_transformation_mode", coords[k % 2]);
            op_attr(&f, "sampling_ratio", k / 2 ? "2" : "0");
            op_attr(&f, "output_height", "2");
            op_attr(&f, "output_width", "3");
            grad_in_distinct(&f, "2,2,5,6", 0.1);
            op_in(&f, PARE_F32, "3,4", LIST(0.3, 0.7, 4.2, 3.9, 1.1, 0.2, 5.7, 4.6, 3, 3, 9, 9));
            op_in(&f, PARE_I64, "3", LIST(0, 1, 1));
            grad_check_with(&f, &(struct grad_opts){ .skip = 6, .step = 2e-3, .tol = 2e-3 });
        }
}

static void test_gradients_of_max_roi_pool(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "MaxRoiPool", 1);
    op_attr(&f, "pooled_shape", "2,2");
    grad_in_distinct(&f, "2,2,5,6", 0.1);
    op_in(&f, PARE_F32, "3,5", LIST(0, 0, 0, 3, 3, 1, 2, 1, 5, 4, 1, 4, 4, 9, 9));
    grad_check_with(&f, &of_x);
}

static void test_gradients_of_determinants(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "Det", 11);
    grad_in(&f, "2,4,4", -1, 1);
    grad_check(&f);
    op_begin(&f, "Det", 11);
    grad_in(&f, "1,1", -1, 1);
    grad_check(&f);
    op_begin(&f, "Det", 11); /* needs a row exchange */
    op_in(&f, PARE_F32, "3,3", LIST(0, 1, 0.5, 1, 0, 0.25, 0, 2, 0));
    grad_check(&f);
    op_begin(&f, "Det", 11); /* singular, with a gradient */
    op_in(&f, PARE_F32, "3,3", LIST(1, 2, 3, 2, 4, 6, 1, 0, 1));
    grad_check(&f);
    op_begin(&f, "Det", 11); /* singular, with a gradient of 0 */
    op_in(&f, PARE_F32, "1,3,3", LIST(1, 1, 1, 1, 1, 1, 1, 1, 1));
    grad_check(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_grid_sample),
        cmocka_unit_test(test_gradients_of_grid_sample_of_other_ranks),
        cmocka_unit_test(test_gradients_of_roi_align),
        cmocka_unit_test(test_gradients_of_max_roi_pool),
        cmocka_unit_test(test_gradients_of_determinants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
