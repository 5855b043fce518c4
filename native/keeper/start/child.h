/* child.h - the steps of a rank's process between fork and user code. */
#ifndef YOD_KEEPER_CHILD_H
#define YOD_KEEPER_CHILD_H

#include <stdbool.h>

#include "inspect.h"
#include "start.h"

/* What is known of a rank's program before its process is there. */
struct child_look {
    int chdir_error;                    /* of chdir; 0: we are there */
    bool is_refused;                    /* `fault` says why */
    bool takes_preload;
    struct inspect_fault fault;
};

/* Go to the program's directory. This may wait. */
void child_enter (const struct spec *spec, const struct spec_program *program,
                  struct child_look *look);

/* Look at the program's file, in the directory. This may wait. */
void child_look (const struct spec_program *program, struct child_look *look);

/* Whether the hold library may hold a rank, as far as its specification says. */
bool child_may_be_preloaded (const struct starter *starter,
                             const struct spec_rank *rank);

/* Whether a rank will be held by the hold library, and so execs its program
 * without waiting for the keeper. */
bool child_is_preloaded (const struct starter *starter, size_t index,
                         const struct child_look *look);

/* Whether a rank opens files of the owner's before its exec. */
bool child_opens_files (const struct spec_rank *rank);

/* Become the rank. Does not return. It may share a spawner's memory: it must
 * leave no lock held, and the next rank sees what it has written to static data.
 * `look`: what the spawner knows; NULL: this process goes and looks itself. */
_Noreturn void child_run (const struct starter *starter, size_t index,
                          const struct child_look *look);

#endif
