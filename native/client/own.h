/* own.h - a description of our own of a pipe or terminal.
 *
 * It does not block, and the one that we share with the process that started
 * us stays as it is.
 */
#ifndef YOD_CLIENT_OWN_H
#define YOD_CLIENT_OWN_H

/* Open the same pipe or terminal again.
 *   access   O_RDONLY or O_WRONLY
 *   a descriptor, or -1: it is something else, or that is not possible
 */
int own_description (int fd, int access);

#endif
