/* keepers.h - the keepers of a client's job on its own host.
 *
 * A keeper is the client's child, so that ranks inherit what they would inherit
 * from a command of the user's: limits, affinity, cgroups, groups. It has its
 * PCT, the launch server, at the other end of its control socket, and ends when
 * either of them ends. It is this program's code: no file is executed.
 *
 * The client is a subreaper: what a lost keeper leaves comes to it. Children
 * that it had before it was yod (a shell that has replaced itself by us) are
 * not touched.
 */
#ifndef YOD_CLIENT_KEEPERS_H
#define YOD_CLIENT_KEEPERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "outbox.h"

#define KEEPERS_MAX 1024                /* at a time */
#define KEEPERS_FOREIGN_MAX 256         /* children from before that are known */
#define KEEPERS_TOKENS_MAX 16           /* KILL_ORPHANS not answered yet */
#define KILL_WAIT_FIRST_MS 10           /* between passes over orphans */
#define KILL_WAIT_LAST_MS 1000

struct keepers {
    bool has_begun;                     /* this process is a subreaper */
    uint32_t last;                      /* the highest id so far */
    size_t count;
    uint32_t ids[KEEPERS_MAX];
    pid_t spared[KEEPERS_MAX + KEEPERS_FOREIGN_MAX];   /* foreign ones last */
    size_t n_foreign;
    uint32_t tokens[KEEPERS_TOKENS_MAX];
    size_t n_tokens;
    int kill_wait_ms;
    int64_t kill_at;                    /* the next pass; 0: none */
};

/* Start a keeper and answer STARTED. The descriptors are closed.
 *   fds     control socket, specification, and the map if there are three
 *   false   the id was used before
 */
bool keepers_start (struct keepers *keepers, uint32_t id, const int fds[],
                    size_t n_fds, struct outbox *box);

/* Continue a keeper; one that has ended has no need. */
void keepers_continue (const struct keepers *keepers, uint32_t id);

/* Reap what has ended while the box has room, and say which keepers have. */
void keepers_reap (struct keepers *keepers, struct outbox *box);

/* Kill what lost keepers have left; answered when none of it is left.
 *   false   too many such requests wait
 */
bool keepers_kill_orphans (struct keepers *keepers, uint32_t token,
                           int64_t now);

/* Make a pass over orphans, if one is due, and answer when none is left. */
void keepers_pass (struct keepers *keepers, struct outbox *box, int64_t now);

/* Tell all keepers to end. */
void keepers_end (const struct keepers *keepers);

/* Kill all keepers and all below them.
 *   how many processes were killed
 */
size_t keepers_kill (const struct keepers *keepers);

#endif
