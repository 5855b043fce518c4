#include "fake.h"

static void be_alone (void)
{
    char name[256], value[16], port[PMI_PORT_MAX];
    int n = -1, ranks[1] = { -1 };

    CHECK (PMI_Init (&n) == PMI_SUCCESS && n == PMI_FALSE);
    CHECK (PMI_Get_rank (&n) == PMI_SUCCESS && n == 0);
    CHECK (PMI_Get_size (&n) == PMI_SUCCESS && n == 1);
    CHECK (PMI_Get_universe_size (&n) == PMI_SUCCESS && n == 1);
    CHECK (PMI_Get_appnum (&n) == PMI_SUCCESS && n == 0);
    CHECK (PMI_Get_clique_size (&n) == PMI_SUCCESS && n == 1);
    CHECK (PMI_Get_clique_ranks (ranks, 1) == PMI_SUCCESS && ranks[0] == 0);
    CHECK (PMI_KVS_Get_my_name (name, sizeof (name)) == PMI_SUCCESS);
    CHECK (PMI_KVS_Get (name, "a", value, 16) == PMI_FAIL);
    CHECK (PMI_KVS_Put (name, "a", "1") == PMI_SUCCESS);
    CHECK (PMI_KVS_Put (name, "b", "2") == PMI_SUCCESS);
    CHECK (PMI_KVS_Put (name, "a", "three") == PMI_SUCCESS);
    CHECK (PMI_KVS_Commit (name) == PMI_SUCCESS);
    CHECK (PMI_Barrier () == PMI_SUCCESS);
    CHECK (PMI_KVS_Get (name, "a", value, 16) == PMI_SUCCESS);
    CHECK (strcmp (value, "three") == 0);
    CHECK (PMI_KVS_Get (name, "a", value, 5) == PMI_ERR_INVALID_LENGTH);
    CHECK (PMI_Publish_name ("s", "p") == PMI_FAIL);
    CHECK (PMI_Lookup_name ("s", port) == PMI_FAIL);
    CHECK (PMI_Unpublish_name ("s") == PMI_FAIL);
    CHECK (PMI_Finalize () == PMI_SUCCESS);
    CHECK (PMI_Init (&n) == PMI_SUCCESS);
    CHECK (PMI_KVS_Get (name, "a", value, 16) == PMI_FAIL);
    CHECK (PMI_Finalize () == PMI_SUCCESS);
}

int main (void)
{
    int n;

    unsetenv ("PMI_FD");
    unsetenv ("PMI_PORT");
    unsetenv ("PMI_RANK");
    unsetenv ("PMI_SIZE");
    be_alone ();
    setenv ("PMI_SIZE", "1", 1);
    be_alone ();
    setenv ("PMI_FD", "0x3", 1);
    be_alone ();
    setenv ("PMI_FD", "987", 1);
    be_alone ();
    setenv ("PMI_SIZE", "2", 1); /* N worlds of one would be worse */
    CHECK (PMI_Init (&n) == PMI_FAIL);
    return 0;
}
