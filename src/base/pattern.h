/* pattern.h - regular expressions that whole names must match.
 *
 * POSIX extended, and \d for a digit.  What could take long is refused: patterns of more than
 * PARE_PATTERN_MAX letters, or of more than PARE_PATTERN_FULL with repeats written out (+ * ? count
 * as two each), and references back.
 */
#ifndef PARE_BASE_PATTERN_H
#define PARE_BASE_PATTERN_H

#include <pare/pare.h>

#define PARE_PATTERN_MAX 200
#define PARE_PATTERN_FULL 1000

/* Can it be used? */
int pare_pattern_check(const char *pattern, struct pare_err *err);

/* Does all of the name match?  Not when the pattern is none. */
bool pare_pattern_match(const char *pattern, const char *name);

#endif
