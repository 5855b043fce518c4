#include "name.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define YOD_FAILURE 125
#define YODJOB_FAILURE 1

static bool is_yodjob;

bool name_path (char path[])
{
    const char *started = (const char *) getauxval (AT_EXECFN);
    ssize_t n = readlink ("/proc/self/exe", path, PATH_MAX - 1);

    if (n > 0)
        path[n] = 0;
    return n > 0 || (started && realpath (started, path));
}

void name_find (void)
{
    char path[PATH_MAX], *slash;

    if (name_path (path) && (slash = strrchr (path, '/')))
        is_yodjob = strcmp (slash + 1, "yodjob") == 0;
}

const char *name_of_command (void)
{
    return is_yodjob ? "yodjob" : "yod";
}

bool name_is_yodjob (void)
{
    return is_yodjob;
}

int name_failure (void)
{
    return is_yodjob ? YODJOB_FAILURE : YOD_FAILURE;
}

bool name_is_for_server (int argc, char *argv[])
{
    static const char *const words[] = {
        "submit", "list", "show", "signal", "cancel",
    };

    for (size_t i = 0; argc > 1 && i < sizeof (words) / sizeof (words[0]); i++)
        if (strcmp (argv[1], words[i]) == 0)
            return true;
    return !is_yodjob;
}
