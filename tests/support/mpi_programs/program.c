/* What the tests ask of an MPI library; program.py is the same in Python.

   program life              collectives, large messages, shared memory: all checked
   program abort CODE        the last rank calls MPI_Abort
   program die STAGE HOW     the last rank ends: before, after or between
                             HOW is an exit code, or a signal as -9
   program place             tells its number on its node, and its processors
   program universe          tells MPI_UNIVERSE_SIZE; -1: not known
   program linger SINCE      says "up", and ends later by as long again as it took since that time of the
                             monotonic clock, and a second
   program up                says "up", then waits to be ended
   program wait              says "up", then waits for a line, and tells all of it
   program farm              rank 0 gives out work to the others
   program spawn N           starts N more of this program and talks to them
   program spawn-multiple    starts one and two more
   program spawn-missing     starts a program that does not exist
   program spawn-die HOW     starts one more, which ends so
   program publish           half the ranks meet the other half by a published name

   Every rank prints one line in one piece. A wrong answer is told on standard error
   and makes the exit status 3. */

#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LARGE_BYTES = 1 << 20, TASKS = 20, ROUNDS = 100, DIES_AT = 10, WRONG = 3,
       LINGER_US = 1000000 };

static int rank, size, status;
static cpu_set_t before;

static void wrong (const char *what)
{
    fprintf (stderr, "rank %d of %d: wrong %s\n", rank, size, what);
    status = WRONG;
}

static void say (const char *text)
{
    char line[256];
    int length = snprintf (line, sizeof line, "%s\n", text);
    if (write (1, line, length) != length)
        status = WRONG;
}

