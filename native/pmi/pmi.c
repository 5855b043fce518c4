#include "pmi.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmi_alone.h"
#include "pmi_line.h"
#include "pmi_nodes.h"

#define NAME_MAX_BYTES 1024
#define KEY_MAX_BYTES 1024
#define VALUE_MAX_BYTES 8192 /* with name and key less than a line */
#define MESSAGE_MAX_BYTES 1024
#define NUMBER_MAX 99999999
#define MAPPING "PMI_process_mapping"

/* The process's place in its job. */
static struct {
    bool has_joined, is_alone, is_spawned;
    int rank, size;
    int name_max, key_max, value_max; /* bytes, with the NUL */
    struct pmi_line line;
    struct pmi_pair *pairs; /* is_alone */
    char name[NAME_MAX_BYTES]; /* is_alone */
} self;

/* Send a request and take its answer; NULL: the conversation is over. */
__attribute__ ((format (printf, 2, 3))) static const char *
ask (const char *answer, const char *format, ...)
{
    char request[PMI_LINE_BYTES];
    const char *line;
    va_list values;
    int length;

    va_start (values, format);
    length = vsnprintf (request, sizeof (request), format, values);
    va_end (values);
    if (length < 0 || (size_t)length >= sizeof (request)
        || !pmi_line_send (&self.line, request, (size_t)length)
        || !(line = pmi_line_receive (&self.line)))
        return NULL;
    if (pmi_line_is (line, answer))
        return line;
    pmi_line_close (&self.line);
    return NULL;
}

/* A request whose answer is whether it worked: by `rc`, by older servers'
 * `info`, or by there being an answer at all. */
static int result_of (const char *line, const char *tail)
{
    size_t length;
    const char *word;

    if (!line)
        return PMI_FAIL;
    if ((word = pmi_line_word (line, "rc", tail, &length)))
        return length == 1 && *word == '0' ? PMI_SUCCESS : PMI_FAIL;
    if ((word = pmi_line_word (line, "info", tail, &length)))
        return length == 2 && memcmp (word, "ok", 2) == 0 ? PMI_SUCCESS
                                                          : PMI_FAIL;
    return PMI_SUCCESS;
}

/* A request whose answer is a number. */
static int number_of (const char *line, const char *name, int min, int *value)
{
    return line && pmi_line_number (line, name, min, NUMBER_MAX, value)
               ? PMI_SUCCESS
               : PMI_FAIL;
}

static int refuse (const char *why)
{
    fprintf (stderr, "PMI_Init: %s\n", why);
    pmi_line_close (&self.line);
    return PMI_FAIL;
}

/* ---- joining ---------------------------------------------------------- */

static bool environment_number (const char *name, int *value)
{
    const char *text = getenv (name);

    return text && pmi_number (text, strlen (text), 0, NUMBER_MAX, value);
}

/* Programs of the ranks that have other ways to each other wait for those
 * that believe to be alone. The first of them says it for all. */
static void warn_of_yod (void)
{
    int rank, size;

    if (environment_number ("YOD_RANK", &rank) && rank == 0
        && environment_number ("YOD_SIZE", &size) && size > 1)
        fprintf (stderr, "PMI_Init: yod has started %d ranks, but neither"
                 " PMI_FD nor PMI_PORT is set: each is rank 0 of 1; use"
                 " --mpi=auto or --mpi=pmi1\n", size);
}

static int be_alone (void)
{
    if (environment_number ("PMI_SIZE", &self.size) && self.size > 1)
        return refuse ("PMI_SIZE says that there are more ranks, but neither"
                       " PMI_FD nor PMI_PORT leads to their launcher");
    warn_of_yod ();
    self.is_alone = true;
    self.rank = 0;
    self.size = 1;
    self.name_max = self.key_max = 256;
    self.value_max = VALUE_MAX_BYTES;
    snprintf (self.name, sizeof (self.name), "alone_%ld", (long)getpid ());
    return PMI_SUCCESS;
}

/* What a server says to one that came by PMI_PORT: four lines. */
static bool hear_welcome (void)
{
    int id = 0;
    const char *line;

    if (!environment_number ("PMI_ID", &id)
        && !environment_number ("PMI_RANK", &id))
        return false;
    if (!ask ("initack", "cmd=initack pmiid=%d\n", id))
        return false;
    self.rank = self.size = -1;
    for (int i = 0; i < 3; i++) {
        if (!(line = pmi_line_receive (&self.line))
            || !pmi_line_is (line, "set"))
            return false;
        pmi_line_number (line, "size", 1, NUMBER_MAX, &self.size);
        pmi_line_number (line, "rank", 0, NUMBER_MAX, &self.rank);
    }
    return true;
}

