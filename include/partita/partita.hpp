// All of partita but what needs MPI, CUDA or NCCL, which are included by name.
#pragma once
#include <partita/planning.hpp>
#include <partita/train/interrupt.hpp>
#include <partita/train/learning_rate.hpp>
#include <partita/train/progress.hpp>
#include <partita/train/sampling.hpp>
#include <partita/train/table.hpp>
#include <partita/train/text_data.hpp>
#include <partita/train/trainer.hpp>
