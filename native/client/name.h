/* name.h - which command this is. The same program is installed as both.
 *
 * `yod` launches. `yodjob` is about jobs: a launch server does those commands
 * for it that scripts call in loops; all else is done in Python (cold.h).
 */
#ifndef YOD_CLIENT_NAME_H
#define YOD_CLIENT_NAME_H

#include <stdbool.h>

/* The path of this program, in a room of PATH_MAX bytes, without links.
 *   false   it is not known; errno says why
 */
bool name_path (char path[]);

/* Find out by which name this program is installed; before all else here. */
void name_find (void);

/* "yod" or "yodjob". */
const char *name_of_command (void);

bool name_is_yodjob (void);

/* The exit status where the command itself has failed. */
int name_failure (void);

/* Whether a launch server can do what this command line says. */
bool name_is_for_server (int argc, char *argv[]);

#endif
