/* portals4_err.h - result codes of the Portals calls.
 *
 * One table, three uses: the enum, and the names and texts in ptl_err.c.
 * Names and order are those of the Portals 4 specification's header.
 */
#ifndef PORTALS4_ERR_H
#define PORTALS4_ERR_H

#define PTL_ERR_MAP(X)                                                  \
    X (PTL_OK, 0, "success")                                            \
    X (PTL_ARG_INVALID, 1, "an argument is invalid")                    \
    X (PTL_CT_NONE_REACHED, 2, "no counter has reached its threshold")  \
    X (PTL_EQ_DROPPED, 3, "events were lost before this one")           \
    X (PTL_EQ_EMPTY, 4, "no event is queued")                           \
    X (PTL_FAIL, 5, "the operating system refused")                     \
    X (PTL_IN_USE, 6, "the object is in use")                           \
    X (PTL_INTERRUPTED, 7, "the wait was interrupted")                  \
    X (PTL_LIST_TOO_LONG, 8, "the list is too long")                    \
    X (PTL_NO_INIT, 9, "the library is not initialised")                \
    X (PTL_NO_SPACE, 10, "no room for the request")                     \
    X (PTL_PID_IN_USE, 11, "the address is in use")                     \
    X (PTL_PT_FULL, 12, "the portal table is full")                     \
    X (PTL_PT_EQ_NEEDED, 13, "flow control needs an event queue")       \
    X (PTL_PT_IN_USE, 14, "the portal table entry is in use")           \
    X (PTL_ABORTED, 15, "the wait was aborted")                         \
    X (PTL_IGNORED, 16, "the request was ignored")

enum ptl_err {
#define X(name, code, text) name = code,
    PTL_ERR_MAP (X)
#undef X
};

#endif
