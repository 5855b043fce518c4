/* mark.h - files of a rank's output, cut back to where a checkpoint has them.
 *
 * The rank's directory in the checkpoint has a file of marks, described in
 * partition/checkpoint/marks.py. What is behind a mark the rank writes again.
 * A file that is not the one of the checkpoint stays as it is, and a line on
 * descriptor 2 says so.
 */
#ifndef YOD_KEEPER_MARK_H
#define YOD_KEEPER_MARK_H

/* Cut the files that the rank itself has open, by their names. */
void mark_cut_named (const char *directory);

/* Cut the file that has just been opened for the rank, if it has a mark. */
void mark_cut_opened (const char *directory, int fd);

#endif
