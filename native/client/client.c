/* client.c - the command `yod`: asks the user's launch server for a launch. And
 * `yodjob`, which asks it to hand a job in (name.h).
 *
 * A launch server (partition/server) runs the launch; the client is the user's
 * end of it: it keeps the streams, the signals, the terminal and the files, and
 * is the parent of the job's keepers on this host. native/wire/CLIENT.md is the
 * protocol. Where there is no server for this user, release and namespaces, the
 * client becomes `yod-cold`, which runs the launch itself in Python (cold.h).
 * It knows no option: the server reads the command line.
 *
 * One loop over a few descriptors. Nothing here blocks, and all memory is
 * bounded and is here from the start; what is not used costs nothing.
 */
#include "client.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../keeper/clock.h"
#include "cold.h"
#include "name.h"
#include "place.h"
#include "request.h"
#include "serve.h"
#include "standin.h"

#define STOPPED_MS 250                  /* a wait that is so late was stopped */
#define PATIENT_MS 20000                /* for HELLO, where cold is forbidden */

_Static_assert (PLACE_WHY_ROOM <= MESSAGE_ROOM, "message");

/* --- the server's silence and end ---------------------------------------- */

void client_lose (struct client *client, const char *why)
{
    if (client->phase > PHASE_RUNNING)
        return;
    client->phase = PHASE_LOST;
    client->status = name_failure ();
    snprintf (client->message, sizeof (client->message),
              "%s: the launch server (process %u) %s; %s\n",
              name_of_command (), client->server, why,
              name_is_yodjob () ? "yodjob list tells whether the command was carried out"
                                : "the job has been ended");
    client->box.is_broken = true;
    close (client->socket);
    client->socket = -1;
}

static void look_at_silence (struct client *client)
{
    char why[64];

    if (client->phase > PHASE_RUNNING)
        return;
    if (client->silent_ms >= client->liveness_ms) {
        snprintf (why, sizeof (why), "has not answered for %g s",
                  client->liveness_ms / 1000.0);
        client_lose (client, why);
    } else if (client->silent_ms >= client->liveness_ms / 4
               && !client->has_asked) {
        client->has_asked = true;
        outbox_add (&client->box, CLIENT_PING, 0);
    }
}

/* --- the end ------------------------------------------------------------- */

static void step_on (struct client *client, int64_t now)
{
    if (client->end_step == END_NOT_YET)
        client->end_step = client->phase == PHASE_LOST ? END_ASK : END_WAIT;
    else
        client->end_step++;
    client->end_at = now + END_WAIT_MS;
    if (client->end_step == END_ASK)
        keepers_end (&client->keepers);
    else if (client->end_step == END_KILL)
        keepers_kill (&client->keepers);
}

/* Whether nothing of the job is left below this process. What cannot be killed
 * is left behind after a while. */
static bool has_ended_job (struct client *client, int64_t now)
{
    if (client->end_step == END_ABANDON)
        return true;
    if (client->keepers.count == 0 && client->phase == PHASE_LOST
        && !client->has_swept) {
        client->has_swept = true;
        keepers_kill_orphans (&client->keepers, 0, now);
        keepers_pass (&client->keepers, &client->box, now);
    }
    if (client->keepers.count == 0 && client->keepers.kill_at == 0)
        return true;
    if (client->end_step == END_NOT_YET || now >= client->end_at)
        step_on (client, now);
    return false;
}

/* yodjob's line may be the only word of a job's number, so we tell if it cannot be written.
 * A reader that has closed its pipe wants no more. For a launch the server tells. */
static void look_at_loss (struct client *client)
{
    int problem = client->outputs[0].problem;
    const char *why = strerror (problem);

    if (!name_is_yodjob () || client->phase != PHASE_OVER || problem == 0
        || problem == EPIPE)
        return;
    client->outputs[0].problem = 0;
    client->status = name_failure ();
    snprintf (client->message, sizeof (client->message),
              "%s: standard output: %c%s\n", name_of_command (),
              tolower ((unsigned char) why[0]), why + 1);
}

static bool is_done (struct client *client, int64_t now)
{
    if (client->phase == PHASE_COLD)
        return true;
    if (client->phase <= PHASE_RUNNING || !has_ended_job (client, now))
        return false;
    look_at_loss (client);
    if (client->message[0]) {
        output_say (&client->outputs[1], client->message, &client->box);
        client->message[0] = 0;
    }
    return client->outputs[0].count == 0 && client->outputs[1].count == 0;
}

