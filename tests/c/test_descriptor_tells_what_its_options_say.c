/* PtlMDBind (3.10.1) and the events of the initiator (3.13.1): SEND, ACK and
 * REPLY are posted and counted as the options of the descriptor and the ack
 * that was asked for say; refusals are in ACK and REPLY, never in SEND; an
 * entry with ACK_DISABLE gives no ack, and the descriptor is free all the
 * same. kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static uint8_t source[64], target[64];
static ptl_pt_index_t place;
static ptl_handle_eq_t eq;
static ptl_handle_ct_t ct;

static bool is_free (void *context)
{
    return PtlMDRelease (*(ptl_handle_md_t *)context) == PTL_OK;
}

struct seen {
    int sends, acks, replies;
    uint64_t success, failure;
    uint32_t fail; /* of the last ACK or REPLY */
};

static struct seen look (void)
{
    struct seen seen = {
        .sends = count_of (a, PTL_EVENT_SEND),
        .acks = count_of (a, PTL_EVENT_ACK),
        .replies = count_of (a, PTL_EVENT_REPLY),
        .success = count_in (ct).success,
        .failure = count_in (ct).failure,
    };

    for (int i = 0; i < a->n; i++)
        if (a->log[i].type != PTL_EVENT_SEND)
            seen.fail = a->log[i].ni_fail;
        else
            CHECK (a->log[i].ni_fail == PTL_NI_OK);
    return seen;
}

static ptl_handle_md_t begin (unsigned options)
{
    ptl_ct_event_t zero = { 0, 0 };

    a->n = 0;
    CHECK (PtlCTSet (ct, zero) == PTL_OK);
    return bind_memory (a, source, sizeof (source), options, ct);
}

/* One put of 5 bytes, until the descriptor is free. */
static struct seen put (unsigned options, ptl_ack_req_t ack,
                        ptl_pt_index_t at)
{
    ptl_handle_md_t md = begin (options);

    CHECK (PtlPut (md, 0, 5, ack, b->id, at, 0, 3, source, 0) == PTL_OK);
    pump (ends, 2, is_free, &md);
    end_take (a);
    return look ();
}

static struct seen get (unsigned options, ptl_pt_index_t at)
{
    ptl_handle_md_t md = begin (options);

    CHECK (PtlGet (md, 0, 7, b->id, at, 0, 3, source) == PTL_OK);
    pump (ends, 2, is_free, &md);
    end_take (a);
    return look ();
}

static bool is_seen (struct seen s, int sends, int acks, int replies,
                     uint64_t success, uint64_t failure, uint32_t fail)
{
    if (s.sends == sends && s.acks == acks && s.replies == replies
        && s.success == success && s.failure == failure && s.fail == fail)
        return true;
    fprintf (stderr, "%d sends, %d acks, %d replies, %d + %d, fail %u\n",
             s.sends, s.acks, s.replies, (int)s.success, (int)s.failure,
             s.fail);
    return false;
}

#define ALL_CT                                                          \
    (PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY)

static void options (void)
{
    CHECK (is_seen (put (0, PTL_NO_ACK_REQ, place), 1, 0, 0, 0, 0, 0));
    CHECK (is_seen (put (0, PTL_ACK_REQ, place), 1, 1, 0, 0, 0, 0));
    CHECK (is_seen (put (0, PTL_CT_ACK_REQ, place), 1, 0, 0, 0, 0, 0));
    CHECK (is_seen (put (PTL_MD_EVENT_CT_ACK, PTL_CT_ACK_REQ, place), 1, 0, 0,
                    1, 0, 0));
    CHECK (is_seen (put (PTL_MD_EVENT_CT_ACK, PTL_OC_ACK_REQ, place), 1, 0, 0,
                    1, 0, 0));
    CHECK (is_seen (put (PTL_MD_EVENT_CT_ACK, PTL_ACK_REQ, place), 1, 1, 0, 1,
                    0, 0));
    CHECK (is_seen (put (PTL_MD_EVENT_CT_SEND, PTL_ACK_REQ, place), 1, 1, 0,
                    1, 0, 0));
    CHECK (is_seen (put (ALL_CT, PTL_ACK_REQ, place), 1, 1, 0, 2, 0, 0));
    CHECK (is_seen (put (ALL_CT | PTL_MD_EVENT_CT_BYTES, PTL_ACK_REQ, place),
                    1, 1, 0, 10, 0, 0));
    CHECK (is_seen (put (PTL_MD_EVENT_SEND_DISABLE, PTL_ACK_REQ, place), 0, 1,
                    0, 0, 0, 0));
    CHECK (is_seen (put (ALL_CT | PTL_MD_EVENT_SUCCESS_DISABLE, PTL_ACK_REQ,
                         place),
                    0, 0, 0, 2, 0, 0));
    CHECK (is_seen (put (PTL_MD_UNORDERED | PTL_MD_UNRELIABLE, PTL_ACK_REQ,
                         place),
                    1, 1, 0, 0, 0, 0));
    CHECK (is_seen (get (0, place), 0, 0, 1, 0, 0, 0));
    CHECK (is_seen (get (ALL_CT, place), 0, 0, 1, 1, 0, 0));
    CHECK (is_seen (get (ALL_CT | PTL_MD_EVENT_CT_BYTES, place), 0, 0, 1, 7,
                    0, 0));
    CHECK (is_seen (get (ALL_CT | PTL_MD_EVENT_SUCCESS_DISABLE, place), 0, 0,
                    0, 1, 0, 0));
}