/* Whether a server is found, and says who this is. */
static int reach (void)
{
    const char *port = getenv ("PMI_PORT");
    int fd;

    if (environment_number ("PMI_FD", &fd)
        && pmi_line_use (&self.line, fd)) {
        if (!environment_number ("PMI_RANK", &self.rank)
            || !environment_number ("PMI_SIZE", &self.size))
            return refuse ("PMI_RANK and PMI_SIZE are not both set");
    } else if (port) {
        if (!pmi_line_dial (&self.line, port))
            return refuse ("nobody answers at PMI_PORT");
        if (!hear_welcome ())
            return refuse ("the launcher at PMI_PORT does not know PMI_ID");
    } else
        return be_alone ();
    if (self.rank < 0 || self.rank >= self.size)
        return refuse ("the launcher gives no rank below the size");
    return PMI_SUCCESS;
}

static bool take_maximum (const char *line, const char *name, int most,
                          int *value)
{
    if (number_of (line, name, 2, value) != PMI_SUCCESS)
        return false;
    if (*value > most)
        *value = most;
    return true;
}

static int join (void)
{
    const char *line = ask ("response_to_init",
                            "cmd=init pmi_version=1 pmi_subversion=1\n");

    if (result_of (line, NULL) != PMI_SUCCESS)
        return refuse ("the launcher does not speak PMI 1.1");
    line = ask ("maxes", "cmd=get_maxes\n");
    if (!take_maximum (line, "kvsname_max", NAME_MAX_BYTES, &self.name_max)
        || !take_maximum (line, "keylen_max", KEY_MAX_BYTES, &self.key_max)
        || !take_maximum (line, "vallen_max", VALUE_MAX_BYTES,
                          &self.value_max))
        return refuse ("the launcher does not say how long keys may be");
    return PMI_SUCCESS;
}

int PMI_Init (int *spawned)
{
    int is_spawned = 0, rc;

    if (!spawned)
        return PMI_ERR_INVALID_ARG;
    if (!self.has_joined) {
        self.is_alone = false;
        if ((rc = reach ()) != PMI_SUCCESS
            || (!self.is_alone && (rc = join ()) != PMI_SUCCESS))
            return rc;
        environment_number ("PMI_SPAWNED", &is_spawned);
        self.is_spawned = is_spawned;
        self.has_joined = true;
    }
    *spawned = self.is_spawned ? PMI_TRUE : PMI_FALSE;
    return PMI_SUCCESS;
}

int PMI_Initialized (PMI_BOOL *initialized)
{
    if (!initialized)
        return PMI_ERR_INVALID_ARG;
    *initialized = self.has_joined ? PMI_TRUE : PMI_FALSE;
    return PMI_SUCCESS;
}

int PMI_Finalize (void)
{
    int rc = PMI_SUCCESS;

    if (!self.has_joined)
        return PMI_ERR_INIT;
    if (!self.is_alone) {
        if (!ask ("finalize_ack", "cmd=finalize\n"))
            rc = PMI_FAIL;
        pmi_line_close (&self.line);
    }
    pmi_alone_free (&self.pairs);
    self.has_joined = false;
    return rc;
}

