#include "pmi_kvs.h"

#include <string.h>

#include "pmi.h"
#include "pmi_alone.h"
#include "pmi_self.h"

int pmi_kvs_name (char *name, size_t room)
{
    const char *line, *found;
    size_t length;

    if (pmi_self.is_alone)
        return pmi_copy_out (pmi_self.name, strlen (pmi_self.name), name, room);
    line = pmi_ask ("my_kvsname", "cmd=get_my_kvsname\n");
    if (!line || !(found = pmi_line_word (line, "kvsname", NULL, &length))
        || !length || length >= (size_t)pmi_self.name_max)
        return PMI_FAIL;
    return pmi_copy_out (found, length, name, room);
}

int PMI_KVS_Get_my_name (char kvsname[], int length)
{
    if (!pmi_self.has_joined)
        return PMI_ERR_INIT;
    if (!kvsname)
        return PMI_ERR_INVALID_ARG;
    if (length <= 0)
        return PMI_ERR_INVALID_LENGTH;
    return pmi_kvs_name (kvsname, (size_t)length);
}

/* Whether a text can be a word of a request. */
static bool is_word (const char *text)
{
    return *text && !text[strcspn (text, " =\r\n")];
}

static int name_fault (const char *name)
{
    if (!pmi_self.has_joined)
        return PMI_ERR_INIT;
    if (!name || !is_word (name) || strlen (name) >= (size_t)pmi_self.name_max
        || (pmi_self.is_alone && strcmp (name, pmi_self.name) != 0))
        return PMI_ERR_INVALID_ARG;
    return PMI_SUCCESS;
}

static int key_fault (const char *name, const char *key)
{
    int rc = name_fault (name);

    if (rc != PMI_SUCCESS)
        return rc;
    if (!key || !is_word (key))
        return PMI_ERR_INVALID_KEY;
    if (strlen (key) >= (size_t)pmi_self.key_max)
        return PMI_ERR_INVALID_KEY_LENGTH;
    return PMI_SUCCESS;
}

int PMI_KVS_Put (const char kvsname[], const char key[], const char value[])
{
    const char *line;
    int rc = key_fault (kvsname, key);

    if (rc != PMI_SUCCESS)
        return rc;
    if (!value || value[strcspn (value, "\n")])
        return PMI_ERR_INVALID_VAL;
    if (strlen (value) >= (size_t)pmi_self.value_max)
        return PMI_ERR_INVALID_VAL_LENGTH;
    if (pmi_self.is_alone)
        return pmi_alone_put (&pmi_self.pairs, key, value) ? PMI_SUCCESS
                                                       : PMI_ERR_NOMEM;
    line = pmi_ask ("put_result", "cmd=put kvsname=%s key=%s value=%s\n",
                    kvsname, key, value);
    return pmi_result_of (line, NULL);
}

/* A put is complete once the launcher has answered: there is nothing to do. */
int PMI_KVS_Commit (const char kvsname[])
{
    return name_fault (kvsname);
}

int pmi_kvs_get (const char *name, const char *key, char *value, size_t room)
{
    const char *line, *found;
    size_t length;

    if (pmi_self.is_alone) {
        found = pmi_alone_get (pmi_self.pairs, key);
        return found ? pmi_copy_out (found, strlen (found), value, room)
                     : PMI_FAIL;
    }
    line = pmi_ask ("get_result", "cmd=get kvsname=%s key=%s\n", name, key);
    if (pmi_result_of (line, "value") != PMI_SUCCESS
        || !(found = pmi_line_word (line, "value", "value", &length)))
        return PMI_FAIL;
    return pmi_copy_out (found, length, value, room);
}

int PMI_KVS_Get (const char kvsname[], const char key[], char value[],
                 int length)
{
    int rc = key_fault (kvsname, key);

    if (rc != PMI_SUCCESS)
        return rc;
    if (!value)
        return PMI_ERR_INVALID_VAL;
    if (length <= 0)
        return PMI_ERR_INVALID_LENGTH;
    *value = 0;
    return pmi_kvs_get (kvsname, key, value, (size_t)length);
}
