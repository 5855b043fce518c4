/* client.h - the state of a running client: one launch of the server's.
 *
 * Each part has its own state, and what it tells the server goes to the outbox:
 *   output.h   standard output and error
 *   input.h    standard input
 *   signals.h  signals, and presses
 *   keepers.h  the job's keepers on this host, and orphans
 *   append.h   what the launch leaves in files
 * serve.h obeys the server's packets; client.c has the loop and the end.
 */
#ifndef YOD_CLIENT_CLIENT_H
#define YOD_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "append.h"
#include "input.h"
#include "keepers.h"
#include "outbox.h"
#include "output.h"
#include "signals.h"

#define MESSAGE_ROOM 256

enum phase {
    PHASE_ASKED,                        /* nothing has begun: may be COLD */
    PHASE_RUNNING,
    PHASE_COLD,
    PHASE_OVER,                         /* EXIT has come */
    PHASE_LOST,                         /* the server is gone, or is useless */
};

/* How hard the client tries to end its keepers, each for END_WAIT_MS. */
enum end_step {
    END_NOT_YET,
    END_WAIT,                           /* their PCT has ended them */
    END_ASK,
    END_KILL,
    END_ABANDON,
};
#define END_WAIT_MS 5000

struct client {
    enum phase phase;
    int socket;                         /* -1: closed */
    uint32_t server;                    /* its process */
    uint32_t liveness_ms;
    int64_t silent_ms;                  /* heard nothing for this long */
    bool has_asked;                     /* a PING is on its way */
    int stand_in;                       /* standin.h; -1: none, or left */
    bool has_left;                      /* the user has gone */
    struct rlimit descriptors;          /* that the client was started with */
    int status;                         /* of EXIT: or minus a signal */
    char message[MESSAGE_ROOM];         /* the last line, or why it is cold */
    bool has_dead;                      /* a child may wait to be reaped */
    enum end_step end_step;
    int64_t end_at;                     /* when the next step is taken */
    bool has_swept;                     /* orphans are being killed */
    struct outbox box;
    struct output outputs[2];
    struct input input;
    struct signals signals;
    struct keepers keepers;
    struct append append;
};

/* The server is of no use any more: the job ends. The first reason counts.
 *   why   what follows "the launch server (process N) " in the user's line
 */
void client_lose (struct client *client, const char *why);

#endif
