/* landlord.h - the process that keeps the namespaces of a house. */
#ifndef YOD_INIT_LANDLORD_H
#define YOD_INIT_LANDLORD_H

#include <sys/types.h>

#include "house.h"

/* Start it, with the socket that ranks write to.
 * path: the name of that, which it removes when all are there; "": none.
 * Returns its number, or -1 */
pid_t landlord_start (const struct house_order *order, int fd, const char *path);

#endif
