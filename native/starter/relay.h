/* relay.h - a caller on another host: packets behind their length, over TCP.
 *
 * This process stands between the caller and the starter, which is its child
 * and has a socket as from a caller on its own host. When one end is closed
 * the other one is, too.
 */
#ifndef YOD_STARTER_RELAY_H
#define YOD_STARTER_RELAY_H

/* Connect to HOST:PORT and say who we are: the content of `key_file`, the name
 * of this node and its number, as the launch that this is a rank of has them.
 * Returns a descriptor, or -1 with errno. */
int relay_connect (const char *address, const char *key_file);

/* Relay between a connection and a pair's end until both are closed. */
void relay_run (int connection, int pair);

#endif
