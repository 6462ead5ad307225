# Slurm on this host alone, with munge, ports and a state of its own; used by under_launcher.sh and by
# tests/cli/parts_under_launcher.sh. Needs slurmctld, slurmd and munged (Debian: apt install slurmctld slurmd
# slurm-client munge), no configuration and no running service.
# shellcheck source=free_port.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/free_port.sh"

# start_slurm FOLDER NODES [PROCESSORS]: nodes of two processors each, or of so many, whatever the host has; all of them
# this host (slurmd -N), with the daemons' files in FOLDER; srun finds them by SLURM_CONF. Fails, and says why, where
# they cannot be started; stop_slurm ends them.
start_slurm() {
  local folder=$1 nodes=$2 processors=${3:-2} user node
  slurm_daemons=()
  PATH=$PATH:/usr/sbin:/sbin
  for daemon in munged slurmctld slurmd; do
    command -v $daemon >/dev/null || { echo "skipped: $daemon is not installed"; return 1; }
  done
  user=$(id -un)
  mkdir -m 700 "$folder/munge" "$folder/state"
  (umask 077; head -c 128 /dev/urandom >"$folder/munge/key")
  export SLURM_CONF=$folder/slurm.conf
  cat >"$SLURM_CONF" <<CONFIGURATION
ClusterName=foreshard
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PartitionName=all Nodes=ALL Default=YES
CONFIGURATION
  for ((node = 1; node <= nodes; node++)); do
    mkdir "$folder/node$node"
    echo "NodeName=node$node NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$(free_port) CPUs=$processors" \
      >>"$SLURM_CONF"
  done
  start_daemon munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
    --pid-file="$folder/munge/pid" --seed-file="$folder/munge/seed"
  start_daemon slurmctld -D -i
  for ((node = 1; node <= nodes; node++)); do start_daemon slurmd -D -N "node$node"; done
  for _ in $(seq 150); do
    [ "$(sinfo --noheader --Node --format=%T 2>/dev/null | grep -cx idle)" = "$nodes" ] && return 0
    sleep 0.1
  done
  echo "skipped: Slurm does not start here"
  tail -n 8 "$folder/daemons"
  return 1
}

start_daemon() {
  "$@" >>"$folder/daemons" 2>&1 &
  slurm_daemons+=($!)
}

stop_slurm() {
  kill "${slurm_daemons[@]}" 2>/dev/null || true
  wait "${slurm_daemons[@]}" 2>/dev/null || true
}
