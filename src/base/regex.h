/* regex.h - regular expressions for whole names, matched in bounded time.
 *
 * POSIX extended syntax, over bytes: . [sets] ( ) | * + ? {m,n} ^ $, and \d \D \w \W \s \S, also in
 * sets; \ quotes a punctuation character.  The time is proportional to the length of the name times
 * the states of the pattern.  Patterns of more than PARE_REGEX_MAX characters, or more than
 * PARE_REGEX_FULL states with repeats expanded, and back references are errors.
 */
#ifndef PARE_BASE_REGEX_H
#define PARE_BASE_REGEX_H

#include <pare/pare.h>

#define PARE_REGEX_MAX 200
#define PARE_REGEX_FULL 1000

/* Check the syntax of a pattern. */
int pare_regex_check(const char *pattern, struct pare_err *err);

/* Does the whole name match?  False if the pattern is invalid. */
bool pare_regex_match(const char *pattern, const char *name);

#endif
