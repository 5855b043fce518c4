/* request.h - the invocation: what the client was started with.
 *
 * Arguments, environment and the directory's path travel as a sealed file in
 * memory, so that they may have any size that the kernel let us start with.
 */
#ifndef YOD_CLIENT_REQUEST_H
#define YOD_CLIENT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

/* Make the REQUEST, which is kept until it is sent or dropped.
 *   ignored   signals that the client was started to ignore
 *   closed    descriptors 0 to 2 that it was started without; bit 0 is 0
 *   has_stand_in   the user may leave: standin.h
 *   false     it cannot be made; errno says why
 */
bool request_make (int argc, char *argv[], uint64_t ignored, unsigned closed,
                   bool has_stand_in);

/* Send it.
 *   false     it has not been sent; errno says why
 */
bool request_send (int socket);

/* Close its descriptors. */
void request_drop (void);

#endif
