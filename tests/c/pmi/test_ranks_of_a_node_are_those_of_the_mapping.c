#include "fake.h"

#define MORE 3 /* room beyond the ranks that are expected */

/* The clique of `rank` of `size`, told this mapping; NULL: told none. */
static void check (const char *mapping, const char *rank, const char *size,
                   int count, const int *expected)
{
    struct fake fake;
    char answer[256];
    int n, ranks[16];

    fake_open (&fake, rank, size);
    fake_say (&fake, JOINED);
    CHECK (PMI_Init (&n) == PMI_SUCCESS);
    snprintf (answer, sizeof (answer),
              "cmd=my_kvsname kvsname=job\ncmd=get_result rc=%d value=%s\n",
              mapping ? 0 : -1, mapping ? mapping : "unknown");
    fake_say (&fake, answer);
    CHECK (PMI_Get_clique_size (&n) == PMI_SUCCESS);
    CHECK (n == count);
    fake_say (&fake, answer);
    CHECK (PMI_Get_clique_ranks (ranks, count + MORE) == PMI_SUCCESS);
    CHECK (memcmp (ranks, expected, (size_t)count * sizeof (int)) == 0);
    fake_say (&fake, answer);
    CHECK (PMI_Get_clique_ranks (ranks, count - 1) == PMI_ERR_INVALID_LENGTH);
    fake_end (&fake);
    PMI_Finalize ();
    fake_close (&fake);
}

#define ALONE(mapping) check (mapping, "1", "4", 1, (int[]){ 1 })

int main (void)
{
    check ("(vector,(0,2,2))", "1", "4", 2, (int[]){ 0, 1 });
    check ("(vector,(0,2,2))", "2", "4", 2, (int[]){ 2, 3 });
    check ("(vector,(0,2,1),(0,2,1))", "1", "4", 2, (int[]){ 1, 3 });
    check ("(vector,(0,2,1))", "0", "5", 3, (int[]){ 0, 2, 4 });
    check ("(vector,(0,1,3),(1,1,1))", "0", "4", 3, (int[]){ 0, 1, 2 });
    check ("(vector,(0,1,3),(1,1,1))", "3", "4", 1, (int[]){ 3 });
    check ("(vector,(0,99999999,99999999))", "1", "4", 4,
           (int[]){ 0, 1, 2, 3 });
    ALONE (NULL);
    ALONE ("");
    ALONE ("(vector)");
    ALONE ("(vector,)");
    ALONE ("(vector,(0,0,2))");
    ALONE ("(vector,(0,2,0))");
    ALONE ("(vector,(0,2,-1))");
    ALONE ("(vector,(0,2,1)");
    ALONE ("(vector,(0,1,1),(0,2");
    ALONE ("(vector,(99999999999,2,2))");
    ALONE ("matrix");
    return 0;
}
