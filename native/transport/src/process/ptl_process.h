/* ptl_process.h - the process: init count, one lock, abort.
 *
 * Every public call is
 *
 *     ptl_enter ()   PTL_NO_INIT, or the lock is held
 *     ...            objects by their handles (ptl_handle.h)
 *     ptl_leave (end, rc)   what is owed is written, waiters are told, unlock
 *
 * One lock is enough: the four interfaces of a process share an endpoint, and
 * an operation touches two of its interfaces' objects at most by accident.
 *
 * In a forked child nothing is looked at and no lock is taken: PTL_NO_INIT.
 */
#ifndef PTL_PROCESS_H
#define PTL_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ptl_end;

/* Begin a public call. PTL_OK: the lock is held; PTL_NO_INIT: it is not. */
int ptl_enter (void);

/* End a call: settle the endpoint (NULL: none), unlock. Returns `rc`. */
int ptl_leave (struct ptl_end *end, int rc);

/* Count a user of the library. PTL_OK, PTL_FAIL (in a forked child, too). */
int ptl_process_init (void);

/* One user less. True for the last one: the lock is held, and after ending
 * all that is left the caller says ptl_process_ended, which unlocks. */
bool ptl_process_fini (void);
void ptl_process_ended (void);

/* For those who sleep within a call. */
pthread_mutex_t *ptl_the_lock (void);
void ptl_lock (void);
void ptl_unlock (void);

/* Give the lock to those who want it; cheap when nobody does. */
void ptl_let_others (void);

/* End all waits until the last PtlFini. A signal handler may call it at any
 * point: no lock is taken, and errno is kept. */
void ptl_abort (void);
bool ptl_is_aborted (void);

/* Have an abort wake those who sleep in an endpoint's epoll set. PTL_OK,
 * PTL_FAIL. */
int ptl_abort_watch (struct ptl_end *end);

/* An abort has woken the set: wake the other waiters, and let the set be waited
 * for again. */
void ptl_abort_seen (struct ptl_end *end);

#endif
