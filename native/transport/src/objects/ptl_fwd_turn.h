/* ptl_fwd_turn.h - the objects of one job at an endpoint take turns.
 *
 * A job names up to a thousand objects, and one whose messages are hostile has
 * all of them sent at once. What they need of memory besides their files is
 * bounded for the job, however many there are: the buffers of sources and the
 * puts of their chunks by config.sending_bytes, the puts of relays by a number.
 *
 * Whoever finds no room waits in a list and is tended when there is some. None
 * waits for ever: what a source or a relay has under way needs nothing of
 * another object, neither here nor at a child, where chunks land in a file.
 */
#ifndef PTL_FWD_TURN_H
#define PTL_FWD_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "ptl_list.h"

struct ptl_fwd;

struct ptl_fwd_turns {
    struct ptl_node node; /* in end->turns */
    uint64_t job_id;
    unsigned n_objects;
    unsigned n_puts;   /* alive, of its relays */
    uint64_t buffered; /* bytes that its sources hold */
    struct ptl_node sources, relays; /* that wait */
};

/* Add an object to those of its job. PTL_OK, PTL_NO_SPACE. */
int ptl_fwd_turns_join (struct ptl_fwd *fwd);

/* It gives its turn up; the next object may have it. */
void ptl_fwd_turn_forgo (struct ptl_fwd *fwd);

/* It is freed. Nothing happens if it never joined. */
void ptl_fwd_turns_leave (struct ptl_fwd *fwd);

/* A source asks for so many bytes, which it holds until it leaves; false: it
 * waits. The first of a job gets any amount. First come, first served. */
bool ptl_fwd_turn_to_read (struct ptl_fwd *fwd, uint64_t bytes);

/* A relay asks to make the puts of one more chunk; false: it waits. */
bool ptl_fwd_turn_to_pass_on (struct ptl_fwd *fwd);

/* One more put of an object exists; so many have ended. */
void ptl_fwd_put_made (struct ptl_fwd *fwd);
void ptl_fwd_puts_ended (struct ptl_fwd *fwd, unsigned n);

#endif
