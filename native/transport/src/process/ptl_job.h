/* ptl_job.h - what yod gives a rank: its listener, the job's key and its map.
 *
 * YOD_PORTALS=FILE,LISTENER,RANK names two inherited descriptors and the place
 * of this process in the map; native/wire/RANK.md is the specification.
 */
#ifndef PTL_JOB_H
#define PTL_JOB_H

#include <stdint.h>

#include "portals4_ext.h"

struct ptl_job {
    int listen_fd; /* TCP, listening, not blocking, closed on exec */
    uint32_t rank, size;
    ptl_process_t self;  /* map[rank] */
    struct ptlx_key key; /* of the job: its holders are its ranks */
    ptl_process_t *map;  /* `size` physical ids, in the order of the ranks */
    const char *why;     /* PTL_FAIL: what is wrong; else NULL */
};

/* Read it, once in the life of a process.
 *   PTL_OK        *job is complete; ptl_job_free gives it back
 *   PTL_IGNORED   no YOD_PORTALS: this is no rank of a job with Portals
 *   PTL_NO_SPACE  no memory
 *   PTL_FAIL      what it names is not what RANK.md says, see job->why
 * Both descriptors are closed on exec afterwards, and none is closed here. */
int ptl_job_read (struct ptl_job *job);

/* Forget the key and the map. The listener stays open. */
void ptl_job_free (struct ptl_job *job);

#endif
