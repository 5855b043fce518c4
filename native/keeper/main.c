/* main.c - the keeper as a program of its own. */
#include "main.h"

int main (void)
{
    keeper_main ();
}
