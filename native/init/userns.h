/* userns.h - what root's rights are needed for, without root.
 *
 * Only who has CAP_SYS_ADMIN makes and enters namespaces, and CRIU needs as much
 * to bring them back. A user has it in a user namespace of their own, over what was
 * made there and nothing else. So the namespaces of a user's ranks are made in one,
 * and CRIU runs in it, as that user. Ids are as outside. It has a mount namespace, too,
 * as CRIU mounts /proc.
 *
 * Root needs none of this; then these functions do nothing.
 */
#ifndef YOD_INIT_USERNS_H
#define YOD_INIT_USERNS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether this process is not root's. */
bool userns_is_needed (void);

/* A directory that is the same on every host, in which the process of rank's can make
 * others, and nobody else; CRIU makes one there for a moment. */
const char *userns_place (void);

/* Move this process into namespaces of its own. 0, or -1 with the reason in
 * `trouble` */
int userns_make (char *trouble, size_t trouble_bytes);

/* Move this process into those in which another one is. 0, or -1 */
int userns_join (pid_t pid);                    /* the user namespace only */
int userns_join_mounts (pid_t pid);             /* behind that; the directory stays */

/* Have the program that is executed next keep those capabilities of this process that
 * CRIU needs. With others it tries what only root can. 0, or -1 */
int userns_keep_capabilities (void);

/* yod-init enter PID PROGRAM [ARGUMENT]...
 * Run a program with what a process's namespaces give. words: from PROGRAM on.
 * Returns an exit status if it cannot. */
int userns_enter (pid_t pid, char **words);

/* yod-init try PROGRAM [ARGUMENT]...
 * The same in new ones; root becomes a user first. */
int userns_try (char **words);

#endif
