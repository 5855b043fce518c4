/* python.h - which interpreter a command of ours has.
 *
 * A command is a Python program whose first lines are a shell's: they look for
 * an interpreter (SCRIPT in setup.py). A shell reaps all children of its
 * process, so a process that has some finds the interpreter itself.
 */
#ifndef YOD_SCRIPT_PYTHON_H
#define YOD_SCRIPT_PYTHON_H

/* Become a command: words[0] is its path. The interpreter is the first that
 * this user can execute of: python3 beside the command; pythonX.Y of the
 * release that yod was installed for, in PATH; python3 in PATH.
 * Returns only where there is none; errno tells why of the last. */
void python_execute (char **words, int count);

#endif
