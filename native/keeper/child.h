/* child.h - the steps of a rank's process between fork and user code. */
#ifndef YOD_KEEPER_CHILD_H
#define YOD_KEEPER_CHILD_H

#include "start.h"

struct child_streams {
    int input, output, error;
    int pmi;                            /* -1: none */
    int listener;                       /* -1: it wants no Portals */
    bool is_terminal;                   /* all three streams are */
};

/* Become the rank. Does not return. */
_Noreturn void child_run (const struct starter *starter, size_t index,
                          const struct child_streams *streams);

#endif
