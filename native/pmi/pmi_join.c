#include "pmi_join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmi.h"
#include "pmi_self.h"

static int refuse (const char *why)
{
    fprintf (stderr, "PMI_Init: %s\n", why);
    pmi_line_close (&pmi_self.line);
    return PMI_FAIL;
}

/* If the ranks reach one another by other means, programs would wait for ranks
 * that believe to be alone. Rank 0 warns for all. */
static void warn_of_yod (void)
{
    int rank, size;

    if (pmi_environment_number ("YOD_RANK", &rank) && rank == 0
        && pmi_environment_number ("YOD_SIZE", &size) && size > 1)
        fprintf (stderr, "PMI_Init: yod has started %d ranks, but neither"
                 " PMI_FD nor PMI_PORT is set: each is rank 0 of 1; use"
                 " --mpi=auto or --mpi=pmi1\n", size);
}

static int be_alone (void)
{
    if (pmi_environment_number ("PMI_SIZE", &pmi_self.size)
        && pmi_self.size > 1)
        return refuse ("PMI_SIZE says that there are more ranks, but neither"
                       " PMI_FD nor PMI_PORT leads to their launcher");
    warn_of_yod ();
    pmi_self.is_alone = true;
    pmi_self.rank = 0;
    pmi_self.size = 1;
    pmi_self.name_max = pmi_self.key_max = 256;
    pmi_self.value_max = PMI_VALUE_MAX_BYTES;
    snprintf (pmi_self.name, sizeof (pmi_self.name), "alone_%ld",
              (long)getpid ());
    return PMI_SUCCESS;
}

/* Receive the four lines that a server sends after a dial of PMI_PORT. */
static bool hear_welcome (void)
{
    int id = 0;
    const char *line;

    if (!pmi_environment_number ("PMI_ID", &id)
        && !pmi_environment_number ("PMI_RANK", &id))
        return false;
    if (!pmi_ask ("initack", "cmd=initack pmiid=%d\n", id))
        return false;
    pmi_self.rank = pmi_self.size = -1;
    for (int i = 0; i < 3; i++) {
        if (!(line = pmi_line_receive (&pmi_self.line))
            || !pmi_line_is (line, "set"))
            return false;
        pmi_line_number (line, "size", 1, PMI_NUMBER_MAX, &pmi_self.size);
        pmi_line_number (line, "rank", 0, PMI_NUMBER_MAX, &pmi_self.rank);
    }
    return true;
}

/* Find the server, and this process's rank. */
static int reach (void)
{
    const char *port = getenv ("PMI_PORT");
    int fd;

    if (pmi_environment_number ("PMI_FD", &fd)
        && pmi_line_use (&pmi_self.line, fd)) {
        if (!pmi_environment_number ("PMI_RANK", &pmi_self.rank)
            || !pmi_environment_number ("PMI_SIZE", &pmi_self.size))
            return refuse ("PMI_RANK and PMI_SIZE are not both set");
    } else if (port) {
        if (!pmi_line_dial (&pmi_self.line, port))
            return refuse ("nobody answers at PMI_PORT");
        if (!hear_welcome ())
            return refuse ("the launcher at PMI_PORT does not know PMI_ID");
    } else
        return be_alone ();
    if (pmi_self.rank < 0 || pmi_self.rank >= pmi_self.size)
        return refuse ("the launcher gives no rank below the size");
    return PMI_SUCCESS;
}

static bool take_maximum (const char *line, const char *name, int most,
                          int *value)
{
    if (pmi_number_of (line, name, 2, value) != PMI_SUCCESS)
        return false;
    if (*value > most)
        *value = most;
    return true;
}

static int agree (void)
{
    const char *line = pmi_ask ("response_to_init",
                                "cmd=init pmi_version=1 pmi_subversion=1\n");

    if (pmi_result_of (line, NULL) != PMI_SUCCESS)
        return refuse ("the launcher does not speak PMI 1.1");
    line = pmi_ask ("maxes", "cmd=get_maxes\n");
    if (!take_maximum (line, "kvsname_max", PMI_NAME_MAX_BYTES,
                       &pmi_self.name_max)
        || !take_maximum (line, "keylen_max", PMI_KEY_MAX_BYTES,
                          &pmi_self.key_max)
        || !take_maximum (line, "vallen_max", PMI_VALUE_MAX_BYTES,
                          &pmi_self.value_max))
        return refuse ("the launcher does not say how long keys may be");
    return PMI_SUCCESS;
}

int pmi_join (void)
{
    int rc;

    pmi_self.is_alone = false;
    rc = reach ();
    return rc == PMI_SUCCESS && !pmi_self.is_alone ? agree () : rc;
}
