/* look.h - find out which MPI library a rank uses after its release.
 *
 * The hold library tells it for a rank's first program. Programs that a rank
 * becomes by exec, or starts, are looked at through /proc: 5 ms after go, then
 * each time after twice as long, until a library is found. Only the first
 * living rank is looked at.
 */
#ifndef YOD_KEEPER_LOOK_H
#define YOD_KEEPER_LOOK_H

#include "keeper.h"

/* Go has been given: the time of the first look is counted from now. */
void look_begin (struct keeper *k);

/* Look when it is due. Returns milliseconds until the next look; -1: never. */
int look_when_due (struct keeper *k);

#endif
