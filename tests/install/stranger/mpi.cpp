// Asks the processes of MPI, be they one, for their numbers: the installed target brings MPI with it.
#include <cstdio>

#include <partita/mpi.hpp>

int main(int argc, char** argv) {
  partita::mpi world(argc, argv);
  int sum = 0;
  for (int rank : partita::gather(world, world.rank())) sum += rank;
  std::printf("process %d of %d\n", world.rank(), world.size());
  return sum == world.size() * (world.size() - 1) / 2 ? 0 : 1;
}
