/* memory.h - counts the bytes that are allocated.
 *
 * Link with -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <malloc.h>
#include <stdlib.h>

void *__real_malloc (size_t size);
void *__real_calloc (size_t n, size_t size);
void *__real_realloc (void *old, size_t size);
void __real_free (void *block);
void *__wrap_malloc (size_t size);
void *__wrap_calloc (size_t n, size_t size);
void *__wrap_realloc (void *old, size_t size);
void __wrap_free (void *block);

static size_t memory_used;

void *__wrap_malloc (size_t size)
{
    void *block = __real_malloc (size);

    memory_used += malloc_usable_size (block);
    return block;
}

void *__wrap_calloc (size_t n, size_t size)
{
    void *block = __real_calloc (n, size);

    memory_used += malloc_usable_size (block);
    return block;
}

void *__wrap_realloc (void *old, size_t size)
{
    size_t before = malloc_usable_size (old);
    void *block = __real_realloc (old, size);

    if (block)
        memory_used += malloc_usable_size (block) - before;
    return block;
}

void __wrap_free (void *block)
{
    memory_used -= malloc_usable_size (block);
    __real_free (block);
}

#endif
