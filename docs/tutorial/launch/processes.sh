#!/bin/sh
# Four processes on this machine, with the environment that torchrun gives them.
export WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=29400
for rank in 0 1 2 3; do
  RANK=$rank LOCAL_RANK=$rank train_gpt --backend cuda --plan "dp2 x tp2" "$@" &
  processes="$processes $!"
done
for process in $processes; do
  wait "$process" || failed=1
done
exit "${failed:-0}"
