/* ptl_api.c - public calls: library, interfaces, identity. */
#include "ptl_api.h"

#include <sched.h>
#include <string.h>

#include "ptl_ct.h"
#include "ptl_ends.h"
#include "ptl_eq.h"
#include "ptl_map.h"
#include "ptl_md.h"
#include "ptl_me.h"
#include "ptl_shared.h"
#include "ptl_wait.h"

/* ---- beginning a call ---- */

static int find (uint32_t handle, enum ptl_kind kind, void *objectp)
{
    int rc = ptl_enter ();

    if (rc == PTL_OK
        && (rc = ptl_handle_find (handle, kind, objectp)) != PTL_OK)
        ptl_leave (NULL, rc);
    return rc;
}

/* The progress thread keeps away while there are calls. */
static int begun (const struct ptl_ni *ni)
{
    ni->end->n_calls++;
    return PTL_OK;
}

/* A call may set deadlines: it needs the time. */
int ptl_api_ni (uint32_t handle, struct ptl_ni **nip)
{
    int rc = find (handle, PTL_HANDLE_NI, nip);

    if (rc != PTL_OK)
        return rc;
    ptl_end_look_at_clock ((*nip)->end);
    return begun (*nip);
}

int ptl_api_eq (uint32_t handle, struct ptl_eq **eqp)
{
    int rc = find (handle, PTL_HANDLE_EQ, eqp);

    return rc == PTL_OK ? begun ((*eqp)->ni) : rc;
}

int ptl_api_ct (uint32_t handle, struct ptl_ct **ctp)
{
    int rc = find (handle, PTL_HANDLE_CT, ctp);

    return rc == PTL_OK ? begun ((*ctp)->ni) : rc;
}

int ptl_api_md (uint32_t handle, struct ptl_md **mdp)
{
    int rc = find (handle, PTL_HANDLE_MD, mdp);

    return rc == PTL_OK ? begun ((*mdp)->ni) : rc;
}

int ptl_api_me (uint32_t handle, struct ptl_me **mep)
{
    int rc = find (handle, PTL_HANDLE_ME, mep);

    return rc == PTL_OK ? begun ((*mep)->ni) : rc;
}

int ptl_api_find_eq (const struct ptl_ni *ni, uint32_t handle,
                     struct ptl_eq **eqp)
{
    int rc;

    *eqp = NULL;
    if (handle == PTL_EQ_NONE)
        return PTL_OK;
    rc = ptl_handle_find (handle, PTL_HANDLE_EQ, eqp);
    return rc == PTL_OK && (*eqp)->ni != ni ? PTL_ARG_INVALID : rc;
}

int ptl_api_find_ct (const struct ptl_ni *ni, uint32_t handle,
                     struct ptl_ct **ctp)
{
    int rc;

    *ctp = NULL;
    if (handle == PTL_CT_NONE)
        return PTL_OK;
    rc = ptl_handle_find (handle, PTL_HANDLE_CT, ctp);
    return rc == PTL_OK && (*ctp)->ni != ni ? PTL_ARG_INVALID : rc;
}

/* ---- library ---- */

int PtlInit (void)
{
    return ptl_process_init ();
}

void PtlFini (void)
{
    if (!ptl_process_fini ())
        return;
    ptl_shared_stop ();
    ptl_ends_free_all ();
    ptl_process_ended ();
}

void PtlAbort (void)
{
    ptl_abort ();
}

/* ---- interfaces ---- */

/* Begin a call that may make the shared endpoint; not while another thread ends
 * the old one. */
static int enter_when_ended (void)
{
    int rc = ptl_enter ();

    while (rc == PTL_OK && ptl_shared_is_ending ()) {
        ptl_leave (NULL, PTL_OK);
        sched_yield ();
        rc = ptl_enter ();
    }
    return rc;
}

int PtlNIInit (ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
               const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
               ptl_handle_ni_t *handle)
{
    int kind = ptl_ni_kind_of (options);
    struct ptl_ni *ni;
    int rc = enter_when_ended ();

    if (rc != PTL_OK)
        return rc;
    if (iface != PTL_IFACE_DEFAULT || kind < 0 || !handle
        || (pid > 65535 && pid != PTL_PID_ANY))
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if ((rc = ptl_shared_open (kind, pid, desired, &ni)) != PTL_OK)
        return ptl_leave (NULL, rc);
    if (actual)
        *actual = ni->limits;
    *handle = ni->handle;
    return ptl_leave (ni->end, PTL_OK);
}

