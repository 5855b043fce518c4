/* relay.h - what a rank says to the server of PMI, and says again to another one. */
#ifndef YOD_INIT_RELAY_H
#define YOD_INIT_RELAY_H

#define RELAY_LINE_BYTES (16 * 1024)    /* of one line, as the server takes it */

/* What is said on the pipes beside PMI-1: */
#define RELAY_ANEW "anew\n"             /* down: the server is another one; up: what
                                         * follows is for that one */
#define RELAY_GONE "gone\n"             /* either way: the other end has hung up */

/* Carry lines between a rank and the process that is connected to the server.
 *
 * The rank is written down with this process; the server is not. The lines that
 * have changed something there are kept, and said again to the server of the job
 * that goes on: so the rank is a member of that job, with its keys. Of fences too,
 * as every rank says again what it has said.
 *
 * rank: the socket that the rank has the other end of. down, up: the pipes.
 * Returns when the pipes are of no use any more. */
void relay (int rank, int down, int up);

#endif
