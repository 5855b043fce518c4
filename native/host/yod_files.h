/* yod_files.h - opens files that users name, for a daemon that runs as root.
 *
 * Not part of the transport: only the Python extension contains it.
 */
#ifndef YOD_FILES_H
#define YOD_FILES_H

#include <stddef.h>
#include <stdint.h>

/* Open a plain file for reading with the rights of a user.
 *
 * The calling thread takes the user's ids and groups for file access, and has
 * its own again when the call returns. Symbolic links are followed. A device,
 * FIFO, socket or directory is not opened: the call finds the kind of the file
 * by a descriptor that can neither read nor write.
 *
 * groups: the user's supplementary groups.
 * path_only: stop at that descriptor, whatever the file is. It tells that the
 *   user can reach the file, and no more.
 *
 * A descriptor, close-on-exec, or a negative errno:
 *   -EINVAL  it is not a plain file
 *   -EPERM   this process may not act for the user
 */
int yod_open_as (uint32_t uid, uint32_t gid, const uint32_t *groups,
                 size_t n_groups, const char *path, int path_only);

/* Free the blocks of a part of a file that is open for writing; its size stays.
 * 0 or a negative errno. */
int yod_punch (int fd, uint64_t offset, uint64_t length);

#endif
