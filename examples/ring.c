/* A token goes once round all ranks; each adds its number. ring.py in C.
 *
 * mpicc -o ring examples/ring.c && yod -sz 4 ./ring
 */

#include <mpi.h>
#include <stdio.h>

int main (int argc, char **argv)
{
    int rank, size, token = 0;
    MPI_Request first;

    MPI_Init (&argc, &argv);
    MPI_Comm_rank (MPI_COMM_WORLD, &rank);
    MPI_Comm_size (MPI_COMM_WORLD, &size);
    if (rank == 0) {
        int start = 0; /* alone it is its own neighbour */
        MPI_Isend (&start, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, &first);
        MPI_Recv (&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait (&first, MPI_STATUS_IGNORE);
        printf ("ring of %d: the token came back as %d, expected %d\n", size, token,
                size * (size - 1) / 2);
    } else {
        MPI_Recv (&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token += rank;
        MPI_Send (&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize ();
    return 0;
}