/* --- the loop ------------------------------------------------------------ */

static void sooner (int64_t *timeout_ms, int64_t due, int64_t now)
{
    int64_t left = due > now ? due - now : 0;

    if (*timeout_ms < 0 || left < *timeout_ms)
        *timeout_ms = left;
}

static int choose_timeout (const struct client *client, int64_t now)
{
    int64_t timeout_ms = -1, silence = client->liveness_ms;

    if (client->phase <= PHASE_RUNNING) {
        if (!client->has_asked)
            silence /= 4;
        sooner (&timeout_ms, now + silence - client->silent_ms, now);
        if (client->input.look_at > 0)
            sooner (&timeout_ms, client->input.look_at, now);
    }
    if (client->signals.leave_at > 0)
        sooner (&timeout_ms, client->signals.leave_at, now);
    if (client->keepers.kill_at > 0)
        sooner (&timeout_ms, client->keepers.kill_at, now);
    if (client->end_step != END_NOT_YET && client->end_step != END_ABANDON
        && (client->keepers.count > 0 || client->keepers.kill_at > 0))
        sooner (&timeout_ms, client->end_at, now);
    return timeout_ms > 60000 ? 60000 : (int) timeout_ms;
}

enum { AT_SERVER, AT_SIGNALS, AT_INPUT, AT_OUTPUT, AT_ERROR, N_FDS };

/* Sleep until something happens. Time in which this process was stopped is not
 * time in which the server was silent. */
static void wait_for_event (struct client *client, bool is_flushed,
                            struct pollfd fds[N_FDS])
{
    bool has_server = client->phase <= PHASE_RUNNING;
    int64_t began = clock_ms (), elapsed;
    int timeout_ms = choose_timeout (client, began);

    for (int i = 0; i < N_FDS; i++)
        fds[i] = (struct pollfd) { .fd = -1 };
    if (has_server) {
        fds[AT_SERVER].fd = client->socket;
        if (outbox_has_room (&client->box))
            fds[AT_SERVER].events |= POLLIN;
        if (!is_flushed)
            fds[AT_SERVER].events |= POLLOUT;
        if (is_flushed)
            fds[AT_INPUT] = (struct pollfd) {
                .fd = input_fd (&client->input), .events = POLLIN,
            };
    }
    fds[AT_SIGNALS].fd = client->signals.fd;
    fds[AT_SIGNALS].events = POLLIN;
    for (int i = 0; i < 2; i++)
        if (client->outputs[i].count > 0)
            fds[AT_OUTPUT + i] = (struct pollfd) {
                .fd = client->outputs[i].fd, .events = POLLOUT,
            };
    if (poll (fds, N_FDS, timeout_ms) <= 0)
        for (int i = 0; i < N_FDS; i++)
            fds[i].revents = 0;
    elapsed = clock_ms () - began;
    if (timeout_ms < 0 || elapsed < timeout_ms + STOPPED_MS)
        client->silent_ms += elapsed;
}

static void take_signals (struct client *client)
{
    struct signals_seen seen = signals_read (&client->signals, &client->box,
                                             clock_ms ());

    client->has_dead |= seen.has_child_ended;
    if (seen.has_continued)
        input_resume (&client->input);
    if (client->phase <= PHASE_RUNNING)
        return;                         /* the server decides */
    if (seen.shall_stop)
        signals_stop_self ();
    for (int i = 0; i < 2 && seen.has_pressed; i++)
        output_drop (&client->outputs[i]);
}

static bool flush (struct client *client)
{
    return (client->phase > PHASE_RUNNING
            || input_flush (&client->input, client->socket))
           && outbox_flush (&client->box);
}

static void turn (struct client *client)
{
    struct pollfd fds[N_FDS];
    int64_t now;

    wait_for_event (client, flush (client), fds);
    if (fds[AT_SIGNALS].revents)
        take_signals (client);
    if (client->has_dead) {
        keepers_reap (&client->keepers, &client->box);
        client->has_dead = !outbox_has_room (&client->box);
    }
    if (fds[AT_SERVER].revents)
        serve_read (client);
    now = clock_ms ();
    if (client->phase <= PHASE_RUNNING
        && (fds[AT_INPUT].revents || input_is_due (&client->input, now)))
        input_read (&client->input, now);
    for (int i = 0; i < 2; i++)
        if (fds[AT_OUTPUT + i].revents)
            output_drain (&client->outputs[i], &client->box);
    now = clock_ms ();
    keepers_pass (&client->keepers, &client->box, now);
    if (client->signals.leave_at > 0 && now >= client->signals.leave_at)
        signals_die (client->signals.last_end);
    look_at_silence (client);
}

