/* place.h - where the launch server is, and whether it is for us.
 *
 * It listens at `launch.HOST` in the user's run directory, where HOST is the
 * node name of uname(2); partition/find/warm.py has the same rules. The
 * variable YOD_LAUNCH_SERVER names another directory by its absolute path, or
 * is `cold`: no server is looked for. A server is for us if it runs as the same
 * user, in the same namespaces, below the same root directory, and is of the
 * same release: then what it does on behalf of the client is what the client
 * would do.
 */
#ifndef YOD_CLIENT_PLACE_H
#define YOD_CLIENT_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

#define PLACE_HELLO_MS 250              /* a connect succeeds on a stopped one */
#define PLACE_WHY_ROOM 128

/* Connect to the server, which may be a stopped one.
 *   server     set to its process id
 *   why        set where there is no server for us
 *   the socket, which does not block, or -1: there is no server for us
 */
int place_connect (uint32_t *server, char why[PLACE_WHY_ROOM]);

/* Await its HELLO, for hello_ms at most, and check it.
 *   false      it is no server for us; `why` says why not
 */
bool place_meet (int socket, uint32_t server, struct wire_hello *hello,
                 int hello_ms, char why[PLACE_WHY_ROOM]);

#endif
