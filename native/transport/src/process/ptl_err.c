#include "ptl_err.h"

const char *ptl_err_name (int rc)
{
    switch (rc) {
#define X(name, code, text)                                             \
    case code:                                                          \
        return #name;
        PTL_ERR_MAP (X)
#undef X
    default:
        return "unknown";
    }
}

const char *ptl_err_text (int rc)
{
    switch (rc) {
#define X(name, code, text)                                             \
    case code:                                                          \
        return text;
        PTL_ERR_MAP (X)
#undef X
    default:
        return "unknown";
    }
}
