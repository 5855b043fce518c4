#include "task.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is left to read. After the first fault all strings are NULL. */
struct cursor {
    char *next;
    size_t left;
    bool is_cut;
};

static bool read_all (int fd, void *to, size_t n)
{
    for (char *next = to; n > 0;) {
        ssize_t got = read (fd, next, n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        next += got;
        n -= (size_t) got;
    }
    return true;
}

static uint32_t take_u32 (struct cursor *c)
{
    uint32_t value = 0;

    if (c->left < sizeof (value)) {
        c->is_cut = true;
        return 0;
    }
    memcpy (&value, c->next, sizeof (value));
    c->next += sizeof (value);
    c->left -= sizeof (value);
    return value;
}

static char *take_string (struct cursor *c)
{
    char *start = c->next;
    char *end = c->is_cut ? NULL : memchr (start, 0, c->left);

    if (!end) {
        c->is_cut = true;
        return NULL;
    }
    c->next = end + 1;
    c->left -= (size_t) (end + 1 - start);
    return start;
}

/* A list that ends in NULL, with room for `more` entries. */
static char **take_list (struct cursor *c, uint32_t count, uint32_t more)
{
    char **list;

    if (c->is_cut || count > c->left
        || !(list = calloc ((size_t) count + more + 1, sizeof (*list)))) {
        c->is_cut = true;
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        list[i] = take_string (c);
    return list;
}

const char *task_read (int fd, struct task *task)
{
    struct cursor c = { 0 };
    uint32_t bytes, n_directories;

    if (!read_all (fd, &bytes, sizeof (bytes)))
        return "no task";
    if (bytes > TASK_MAX_BYTES || !(c.next = malloc ((size_t) bytes + 1)))
        return "a task that is too long";
    if (!read_all (fd, c.next, bytes))
        return "a task that is cut short";
    c.left = bytes;
    task->umask = take_u32 (&c) & 0777;
    task->is_held = take_u32 (&c);
    task->n_arguments = take_u32 (&c);
    task->n_variables = take_u32 (&c);
    n_directories = take_u32 (&c);
    task->n_container = take_u32 (&c);
    task->script_bytes = take_u32 (&c);
    task->directory = take_string (&c);
    task->output = take_string (&c);
    task->host = take_string (&c);
    task->key = take_string (&c);
    task->key_name = take_string (&c);
    task->arguments = take_list (&c, task->n_arguments, 0);
    task->variables = take_list (&c, task->n_variables, TASK_MORE_VARIABLES);
    task->directories = take_list (&c, n_directories, 0);
    task->container = take_list (&c, task->n_container, 0);
    task->script = c.next;
    if (c.is_cut || c.left != task->script_bytes || task->is_held > 1
        || (task->n_container != 0 && (task->n_container != 2 || !task->is_held))
        || task->n_arguments == 0 || n_directories == 0)
        return "a malformed task";
    return NULL;
}
