#!/usr/bin/env bash
# A one-node Slurm with two simulated GPUs that lives exactly as long as a command:
#
#     tests/cluster/slurm.sh sinfo
#     tests/cluster/slurm.sh bash          # to look around
#
# Needs root and Debian's slurm-wlm and munge. Everything happens in namespaces of its own (mounts, processes, network): /etc/slurm is a
# file system in memory that nobody else sees, ports are free, and the kernel ends every daemon with the command, however that ends.
set -euo pipefail

if [[ ${1-} != --inside ]]; then
    exec setpriv --pdeathsig KILL -- unshare --mount --net --pid --fork --kill-child --mount-proc -- "$0" --inside "$@"
fi
shift

node=$(hostname -s)
ip link set lo up
ip address add 192.0.2.1/32 dev lo # where all addresses are loopback ones, Slurm resolves none
# The only configuration that every client reads without being told (the executor plugin does not hand SLURM_CONF on).
mount -t tmpfs -o mode=755 tmpfs /etc/slurm
cd /etc/slurm
mkdir state spool
mknod gpu0 c 1 3
mknod gpu1 c 1 3

# CPUs and memory are as told, whatever the machine has: two training jobs fit side by side.
cat >slurm.conf <<CONF
ClusterName=trueneg
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/etc/slurm/munge.socket
StateSaveLocation=/etc/slurm/state
SlurmdSpoolDir=/etc/slurm/spool
SlurmctldPidFile=/etc/slurm/slurmctld.pid
SlurmdPidFile=/etc/slurm/slurmd.pid
SlurmctldLogFile=/etc/slurm/slurmctld.log
SlurmdLogFile=/etc/slurm/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog=/etc/slurm/prolog
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MinJobAge=86400
GresTypes=gpu
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=$node Default=YES MaxTime=INFINITE State=UP
CONF
echo "NodeName=$node Name=gpu File=/etc/slurm/gpu[0-1]" >gres.conf

# Which devices Slurm gave to a job: a line in the folder where it was submitted, written with the environment of the job's own step.
cat >prolog <<'PROLOG'
#!/bin/sh
if [ "$SLURM_STEP_ID" = 0 ]; then
    echo "$SLURM_JOB_ID ${CUDA_VISIBLE_DEVICES:-none}" >>"$SLURM_SUBMIT_DIR/devices.txt"
fi
PROLOG
chmod +x prolog

failed() {
    tail -n 20 munge.log slurmctld.log slurmd.log >&2
    echo "slurm.sh: $1" >&2
    exit 1
}

mungekey --create --keyfile munge.key
munged --key-file munge.key --socket /etc/slurm/munge.socket --pid-file munge.pid --log-file munge.log --seed-file munge.seed
slurmctld || failed "slurmctld did not start"
slurmd -N "$node" || failed "slurmd did not start"
for _ in $(seq 60); do
    [[ $(sinfo --noheader --format %T) == idle ]] && break
    sleep 0.5
done
[[ $(sinfo --noheader --format %T) == idle ]] || failed "the node is not idle after 30 s: $(sinfo --noheader --format '%T %E')"

cd "$OLDPWD"
"$@"
