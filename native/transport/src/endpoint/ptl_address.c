#include "ptl_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "ptl_end.h"

static socklen_t ipv4 (uint32_t nid, uint32_t pid,
                       struct sockaddr_storage *storage)
{
    struct sockaddr_in in = { .sin_family = AF_INET };

    if (pid == 0 || pid > 65535)
        return 0;
    in.sin_addr.s_addr = htonl (nid);
    in.sin_port = htons ((uint16_t)pid);
    memcpy (storage, &in, sizeof (in));
    return sizeof (in);
}

static socklen_t unix_path (const char *path,
                            struct sockaddr_storage *storage)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    if (strlen (path) >= sizeof (un.sun_path))
        return 0;
    strcpy (un.sun_path, path);
    memcpy (storage, &un, sizeof (un));
    return sizeof (un);
}

/* "[address]:port", both numeric. */
static socklen_t ipv6 (const char *text, struct sockaddr_storage *storage)
{
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
    char address[INET6_ADDRSTRLEN] = { 0 };
    const char *close = strchr (text, ']');
    unsigned long port;
    char *rest;

    if (!close || close[1] != ':' || (size_t)(close - text) > sizeof (address))
        return 0;
    memcpy (address, text + 1, (size_t)(close - text - 1));
    port = strtoul (close + 2, &rest, 10);
    if (inet_pton (AF_INET6, address, &in6.sin6_addr) != 1 || *rest
        || port == 0 || port > 65535)
        return 0;
    in6.sin6_port = htons ((uint16_t)port);
    memcpy (storage, &in6, sizeof (in6));
    return sizeof (in6);
}

static socklen_t parse (const char *text, struct sockaddr_storage *storage)
{
    if (text[0] == '/')
        return unix_path (text, storage);
    return text[0] == '[' ? ipv6 (text, storage) : 0;
}

bool ptl_address_ok (const char *text)
{
    struct sockaddr_storage storage;

    return parse (text, &storage) > 0;
}

socklen_t ptl_address_near (uint32_t nid, uint32_t pid,
                            struct sockaddr_storage *storage)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int length = snprintf (un.sun_path + 1, sizeof (un.sun_path) - 1,
                           "portals-%08x-%08x", nid, pid);

    if (nid < PTL_TABLE_NIDS || nid == PTL_NID_ANY || pid == 0 || pid > 65535)
        return 0;
    memcpy (storage, &un, sizeof (un));
    return (socklen_t)(offsetof (struct sockaddr_un, sun_path) + 1
                       + (size_t)length);
}

socklen_t ptl_address_find (const struct ptl_end *end, uint32_t nid,
                            uint32_t pid, struct sockaddr_storage *storage)
{
    const struct ptl_address *a;

    if (nid >= PTL_TABLE_NIDS)
        return ipv4 (nid, pid, storage);
    for (struct ptl_node *n = end->addresses.next; n != &end->addresses;
         n = n->next) {
        a = ptl_entry (n, struct ptl_address, node);
        if (a->nid == nid)
            return parse (a->text, storage);
    }
    return 0;
}