int PMI_Abort (int exit_code, const char error_msg[])
{
    char text[MESSAGE_MAX_BYTES];

    snprintf (text, sizeof (text), "%s", error_msg ? error_msg : "");
    for (char *at = text; *at; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    fflush (NULL);
    if (self.has_joined && !self.is_alone) {
        char request[MESSAGE_MAX_BYTES + 64];
        int length = snprintf (request, sizeof (request),
                               "cmd=abort exitcode=%d%s%s\n", exit_code,
                               *text ? " message=" : "", text);

        pmi_line_send (&self.line, request, (size_t)length);
    } else
        fprintf (stderr, "PMI_Abort: %s\n", text);
    _exit (exit_code);
}

/* ---- who and how many ------------------------------------------------- */

/* Give a number that is known since PMI_Init. */
static int give (int *result, int value)
{
    if (!self.has_joined)
        return PMI_ERR_INIT;
    if (!result)
        return PMI_ERR_INVALID_ARG;
    *result = value;
    return PMI_SUCCESS;
}

int PMI_Get_size (int *size)
{
    return give (size, self.size);
}

int PMI_Get_rank (int *rank)
{
    return give (rank, self.rank);
}

int PMI_Get_universe_size (int *size)
{
    int rc = give (size, 1);

    if (rc != PMI_SUCCESS || self.is_alone)
        return rc;
    return number_of (ask ("universe_size", "cmd=get_universe_size\n"),
                      "size", -1, size);
}

int PMI_Get_appnum (int *appnum)
{
    int rc = give (appnum, 0);

    if (rc != PMI_SUCCESS || self.is_alone)
        return rc;
    return number_of (ask ("appnum", "cmd=get_appnum\n"), "appnum", -1,
                      appnum);
}

static int get (const char *name, const char *key, char *value, size_t room);
static int get_name (char *name, size_t room);

/* Without a mapping a rank knows only of itself. */
static int clique (int *ranks, int length)
{
    char name[NAME_MAX_BYTES], mapping[VALUE_MAX_BYTES];
    int count = 0;

    if (!self.is_alone
        && get_name (name, sizeof (name)) == PMI_SUCCESS
        && get (name, MAPPING, mapping, sizeof (mapping)) == PMI_SUCCESS)
        count = pmi_nodes_clique (mapping, self.size, self.rank, ranks,
                                  length);
    if (count)
        return count;
    if (ranks && length > 0)
        ranks[0] = self.rank;
    return 1;
}

int PMI_Get_clique_size (int *size)
{
    int rc = give (size, 1);

    if (rc == PMI_SUCCESS)
        *size = clique (NULL, 0);
    return rc;
}

int PMI_Get_clique_ranks (int ranks[], int length)
{
    if (!self.has_joined)
        return PMI_ERR_INIT;
    if (!ranks)
        return PMI_ERR_INVALID_ARG;
    if (length < 0 || clique (ranks, length) > length)
        return PMI_ERR_INVALID_LENGTH;
    return PMI_SUCCESS;
}

int PMI_Barrier (void)
{
    if (!self.has_joined)
        return PMI_ERR_INIT;
    if (self.is_alone)
        return PMI_SUCCESS;
    return result_of (ask ("barrier_out", "cmd=barrier_in\n"), NULL);
}

/* ---- the key-value space ---------------------------------------------- */

static int copy_out (const char *found, size_t length, char *to, size_t room)
{
    if (room)
        *to = 0;
    if (length >= room)
        return PMI_ERR_INVALID_LENGTH;
    memcpy (to, found, length);
    to[length] = 0;
    return PMI_SUCCESS;
}

static int get_name (char *name, size_t room)
{
    const char *line, *found;
    size_t length;

    if (self.is_alone)
        return copy_out (self.name, strlen (self.name), name, room);
    line = ask ("my_kvsname", "cmd=get_my_kvsname\n");
    if (!line || !(found = pmi_line_word (line, "kvsname", NULL, &length))
        || !length || length >= (size_t)self.name_max)
        return PMI_FAIL;
    return copy_out (found, length, name, room);
}

int PMI_KVS_Get_my_name (char kvsname[], int length)
{
    if (!self.has_joined)
        return PMI_ERR_INIT;
    if (!kvsname)
        return PMI_ERR_INVALID_ARG;
    if (length <= 0)
        return PMI_ERR_INVALID_LENGTH;
    return get_name (kvsname, (size_t)length);
}

int PMI_KVS_Get_name_length_max (int *length)
{
    return give (length, self.name_max);
}

int PMI_KVS_Get_key_length_max (int *length)
{
    return give (length, self.key_max);
}

int PMI_KVS_Get_value_length_max (int *length)
{
    return give (length, self.value_max);
}

/* A word that a request can have. */
static bool is_word (const char *text)
{
    return *text && !text[strcspn (text, " =\r\n")];
}

static int name_fault (const char *name)
{
    if (!self.has_joined)
        return PMI_ERR_INIT;
    if (!name || !is_word (name) || strlen (name) >= (size_t)self.name_max
        || (self.is_alone && strcmp (name, self.name) != 0))
        return PMI_ERR_INVALID_ARG;
    return PMI_SUCCESS;
}

static int key_fault (const char *name, const char *key)
{
    int rc = name_fault (name);

    if (rc != PMI_SUCCESS)
        return rc;
    if (!key || !is_word (key))
        return PMI_ERR_INVALID_KEY;
    if (strlen (key) >= (size_t)self.key_max)
        return PMI_ERR_INVALID_KEY_LENGTH;
    return PMI_SUCCESS;
}

int PMI_KVS_Put (const char kvsname[], const char key[], const char value[])
{
    int rc = key_fault (kvsname, key);

    if (rc != PMI_SUCCESS)
        return rc;
    if (!value || value[strcspn (value, "\n")])
        return PMI_ERR_INVALID_VAL;
    if (strlen (value) >= (size_t)self.value_max)
        return PMI_ERR_INVALID_VAL_LENGTH;
    if (self.is_alone)
        return pmi_alone_put (&self.pairs, key, value) ? PMI_SUCCESS
                                                       : PMI_ERR_NOMEM;
    return result_of (ask ("put_result",
                           "cmd=put kvsname=%s key=%s value=%s\n", kvsname,
                           key, value),
                      NULL);
}

/* A put is the launcher's once it has answered: nothing is left to do. */
int PMI_KVS_Commit (const char kvsname[])
{
    return name_fault (kvsname);
}

static int get (const char *name, const char *key, char *value, size_t room)
{
    const char *line, *found;
    size_t length;

    if (self.is_alone) {
        found = pmi_alone_get (self.pairs, key);
        return found ? copy_out (found, strlen (found), value, room)
                     : PMI_FAIL;
    }
    line = ask ("get_result", "cmd=get kvsname=%s key=%s\n", name, key);
    if (result_of (line, "value") != PMI_SUCCESS
        || !(found = pmi_line_word (line, "value", "value", &length)))
        return PMI_FAIL;
    return copy_out (found, length, value, room);
}

int PMI_KVS_Get (const char kvsname[], const char key[], char value[],
                 int length)
{
    int rc = key_fault (kvsname, key);

    if (rc != PMI_SUCCESS)
        return rc;
    if (!value)
        return PMI_ERR_INVALID_VAL;
    if (length <= 0)
        return PMI_ERR_INVALID_LENGTH;
    *value = 0;
    return get (kvsname, key, value, (size_t)length);
}

/* ---- names ------------------------------------------------------------ */

/* Both run to another word of the request. */
static int service_fault (const char *service)
{
    if (!self.has_joined)
        return PMI_ERR_INIT;
    if (!service || !*service || service[strcspn (service, "\r\n")]
        || strlen (service) >= NAME_MAX_BYTES || strstr (service, " port="))
        return PMI_ERR_INVALID_ARG;
    return self.is_alone ? PMI_FAIL : PMI_SUCCESS;
}

int PMI_Publish_name (const char service_name[], const char port[])
{
    int rc = service_fault (service_name);

    if (rc == PMI_ERR_INIT || rc == PMI_ERR_INVALID_ARG)
        return rc;
    if (!port || !*port || port[strcspn (port, "\r\n")]
        || strlen (port) >= PMI_PORT_MAX)
        return PMI_ERR_INVALID_ARG;
    if (rc != PMI_SUCCESS)
        return rc;
    return result_of (ask ("publish_result",
                           "cmd=publish_name service=%s port=%s\n",
                           service_name, port),
                      NULL);
}

int PMI_Unpublish_name (const char service_name[])
{
    int rc = service_fault (service_name);

    if (rc != PMI_SUCCESS)
        return rc;
    return result_of (ask ("unpublish_result",
                           "cmd=unpublish_name service=%s\n", service_name),
                      NULL);
}

/* A port may have blanks in it: it ends where the next word begins. */
static int take_port (const char *line, char *port)
{
    size_t length = 0;
    const char *found = pmi_line_word (line, "port", NULL, &length);
    const char *next = found ? strstr (found, " info=") : NULL;

    if (!found)
        return PMI_FAIL;
    if (next)
        length = (size_t)(next - found);
    if (!length || length >= PMI_PORT_MAX)
        return PMI_FAIL;
    return copy_out (found, length, port, PMI_PORT_MAX);
}

int PMI_Lookup_name (const char service_name[], char port[])
{
    const char *line;
    int rc = service_fault (service_name);

    if (rc == PMI_ERR_INIT || rc == PMI_ERR_INVALID_ARG)
        return rc;
    if (!port)
        return PMI_ERR_INVALID_ARG;
    if (rc != PMI_SUCCESS)
        return rc;
    line = ask ("lookup_result", "cmd=lookup_name service=%s\n",
                service_name);
    return result_of (line, NULL) == PMI_SUCCESS ? take_port (line, port)
                                                 : PMI_FAIL;
}

/* ---- older names ------------------------------------------------------ */

int PMI_Get_id (char id[], int length)
{
    return PMI_KVS_Get_my_name (id, length);
}

int PMI_Get_id_length_max (int *length)
{
    return PMI_KVS_Get_name_length_max (length);
}

int PMI_Get_kvs_domain_id (char id[], int length)
{
    return PMI_KVS_Get_my_name (id, length);
}
