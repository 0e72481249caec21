/* temp_file.h - temporary files that are renamed when complete; cleanup after killed processes. */
#ifndef PARE_BASE_TEMP_FILE_H
#define PARE_BASE_TEMP_FILE_H

/* A temporary name is PREFIX, the process id, optionally "-" and hexadecimal digits, ".tmp".
 * Remove those in the open folder `dir` whose process has ended.  Process ids are reused, and
 * several machines or containers may share a folder: a locked file (pare_temp_hold) is always
 * kept. */
void pare_temp_sweep(int dir, const char *prefix);

/* The same for temporary files of `path`: PREFIX is its name and a dot. */
void pare_temp_sweep_folder(const char *path);

/* Lock a temporary file until all descriptors duplicated from this one are closed. */
void pare_temp_hold(int fd);

#endif
