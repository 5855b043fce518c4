/* standin.h - the process that the shell waits for, where yod may be left.
 *
 * A user at a terminal can leave yod, and the job goes on. The shell takes the
 * end of the process that it has started for the end of yod, but that of the
 * launch has to stay: it holds the connections to the nodes, or is the partition
 * itself. So where standard input is a terminal they are two. The one here stands
 * in for yod: it passes signals on, stops and continues with yod, ends as yod
 * ends, and ends alone when yod says so. If it is killed, the kernel kills yod.
 */
#ifndef YOD_CLIENT_STANDIN_H
#define YOD_CLIENT_STANDIN_H

#include <stddef.h>

/* Names, in the environment of yod-cold, the descriptor of a pipe. One write to
 * it ends the stand-in: a byte that is the exit status, then a text for standard
 * error. */
#define STANDIN_VARIABLE "YOD_STAND_IN"
#define STANDIN_WORD_ROOM 4096          /* what a pipe takes at once */

/* Let another process go on as yod, and stand in for it here. Returns there;
 * where standard input is no terminal or there is no room, it returns here.
 *   the descriptor of the pipe; -1: there is no stand-in
 */
int standin_begin (void);

/* Let yod-cold, which this process becomes, have the pipe. */
void standin_hand_on (int word_fd);

/* Let the stand-in say a text and exit with status 0. This process goes on: it
 * has no terminal any more, and nobody waits for what it writes.
 *   word_fd   -1: there is no stand-in
 *   text      no longer than a pipe takes at once
 */
void standin_end (int word_fd, const char *text, size_t size);

#endif
