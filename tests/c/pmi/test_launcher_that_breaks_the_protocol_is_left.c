#include "fake.h"

#define JUNK_ROUNDS 3000

/* After the end nothing is asked any more, and nothing hangs. */
static void check_is_left (const char *name)
{
    char text[1024];
    int n;

    CHECK (PMI_Barrier () == PMI_FAIL);
    CHECK (PMI_Get_appnum (&n) == PMI_FAIL);
    CHECK (PMI_KVS_Put (name, "k", "v") == PMI_FAIL);
    CHECK (PMI_KVS_Get (name, "k", text, sizeof (text)) == PMI_FAIL);
    CHECK (PMI_Finalize () == PMI_FAIL);
}

static void refuse_to_join (const char *answer)
{
    struct fake fake;
    int n;

    fake_open (&fake, "0", "2");
    fake_say (&fake, answer);
    fake_end (&fake);
    CHECK (PMI_Init (&n) == PMI_FAIL);
    CHECK (PMI_Get_rank (&n) == PMI_ERR_INIT);
    fake_close (&fake);
}

/* One barrier, answered so. */
static int barrier_with (const char *answer, size_t length)
{
    struct fake fake;
    int n, rc;

    fake_open (&fake, "0", "2");
    fake_say (&fake, JOINED);
    CHECK (PMI_Init (&n) == PMI_SUCCESS);
    fake_bytes (&fake, answer, length);
    fake_end (&fake);
    rc = PMI_Barrier ();
    if (rc != PMI_SUCCESS)
        check_is_left ("job");
    else
        PMI_Finalize ();
    fake_close (&fake);
    return rc;
}

static void check_barriers (void)
{
    static char line[40000];

    CHECK (barrier_with ("", 0) == PMI_FAIL);
    CHECK (barrier_with ("\n", 1) == PMI_FAIL);
    CHECK (barrier_with ("cmd=barrier_out", 15) == PMI_FAIL);
    CHECK (barrier_with ("cmd=barrier_out rc=0\0\n", 22) == PMI_FAIL);
    CHECK (barrier_with ("cmd=put_result rc=0\n", 20) == PMI_FAIL);
    CHECK (barrier_with (" cmd=barrier_out\n", 17) == PMI_FAIL);
    CHECK (barrier_with ("cmd=barrier_outer\n", 18) == PMI_FAIL);
    CHECK (barrier_with ("cmd=barrier_out\n", 16) == PMI_SUCCESS);
    memset (line, 'x', sizeof (line));
    CHECK (barrier_with (line, sizeof (line)) == PMI_FAIL);
    memcpy (line, "cmd=barrier_out rc=0 ", 21);
    line[sizeof (line) - 1] = '\n';
    CHECK (barrier_with (line, sizeof (line)) == PMI_FAIL);
}

/* What is refused without harm to the conversation. */
static void check_answers_out_of_range (void)
{
    static char line[8192];
    char text[1024], port[PMI_PORT_MAX];
    struct fake fake;
    int n = 7;

    fake_open (&fake, "0", "2");
    fake_say (&fake, JOINED);
    CHECK (PMI_Init (&n) == PMI_SUCCESS);
    fake_say (&fake, "cmd=universe_size size=99999999999999999999\n"
                     "cmd=universe_size size=-2\ncmd=universe_size size=\n"
                     "cmd=appnum appnum=0x10\ncmd=my_kvsname\n"
                     "cmd=my_kvsname kvsname=\n");
    CHECK (PMI_Get_universe_size (&n) == PMI_FAIL);
    CHECK (PMI_Get_universe_size (&n) == PMI_FAIL);
    CHECK (PMI_Get_universe_size (&n) == PMI_FAIL);
    CHECK (PMI_Get_appnum (&n) == PMI_FAIL);
    CHECK (PMI_KVS_Get_my_name (text, sizeof (text)) == PMI_FAIL);
    CHECK (PMI_KVS_Get_my_name (text, sizeof (text)) == PMI_FAIL);
    memset (line, 'p', sizeof (line) - 1);
    fake_say (&fake, "cmd=my_kvsname kvsname=");
    fake_say (&fake, line);
    fake_say (&fake, "\ncmd=lookup_result port=");
    fake_say (&fake, line);
    fake_say (&fake, " info=ok rc=0\ncmd=get_result rc=0 value=");
    fake_say (&fake, line);
    fake_say (&fake, "\ncmd=put_result\n");
    CHECK (PMI_KVS_Get_my_name (text, sizeof (text)) == PMI_FAIL);
    CHECK (PMI_Lookup_name ("s", port) == PMI_FAIL);
    CHECK (PMI_KVS_Get ("job", "k", text, sizeof (text))
           == PMI_ERR_INVALID_LENGTH);
    CHECK (PMI_KVS_Put ("job", "k", "v") == PMI_SUCCESS);
    fake_end (&fake);
    check_is_left ("job");
    fake_close (&fake);
}

/* Every call, answered by words that servers say, in no order. */
static void check_junk (unsigned seed)
{
    static const char *const words[] = {
        "cmd=", "barrier_out", "get_result", "appnum", "lookup_result",
        "my_kvsname", " ", " ", "=", "rc=0", "rc=-1", "value=", "port=",
        "kvsname=", "size=", "1", "-", "\n", "\n", "\n", "info=ok",
        "(vector,(0,1,", "999999999", "))", "cmd=get_result rc=0 value=",
        "cmd=my_kvsname kvsname=job\n", "cmd=barrier_out rc=0\n"
    };
    struct fake fake;
    char text[64], port[PMI_PORT_MAX];
    int n, ranks[4];

    fake_open (&fake, "0", "2");
    fake_say (&fake, JOINED);
    CHECK (PMI_Init (&n) == PMI_SUCCESS);
    for (int i = 0; i < 60; i++) {
        seed = seed * 1103515245u + 12345u;
        fake_say (&fake, words[(seed >> 16) % (sizeof (words)
                                               / sizeof (*words))]);
    }
    fake_end (&fake);
    PMI_Get_clique_ranks (ranks, 4);
    PMI_KVS_Get_my_name (text, sizeof (text));
    PMI_Get_universe_size (&n);
    PMI_KVS_Get ("job", "k", text, sizeof (text));
    PMI_Lookup_name ("s", port);
    PMI_Barrier ();
    PMI_Get_appnum (&n);
    PMI_Finalize ();
    fake_close (&fake);
}

int main (void)
{
    refuse_to_join ("");
    refuse_to_join ("cmd=response_to_init rc=-1\n");
    refuse_to_join ("cmd=response_to_init rc=0\n");
    refuse_to_join ("cmd=response_to_init rc=0\ncmd=maxes\n");
    refuse_to_join ("cmd=response_to_init rc=0\n"
                    "cmd=maxes kvsname_max=0 keylen_max=64 vallen_max=9\n");
    refuse_to_join ("cmd=response_to_init rc=0\n"
                    "cmd=maxes kvsname_max=9 keylen_max=-4 vallen_max=9\n");
    refuse_to_join ("cmd=maxes kvsname_max=9 keylen_max=9 vallen_max=9\n");
    check_barriers ();
    check_answers_out_of_range ();
    for (unsigned seed = 0; seed < JUNK_ROUNDS; seed++)
        check_junk (seed);
    return 0;
}
