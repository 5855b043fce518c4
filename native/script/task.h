/* task.h - what yod-script is given on its standard input.
 *
 * A frame as pct/script.py makes it, little-endian:
 *
 *     u32 bytes that follow
 *     u32 umask, is_held, arguments, variables, directories, words of the
 *         container, bytes of the script
 *     strings, each ended by NUL: directory, output, host, key, key_name,
 *         the arguments, the variables, the directories, the container's words
 *     the script
 */
#ifndef YOD_SCRIPT_TASK_H
#define YOD_SCRIPT_TASK_H

#include <stdint.h>

#define TASK_MAX_BYTES (4u << 20)
#define TASK_MORE_VARIABLES 2           /* room at the end of the environment */

struct task {
    uint32_t umask;
    uint32_t is_held;                   /* the script waits for the broker */
    const char *directory;              /* to run in */
    const char *output;                 /* file for standard output and error */
    const char *host;                   /* IPv4 address for the listener */
    const char *key;                    /* content of the key file */
    const char *key_name;               /* of that file, without its end */
    char **arguments;
    char **variables;
    uint32_t n_variables;
    char **directories;                 /* of the key; the first one exists */
    char **container;                   /* yod-init and criu; none: it has none */
    uint32_t n_container;
    uint32_t n_arguments;
    const char *script;
    uint32_t script_bytes;
};

/* Read a task from a pipe, and nothing of what is behind it.
 * Returns NULL, or what is wrong with it. */
const char *task_read (int fd, struct task *task);

#endif
