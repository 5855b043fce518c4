#include "pmi.h"

#include <stdio.h>
#include <unistd.h>

#include "pmi_alone.h"
#include "pmi_join.h"
#include "pmi_kvs.h"
#include "pmi_nodes.h"
#include "pmi_self.h"

#define MESSAGE_MAX_BYTES 1024
#define MAPPING "PMI_process_mapping"

/* ---- joining and leaving ---------------------------------------------- */

int PMI_Init (int *spawned)
{
    int is_spawned = 0, rc;

    if (!spawned)
        return PMI_ERR_INVALID_ARG;
    if (!pmi_self.has_joined) {
        if ((rc = pmi_join ()) != PMI_SUCCESS)
            return rc;
        pmi_environment_number ("PMI_SPAWNED", &is_spawned);
        pmi_self.is_spawned = is_spawned;
        pmi_self.has_joined = true;
    }
    *spawned = pmi_self.is_spawned ? PMI_TRUE : PMI_FALSE;
    return PMI_SUCCESS;
}

int PMI_Initialized (PMI_BOOL *initialized)
{
    if (!initialized)
        return PMI_ERR_INVALID_ARG;
    *initialized = pmi_self.has_joined ? PMI_TRUE : PMI_FALSE;
    return PMI_SUCCESS;
}

int PMI_Finalize (void)
{
    int rc = PMI_SUCCESS;

    if (!pmi_self.has_joined)
        return PMI_ERR_INIT;
    if (!pmi_self.is_alone) {
        if (!pmi_ask ("finalize_ack", "cmd=finalize\n"))
            rc = PMI_FAIL;
        pmi_line_close (&pmi_self.line);
    }
    pmi_alone_free (&pmi_self.pairs);
    pmi_self.has_joined = false;
    return rc;
}

int PMI_Abort (int exit_code, const char error_msg[])
{
    char text[MESSAGE_MAX_BYTES];

    snprintf (text, sizeof (text), "%s", error_msg ? error_msg : "");
    for (char *at = text; *at; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    fflush (NULL);
    if (pmi_self.has_joined && !pmi_self.is_alone) {
        char request[MESSAGE_MAX_BYTES + 64];
        int length = snprintf (request, sizeof (request),
                               "cmd=abort exitcode=%d%s%s\n", exit_code,
                               *text ? " message=" : "", text);

        pmi_line_send (&pmi_self.line, request, (size_t)length);
    } else
        fprintf (stderr, "PMI_Abort: %s\n", text);
    _exit (exit_code);
}

/* ---- who and how many ------------------------------------------------- */

int PMI_Get_size (int *size)
{
    return pmi_give (size, pmi_self.size);
}

int PMI_Get_rank (int *rank)
{
    return pmi_give (rank, pmi_self.rank);
}

int PMI_Get_universe_size (int *size)
{
    int rc = pmi_give (size, 1);

    if (rc != PMI_SUCCESS || pmi_self.is_alone)
        return rc;
    return pmi_number_of (pmi_ask ("universe_size", "cmd=get_universe_size\n"),
                          "size", -1, size);
}

int PMI_Get_appnum (int *appnum)
{
    int rc = pmi_give (appnum, 0);

    if (rc != PMI_SUCCESS || pmi_self.is_alone)
        return rc;
    return pmi_number_of (pmi_ask ("appnum", "cmd=get_appnum\n"), "appnum", -1,
                          appnum);
}

/* Without a mapping a rank is the only one on its node that it knows of. */
static int clique (int *ranks, int length)
{
    char name[PMI_NAME_MAX_BYTES], mapping[PMI_VALUE_MAX_BYTES];
    int count = 0;

    if (!pmi_self.is_alone
        && pmi_kvs_name (name, sizeof (name)) == PMI_SUCCESS
        && pmi_kvs_get (name, MAPPING, mapping, sizeof (mapping))
               == PMI_SUCCESS)
        count = pmi_nodes_clique (mapping, pmi_self.size, pmi_self.rank, ranks,
                                  length);
    if (count)
        return count;
    if (ranks && length > 0)
        ranks[0] = pmi_self.rank;
    return 1;
}

int PMI_Get_clique_size (int *size)
{
    int rc = pmi_give (size, 1);

    if (rc == PMI_SUCCESS)
        *size = clique (NULL, 0);
    return rc;
}

int PMI_Get_clique_ranks (int ranks[], int length)
{
    if (!pmi_self.has_joined)
        return PMI_ERR_INIT;
    if (!ranks)
        return PMI_ERR_INVALID_ARG;
    if (length < 0 || clique (ranks, length) > length)
        return PMI_ERR_INVALID_LENGTH;
    return PMI_SUCCESS;
}

int PMI_Barrier (void)
{
    if (!pmi_self.has_joined)
        return PMI_ERR_INIT;
    if (pmi_self.is_alone)
        return PMI_SUCCESS;
    return pmi_result_of (pmi_ask ("barrier_out", "cmd=barrier_in\n"), NULL);
}

/* ---- the maxima of the key-value space -------------------------------- */

int PMI_KVS_Get_name_length_max (int *length)
{
    return pmi_give (length, pmi_self.name_max);
}

int PMI_KVS_Get_key_length_max (int *length)
{
    return pmi_give (length, pmi_self.key_max);
}

int PMI_KVS_Get_value_length_max (int *length)
{
    return pmi_give (length, pmi_self.value_max);
}

/* ---- older names ------------------------------------------------------ */

int PMI_Get_id (char id[], int length)
{
    return PMI_KVS_Get_my_name (id, length);
}

int PMI_Get_id_length_max (int *length)
{
    return PMI_KVS_Get_name_length_max (length);
}

int PMI_Get_kvs_domain_id (char id[], int length)
{
    return PMI_KVS_Get_my_name (id, length);
}
