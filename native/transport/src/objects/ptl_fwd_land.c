#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ptl_ct.h"
#include "ptl_fwd.h"
#include "ptl_fwd_parts.h"
#include "ptl_me.h"
#include "ptl_ni.h"

#define NO_PARENT UINT64_MAX
#define ARMED_MAX 256u /* puts of an object to a child at a time */

static int permits (struct ptl_me *me, const struct ptl_who *who,
                    uint64_t offset, uint64_t length)
{
    const struct ptl_fwd *fwd = me->object;

    if (who->kind != PTLX_KEY_PARTITION
        && !(who->kind == PTLX_KEY_JOB
             && who->job_id == fwd->object.job_id))
        return PTL_NI_PERM_VIOLATION;
    if (fwd->parent != NO_PARENT && fwd->parent != who->serial)
        return PTL_NI_PERM_VIOLATION;
    if (me->busy > 0 || fwd->landed == fwd->n_chunks
        || offset != fwd->landed * fwd->object.chunk_bytes
        || length != ptl_fwd_chunk_length (fwd, fwd->landed))
        return PTL_NI_OP_VIOLATION;
    ((struct ptl_fwd *)me->object)->parent = who->serial;
    return PTL_NI_OK;
}

/* A whole chunk has landed, or its sender has gone. The counter has released
 * the puts to the children; the chunk is hashed after they are sent. */
static void landed (struct ptl_me *me, const struct ptl_rx *rx, int failed)
{
    struct ptl_fwd *fwd = me->object;

    (void)rx;
    ptl_fwd_do_later (fwd);
    if (failed != PTL_NI_OK) {
        ptl_fwd_fail (fwd, PTLX_OBJECT_PARENT_LOST, 0, NULL);
        return;
    }
    fwd->last_ns = ptl_clock_ns ();
    if (fwd->landed++ == 0)
        fwd->first_ns = fwd->last_ns;
}

static const struct ptl_me_owner owner = { permits, landed };

/* Are puts to the children alive, or waiting for their turn? */
static bool is_passing_on (const struct ptl_fwd *fwd)
{
    return fwd->n_ops > 0
        || (fwd->object.n_children > 0 && fwd->armed < fwd->n_chunks);
}

/* Remove the writable mapping; map what children still need again,
 * read-only. */
static void seal (struct ptl_fwd *fwd)
{
    void *at = MAP_FAILED;

    if (is_passing_on (fwd) && fwd->fd >= 0)
        at = mmap (fwd->map, fwd->object.size, PROT_READ,
                   MAP_SHARED | MAP_FIXED, fwd->fd, 0);
    if (at == MAP_FAILED && !is_passing_on (fwd)) {
        munmap (fwd->map, fwd->object.size);
        fwd->map = NULL;
    }
    if (fwd->fd >= 0)
        close (fwd->fd);
    fwd->fd = -1;
}

static void hash_landed (struct ptl_fwd *fwd)
{
    for (; fwd->hashed < fwd->landed; fwd->hashed++)
        ptl_blake2b_update (&fwd->hash,
                            fwd->map
                                + fwd->hashed * fwd->object.chunk_bytes,
                            ptl_fwd_chunk_length (fwd, fwd->hashed));
}

/* Make the puts of the next chunks, which are released when these land: enough
 * to keep every child busy, not one for each chunk. */
static int arm_triggers (struct ptl_fwd *fwd)
{
    const struct ptlx_object *o = &fwd->object;
    struct ptl_op *op;

    while (fwd->armed < fwd->n_chunks
           && fwd->n_ops < ARMED_MAX * o->n_children
           && ptl_fwd_turn_to_pass_on (fwd)) {
        for (uint32_t i = 0; i < o->n_children; i++) {
            op = ptl_fwd_chunk (fwd, fwd->armed, &o->children[i],
                                fwd->map + fwd->armed * o->chunk_bytes);
            if (!op)
                return PTL_NO_SPACE;
            ptl_ct_trigger (fwd->ct, &op->work);
        }
        fwd->armed++;
    }
    return PTL_OK;
}

static void arrive (struct ptl_fwd *fwd)
{
    ptl_me_free (fwd->me);
    fwd->me = NULL;
    seal (fwd);
    fwd->is_arrived = true;
    ptl_fwd_notify (fwd, PTLX_EVENT_OBJECT_ARRIVED);
}

void ptl_fwd_tend_receiver (struct ptl_fwd *fwd)
{
    hash_landed (fwd);
    if (arm_triggers (fwd) != PTL_OK) {
        ptl_fwd_fail (fwd, PTLX_OBJECT_FILE_ERROR, ENOMEM, NULL);
        return;
    }
    if (fwd->landed < fwd->n_chunks)
        return;
    if (!fwd->is_arrived)
        arrive (fwd);
    if (is_passing_on (fwd))
        return;
    if (fwd->object.n_children > 0)
        ptl_fwd_notify (fwd, PTLX_EVENT_OBJECT_SENT);
    fwd->is_over = true;
    ptl_fwd_destroy (fwd);
}

static int map_file (struct ptl_fwd *fwd)
{
    char path[32];
    void *map = mmap (NULL, fwd->object.size, PROT_READ | PROT_WRITE,
                      MAP_SHARED, fwd->object.fd, 0);

    if (map == MAP_FAILED)
        return PTL_FAIL;
    fwd->map = map;
    snprintf (path, sizeof (path), "/proc/self/fd/%d", fwd->object.fd);
    if (fwd->object.n_children > 0)
        fwd->fd = open (path, O_RDONLY | O_CLOEXEC);
    return PTL_OK;
}

static int open_entry (struct ptl_fwd *fwd)
{
    ptl_me_t me = {
        .start = fwd->map,
        .length = fwd->object.size,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .match_bits = fwd->object.match_bits,
    };
    struct ptl_ni *ni = fwd->end->nis[0];
    uint32_t index;
    int rc = PTL_OK;

    if (!ptl_ni_pt (ni, PTL_PT_OBJECTS))
        rc = ptl_pt_alloc (ni, 0, NULL, PTL_PT_OBJECTS, &index);
    if (rc == PTL_OK)
        rc = ptl_me_append (ni, PTL_PT_OBJECTS, &me, fwd->ct,
                            PTL_PRIORITY_LIST, NULL, &fwd->me);
    if (rc == PTL_OK) {
        fwd->me->owner = &owner;
        fwd->me->object = fwd;
    }
    return rc;
}

int ptl_fwd_arm_receiver (struct ptl_fwd *fwd)
{
    int rc;

    fwd->parent = NO_PARENT;
    ptl_blake2b_init (&fwd->hash, NULL, NULL);
    if ((rc = map_file (fwd)) != PTL_OK
        || (rc = ptl_ct_alloc (fwd->end->nis[0], &fwd->ct)) != PTL_OK
        || (rc = open_entry (fwd)) != PTL_OK)
        return rc;
    return arm_triggers (fwd);
}
