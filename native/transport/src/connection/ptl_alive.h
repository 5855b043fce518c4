/* ptl_alive.h - is the other end of a connection still there?
 *
 * The bound is on the whole: liveness_ms after its last sign of life a peer is
 * lost, whether its host has gone or its process has. A third of that time
 * without a byte makes a ping: of the end that has dialled. The other waits a
 * little longer, so that it hears this ping, and sends one only if none comes.
 *
 * The host gives signs of life by its kernel: acknowledgements of data, of
 * keepalive probes and of probes of a shut window. They are all that is asked
 * of a peer that does not listen, as yod, or where answers are not wanted, as
 * between ranks: such a process may be stopped for hours, or be in a debugger.
 *
 * A process gives signs of life by what it sends, at least the answer to a
 * ping. They are asked of a peer that listens, where config.wants_answers is
 * set: a daemon has a loop, and others wait for it.
 *
 * Time in which this end itself stood still is nobody's silence.
 */
#ifndef PTL_ALIVE_H
#define PTL_ALIVE_H

#include <stdint.h>

struct ptl_conn;
struct ptl_end;

/* Set TCP options that make the kernel watch the connection as well. */
void ptl_alive_tune (const struct ptl_end *end, int fd);

/* Frames can follow. */
void ptl_alive_begin (struct ptl_conn *conn);

/* This process was stopped or busy for this time: do not count it. */
void ptl_alive_stood (struct ptl_conn *conn, int64_t late_ms);

/* A pong has come: there is nothing to look at until it is time to ping. */
void ptl_alive_answered (struct ptl_conn *conn);

/* If it is time to look, ping it or end it; may end the connection. */
void ptl_alive_tick (struct ptl_conn *conn);

#endif
