#include "harness.h"
#include "ptl_conn.h"
#include "ptl_peer.h"

int main (void)
{
    /* The rest of an idle peer is one slot of the hash table. */
    CHECK (sizeof (struct ptl_conn) + sizeof (struct ptl_peer)
               + sizeof (struct ptl_peer *)
           <= 1024);
    return 0;
}
