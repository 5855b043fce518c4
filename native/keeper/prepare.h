/* prepare.h - the keeper before its first rank.
 *
 * It reads the specification, gives up all descriptors but its own, blocks
 * signals and takes them from a descriptor, and becomes the job's owner.
 */
#ifndef YOD_KEEPER_PREPARE_H
#define YOD_KEEPER_PREPARE_H

#include "keeper.h"

/* Fill in the state. Where that fails, a FAILED report says why and the
 * process exits: 64 for a specification that makes no sense, 70 for what this
 * node cannot do. */
void prepare_keeper (struct keeper *k);

#endif
