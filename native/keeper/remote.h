/* remote.h - directories whose files yod has: mounts in a namespace of the ranks.
 *
 * The keeper mounts FUSE over each directory, where only it and what it starts
 * see it, and gives the descriptor of each mount to the PCT, which passes on
 * what is asked for there. It keeps no copy: who closes the last one aborts the
 * connection, and nobody waits for a file any more.
 */
#ifndef YOD_KEEPER_REMOTE_H
#define YOD_KEEPER_REMOTE_H

#include "report.h"
#include "spec.h"

/* Mount the directories of the specification, if it has any. Call it before
 * the change of user. A report with the descriptor of each has been sent when
 * it returns.
 *   0; -1: `problem` says which directory, and why
 */
int remote_mount (const struct spec *spec, struct outbox *box,
                  char problem[REPORT_TEXT_BYTES]);

/* For a child of the keeper, which may wait: learn who owns the directories.
 * In a user namespace the kernel takes them for nobody's, where nothing can be
 * made, until it has asked.
 */
void remote_learn_owners (const struct spec *spec);

#endif
