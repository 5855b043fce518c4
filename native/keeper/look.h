/* look.h - find out which MPI library a rank uses after its release.
 *
 * The start library tells the library of a rank's first program. Programs that
 * a rank becomes by exec, or starts, are looked at through /proc: LOOK_FIRST_MS
 * after go and then each time after twice as long, until a library is found.
 * Of all ranks the first living one is looked at.
 */
#ifndef YOD_KEEPER_LOOK_H
#define YOD_KEEPER_LOOK_H

#include "keeper.h"

/* Go has been given: the time of the first look is counted from now. */
void look_begin (struct keeper *k);

/* How long until the next look, which is made here when its time has come.
 *   -1  never
 */
int look_when_due (struct keeper *k);

#endif
