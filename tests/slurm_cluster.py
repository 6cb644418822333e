"""A Slurm cluster on this machine for as long as a test session lasts: munge, slurmctld and some slurmd, each a node with fake GPUs.

Needs root and Debian's packages slurm-wlm and munge, but no systemd and no cgroups. Memory is scheduled and not enforced.
"""

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
SYSTEM = Path("/etc/slurm/slurm.conf")
LINKS = ("slurm.conf", "gres.conf")
PORT = 17817
"""Of the controller; the nodes have the next ones."""
CONFIGURATION = """
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/munge.socket
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SchedulerParameters=batch_sched_delay=0,bf_interval=2,sched_interval=2
KillWait=10
CompleteWait=0
SlurmdTimeout=10
NodeName=DEFAULT CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=16000 Gres=gpu:fake:2
{nodes}
PartitionName=batch Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """`start()`, `stop()`; all its files lie in `root`."""

    def __init__(self, root: Path, count: int = 2) -> None:
        self.root, self.count = root, count
        self.environment = {**os.environ, "SLURM_CONF": str(root / "slurm.conf")}

    @staticmethod
    def hindrance() -> str | None:
        """Why none can be started here."""
        if os.geteuid() != 0:
            return "a Slurm cluster is started by root only"
        path = f"{os.environ['PATH']}:/usr/sbin"
        if missing := [name for name in PROGRAMS if not shutil.which(name, path=path)]:
            return f"not installed: {', '.join(missing)} (Debian's packages slurm-wlm and munge)"
        if SYSTEM.exists() and not _left_over():
            return f"{SYSTEM} is there: this machine belongs to a cluster"
        return None

    def start(self) -> None:
        """Returns when all nodes are idle. Raises RuntimeError with the controller's log if they don't become so."""
        (self.root / "state").mkdir(parents=True)
        for number in range(2):
            # Nothing computes on them: Slurm wants device files that it can hand out.
            os.mknod(self.root / f"gpu{number}", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        self._write()
        # Jobs are cleared of SLURM_CONF, and read the system's file.
        SYSTEM.parent.mkdir(exist_ok=True)
        for name in LINKS:
            if (SYSTEM.parent / name).is_symlink():
                (SYSTEM.parent / name).unlink()
            (SYSTEM.parent / name).symlink_to(self.root / name)
        (self.root / "munge.key").write_bytes(os.urandom(1024))
        (self.root / "munge.key").chmod(0o400)
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid"}
        files |= {"log-file": "munged.log", "seed-file": "munge.seed"}
        self._run("munged", "--force", *(f"--{option}={self.root / name}" for option, name in files.items()))
        self._run("slurmctld")
        for number in range(1, self.count + 1):
            self._run("slurmd", "-N", f"n{number}")
        deadline = time.monotonic() + 60
        while self.ask("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split() != self._names():
            if time.monotonic() > deadline:
                raise RuntimeError(f"no idle nodes:\n{(self.root / 'slurmctld.log').read_text()[-3000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Cancel what runs, end the daemons, take the links away."""
        try:
            self.ask("scancel", "-Q", "-u", "root")
            deadline = time.monotonic() + 30
            while self.ask("squeue", "-h") and time.monotonic() < deadline:
                time.sleep(0.2)
        finally:
            for name in (*self._names(), "slurmctld", "munged"):
                self._end(self.root / f"{name}.pid")
            for name in LINKS:
                (SYSTEM.parent / name).unlink(missing_ok=True)

    def ask(self, *command: str) -> str:
        """What a command of Slurm prints; nothing if the controller does not answer within ten seconds."""
        try:
            return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=10).stdout
        except subprocess.TimeoutExpired:
            return ""

    def _names(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.count + 1)]

    def _write(self) -> None:
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={PORT + number}"
            for number, name in enumerate(self._names(), 1)
        )
        filled = CONFIGURATION.format(
            host=socket.gethostname(), port=PORT, root=self.root, nodes=nodes, count=self.count
        )
        (self.root / "slurm.conf").write_text(filled)
        gpus = f"NodeName=n[1-{self.count}] Name=gpu Type=fake File={self.root}/gpu[0-1]\n"
        (self.root / "gres.conf").write_text(gpus)

    def _run(self, program: str, *arguments: str) -> None:
        environment = {**self.environment, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
        subprocess.run([program, *arguments], env=environment, check=True, timeout=60)

    def _end(self, file: Path) -> None:
        if not file.exists():
            return
        pid = int(file.read_text())
        for number in (15, 9):
            deadline = time.monotonic() + 10
            while _lives(pid) and time.monotonic() < deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                time.sleep(0.2)


def _left_over() -> bool:
    """Whether the system's file leads to a trial cluster whose session was killed, and its controller with it."""
    if not SYSTEM.is_symlink():
        return False
    file = SYSTEM.readlink().with_name("slurmctld.pid")
    return not (file.exists() and _lives(int(file.read_text())))


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
