/* main.c - the program pare. */
#include <pare/command.h>

#include "omp_spin.h"

int main(int argc, char **argv)
{
    pare_omp_spin_restore();
    return pare_main(argc, argv, NULL);
}
