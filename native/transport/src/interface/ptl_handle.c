#include "ptl_handle.h"

#include <stdbool.h>
#include <stdlib.h>

#include "portals4.h"

#define NUMBER_BITS 28
#define NUMBER_COUNT ((1u << NUMBER_BITS) - 1) /* the last one is "none" */
#define FIRST_BUCKETS 64

_Static_assert (PTL_EQ_NONE
                        == ((unsigned)PTL_HANDLE_EQ << NUMBER_BITS
                            | NUMBER_COUNT)
                    && PTL_CT_NONE
                        == ((unsigned)PTL_HANDLE_CT << NUMBER_BITS
                            | NUMBER_COUNT),
                "no object has these");

struct entry {
    struct entry *next; /* in the bucket, or in the list of unused ones */
    void *object;
    uint32_t handle;
};

static struct {
    uint32_t numbers[PTL_HANDLE_KINDS]; /* objects of a kind ever made */
    struct entry **buckets, *unused;
    uint32_t n_buckets, n_entries;
} table;

/* Numbers of one kind are consecutive: their low bits fill buckets evenly. */
static struct entry **bucket_of (uint32_t handle)
{
    uint32_t kind = handle >> NUMBER_BITS;

    return &table.buckets[(handle + kind * 7) & (table.n_buckets - 1)];
}

static bool grow (void)
{
    uint32_t old_buckets = table.n_buckets;
    struct entry **old = table.buckets, **new, *entry;

    table.n_buckets = old_buckets ? old_buckets * 2 : FIRST_BUCKETS;
    if (!(new = calloc (table.n_buckets, sizeof (*new)))) {
        table.n_buckets = old_buckets;
        return false;
    }
    table.buckets = new;
    for (uint32_t i = 0; i < old_buckets; i++)
        while ((entry = old[i])) {
            old[i] = entry->next;
            entry->next = *bucket_of (entry->handle);
            *bucket_of (entry->handle) = entry;
        }
    free (old);
    return true;
}

static struct entry *find (uint32_t handle)
{
    struct entry *entry;

    if (table.n_buckets == 0)
        return NULL;
    for (entry = *bucket_of (handle); entry; entry = entry->next)
        if (entry->handle == handle)
            return entry;
    return NULL;
}

/* The next number; after 2^28 objects, the next free one. */
static uint32_t next_handle (enum ptl_kind kind)
{
    uint32_t handle;

    do {
        handle = (uint32_t)kind << NUMBER_BITS | table.numbers[kind];
        table.numbers[kind] = (table.numbers[kind] + 1) % NUMBER_COUNT;
    } while (find (handle));
    return handle;
}

int ptl_handle_add (enum ptl_kind kind, void *object, uint32_t *handle)
{
    struct entry *entry = table.unused;

    if (table.n_entries >= table.n_buckets && !grow ())
        return PTL_NO_SPACE;
    if (entry)
        table.unused = entry->next;
    else if (!(entry = malloc (sizeof (*entry))))
        return PTL_NO_SPACE;
    *handle = next_handle (kind);
    entry->handle = *handle;
    entry->object = object;
    entry->next = *bucket_of (*handle);
    *bucket_of (*handle) = entry;
    table.n_entries++;
    return PTL_OK;
}

int ptl_handle_find (uint32_t handle, enum ptl_kind kind, void *objectp)
{
    struct entry *entry;

    if (handle >> NUMBER_BITS != kind || !(entry = find (handle)))
        return PTL_ARG_INVALID;
    *(void **)objectp = entry->object;
    return PTL_OK;
}

enum ptl_kind ptl_handle_kind (uint32_t handle)
{
    return find (handle) ? (enum ptl_kind)(handle >> NUMBER_BITS) : 0;
}

void ptl_handle_forget (uint32_t handle)
{
    struct entry **at, *entry;

    if (handle == 0 || !find (handle))
        return;
    for (at = bucket_of (handle); (*at)->handle != handle;)
        at = &(*at)->next;
    entry = *at;
    *at = entry->next;
    entry->next = table.unused;
    table.unused = entry;
    table.n_entries--;
}

void ptl_handle_free_all (void)
{
    struct entry *entry;

    while ((entry = table.unused)) {
        table.unused = entry->next;
        free (entry);
    }
    free (table.buckets);
    table.buckets = NULL;
    table.n_buckets = table.n_entries = 0;
}