/* mpi4py asks for threads, and MPICH wants all ranks of a world to ask for the same. */
static void start (int *argc, char ***argv)
{
    int provided;
    if (getenv ("WITH_THREADS") != NULL)
        MPI_Init_thread (argc, argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init (argc, argv);
    MPI_Comm_rank (MPI_COMM_WORLD, &rank);
    MPI_Comm_size (MPI_COMM_WORLD, &size);
}

/* Sum of all ranks of a communicator, by the library and by arithmetic. */
static void check_sum (MPI_Comm comm)
{
    int mine, all, sum;
    MPI_Comm_rank (comm, &mine);
    MPI_Comm_size (comm, &all);
    MPI_Allreduce (&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != all * (all - 1) / 2)
        wrong ("sum");
}

/* A large message to the next rank, which knows what it has to be. */
static void check_ring (void)
{
    unsigned char *out = malloc (LARGE_BYTES), *in = calloc (1, LARGE_BYTES);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, at;
    for (at = 0; at < LARGE_BYTES; at++)
        out[at] = (unsigned char) (at * 7 + rank);
    MPI_Sendrecv (out, LARGE_BYTES, MPI_BYTE, next, 5, in, LARGE_BYTES, MPI_BYTE, previous, 5,
                  MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (at = 0; at < LARGE_BYTES; at++)
        if (in[at] != (unsigned char) (at * 7 + previous))
            break;
    if (at < LARGE_BYTES)
        wrong ("ring");
    free (out);
    free (in);
}

/* Ranks that can share memory with this one, tried with shared memory. */
static int check_shared (void)
{
    MPI_Comm node;
    MPI_Win window;
    MPI_Aint bytes;
    int mine, all, unit, *own, *last;
    MPI_Comm_split_type (MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank (node, &mine);
    MPI_Comm_size (node, &all);
    MPI_Win_allocate_shared (sizeof (int), sizeof (int), MPI_INFO_NULL, node, &own, &window);
    MPI_Win_fence (0, window);
    *own = 1000 + mine;
    MPI_Win_fence (0, window);
    MPI_Win_shared_query (window, all - 1, &bytes, &unit, &last);
    if (*last != 1000 + all - 1)
        wrong ("shared memory");
    MPI_Win_fence (0, window);
    MPI_Win_free (&window);
    MPI_Comm_free (&node);
    return all;
}

/* -1: not known. */
static int universe (void)
{
    int *value, found;
    MPI_Comm_get_attr (MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &found);
    return found ? *value : -1;
}

/* No thread is bound otherwise than the process was at its start. */
static void check_processors (void)
{
    DIR *threads = opendir ("/proc/self/task");
    struct dirent *thread;
    cpu_set_t now;
    while ((thread = readdir (threads)) != NULL) {
        if (thread->d_name[0] == '.')
            continue;
        if (sched_getaffinity (atoi (thread->d_name), sizeof now, &now) != 0)
            continue; /* it has ended */
        if (!CPU_EQUAL (&before, &now))
            wrong ("processors after MPI_Init");
    }
    closedir (threads);
}

static void place (void)
{
    MPI_Comm node;
    int mine, all;
    char line[256];
    check_processors ();
    MPI_Comm_split_type (MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank (node, &mine);
    MPI_Comm_size (node, &all);
    int length = snprintf (line, sizeof line, "rank %d: %d of %d here, processors ", rank, mine, all);
    for (int cpu = 0, n = 0; cpu < CPU_SETSIZE && length < 200; cpu++)
        if (CPU_ISSET (cpu, &before))
            length += snprintf (line + length, sizeof line - length, n++ ? ",%d" : "%d", cpu);
    say (line);
}

static void life (void)
{
    char line[128];
    check_sum (MPI_COMM_WORLD);
    check_ring ();
    int node = check_shared ();
    check_processors ();
    snprintf (line, sizeof line, "rank %d of %d, %d on its node", rank, size, node);
    say (line);
}

static void end_so (const char *how)
{
    int code = atoi (how);
    if (code < 0)
        raise (-code);
    _exit (code);
}

static int is_last (void)
{
    return rank == size - 1;
}

static void die_in_a_collective (const char *how)
{
    for (int round = 0; round < ROUNDS; round++) {
        if (round == DIES_AT && is_last ())
            end_so (how);
        check_sum (MPI_COMM_WORLD);
    }
}

static void farm (void)
{
    int task, next = 0, idle = size - 1, answer, total = 0;
    char line[128];
    MPI_Status from;
    if (rank > 0) {
        for (answer = 0;; answer = task * task) {
            MPI_Send (&answer, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
            MPI_Recv (&task, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (task < 0)
                return;
        }
    }
    while (idle > 0) {
        MPI_Recv (&answer, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &from);
        total += answer;
        task = next < TASKS ? next++ : -1;
        idle -= task < 0;
        MPI_Send (&task, 1, MPI_INT, from.MPI_SOURCE, 1, MPI_COMM_WORLD);
    }
    snprintf (line, sizeof line, "%d workers: sum of squares %d", size - 1, total);
    say (line);
}

/* Both sides of a spawn: one world of all, checked, and let go again. */
static void meet (MPI_Comm other, int is_high)
{
    MPI_Comm all;
    int count, others, word = 17;
    char line[128];
    MPI_Comm_remote_size (other, &others);
    MPI_Intercomm_merge (other, is_high, &all);
    check_sum (all);
    MPI_Bcast (&word, 1, MPI_INT, 0, all);
    MPI_Comm_size (all, &count);
    if (count != size + others && !is_high)
        wrong ("merged size");
    MPI_Barrier (all);
    MPI_Comm_free (&all);
    MPI_Comm_disconnect (&other);
    snprintf (line, sizeof line, "%s %d of %d met %d: %d", is_high ? "child" : "parent", rank,
              size, others, count);
    say (line);
}

static void child (const char *how)
{
    MPI_Comm parent;
    int *number, found;
    char line[64];
    MPI_Comm_get_parent (&parent);
    if (parent == MPI_COMM_NULL) {
        wrong ("parent");
        return;
    }
    if (how != NULL)
        end_so (how);
    MPI_Comm_get_attr (MPI_COMM_WORLD, MPI_APPNUM, &number, &found);
    snprintf (line, sizeof line, "appnum %d", found ? *number : -1);
    say (line);
    meet (parent, 1);
}

static void spawn (char *program, int count, char *how)
{
    MPI_Comm children;
    char *words[] = { "child", how, NULL };
    MPI_Comm_spawn (program, words, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                    MPI_ERRCODES_IGNORE);
    if (how != NULL)
        pause ();
    meet (children, 0);
}

static void spawn_multiple (char *program)
{
    MPI_Comm children;
    char *words[] = { "child", NULL }, **both[] = { words, words }, *programs[] = { program, program };
    int counts[] = { 1, 2 };
    MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
    MPI_Comm_spawn_multiple (2, programs, both, counts, infos, 0, MPI_COMM_WORLD, &children,
                             MPI_ERRCODES_IGNORE);
    meet (children, 0);
}

static void spawn_missing (void)
{
    MPI_Comm children;
    int codes[1] = { MPI_SUCCESS };
    MPI_Comm_set_errhandler (MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rc = MPI_Comm_spawn ("/no/such/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
                             MPI_COMM_WORLD, &children, codes);
    if (rc == MPI_SUCCESS && codes[0] == MPI_SUCCESS)
        wrong ("spawn of nothing");
    say ("not spawned");
}

/* The lower half of the world accepts, the upper connects. */
static void publish (void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half, other;
    int is_upper = rank >= (size + 1) / 2, mine;
    MPI_Comm_split (MPI_COMM_WORLD, is_upper, 0, &half);
    MPI_Comm_rank (half, &mine);
    if (rank == 0) {
        MPI_Open_port (MPI_INFO_NULL, port);
        MPI_Publish_name ("service of a test", MPI_INFO_NULL, port);
    }
    MPI_Barrier (MPI_COMM_WORLD);
    if (is_upper) {
        if (mine == 0)
            MPI_Lookup_name ("service of a test", MPI_INFO_NULL, port);
        MPI_Comm_connect (port, MPI_INFO_NULL, 0, half, &other);
    } else {
        MPI_Comm_accept (port, MPI_INFO_NULL, 0, half, &other);
    }
    MPI_Comm all;
    int count;
    char line[64];
    MPI_Intercomm_merge (other, is_upper, &all);
    check_sum (all);
    MPI_Comm_size (all, &count);
    MPI_Barrier (all);
    MPI_Comm_free (&all);
    MPI_Comm_disconnect (&other);
    MPI_Barrier (MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Unpublish_name ("service of a test", MPI_INFO_NULL, port);
        MPI_Close_port (port);
    }
    MPI_Comm_free (&half);
    snprintf (line, sizeof line, "rank %d connected: %d", rank, count);
    say (line);
}

static void wait_for_a_line (void)
{
    char word = 0;
    if (rank == 0)
        word = (char) getchar ();
    MPI_Bcast (&word, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    char line[64];
    snprintf (line, sizeof line, "rank %d of %d heard %c", rank, size, word);
    say (line);
}

int main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "life";
    const char *stage = argc > 2 ? argv[2] : "", *how = argc > 3 ? argv[3] : "0";
    int dies = strcmp (what, "die") == 0;

    sched_getaffinity (0, sizeof before, &before);
    if (dies && strcmp (stage, "before-init") == 0
        && atoi (getenv ("YOD_RANK")) == atoi (getenv ("YOD_SIZE")) - 1)
        end_so (how);
    start (&argc, &argv);
    if (strcmp (what, "life") == 0)
        life ();
    else if (strcmp (what, "place") == 0)
        place ();
    else if (strcmp (what, "abort") == 0) {
        MPI_Barrier (MPI_COMM_WORLD);
        if (is_last ())
            MPI_Abort (MPI_COMM_WORLD, atoi (stage));
        MPI_Barrier (MPI_COMM_WORLD);
    } else if (dies && strcmp (stage, "after-init") == 0) {
        if (is_last ())
            end_so (how);
        MPI_Barrier (MPI_COMM_WORLD);
    } else if (dies && strcmp (stage, "in-collective") == 0)
        die_in_a_collective (how);
    else if (strcmp (what, "linger") == 0) {
        struct timespec now;
        say ("up");
        clock_gettime (CLOCK_MONOTONIC, &now);
        usleep ((useconds_t) ((now.tv_sec + now.tv_nsec * 1e-9 - atof (stage)) * 1e6) + LINGER_US);
    } else if (strcmp (what, "up") == 0) {
        check_sum (MPI_COMM_WORLD);
        say ("up");
        for (;;)
            pause ();
    } else if (strcmp (what, "wait") == 0) {
        check_sum (MPI_COMM_WORLD);
        say ("up");
        wait_for_a_line ();
    } else if (strcmp (what, "farm") == 0)
        farm ();
    else if (strcmp (what, "child") == 0)
        child (argc > 2 ? argv[2] : NULL);
    else if (strcmp (what, "spawn") == 0)
        spawn (argv[0], atoi (stage), NULL);
    else if (strcmp (what, "spawn-multiple") == 0)
        spawn_multiple (argv[0]);
    else if (strcmp (what, "spawn-missing") == 0)
        spawn_missing ();
    else if (strcmp (what, "spawn-die") == 0)
        spawn (argv[0], 1, argv[2]);
    else if (strcmp (what, "publish") == 0)
        publish ();
    else if (strcmp (what, "universe") == 0) {
        char line[64];
        snprintf (line, sizeof line, "universe %d", universe ());
        say (line);
    }
    MPI_Finalize ();
    if (dies && strcmp (stage, "after-finalize") == 0 && is_last ())
        end_so (how);
    return status;
}