int PtlNIFini (ptl_handle_ni_t handle)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    return ptl_leave (ptl_shared_close (ni), PTL_OK);
}

int PtlNIStatus (ptl_handle_ni_t handle, ptl_sr_index_t index,
                 ptl_sr_value_t *value)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!value || (unsigned)index > PTL_SR_OPERATION_VIOLATIONS)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    *value = (ptl_sr_value_t)ni->status[index];
    return ptl_leave (NULL, PTL_OK);
}

static struct ptl_ni *interface_of (enum ptl_kind kind, void *object)
{
    switch (kind) {
    case PTL_HANDLE_NI:
        return object;
    case PTL_HANDLE_EQ:
        return ((struct ptl_eq *)object)->ni;
    case PTL_HANDLE_CT:
        return ((struct ptl_ct *)object)->ni;
    case PTL_HANDLE_MD:
        return ((struct ptl_md *)object)->ni;
    default:
        return ((struct ptl_me *)object)->ni;
    }
}

int PtlNIHandle (ptl_handle_any_t handle, ptl_handle_ni_t *ni_handle)
{
    enum ptl_kind kind;
    void *object;
    int rc = ptl_enter ();

    if (rc != PTL_OK)
        return rc;
    kind = ptl_handle_kind (handle);
    if (!ni_handle
        || ptl_handle_find (handle, kind, &object) != PTL_OK)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    *ni_handle = interface_of (kind, object)->handle;
    return ptl_leave (NULL, PTL_OK);
}

int PtlHandleIsEqual (ptl_handle_any_t a, ptl_handle_any_t b)
{
    return a == b;
}

/* ---- identity ---- */

int PtlGetPhysId (ptl_handle_ni_t handle, ptl_process_t *id)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!id)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    id->phys.nid = ni->end->self.nid;
    id->phys.pid = ni->end->self.pid;
    return ptl_leave (NULL, PTL_OK);
}

int PtlGetId (ptl_handle_ni_t handle, ptl_process_t *id)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!id)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    *id = (ptl_process_t){ .phys = { ni->end->self.nid, ni->end->self.pid } };
    if (ptl_ni_is_logical (ni))
        id->rank = ptl_map_rank (ni->map, id->phys.nid, id->phys.pid);
    return ptl_leave (NULL, PTL_OK);
}

int PtlGetUid (ptl_handle_ni_t handle, ptl_uid_t *uid)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!uid)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    *uid = ni->end->self.uid;
    return ptl_leave (NULL, PTL_OK);
}

static bool is_process (const ptl_process_t *id)
{
    return id->phys.nid != 0 && id->phys.nid != PTL_NID_ANY
        && id->phys.pid != 0 && id->phys.pid != PTL_PID_ANY;
}

int PtlSetMap (ptl_handle_ni_t handle, ptl_size_t map_size,
               const ptl_process_t *mapping)
{
    struct ptl_ni *ni;
    struct ptl_map *map;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!ptl_ni_is_logical (ni) || map_size == 0 || !mapping
        || map_size > PTL_RANK_ANY)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    for (ptl_size_t i = 0; i < map_size; i++)
        if (!is_process (&mapping[i]))
            return ptl_leave (NULL, PTL_ARG_INVALID);
    if (!(map = ptl_map_alloc (mapping, map_size)))
        return ptl_leave (NULL, PTL_NO_SPACE);
    ptl_map_free (ni->map);
    ni->map = map;
    return ptl_leave (NULL, PTL_OK);
}

int PtlGetMap (ptl_handle_ni_t handle, ptl_size_t map_size,
               ptl_process_t *mapping, ptl_size_t *actual_map_size)
{
    struct ptl_ni *ni;
    size_t n;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!ptl_ni_is_logical (ni) || (!mapping && map_size > 0)
        || (map_size == 0 && !actual_map_size))
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if (!ni->map)
        return ptl_leave (NULL, PTL_NO_SPACE);
    n = map_size < ni->map->size ? map_size : ni->map->size;
    if (n > 0)
        memcpy (mapping, ni->map->processes, n * sizeof (*mapping));
    if (actual_map_size)
        *actual_map_size = ni->map->size;
    return ptl_leave (NULL, PTL_OK);
}
