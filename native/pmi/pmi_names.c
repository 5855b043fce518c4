/* pmi_names.c - names that other programs of the job can look up (pmi.h). */
#include <string.h>

#include "pmi.h"
#include "pmi_self.h"

/* A service name and a port are words of a request that run up to the next
 * known word: they may have blanks. */
static int service_fault (const char *service)
{
    if (!pmi_self.has_joined)
        return PMI_ERR_INIT;
    if (!service || !*service || service[strcspn (service, "\r\n")]
        || strlen (service) >= PMI_NAME_MAX_BYTES || strstr (service, " port="))
        return PMI_ERR_INVALID_ARG;
    return pmi_self.is_alone ? PMI_FAIL : PMI_SUCCESS;
}

int PMI_Publish_name (const char service_name[], const char port[])
{
    const char *line;
    int rc = service_fault (service_name);

    if (rc == PMI_ERR_INIT || rc == PMI_ERR_INVALID_ARG)
        return rc;
    if (!port || !*port || port[strcspn (port, "\r\n")]
        || strlen (port) >= PMI_PORT_MAX)
        return PMI_ERR_INVALID_ARG;
    if (rc != PMI_SUCCESS)
        return rc;
    line = pmi_ask ("publish_result", "cmd=publish_name service=%s port=%s\n",
                    service_name, port);
    return pmi_result_of (line, NULL);
}

int PMI_Unpublish_name (const char service_name[])
{
    const char *line;
    int rc = service_fault (service_name);

    if (rc != PMI_SUCCESS)
        return rc;
    line = pmi_ask ("unpublish_result", "cmd=unpublish_name service=%s\n",
                    service_name);
    return pmi_result_of (line, NULL);
}

/* A port may have blanks: it ends where the next word begins. */
static int take_port (const char *line, char *port)
{
    size_t length = 0;
    const char *found = pmi_line_word (line, "port", NULL, &length);
    const char *next = found ? strstr (found, " info=") : NULL;

    if (!found)
        return PMI_FAIL;
    if (next)
        length = (size_t)(next - found);
    if (!length || length >= PMI_PORT_MAX)
        return PMI_FAIL;
    return pmi_copy_out (found, length, port, PMI_PORT_MAX);
}

int PMI_Lookup_name (const char service_name[], char port[])
{
    const char *line;
    int rc = service_fault (service_name);

    if (rc == PMI_ERR_INIT || rc == PMI_ERR_INVALID_ARG)
        return rc;
    if (!port)
        return PMI_ERR_INVALID_ARG;
    if (rc != PMI_SUCCESS)
        return rc;
    line = pmi_ask ("lookup_result", "cmd=lookup_name service=%s\n",
                    service_name);
    return pmi_result_of (line, NULL) == PMI_SUCCESS ? take_port (line, port)
                                                 : PMI_FAIL;
}
