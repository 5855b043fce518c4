/* Two processes that nobody has started together: each writes its id to a file,
 * reads the other's, and sets the map.
 *
 *   shells DIRECTORY RANK
 */
#define KIND 1
#include "world.h"

static ptl_process_t id_in (const char *directory, int other)
{
    ptl_process_t id;
    char path[256];
    FILE *file;

    snprintf (path, sizeof (path), "%s/%d", directory, other);
    while (!(file = fopen (path, "r")))
        usleep (1000);
    CHECK (fscanf (file, "%u %u", &id.phys.nid, &id.phys.pid) == 2);
    fclose (file);
    return id;
}

static void tell (const char *directory, ptl_process_t id)
{
    char path[256], made[260];
    FILE *file;

    snprintf (path, sizeof (path), "%s/%d", directory, rank);
    snprintf (made, sizeof (made), "%s.new", path);
    CHECK (file = fopen (made, "w"));
    fprintf (file, "%u %u\n", id.phys.nid, id.phys.pid);
    fclose (file);
    CHECK (rename (made, path) == 0);
}

int main (int argc, char **argv)
{
    static uint64_t cells[2];
    ptl_process_t own, map[2];
    ptl_handle_ni_t ni;
    ptl_handle_ct_t came, done;
    ptl_handle_md_t md;
    uint64_t word;

    signal (SIGALRM, too_long);
    alarm (TOO_LONG_S);
    CHECK (argc == 3);
    rank = atoi (argv[2]);
    size = 2;
    OK (PtlInit ());
    OK (PtlNIInit (PTL_IFACE_DEFAULT, NI_OPTIONS, PTL_PID_ANY, NULL, NULL,
                   &ni));
    OK (PtlGetPhysId (ni, &own));
    OK (PtlCTAlloc (ni, &came));
    OK (PtlCTAlloc (ni, &done));
    expose (ni, 0, cells, sizeof (cells), PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM,
            came);
    word = (uint64_t)rank + 5;
    md = bind_md (ni, &word, 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, done);
    tell (argv[1], own);
    map[rank] = own;
    map[!rank] = id_in (argv[1], !rank);
    OK (PtlSetMap (ni, 2, map));
    OK (PtlPut (md, 0, 8, PTL_CT_ACK_REQ,
                (ptl_process_t){ .rank = (ptl_rank_t)!rank }, 0, 0,
                8 * (ptl_size_t)rank, NULL, 0));
    wait_count (done, 1);
    wait_count (came, 1);
    CHECK (cells[!rank] == (uint64_t)!rank + 5);
    PtlFini ();
    return 0;
}
