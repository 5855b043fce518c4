/* pmi_alone.h - the key-value space of a process without a launcher. */
#ifndef PMI_ALONE_H
#define PMI_ALONE_H

#include <stdbool.h>

struct pmi_pair;

/* Note a pair; a key's last value counts. False: no memory. */
bool pmi_alone_put (struct pmi_pair **pairs, const char *key,
                    const char *value);

/* NULL: nothing has been put under that key. */
const char *pmi_alone_get (const struct pmi_pair *pairs, const char *key);

void pmi_alone_free (struct pmi_pair **pairs);

#endif
