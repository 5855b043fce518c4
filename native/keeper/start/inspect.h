/* inspect.h - what kind of program a file is, and so how to hold it.
 *
 * Called by the rank's own process or its spawner, which have the owner's rights
 * and may hang on the owner's file system without stopping the keeper.
 */
#ifndef YOD_KEEPER_INSPECT_H
#define YOD_KEEPER_INSPECT_H

#include <stdbool.h>

#include "../report.h"

#define INSPECT_PATH_BYTES 4096

/* What is wrong with the program; all zero when nothing is. */
struct inspect_fault {
    enum step step;
    int error;
    char path[INSPECT_PATH_BYTES];
};

/* Follow `path` over script interpreters to the ELF file that will run.
 *   true   *takes_preload says whether its dynamic loader is the one the
 *          hold library was built for (false for all that is not known)
 *   false  *fault says why it will not be started
 * Doubt is no fault: exec itself gives the error of a broken program.
 */
bool inspect_program (const char *path, bool *takes_preload,
                      struct inspect_fault *fault);

/* After exec of `path` failed with ENOENT though the file is there: find the
 * script interpreter or ELF loader that is missing and name it.
 */
void inspect_missing (const char *path, struct inspect_fault *fault);

#endif
