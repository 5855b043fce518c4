/* kind.h - the kind of interface that a program is built for: KIND 0 to 3.
 *
 * Bit 0 is logical addressing, bit 1 is no matching. Who includes this has
 * chosen KIND, and has portals4.h.
 */
#ifndef KIND_H
#define KIND_H

#define IS_LOGICAL ((KIND & 1) != 0)
#define IS_MATCHING ((KIND & 2) == 0)
#define NI_OPTIONS                                                      \
    ((IS_LOGICAL ? PTL_NI_LOGICAL : PTL_NI_PHYSICAL)                    \
     | (IS_MATCHING ? PTL_NI_MATCHING : PTL_NI_NO_MATCHING))

#if KIND & 2
typedef ptl_le_t entry_t;
#define entry_append PtlLEAppend
#define entry_unlink PtlLEUnlink
#define entry_search PtlLESearch
#define entry_append_triggered PtlTriggeredLEAppend
#define entry_unlink_triggered PtlTriggeredLEUnlink
#else
typedef ptl_me_t entry_t;
#define entry_append PtlMEAppend
#define entry_unlink PtlMEUnlink
#define entry_search PtlMESearch
#define entry_append_triggered PtlTriggeredMEAppend
#define entry_unlink_triggered PtlTriggeredMEUnlink
#endif

#endif
