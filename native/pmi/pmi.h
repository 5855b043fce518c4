/* pmi.h - PMI-1: how a program learns its rank and meets the other ranks.
 *
 * Names, types and codes are those of the field's pmi.h (MPICH, Slurm). The
 * launcher is met at PMI_FD, an inherited socket, or at PMI_PORT ("host:port",
 * with PMI_ID, the rank). Without either the process is alone: rank 0 of 1,
 * with key-value pairs of its own. Of yod's ranks, where it has started
 * several and offered them nothing, rank 0 says so on standard error.
 *
 * A call blocks until the launcher answers. The library has no thread and no
 * lock: one call at a time. A launcher that breaks the protocol gets no second
 * chance: this call and all later ones return PMI_FAIL.
 *
 * Calls before PMI_Init and after PMI_Finalize return PMI_ERR_INIT; a null
 * pointer where a result goes, PMI_ERR_INVALID_ARG. PMI_Init may follow
 * PMI_Finalize.
 */
#ifndef PMI_H
#define PMI_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SUCCESS 0
#define PMI_FAIL (-1)
#define PMI_ERR_INIT 1
#define PMI_ERR_NOMEM 2
#define PMI_ERR_INVALID_ARG 3
#define PMI_ERR_INVALID_KEY 4
#define PMI_ERR_INVALID_KEY_LENGTH 5
#define PMI_ERR_INVALID_VAL 6
#define PMI_ERR_INVALID_VAL_LENGTH 7
#define PMI_ERR_INVALID_LENGTH 8
#define PMI_ERR_INVALID_NUM_ARGS 9
#define PMI_ERR_INVALID_ARGS 10
#define PMI_ERR_INVALID_NUM_PARSED 11
#define PMI_ERR_INVALID_KEYVALP 12
#define PMI_ERR_INVALID_SIZE 13

typedef int PMI_BOOL;
#define PMI_TRUE 1
#define PMI_FALSE 0

#define PMI_API __attribute__ ((visibility ("default")))

/* Join. *spawned: whether another program started this one. Once more: the
 * same answer. PMI_FAIL: no launcher where the environment says there is one,
 * or none although PMI_SIZE tells of several ranks. */
PMI_API int PMI_Init (int *spawned);
PMI_API int PMI_Initialized (PMI_BOOL *initialized);
PMI_API int PMI_Finalize (void);

PMI_API int PMI_Get_size (int *size);
PMI_API int PMI_Get_rank (int *rank);
PMI_API int PMI_Get_universe_size (int *size);
PMI_API int PMI_Get_appnum (int *appnum);

/* Ranks on this node, ascending; `length` is how many `ranks` has room for. */
PMI_API int PMI_Get_clique_size (int *size);
PMI_API int PMI_Get_clique_ranks (int ranks[], int length);

/* All ranks are in; what they have put can be got. */
PMI_API int PMI_Barrier (void);

/* End the job with this exit code. Does not return. */
PMI_API int PMI_Abort (int exit_code, const char error_msg[]);

/* The key-value space. The maxima are sizes of buffers: they count the NUL.
 * A key has no blank, `=` or line's end in it, a value no line's end. */
PMI_API int PMI_KVS_Get_my_name (char kvsname[], int length);
PMI_API int PMI_KVS_Get_name_length_max (int *length);
PMI_API int PMI_KVS_Get_key_length_max (int *length);
PMI_API int PMI_KVS_Get_value_length_max (int *length);
PMI_API int PMI_KVS_Put (const char kvsname[], const char key[],
                         const char value[]);
PMI_API int PMI_KVS_Commit (const char kvsname[]);

/* PMI_FAIL: nothing has been put under that key. PMI_ERR_INVALID_LENGTH: the
 * value does not fit; `value` is empty then. */
PMI_API int PMI_KVS_Get (const char kvsname[], const char key[], char value[],
                         int length);

/* A name that other programs of the job can look up. A port is shorter than
 * PMI_PORT_MAX bytes, and so much room PMI_Lookup_name needs. */
#define PMI_PORT_MAX 256
PMI_API int PMI_Publish_name (const char service_name[], const char port[]);
PMI_API int PMI_Unpublish_name (const char service_name[]);
PMI_API int PMI_Lookup_name (const char service_name[], char port[]);

/* What PMI-1 was before: the same as the key-value space's name. */
PMI_API int PMI_Get_id (char id[], int length);
PMI_API int PMI_Get_id_length_max (int *length);
PMI_API int PMI_Get_kvs_domain_id (char id[], int length);

#ifdef __cplusplus
}
#endif
#endif
