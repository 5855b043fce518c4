/* With one argument, prints the pcts in whose jobs' ranks a group is, the next
 * one first. With two, has root's pct have the group deny the devices: prints
 * "done", or the problem. Built with sanitizers.
 */
#include <stdio.h>
#include <string.h>

#include "devices/fence.h"

int main (int argc, char **argv)
{
    char problem[REPORT_TEXT_BYTES];
    const char *pct = argv[1] + strlen (argv[1]);

    if (argc > 2) {
        int result = fence_ask (argv[1], argv[2], problem);

        printf ("%s", result == 0 ? "done" : problem);
        return 0;
    }
    while ((pct = fence_pct (argv[1], pct)) != NULL)
        printf ("%.*s ", (int) strcspn (pct, "/"), pct);
    return 0;
}
