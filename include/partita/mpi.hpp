// CPU devices in several processes, on one host or many: pt::mpi and pt::mpi_cpu. Needs MPI; partita.hpp does not
// include it.
#pragma once
#include <partita/comm/mpi/world.hpp>
#include <partita/train/mpi/devices.hpp>
