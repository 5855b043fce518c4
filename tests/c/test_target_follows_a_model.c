/* The lists of a table entry (spec 2.3, 3.11, 3.12) against a model of a page: thousands of
 * random appends, unlinks, searches and messages. The model has a list of
 * entries and one of headers, and says who takes what and which calls succeed.
 * kinds: all */
#include "kinds.h"

#define STEPS 6000
#define MOST 12
#define TAGS 6

struct entry {
    ptl_handle_me_t handle;
    bool is_used, is_linked, is_once;
    ptl_list_t list;
    unsigned tag; /* TAGS: any */
    int n_headers;
};

static struct end end;
static ptl_pt_index_t table;
static ptl_handle_eq_t eq;
static ptl_handle_md_t md;
static struct entry entries[MOST];
static int order[2][MOST], n_order[2]; /* linked entries of each list */
static struct {
    int entry; /* that holds it */
    unsigned tag, number;
} headers[STEPS];
static int n_headers;
static uint64_t state = 88172645463325252u;
static unsigned number; /* of the message */
static unsigned n_taken, n_kept; /* headers; entries that were in use */

static unsigned any (unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

static bool agrees (unsigned wanted, unsigned tag)
{
    return !IS_MATCHING || wanted == TAGS || wanted == tag;
}

static entry_t made (unsigned tag, unsigned options)
{
    entry_t entry = entry_of (NULL, 0, PTL_LE_OP_PUT | options);

    entry.match_bits = tag == TAGS ? 0 : tag;
    entry.ignore_bits = tag == TAGS ? UINT64_MAX : 0;
    return entry;
}

static void told (ptl_event_kind_t type, const void *user_ptr)
{
    CHECK (expect (eq, type).user_ptr == user_ptr);
}

static void leave_list (int which)
{
    struct entry *entry = &entries[which];
    int *list = order[entry->list], i = 0;

    while (list[i] != which)
        i++;
    n_order[entry->list]--;
    for (; i < n_order[entry->list]; i++)
        list[i] = list[i + 1];
    entry->is_linked = false;
}

static void take (int nth, const void *user_ptr)
{
    struct entry *entry = &entries[headers[nth].entry];
    ptl_event_t event = expect (eq, PTL_EVENT_PUT_OVERFLOW);

    CHECK (event.user_ptr == user_ptr);
    CHECK (event.hdr_data == headers[nth].number);
    n_taken++;
    if (--entry->n_headers == 0 && !entry->is_linked) {
        told (PTL_EVENT_AUTO_FREE, entry);
        entry->is_used = false;
    }
    n_headers--;
    for (int i = nth; i < n_headers; i++)
        headers[i] = headers[i + 1];
}

/* All headers that agree, or the first. How many? */
static int take_all (unsigned tag, bool is_once, const void *user_ptr)
{
    int taken = 0;

    for (int i = 0; i < n_headers;) {
        if (!agrees (tag, headers[i].tag)) {
            i++;
            continue;
        }
        take (i, user_ptr);
        taken++;
        if (is_once)
            break;
    }
    return taken;
}

static void append (void)
{
    int which = (int)any (MOST), taken = 0;
    struct entry *entry = &entries[which];
    entry_t wish;

    if (entry->is_used)
        return;
    *entry = (struct entry){ .is_used = true };
    entry->list = any (2) ? PTL_PRIORITY_LIST : PTL_OVERFLOW_LIST;
    entry->is_once = any (entry->list == PTL_PRIORITY_LIST ? 16 : 2) > 0;
    entry->tag = any (TAGS + 1);
    wish = made (entry->tag, entry->is_once ? PTL_LE_USE_ONCE : 0);
    entry->handle = put_entry (&end, table, &wish, entry->list, entry);
    if (entry->list == PTL_PRIORITY_LIST)
        taken = take_all (entry->tag, entry->is_once, entry);
    if (taken > 0 && entry->is_once) {
        told (PTL_EVENT_AUTO_UNLINK, entry);
        entry->is_used = false;
        return;
    }
    told (PTL_EVENT_LINK, entry);
    entry->is_linked = true;
    order[entry->list][n_order[entry->list]++] = which;
}

static void unlink_one (void)
{
    int which = (int)any (MOST), rc = entry_unlink (entries[which].handle);
    struct entry *entry = &entries[which];

    if (!entry->is_used) {
        CHECK (rc == PTL_ARG_INVALID);
        return;
    }
    CHECK (rc == (entry->n_headers > 0 ? PTL_IN_USE : PTL_OK));
    n_kept += rc == PTL_IN_USE;
    if (rc != PTL_OK)
        return;
    leave_list (which);
    entry->is_used = false;
}

static void land (int which, unsigned tag)
{
    struct entry *entry = &entries[which];
    bool is_over = entry->list == PTL_OVERFLOW_LIST;
    ptl_event_t event;

    if (entry->is_once)
        leave_list (which);
    event = expect (eq, PTL_EVENT_PUT);
    CHECK (event.user_ptr == entry && event.hdr_data == number);
    CHECK (event.ptl_list == entry->list);
    if (is_over && entry->is_once)
        told (PTL_EVENT_AUTO_UNLINK, entry);
    if (is_over) {
        headers[n_headers].entry = which;
        headers[n_headers].tag = tag;
        headers[n_headers++].number = number;
        entry->n_headers++;
    }
    else if (entry->is_once) {
        told (PTL_EVENT_AUTO_UNLINK, entry);
        entry->is_used = false;
    }
}

static void put (void)
{
    unsigned tag = any (TAGS);
    int dropped = status_of (&end, PTL_SR_DROP_COUNT);

    CHECK (PtlPut (md, 0, 4, PTL_NO_ACK_REQ, end.id, table, tag, 0, NULL,
                   ++number)
           == PTL_OK);
    for (int list = PTL_PRIORITY_LIST; list <= PTL_OVERFLOW_LIST; list++)
        for (int i = 0; i < n_order[list]; i++)
            if (agrees (entries[order[list][i]].tag, tag)) {
                land (order[list][i], tag);
                return;
            }
    CHECK (status_of (&end, PTL_SR_DROP_COUNT) == dropped + 1);
}

static void search (void)
{
    bool is_once = any (2), is_delete = any (2);
    unsigned tag = any (TAGS + 1);
    entry_t wish = made (tag, is_once ? PTL_LE_USE_ONCE : 0);
    int found = 0;

    CHECK (entry_search (end.ni, table, &wish,
                         is_delete ? PTL_SEARCH_DELETE : PTL_SEARCH_ONLY,
                         &found)
           == PTL_OK);
    if (is_delete)
        found = take_all (tag, is_once, &found);
    else
        for (int i = 0; i < n_headers && !(is_once && found); i++)
            if (agrees (tag, headers[i].tag)) {
                ptl_event_t event = expect (eq, PTL_EVENT_SEARCH);

                CHECK (event.ni_fail_type == PTL_NI_OK);
                CHECK (event.hdr_data == headers[i].number);
                found++;
            }
    if (found == 0)
        CHECK (expect (eq, PTL_EVENT_SEARCH).ni_fail_type
               == PTL_NI_NO_MATCH);
}

int main (void)
{
    static char source[4];

    kinds_open (&end, 1, 64, NULL);
    table = kinds_table (&end, 0, 4096, &eq);
    md = bind_memory (&end, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    for (int step = 0; step < STEPS; step++) {
        switch (any (8)) {
        case 0:
        case 1:
            append ();
            break;
        case 2:
            unlink_one ();
            break;
        case 3:
            search ();
            break;
        default:
            put ();
        }
        CHECK (is_empty (eq));
    }
    CHECK (n_taken > 500 && n_kept > 20); /* it did try */
    kinds_close (&end, 1);
    return 0;
}
