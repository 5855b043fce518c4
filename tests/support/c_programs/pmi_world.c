/* One world by PMI: every rank reads what every rank has put, twice over.
 *
 * pmi_world [exit STATUS | abort STATUS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmi.h>

static void must (int rc, const char *call)
{
    if (rc == PMI_SUCCESS)
        return;
    fprintf (stderr, "%s: %d\n", call, rc);
    exit (99);
}

#define MUST(call) must (call, #call)

static void check_cards (int rank, int size, int round)
{
    char name[256], key[64], value[64], expected[64];

    MUST (PMI_KVS_Get_my_name (name, sizeof (name)));
    snprintf (key, sizeof (key), "card-%d-%d", round, rank);
    snprintf (value, sizeof (value), "rank-%d:round-%d", rank, round);
    MUST (PMI_KVS_Put (name, key, value));
    MUST (PMI_KVS_Commit (name));
    MUST (PMI_Barrier ());
    for (int peer = 0; peer < size; peer++) {
        snprintf (key, sizeof (key), "card-%d-%d", round, peer);
        snprintf (expected, sizeof (expected), "rank-%d:round-%d", peer,
                  round);
        MUST (PMI_KVS_Get (name, key, value, sizeof (value)));
        must (strcmp (value, expected), value);
    }
    if (PMI_KVS_Get (name, "nobody", value, sizeof (value)) != PMI_FAIL)
        exit (98);
}

int main (int argc, char **argv)
{
    int status = argc > 2 ? atoi (argv[2]) : 0;
    int spawned, rank, size, on_node, universe, app;

    MUST (PMI_Init (&spawned));
    MUST (PMI_Get_rank (&rank));
    MUST (PMI_Get_size (&size));
    MUST (PMI_Get_universe_size (&universe));
    MUST (PMI_Get_appnum (&app));
    MUST (PMI_Get_clique_size (&on_node));
    for (int round = 0; round < 2; round++)
        check_cards (rank, size, round);
    printf ("rank %d of %d, %d on its node, spawned %d, program %d\n", rank,
            size, on_node, spawned, app);
    if (argc > 2 && strcmp (argv[1], "abort") == 0 && rank == size - 1)
        PMI_Abort (status, "the last rank\nhas had enough");
    MUST (PMI_Barrier ());
    MUST (PMI_Finalize ());
    return status;
}
