/* child.h - the steps of a rank's process between fork and user code. */
#ifndef YOD_KEEPER_CHILD_H
#define YOD_KEEPER_CHILD_H

#include <stdbool.h>

#include "inspect.h"
#include "start.h"

/* What a look at a program has found. */
struct child_look {
    int chdir_error;                    /* its directory: errno; 0: we are in it */
    bool is_refused;                    /* `fault` says why */
    bool takes_preload;
    struct inspect_fault fault;
};

/* Go to the program's directory and look at its file. This may wait. */
void child_look (const struct spec *spec, const struct spec_program *program,
                 struct child_look *look);

/* Whether a rank will be held by the hold library, and so execs its program
 * without waiting for the keeper. */
bool child_is_preloaded (const struct starter *starter, size_t index,
                         const struct child_look *look);

/* Become the rank. Does not return. `look` is what the maker of this process
 * has seen of its program, in whose directory it is; NULL: it has not looked. */
_Noreturn void child_run (const struct starter *starter, size_t index,
                          const struct child_look *look);

#endif
