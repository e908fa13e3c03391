#!/bin/sh
# Runs a command inside a machine of the lab: enter.sh INIT_PID CGROUP CONTROLLERS COMMAND...
# The caller joins the machine's cgroups first, so that the end of the machine is its end, too.
set -eu
init=$1 cgroup=$2 controllers=$3
shift 3
for controller in $controllers; do
    echo $$ >"/sys/fs/cgroup/$controller/$cgroup/cgroup.procs"
done
exec nsenter --target "$init" --net --uts --ipc --pid --mount --cgroup -- "$@"
