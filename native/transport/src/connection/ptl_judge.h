/* ptl_judge.h - checks of the handshake messages.
 *
 * Decides and sends nothing: which version and offers both ends have, which key
 * the other end names, whether the right process was dialled, and who has been
 * proven. native/wire/FRAMES.md has the rules.
 */
#ifndef PTL_JUDGE_H
#define PTL_JUDGE_H

#include "ptl_conn.h"
#include "ptl_shake.h"

/* What we offer on this connection: bits of ptl_hello.offers. */
uint32_t ptl_judge_offers (const struct ptl_conn *conn);

/* Do both ends offer integrity? */
bool ptl_judge_is_sealed (const struct ptl_conn *conn);

/* The highest version that both ends have; 0: none. */
uint8_t ptl_judge_version (const struct ptl_end *end,
                           const struct ptl_hello *hello);

/* The listener judges m1: PTL_CODE_READY, or why it refuses. Sets the key. */
enum ptl_code ptl_judge_m1 (struct ptl_conn *conn);

/* The dialler judges m2: 0, or the loss that it means. */
uint32_t ptl_judge_m2 (struct ptl_conn *conn);

/* The other end has proven its key: note whom that key proves. False: the
 * kernel does not tell the user of a local connection. */
bool ptl_judge_principal (struct ptl_conn *conn);

/* The loss that a refusal means to the dialler. */
uint32_t ptl_judge_loss (uint8_t code);

#endif
