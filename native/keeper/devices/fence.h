/* fence.h - has a control group deny devices where the keeper may load no
 * program: it asks the pct of root's in one of whose jobs the group is.
 */
#ifndef YOD_KEEPER_FENCE_H
#define YOD_KEEPER_FENCE_H

#include "../report.h"

#define FENCE_WAIT_S 2                  /* for each step of the conversation */

/* Where the name of a pct begins in whose jobs' ranks this group is: the last
 * one before `end`, which is the end of the path, or a place that this has
 * given. NULL: there is none.
 */
const char *fence_pct (const char *group, const char *end);

/* Have the group at this path deny these devices, "195:1 226:129".
 *   0; -1 and the problem: it does not
 */
int fence_ask (const char *group, const char *denied,
               char problem[REPORT_TEXT_BYTES]);

#endif
