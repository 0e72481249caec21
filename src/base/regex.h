/* regex.h - regular expressions that whole names must match.
 *
 * As POSIX extended ones, over bytes: . [sets] ( ) | * + ? {m,n} ^ $, and \d \D \w \W \s \S, in
 * sets as well; \ and a sign is the sign.  Matching never takes more time than letters of the
 * name times steps of the pattern.  Patterns of more than PARE_REGEX_MAX letters, or of more
 * than PARE_REGEX_FULL steps with repeats written out, and references back are refused.
 */
#ifndef PARE_BASE_REGEX_H
#define PARE_BASE_REGEX_H

#include <pare/pare.h>

#define PARE_REGEX_MAX 200
#define PARE_REGEX_FULL 1000

/* Can it be used? */
int pare_regex_check(const char *pattern, struct pare_err *err);

/* Does all of the name match?  Not when the pattern is none. */
bool pare_regex_match(const char *pattern, const char *name);

#endif
