#include "fake.h"

static void join (struct fake *fake)
{
    int spawned = -1, known = -1, n = -1;

    CHECK (PMI_Initialized (&known) == PMI_SUCCESS && known == PMI_FALSE);
    fake_say (fake, JOINED);
    CHECK (PMI_Init (&spawned) == PMI_SUCCESS && spawned == PMI_FALSE);
    fake_heard (fake, "cmd=init pmi_version=1 pmi_subversion=1\n"
                      "cmd=get_maxes\n");
    CHECK (PMI_Init (&spawned) == PMI_SUCCESS);
    CHECK (PMI_Initialized (&known) == PMI_SUCCESS && known == PMI_TRUE);
    CHECK (PMI_Get_rank (&n) == PMI_SUCCESS && n == 2);
    CHECK (PMI_Get_size (&n) == PMI_SUCCESS && n == 5);
    CHECK (PMI_KVS_Get_name_length_max (&n) == PMI_SUCCESS && n == 256);
    CHECK (PMI_KVS_Get_key_length_max (&n) == PMI_SUCCESS && n == 64);
    CHECK (PMI_KVS_Get_value_length_max (&n) == PMI_SUCCESS && n == 1024);
    fake_heard (fake, "");
}

static void ask_for_numbers (struct fake *fake)
{
    int n = -1;

    fake_say (fake, "cmd=universe_size size=9\ncmd=appnum appnum=3\n"
                    "cmd=universe_size size=-1\n");
    CHECK (PMI_Get_universe_size (&n) == PMI_SUCCESS && n == 9);
    CHECK (PMI_Get_appnum (&n) == PMI_SUCCESS && n == 3);
    CHECK (PMI_Get_universe_size (&n) == PMI_SUCCESS && n == -1);
    fake_heard (fake, "cmd=get_universe_size\ncmd=get_appnum\n"
                      "cmd=get_universe_size\n");
}

static void exchange (struct fake *fake)
{
    char name[256], value[1024];

    fake_say (fake, "cmd=my_kvsname kvsname=job_7\n"
                    "cmd=put_result rc=0 msg=success\n"
                    "cmd=barrier_out rc=0\n"
                    "cmd=get_result rc=0 msg=success value=a b=c rc=-1\n"
                    "cmd=get_result rc=0 msg=success value=\n"
                    "cmd=get_result rc=-1 msg=key_x_not_found value=unknown\n"
                    "cmd=get_result rc=0 msg=success value=12345678\n");
    CHECK (PMI_KVS_Get_my_name (name, sizeof (name)) == PMI_SUCCESS);
    CHECK (strcmp (name, "job_7") == 0);
    CHECK (PMI_KVS_Put (name, "card", "a b=c") == PMI_SUCCESS);
    CHECK (PMI_KVS_Commit (name) == PMI_SUCCESS);
    CHECK (PMI_Barrier () == PMI_SUCCESS);
    CHECK (PMI_KVS_Get (name, "card", value, sizeof (value)) == PMI_SUCCESS);
    CHECK (strcmp (value, "a b=c rc=-1") == 0);
    CHECK (PMI_KVS_Get (name, "empty", value, sizeof (value)) == PMI_SUCCESS);
    CHECK (!*value);
    CHECK (PMI_KVS_Get (name, "x", value, sizeof (value)) == PMI_FAIL);
    CHECK (PMI_KVS_Get (name, "long", value, 8) == PMI_ERR_INVALID_LENGTH);
    CHECK (!*value);
    fake_heard (fake, "cmd=get_my_kvsname\n"
                      "cmd=put kvsname=job_7 key=card value=a b=c\n"
                      "cmd=barrier_in\n"
                      "cmd=get kvsname=job_7 key=card\n"
                      "cmd=get kvsname=job_7 key=empty\n"
                      "cmd=get kvsname=job_7 key=x\n"
                      "cmd=get kvsname=job_7 key=long\n");
}

static void meet_by_name (struct fake *fake)
{
    char port[PMI_PORT_MAX];

    fake_say (fake, "cmd=publish_result info=ok rc=0 msg=success\n"
                    "cmd=lookup_result port=a b info=ok rc=0 msg=success\n"
                    "cmd=lookup_result rc=-1 msg=service_not_found\n"
                    "cmd=unpublish_result info=ok\n"
                    "cmd=unpublish_result info=fail\n");
    CHECK (PMI_Publish_name ("my service", "a b") == PMI_SUCCESS);
    CHECK (PMI_Lookup_name ("my service", port) == PMI_SUCCESS);
    CHECK (strcmp (port, "a b") == 0);
    CHECK (PMI_Lookup_name ("other", port) == PMI_FAIL);
    CHECK (PMI_Unpublish_name ("my service") == PMI_SUCCESS);
    CHECK (PMI_Unpublish_name ("my service") == PMI_FAIL);
    fake_heard (fake, "cmd=publish_name service=my service port=a b\n"
                      "cmd=lookup_name service=my service\n"
                      "cmd=lookup_name service=other\n"
                      "cmd=unpublish_name service=my service\n"
                      "cmd=unpublish_name service=my service\n");
}

int main (void)
{
    struct fake fake;
    int n;

    fake_open (&fake, "2", "5");
    for (int round = 0; round < 2; round++) {
        join (&fake);
        ask_for_numbers (&fake);
        exchange (&fake);
        meet_by_name (&fake);
        fake_say (&fake, "cmd=finalize_ack rc=0\n");
        CHECK (PMI_Finalize () == PMI_SUCCESS);
        fake_heard (&fake, "cmd=finalize\n");
        CHECK (PMI_Get_rank (&n) == PMI_ERR_INIT);
    }
    fake_close (&fake);
    return 0;
}
