/* pmi_kvs.h - the key-value space: what the library itself asks of it. */
#ifndef PMI_KVS_H
#define PMI_KVS_H

#include <stddef.h>

/* The name of the space of this job. PMI_SUCCESS, PMI_FAIL,
 * PMI_ERR_INVALID_LENGTH. */
int pmi_kvs_name (char *name, size_t room);

/* The value of a key. PMI_SUCCESS, PMI_FAIL (none has been put),
 * PMI_ERR_INVALID_LENGTH. */
int pmi_kvs_get (const char *name, const char *key, char *value, size_t room);

#endif
