/* pmi.h - the way of a rank to the server of PMI that is this job's. */
#ifndef YOD_INIT_PMI_H
#define YOD_INIT_PMI_H

#include <poll.h>
#include <stdbool.h>

#define PMI_POLLED 2

/* Whether this process has such a server (PMI_PORT or PMI_FD). */
bool pmi_is_offered (void);

/* Make the two pipes to the parent of the rank (relay.h), with our ends at these
 * descriptors.
 * theirs: what it reads from and what it writes to; they close when a program is
 * executed. 0, or -1 */
int pmi_open (int down, int up, int theirs[2]);

/* The rank has been brought back: this server knows nothing of it. */
void pmi_is_another (void);

/* The descriptors to be polled; then carry what there is. */
void pmi_poll (struct pollfd fds[PMI_POLLED]);
void pmi_carry (const struct pollfd fds[PMI_POLLED]);

#endif
