/* Leaves processes behind as badly as one can: a grandchild that called
 * setsid between two forks, one that ignores all it can, and a pair that fork
 * each other anew, for ten minutes at most: nobody else could end them after a
 * test that was killed. Prints their process ids; then waits itself, or ends if
 * it has an argument.
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define RESPAWN_S 600

static void wait_for_ever (void)
{
    for (;;)
        pause ();
}

static void ignore_all (void)
{
    for (int signo = 1; signo < NSIG; signo++)
        signal (signo, SIG_IGN);
}

static void say (int write_fd)
{
    pid_t self = getpid ();

    if (write (write_fd, &self, sizeof (self)) < 0)
        _exit (1);
    close (write_fd);
}

static void respawn (int fd)
{
    time_t until = time (NULL) + RESPAWN_S;

    say (fd);
    for (int i = 0; time (NULL) < until; i++) {
        if (fork () > 0)
            _exit (0);
        if (i % 8 == 7)
            usleep (1000);
    }
    _exit (0);
}

int main (int argc, char **argv)
{
    int ends[2];
    pid_t pid;

    (void) argv;
    if (pipe (ends) != 0)
        return 1;
    if (fork () == 0) {                 /* the classical daemon */
        setsid ();
        if (fork () > 0)
            _exit (0);
        say (ends[1]);
        wait_for_ever ();
    }
    if (fork () == 0) {
        ignore_all ();
        say (ends[1]);
        wait_for_ever ();
    }
    if (fork () == 0) {
        setpgid (0, 0);
        respawn (ends[1]);
    }
    for (int i = 0; i < 3; i++) {
        if (read (ends[0], &pid, sizeof (pid)) != sizeof (pid))
            return 1;
        printf ("%d\n", pid);
    }
    ignore_all ();
    printf ("ready\n");
    fflush (stdout);
    if (argc == 1)
        wait_for_ever ();
    return 0;
}
