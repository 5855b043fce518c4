/* main.h - how a process becomes a keeper. */
#ifndef YOD_KEEPER_MAIN_H
#define YOD_KEEPER_MAIN_H

#define CONTROL_FD 3
#define SPEC_FD 4
#define PORTALS_FD 5                    /* a job's map, where ranks want it */

/* Be the keeper, from its descriptors to its end, in a process that has been
 * started for it. */
_Noreturn void keeper_main (void);

#endif
