/* streams.h - the pipes and sockets of a rank. */
#ifndef YOD_KEEPER_STREAMS_H
#define YOD_KEEPER_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../terminal.h"

/* The keeper's and the rank's end of each; -1 where there is none. */
struct streams {
    int ours[4], theirs[4];             /* in the order of enum report_fds */
    int listener;                       /* the rank's, for Portals */
    uint16_t port;                      /* that it listens at */
};

/* Make the streams of a rank that has these `flags` (enum spec_rank_flags). Its
 * listener, if it wants one, is at any free port of the IPv4 address `nid`.
 *   false   errno says why not; there are none
 */
bool streams_make (struct streams *streams, uint32_t flags, uint32_t nid);

/* The rank's ends of its pipes become the keeper's, who carries the bytes
 * between them and a terminal for rank number `index`.
 *   false   errno says why there is no terminal
 */
bool streams_join_terminal (struct streams *streams, struct terminal *terminal,
                            size_t index, uint32_t window);

/* Close the rank's ends: of its output, and all the others. */
void streams_close_outputs (struct streams *streams);
void streams_close_others (struct streams *streams);

/* Close all. */
void streams_close (struct streams *streams);

#endif
