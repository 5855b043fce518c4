/* replay.c - runs a target over files, without libFuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void run (const char *path)
{
    FILE *file = fopen (path, "rb");
    uint8_t *data = NULL;
    long size;

    if (!file || fseek (file, 0, SEEK_END) < 0 || (size = ftell (file)) < 0
        || !(data = malloc ((size_t)size + 1))) {
        perror (path);
        exit (2);
    }
    rewind (file);
    if (fread (data, 1, (size_t)size, file) != (size_t)size) {
        perror (path);
        exit (2);
    }
    fclose (file);
    fprintf (stderr, "%s\n", path); /* the last one is the finding */
    LLVMFuzzerTestOneInput (data, (size_t)size);
    free (data);
}

int main (int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run (argv[i]);
    return 0;
}
