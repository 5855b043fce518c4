#include "fake.h"

static void check_before_init (void)
{
    char text[16];
    int n;

    CHECK (PMI_Init (NULL) == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Initialized (NULL) == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Finalize () == PMI_ERR_INIT);
    CHECK (PMI_Get_size (&n) == PMI_ERR_INIT);
    CHECK (PMI_Get_rank (&n) == PMI_ERR_INIT);
    CHECK (PMI_Get_universe_size (&n) == PMI_ERR_INIT);
    CHECK (PMI_Get_appnum (&n) == PMI_ERR_INIT);
    CHECK (PMI_Get_clique_size (&n) == PMI_ERR_INIT);
    CHECK (PMI_Get_clique_ranks (&n, 1) == PMI_ERR_INIT);
    CHECK (PMI_Barrier () == PMI_ERR_INIT);
    CHECK (PMI_KVS_Get_my_name (text, 16) == PMI_ERR_INIT);
    CHECK (PMI_KVS_Get_key_length_max (&n) == PMI_ERR_INIT);
    CHECK (PMI_KVS_Put ("job", "k", "v") == PMI_ERR_INIT);
    CHECK (PMI_KVS_Commit ("job") == PMI_ERR_INIT);
    CHECK (PMI_KVS_Get ("job", "k", text, 16) == PMI_ERR_INIT);
    CHECK (PMI_Publish_name ("s", "p") == PMI_ERR_INIT);
    CHECK (PMI_Unpublish_name ("s") == PMI_ERR_INIT);
    CHECK (PMI_Lookup_name ("s", text) == PMI_ERR_INIT);
}

static void check_null (void)
{
    char text[16];

    CHECK (PMI_Get_size (NULL) == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Get_rank (NULL) == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Get_universe_size (NULL) == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Get_clique_ranks (NULL, 1) == PMI_ERR_INVALID_ARG);
    CHECK (PMI_KVS_Get_my_name (NULL, 16) == PMI_ERR_INVALID_ARG);
    CHECK (PMI_KVS_Get_my_name (text, 0) == PMI_ERR_INVALID_LENGTH);
    CHECK (PMI_KVS_Put (NULL, "k", "v") == PMI_ERR_INVALID_ARG);
    CHECK (PMI_KVS_Put ("job", NULL, "v") == PMI_ERR_INVALID_KEY);
    CHECK (PMI_KVS_Put ("job", "k", NULL) == PMI_ERR_INVALID_VAL);
    CHECK (PMI_KVS_Get ("job", "k", NULL, 9) == PMI_ERR_INVALID_VAL);
    CHECK (PMI_KVS_Get ("job", "k", text, 0) == PMI_ERR_INVALID_LENGTH);
    CHECK (PMI_KVS_Get ("job", "k", text, -1) == PMI_ERR_INVALID_LENGTH);
    CHECK (PMI_Publish_name (NULL, "p") == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Publish_name ("s", NULL) == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Lookup_name ("s", NULL) == PMI_ERR_INVALID_ARG);
}

static void check_words (void)
{
    static char longer[8193];

    memset (longer, 'x', sizeof (longer) - 1);
    CHECK (PMI_KVS_Put ("a job", "k", "v") == PMI_ERR_INVALID_ARG);
    CHECK (PMI_KVS_Put (longer, "k", "v") == PMI_ERR_INVALID_ARG);
    CHECK (PMI_KVS_Put ("job", "", "v") == PMI_ERR_INVALID_KEY);
    CHECK (PMI_KVS_Put ("job", "a key", "v") == PMI_ERR_INVALID_KEY);
    CHECK (PMI_KVS_Put ("job", "a=key", "v") == PMI_ERR_INVALID_KEY);
    CHECK (PMI_KVS_Put ("job", "k\n", "v") == PMI_ERR_INVALID_KEY);
    CHECK (PMI_KVS_Put ("job", longer, "v") == PMI_ERR_INVALID_KEY_LENGTH);
    CHECK (PMI_KVS_Put ("job", "k", "v\ncmd=abort") == PMI_ERR_INVALID_VAL);
    CHECK (PMI_KVS_Put ("job", "k", longer) == PMI_ERR_INVALID_VAL_LENGTH);
    CHECK (PMI_Publish_name ("s port=2", "p") == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Publish_name ("s\n", "p") == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Publish_name (longer, "p") == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Publish_name ("s", longer) == PMI_ERR_INVALID_ARG);
    CHECK (PMI_Publish_name ("s", "p\n") == PMI_ERR_INVALID_ARG);
}

int main (void)
{
    struct fake fake;
    int n;

    check_before_init ();
    fake_open (&fake, "0", "1");
    fake_say (&fake, JOINED);
    CHECK (PMI_Init (&n) == PMI_SUCCESS);
    fake_heard (&fake, "cmd=init pmi_version=1 pmi_subversion=1\n"
                       "cmd=get_maxes\n");
    check_null ();
    check_words ();
    fake_heard (&fake, "");
    fake_say (&fake, "cmd=finalize_ack rc=0\n");
    CHECK (PMI_Finalize () == PMI_SUCCESS);
    fake_close (&fake);
    return 0;
}