/* --- the command --------------------------------------------------------- */

/* Occupy the descriptors 0 to 2 where the caller has closed them: others of
 * ours would get these numbers, and output would be written to them. Reading
 * and writing there fails, as it would have. They are closed again for yod-cold.
 *   which were closed: bit 0 is descriptor 0
 */
static unsigned take_numbers (void)
{
    unsigned closed = 0;

    for (int fd = 0; fd < 3; fd++)
        if (fcntl (fd, F_GETFD) < 0) {
            closed |= 1u << fd;
            if (open ("/proc/self/stat", O_PATH | O_CLOEXEC) < 0)
                open ("/dev/null", O_PATH | O_CLOEXEC);
        }
    return closed;
}

/* A packet may bring three descriptors more than the streams take. Ranks get
 * their limits by the specification. */
static void raise_descriptors (struct client *client)
{
    struct rlimit raised;

    if (getrlimit (RLIMIT_NOFILE, &client->descriptors) != 0)
        return;
    raised = client->descriptors;
    raised.rlim_cur = raised.rlim_max;
    setrlimit (RLIMIT_NOFILE, &raised);
}

/* Be as the client was started, for yod-cold. */
static void give_back (struct client *client)
{
    close (client->socket);
    setrlimit (RLIMIT_NOFILE, &client->descriptors);
    signals_give_back (&client->signals);
}

static _Noreturn void go_cold (const struct client *client, int argc,
                               char *argv[])
{
    if (client->stand_in >= 0)
        standin_hand_on (client->stand_in);
    cold_run (argc, argv, client->message);
}

static bool give_up (struct client *client)
{
    snprintf (client->message, sizeof (client->message),
              "no request can be sent to the launch server (process %u): %s",
              client->server, strerror (errno));
    return false;
}

/* Make the request while the server takes the connection: both take time. It
 * is sent to a server for us alone. */
static bool send_request (struct client *client, int argc, char *argv[],
                          unsigned closed)
{
    int hello_ms = cold_is_forbidden () ? PATIENT_MS : PLACE_HELLO_MS;
    struct wire_hello hello;

    client->signals.ignored = signals_ignored ();
    if (!request_make (argc, argv, client->signals.ignored, closed,
                       client->stand_in >= 0))
        return give_up (client);
    if (!place_meet (client->socket, client->server, &hello, hello_ms,
                     client->message))
        return false;
    client->server = hello.server;
    client->liveness_ms = hello.liveness_ms;
    client->signals.press_ms = hello.press_ms;
    if (!signals_take (&client->signals))
        return give_up (client);
    if (request_send (client->socket))
        return true;
    give_up (client);
    signals_give_back (&client->signals);
    return false;
}

/* Ask a server.
 *   true   it has been asked; else the message says why not
 */
static bool ask (struct client *client, int argc, char *argv[],
                 unsigned closed)
{
    bool is_sent;

    client->socket = place_connect (&client->server, client->message);
    if (client->socket < 0)
        return false;
    is_sent = send_request (client, argc, argv, closed);
    request_drop ();
    if (!is_sent) {
        close (client->socket);
        return false;
    }
    client->box.socket = client->socket;
    for (uint32_t i = 0; i < 2; i++)
        output_open (&client->outputs[i], i + 1);
    raise_descriptors (client);
    return true;
}

int main (int argc, char *argv[])
{
    static struct client client;
    unsigned closed;

    name_find ();
    if (!name_is_for_server (argc, argv))
        cold_run (argc, argv, "");
    closed = take_numbers ();
    client.stand_in = name_is_yodjob () ? -1 : standin_begin ();
    if (!ask (&client, argc, argv, closed))
        go_cold (&client, argc, argv);
    while (!is_done (&client, clock_ms ()))
        turn (&client);
    if (client.phase == PHASE_COLD) {
        give_back (&client);
        go_cold (&client, argc, argv);
    }
    if (client.status < 0)
        signals_die (-client.status);
    _exit (client.status);
}
