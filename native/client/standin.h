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

/* Names, in the environment of yod-cold, the descriptor of a pipe. One write to
 * it ends the stand-in: a byte that is the exit status, then a text for standard
 * error. */
#define STANDIN_VARIABLE "YOD_STAND_IN"
#define STANDIN_WORD_ROOM 4096          /* what a pipe takes at once */

/* Let another process go on as yod-cold, and stand in for it here. Returns there;
 * where standard input is no terminal or there is no room, it returns here.
 */
void standin_begin (void);

#endif
