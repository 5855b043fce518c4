/* serve.h - what the client does for the launch server. */
#ifndef YOD_CLIENT_SERVE_H
#define YOD_CLIENT_SERVE_H

#include "client.h"

/* Receive packets and obey them, a bounded number. One that breaks a rule of
 * native/wire/CLIENT.md makes the server lost, and so does its end. */
void serve_read (struct client *client);

#endif
