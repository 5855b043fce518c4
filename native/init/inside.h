/* inside.h - the processes that stand by a rank in its namespace. */
#ifndef YOD_INIT_INSIDE_H
#define YOD_INIT_INSIDE_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#define EXIT_NEVER_STARTED 127          /* as a shell has it */

/* Signals that the kernel raises for what a process does. 0 ends them. */
extern const int faults[];

/* What a rank is started with.
 * words: the program's file, then its arguments.
 * before: the signals that the program begins with blocked.
 * number: that the program is to have both here and on the host, so that it finds
 *   itself and others in /proc, until it is brought back.
 * told: a socket that the program says on that it is there; -1: it has.
 * pmi_in, pmi_out: pipes to what it says to the server of PMI; -1: there is none.
 * script: a descriptor that the program is executed by, and keeps; its name is then
 *   the first argument. -1: there is none. */
struct inside {
    char **words;
    const sigset_t *before;
    pid_t number;
    int told;
    int pmi_in, pmi_out;
    int script;
};

/* Give the standard streams of this process to nobody. */
void let_go_of_streams (void);

/* The words of yod-init that the two below are started with, where root does not. */
#define BE_INIT "init"
#define BE_PARENT "parent"

/* Process 1: reap what becomes nobody's, until this is killed. `start` executes this
 * program anew in the mount namespace of a user's, as CRIU looks there for the files of
 * all processes. */
_Noreturn void start_init (void);
_Noreturn void be_init (void);

/* The parent of a program: start it as the leader of a process group, carry what
 * it says to the server of PMI, and leave it unreaped, so that how it ended can be
 * read from outside. It ends when it is killed. */
_Noreturn void start_parent (const struct inside *inside);
_Noreturn void be_parent (const struct inside *inside);

/* For a rank that finds no others, as those of users are. words: behind BE_PARENT. */
_Noreturn void be_parent_by_words (int count, char **words);

#endif