/* Each refusal, by an ack and by a reply; failures count as one, in bytes
 * too, and are posted where success is not. */
static void refused (ptl_pt_index_t at, uint32_t fail)
{
    unsigned quiet = PTL_MD_EVENT_SUCCESS_DISABLE;

    CHECK (is_seen (put (0, PTL_NO_ACK_REQ, at), 1, 0, 0, 0, 0, 0));
    CHECK (is_seen (put (PTL_MD_EVENT_CT_ACK, PTL_ACK_REQ, at), 1, 1, 0, 0, 1,
                    fail));
    CHECK (is_seen (put (PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES | quiet,
                         PTL_ACK_REQ, at),
                    0, 1, 0, 0, 1, fail));
    CHECK (is_seen (put (PTL_MD_EVENT_CT_ACK, PTL_CT_ACK_REQ, at), 1, 0, 0, 0,
                    1, 0));
    CHECK (is_seen (get (PTL_MD_EVENT_CT_REPLY, at), 0, 0, 1, 0, 1, fail));
    CHECK (is_seen (get (PTL_MD_EVENT_CT_REPLY | quiet, at), 0, 0, 1, 0, 1,
                    fail));
}

int main (void)
{
    ptl_pt_index_t empty, off, wrong_uid, no_op, silent;
    entry_t entry = entry_of (target, sizeof (target),
                              PTL_LE_OP_PUT | PTL_LE_OP_GET);

    kinds_open (ends, 2, 16, NULL);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    place = kinds_table (b, 0, 1000, &eq);
    put_entry (b, place, &entry, PTL_PRIORITY_LIST, NULL);
    options ();
    CHECK (PtlPTAlloc (b->ni, 0, eq, PTL_PT_ANY, &silent) == PTL_OK);
    entry.options |= PTL_LE_ACK_DISABLE;
    put_entry (b, silent, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (is_seen (put (ALL_CT, PTL_ACK_REQ, silent), 1, 0, 0, 1, 0, 0));
    CHECK (is_seen (put (PTL_MD_EVENT_CT_ACK, PTL_CT_ACK_REQ, silent), 1, 0,
                    0, 0, 0, 0));
    CHECK (is_seen (get (ALL_CT, silent), 0, 0, 1, 1, 0, 0));
    entry.options &= ~PTL_LE_ACK_DISABLE;
    CHECK (PtlPTAlloc (b->ni, 0, eq, PTL_PT_ANY, &empty) == PTL_OK);
    refused (empty, PTL_NI_DROPPED);
    CHECK (PtlPTAlloc (b->ni, 0, eq, PTL_PT_ANY, &off) == PTL_OK);
    put_entry (b, off, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (PtlPTDisable (b->ni, off) == PTL_OK);
    refused (off, PTL_NI_PT_DISABLED);
    CHECK (PtlPTAlloc (b->ni, 0, eq, PTL_PT_ANY, &wrong_uid) == PTL_OK);
    entry.uid = UID_OF_FIRST + 7;
    put_entry (b, wrong_uid, &entry, PTL_PRIORITY_LIST, NULL);
    refused (wrong_uid, PTL_NI_PERM_VIOLATION);
    CHECK (PtlPTAlloc (b->ni, 0, eq, PTL_PT_ANY, &no_op) == PTL_OK);
    entry.uid = PTL_UID_ANY;
    entry.options &= ~(unsigned)(PTL_LE_OP_PUT | PTL_LE_OP_GET);
    put_entry (b, no_op, &entry, PTL_PRIORITY_LIST, NULL);
    refused (no_op, PTL_NI_OP_VIOLATION);
    kinds_close (ends, 2);
    return 0;
}
