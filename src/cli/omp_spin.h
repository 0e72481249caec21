/* omp_spin.h - restore the environment that was changed before main(). */
#ifndef PARE_CLI_OMP_SPIN_H
#define PARE_CLI_OMP_SPIN_H

/* Call first in main(), when libgomp has read its settings. */
void pare_omp_spin_restore(void);

#endif
