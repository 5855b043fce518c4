/* ptl_err.h - names and texts of the result codes in portals4_err.h. */
#ifndef PTL_ERR_H
#define PTL_ERR_H

#include "portals4_err.h"

/* "unknown" for a number that is no code. */
const char *ptl_err_name (int rc);
const char *ptl_err_text (int rc);

#endif
