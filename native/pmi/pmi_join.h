/* pmi_join.h - find the launcher by the environment, and join its job. */
#ifndef PMI_JOIN_H
#define PMI_JOIN_H

/* Fill in pmi_self. PMI_SUCCESS; PMI_FAIL, and standard error says why. */
int pmi_join (void);

#endif
