/* reap.h - collect children that have ended; report the ranks among them. */
#ifndef YOD_KEEPER_REAP_H
#define YOD_KEEPER_REAP_H

#include "keeper.h"

/* Reap all children that have ended. A traced child that has stopped at its
 * exec is held there. */
void reap_children (struct keeper *k);

#endif
