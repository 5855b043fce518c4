/*
 * A rank that saves itself for checkpoints: docs/checkpoint.md. Nothing is linked to.
 *
 * yod_checkpoint_begin(SIGUSR1) before the work; then, whenever the state is whole,
 *
 *     if (yod_checkpoint_asked()) {
 *         ... write files below yod_checkpoint_dir() ...
 *         if (yod_checkpoint_saved() != 0)
 *             perror("checkpoint");
 *     }
 */
#ifndef YOD_CHECKPOINT_H
#define YOD_CHECKPOINT_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile sig_atomic_t yod_checkpoint_is_asked;

static void yod_checkpoint_hear(int number)
{
    (void)number;
    yod_checkpoint_is_asked = 1;
}

/* Hear the signal; 0, or -1 with errno. A call that it interrupts is begun again. */
static inline int yod_checkpoint_begin(int number)
{
    struct sigaction action = {.sa_handler = yod_checkpoint_hear, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    return sigaction(number, &action, NULL);
}

/* Where this rank writes; NULL: yod was started without --checkpoint-dir. */
static inline const char *yod_checkpoint_dir(void)
{
    return getenv("YOD_CHECKPOINT_DIR");
}

/* What this rank has saved in the checkpoint that the job goes on from; NULL: it begins. */
static inline const char *yod_restart_dir(void)
{
    const char *dir = getenv("YOD_RESTART_DIR");

    return dir != NULL && access(dir, R_OK | X_OK) == 0 ? dir : NULL;
}

/* Whether the rank is to save itself. */
static inline int yod_checkpoint_asked(void)
{
    return yod_checkpoint_is_asked && yod_checkpoint_dir() != NULL;
}

/* A line that says how much a file has that is a standard stream. */
static inline int yod_checkpoint_say_(FILE *file, int fd)
{
    struct stat about;

    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return 0;
    return fprintf(file, "%d %lld\n", fd, (long long)about.st_size);
}

/* Wait, where yod wants to know how much the rank had written. */
static inline void yod_checkpoint_wait_(char *path, size_t size)
{
    int fd;

    memcpy(path + size - strlen("saved.new"), ".held", sizeof(".held"));
    if ((fd = open(path, O_RDONLY)) < 0)
        return;
    while (flock(fd, LOCK_SH) != 0 && errno == EINTR)
        ;
    close(fd);
}

/*
 * All files are written and closed; 0, or -1 with errno. What has been printed by then belongs to
 * the checkpoint, also what stdio still has.
 */
static inline int yod_checkpoint_saved(void)
{
    char path[4200], whole[4200];
    int size = snprintf(path, sizeof(path), "%s/saved.new", yod_checkpoint_dir());
    int is_bad;
    FILE *file;

    yod_checkpoint_is_asked = 0;
    if (size < 0 || (size_t)size >= sizeof(path))
        return -1;
    memcpy(whole, path, (size_t)size - 4);
    whole[size - 4] = '\0';
    if (fflush(stdout) != 0 || fflush(stderr) != 0 || (file = fopen(path, "w")) == NULL)
        return -1;
    is_bad = yod_checkpoint_say_(file, 1) < 0 || yod_checkpoint_say_(file, 2) < 0;
    if (fclose(file) != 0 || is_bad || rename(path, whole) != 0)
        return -1;
    yod_checkpoint_wait_(path, (size_t)size);
    return 0;
}

#endif
