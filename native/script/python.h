/* python.h - finds the Python interpreter for a command of ours.
 *
 * A command is a Python program that begins as a shell script, which looks for
 * an interpreter (SCRIPT in setup.py). A shell also reaps the children that its
 * process had before, and their exit statuses are lost. So a process that has
 * children finds the interpreter itself.
 */
#ifndef YOD_SCRIPT_PYTHON_H
#define YOD_SCRIPT_PYTHON_H

/* Become a command: words[0] is its path. The interpreter is the first that
 * this user can execute of: python3 beside the command; pythonX.Y of the
 * release that yod was installed for, in PATH; python3 in PATH.
 * Returns only where there is none; errno tells why of the last. */
void python_execute (char **words, int count);

#endif
