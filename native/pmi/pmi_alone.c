#include "pmi_alone.h"

#include <stdlib.h>
#include <string.h>

struct pmi_pair {
    struct pmi_pair *next;
    char *key, *value;
};

static struct pmi_pair *find (struct pmi_pair *pair, const char *key)
{
    while (pair && strcmp (pair->key, key) != 0)
        pair = pair->next;
    return pair;
}

static bool add (struct pmi_pair **pairs, const char *key, char *value)
{
    struct pmi_pair *pair = malloc (sizeof (*pair));
    char *name = strdup (key);

    if (!pair || !name) {
        free (pair);
        free (name);
        return false;
    }
    *pair = (struct pmi_pair){ *pairs, name, value };
    *pairs = pair;
    return true;
}

bool pmi_alone_put (struct pmi_pair **pairs, const char *key,
                    const char *value)
{
    struct pmi_pair *pair = find (*pairs, key);
    char *copy = strdup (value);

    if (!copy)
        return false;
    if (pair) {
        free (pair->value);
        pair->value = copy;
        return true;
    }
    if (!add (pairs, key, copy)) {
        free (copy);
        return false;
    }
    return true;
}

const char *pmi_alone_get (const struct pmi_pair *pairs, const char *key)
{
    for (; pairs; pairs = pairs->next)
        if (strcmp (pairs->key, key) == 0)
            return pairs->value;
    return NULL;
}

void pmi_alone_free (struct pmi_pair **pairs)
{
    while (*pairs) {
        struct pmi_pair *pair = *pairs;

        *pairs = pair->next;
        free (pair->key);
        free (pair->value);
        free (pair);
    }
}
