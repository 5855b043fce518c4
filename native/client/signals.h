/* signals.h - the client's signals: told to the server, which decides.
 *
 * They are blocked and come by a descriptor. Those that the client was started
 * to ignore, as by nohup, or with which it was started blocked, are left alone.
 *
 * A press is a signal that ends yod, and all such signals within press_ms after
 * it. The third one is the user's last word: the client leaves within a second,
 * whatever the server does.
 */
#ifndef YOD_CLIENT_SIGNALS_H
#define YOD_CLIENT_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "outbox.h"

#define LAST_PRESS 3
#define LEAVE_MS 1000

struct signals {
    int fd;                             /* -1: not taken */
    sigset_t before;                    /* the mask that we were started with */
    uint64_t ignored;                   /* bit n - 1: signal n, at the start */
    uint32_t press_ms;
    int presses;
    int64_t pressed_at;
    int64_t leave_at;                   /* 0: there was no third press */
    int last_end;                       /* the latest signal that ends; 0: none */
};

/* Which signals are ignored: bit n - 1 stands for signal n. */
uint64_t signals_ignored (void);

/* Take the signals over. `ignored` is what signals_ignored has told.
 *   false   there is no descriptor; nothing has changed
 */
bool signals_take (struct signals *signals);

/* Give them back as they were. What has come and was not read takes effect. */
void signals_give_back (struct signals *signals);

struct signals_seen {
    bool has_child_ended;
    bool has_continued;
    bool shall_stop;                    /* Ctrl-Z */
    bool has_pressed;                   /* once more */
};

/* Read what has come, tell the server, and count presses. */
struct signals_seen signals_read (struct signals *signals, struct outbox *box,
                                  int64_t now);

/* Stop this process as SIGTSTP does, until it is continued. */
void signals_stop_self (void);

/* End this process by a signal. A shell ends its loop if a command was killed
 * by SIGINT, but not if the command exited. */
_Noreturn void signals_die (int signo);

#endif
