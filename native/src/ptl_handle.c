#include "ptl_handle.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "portals4.h"
#include "ptl_ni.h"

#define SLOT_BITS 20
#define SLOT_COUNT (1u << SLOT_BITS)

struct slot {
    void *object;
    uint8_t kind, generation;
    uint32_t next_free; /* slot + 1; 0: none */
};

struct process {
    unsigned users;
    bool is_forked;  /* a child of the process that made the objects */
    bool is_watched; /* the fork handler is installed */
    struct slot *slots;
    uint32_t size, first_free;
};

static struct process process;

static void forked (void)
{
    process.is_forked = process.users > 0;
}

int ptl_handle_init (void)
{
    if (process.is_forked)
        return PTL_FAIL;
    if (!process.is_watched && pthread_atfork (NULL, NULL, forked) != 0)
        return PTL_FAIL;
    process.is_watched = true;
    process.users++;
    return PTL_OK;
}

int ptl_handle_fini (void)
{
    if (process.is_forked || process.users == 0)
        return false;
    return --process.users == 0;
}

static bool grow (void)
{
    uint32_t size = process.size ? process.size * 2 : 64;
    struct slot *slots;

    if (size > SLOT_COUNT
        || !(slots = realloc (process.slots, size * sizeof (*slots))))
        return false;
    memset (slots + process.size, 0,
            (size - process.size) * sizeof (*slots));
    for (uint32_t i = process.size; i < size; i++)
        slots[i].next_free = i + 1 < size ? i + 2 : 0;
    process.first_free = process.size + 1;
    process.slots = slots;
    process.size = size;
    return true;
}

int ptl_handle_add (enum ptl_kind kind, void *object, uint32_t *handle)
{
    struct slot *slot;
    uint32_t index;

    if (process.users == 0 || process.is_forked)
        return PTL_NO_INIT;
    if (process.first_free == 0 && !grow ())
        return PTL_NO_SPACE;
    index = process.first_free - 1;
    slot = &process.slots[index];
    process.first_free = slot->next_free;
    slot->object = object;
    slot->kind = (uint8_t)kind;
    *handle = (uint32_t)kind << 28 | (uint32_t)slot->generation << SLOT_BITS
        | index;
    return PTL_OK;
}

static struct slot *find (uint32_t handle)
{
    uint32_t index = handle & (SLOT_COUNT - 1);
    struct slot *slot;

    if (index >= process.size)
        return NULL;
    slot = &process.slots[index];
    if (!slot->object || slot->kind != handle >> 28
        || slot->generation != (uint8_t)(handle >> SLOT_BITS))
        return NULL;
    return slot;
}

int ptl_handle_find (uint32_t handle, enum ptl_kind kind, void *objectp)
{
    struct slot *slot;

    if (process.users == 0 || process.is_forked)
        return PTL_NO_INIT;
    slot = find (handle);
    if (!slot || slot->kind != kind)
        return PTL_ARG_INVALID;
    memcpy (objectp, &slot->object, sizeof (slot->object));
    return PTL_OK;
}

void ptl_ni_forget_handle (uint32_t handle)
{
    struct slot *slot = handle ? find (handle) : NULL;

    if (!slot)
        return;
    slot->object = NULL;
    slot->generation++;
    slot->next_free = process.first_free;
    process.first_free = (uint32_t)(slot - process.slots) + 1;
}

struct ptl_ni *ptl_handle_any_ni (void)
{
    for (uint32_t i = 0; i < process.size; i++)
        if (process.slots[i].object
            && process.slots[i].kind == PTL_HANDLE_NI)
            return process.slots[i].object;
    return NULL;
}
