/* temp_file.h - files that have another name until they are complete, and what killed processes left of
 * them. */
#ifndef PARE_BASE_TEMP_FILE_H
#define PARE_BASE_TEMP_FILE_H

/* Such names are PREFIX, the process's number, perhaps "-" and more, ".tmp".  This removes those in
 * the folder `dir` (an open one) whose process is no more.  Numbers are used again, and a folder
 * may be seen by several machines or containers, each with its own: what somebody holds
 * (pare_temp_hold) stays in any case. */
void pare_temp_sweep(int dir, const char *prefix);

/* The same for what was to become `path`: PREFIX is its name and a dot. */
void pare_temp_sweep_folder(const char *path);

/* Until all descriptors that were made from this one are closed. */
void pare_temp_hold(int fd);

#endif
