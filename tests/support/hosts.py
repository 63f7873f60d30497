"""Hosts of our own for tests, on this machine: namespaces on a network of their own, an SSH server in each.

What hosts of a cluster do not share, these do not share: network, name, processes, shared memory, temporary files, the
identity of the machine. The processor and the rest of the file system are one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support import network as switch
from support.mpi import ROOT, launcher
from support.network import Network

PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
PROGRAMS = ("ip", "ssh", "sshd", "ssh-keygen", "unshare", "nsenter")

SWITCH = """\
set -e
ip link add switch type bridge
ip link set switch up
read -r pid rest < /proc/self/stat
echo $pid > {folder}/switch.pid.part
mv {folder}/switch.pid.part {folder}/switch.pid
exec cat
"""
"""What runs in the network between the hosts. It ends, and with it the network, when its input ends."""

HOST = """\
set -e
read -r pid rest < /proc/self/stat
echo $pid > {folder}/{name}.pid.part
hostname {name}
mkdir {folder}/{name}.keep
n=0
for kept in {kept}; do
    n=$((n + 1))
    mkdir {folder}/{name}.keep/$n
    [ $kept = {folder} ] || mount --bind $kept {folder}/{name}.keep/$n
done
mount --bind {folder}/hosts /etc/hosts
mkdir -p /run/sshd
mount -t tmpfs -o mode=755 run /run/sshd
mount -t tmpfs shm /dev/shm
mount --rbind {folder} /mnt
mount -t tmpfs tmp {temporary}
for kept in {kept}; do mkdir -p $kept; done
mount --bind /mnt {folder}
n=0
for kept in {kept}; do
    n=$((n + 1))
    [ $kept = {folder} ] || mount --bind /mnt/{name}.keep/$n $kept
done
mount -t proc proc /proc
mount --bind {folder}/{name}.boot_id /proc/sys/kernel/random/boot_id
ip link set lo up
mv {folder}/{name}.pid.part {folder}/{name}.pid
until ip link set eth0 up 2> /dev/null; do sleep 0.05; done
ip address add {address}/24 dev eth0
{sshd} -f {folder}/sshd_config -E {folder}/{name}.log
echo ready > {folder}/{name}.ready
exec cat
"""
"""What runs first in a host, and when its input ends, last: the processes of the host end with it."""

SSHD = """\
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
MaxStartups 100
"""
SSH = """\
#!/bin/sh
known="-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
exec ssh -i {folder}/key -o BatchMode=yes -o LogLevel=ERROR $known "$@"
"""


class Hosts:
    """Hosts that run, named h1, h2, ...; ``folder`` and the repository are the same on all of them."""

    def __init__(self, folder: Path, count: int, shared: Sequence[Path], network: Network | None) -> None:
        self.folder, self.names = folder, [f"h{n}" for n in range(1, count + 1)]
        self._shared, self._network = shared, network
        self._ends: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the network and the hosts."""
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "key")]
        subprocess.run(key, check=True, timeout=60)
        (self.folder / "sshd_config").write_text(SSHD.format(folder=self.folder))
        (self.folder / "ssh").write_text(SSH.format(folder=self.folder))
        (self.folder / "ssh").chmod(0o755)
        addresses = {name: f"10.77.0.{n}" for n, name in enumerate(self.names, start=1)}
        known = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        (self.folder / "hosts").write_text("\n".join(known) + "\n")
        self._run(["unshare", "--net", "sh", "-c", SWITCH.format(folder=self.folder)])
        self._wait(["switch.pid"])
        temporary = Path(tempfile.gettempdir()).resolve()
        needed = (path.resolve() for path in (self.folder, *self._shared, ROOT, Path(sys.prefix)))
        kept = sorted({path for path in needed if path.is_relative_to(temporary)})
        outermost = [path for path in kept if not any(path != other and path.is_relative_to(other) for other in kept)]
        for name in self.names:
            (self.folder / f"{name}.boot_id").write_text(f"{uuid.uuid4()}\n")
            script = HOST.format(
                folder=self.folder,
                name=name,
                kept=" ".join(map(str, outermost)),
                temporary=temporary,
                address=addresses[name],
                sshd=shutil.which("sshd", path=PATH),
            )
            spaces = ("net", "uts", "ipc", "pid", "mount")
            enter = ["unshare", *(f"--{space}" for space in spaces), "--fork", "--kill-child"]
            self._run([*enter, "sh", "-c", script])
        self._wait([f"{name}.pid" for name in self.names])
        # Our own switch loses single frames; a bridge may pass on many at once.
        frames, to = ("", "master switch") if self._network is None else ("gso_max_segs 1", "")
        for name in self.names:
            self._on_switch(f"ip link add {name} type veth peer name eth0 netns {self._pid(name)} {frames}")
        if self._network is not None:
            forward = [switch.__file__, *map(str, self._network), self.folder / "switch.ready", *self.names]
            self._run(self._in_switch(sys.executable, *forward))
            self._wait(["switch.ready"])
        for name in self.names:
            self._on_switch(f"ip link set {name} {to} up")
        self._wait([f"{name}.ready" for name in self.names])

    def stop(self) -> None:
        """End the hosts with all their processes, and the network."""
        for process in reversed(self._ends):
            assert process.stdin is not None
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            process.kill()
            process.wait()

    def command(self, name: str, *command: str | Path) -> list[str]:
        """The command line that runs ``command`` on host ``name``, in the repository's folder."""
        spaces = ["nsenter", "--target", self._pid(name), "--net", "--uts", "--ipc", "--pid", "--mount"]
        return [*spaces, f"--wd={ROOT}", *map(str, command)]

    def mpirun(self, ranks: Mapping[str, int], *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start ``python ARGUMENTS`` under mpirun on the first of the hosts, ``ranks`` of it on each."""
        file = self.folder / f"machines-{'-'.join(f'{name}.{count}' for name, count in ranks.items())}"
        file.write_text("".join(f"{name}:{count}\n" for name, count in ranks.items()))
        started = [*launcher(), "-launcher-exec", self.folder / "ssh", "-f", file, "-n", str(sum(ranks.values()))]
        first = next(iter(ranks))
        environment = {**os.environ, "PATH": PATH, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
        environment |= options.pop("environment", {})
        return subprocess.Popen(
            self.command(first, *started, sys.executable, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            **options,
        )

    def unplug(self, name: str) -> None:
        """Take the host off the network."""
        self._on_switch(f"ip link set {name} down")

    def plug(self, name: str) -> None:
        """Put it on the network again."""
        self._on_switch(f"ip link set {name} up")

    def processes(self, name: str) -> list[str]:
        """The command lines of the Python programs that run on the host."""
        shown = subprocess.run(
            self.command(name, "sh", "-c", "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done"),
            capture_output=True,
            text=True,
            timeout=60,
        )
        return [line for line in shown.stdout.splitlines() if line.startswith(sys.executable)]

    def _pid(self, name: str) -> str:
        return (self.folder / f"{name}.pid").read_text().strip()

    def _on_switch(self, command: str) -> None:
        in_switch = self._in_switch(*command.split())
        subprocess.run(in_switch, check=True, env={**os.environ, "PATH": PATH}, timeout=60)

    def _in_switch(self, *command: str | Path) -> list[str]:
        return ["nsenter", "--target", self._pid("switch"), "--net", *map(str, command)]

    def _run(self, command: list[str]) -> None:
        log = (self.folder / "log").open("ab")
        with log:
            environment = {**os.environ, "PATH": PATH}
            self._ends.append(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
                )
            )

    def _wait(self, files: Sequence[str]) -> None:
        from support.slurmd import until

        def ready() -> bool:
            for process in self._ends:
                if process.poll() is not None:
                    raise CannotStartError(
                        " / ".join(f.read_text(errors="replace").strip()[-300:] for f in self.folder.glob("*log"))
                    )
            return all((self.folder / file).exists() for file in files)

        until(ready, f"no {files}", lambda: (self.folder / "log").read_text(errors="replace"), seconds=30)


class CannotStartError(Exception):
    """Why hosts cannot run here."""


@contextmanager
def running_hosts(count: int = 2, shared: Sequence[Path] = (), network: Network | None = None) -> Iterator[Hosts]:
    """``count`` hosts, while the ``with`` block runs. Of temporary files, they share the folders ``shared``.

    The network between them is as fast as this machine, or has the quality ``network``.

    Skips the test, and says why, where they cannot be had.
    """
    missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if missing:
        wanted = ", ".join(missing)
        pytest.skip(f"needs hosts (on Debian: apt install iproute2 openssh-client openssh-server), found no {wanted}")
    if os.geteuid() != 0:
        pytest.skip("needs root, to make hosts of namespaces")
    with tempfile.TemporaryDirectory(prefix="mpitune-hosts-", ignore_cleanup_errors=True) as folder:
        hosts = Hosts(Path(folder), count, shared, network)
        try:
            try:
                hosts.start()
            except (CannotStartError, subprocess.CalledProcessError) as error:
                pytest.skip(f"hosts cannot run here: {error}")
            yield hosts
        finally:
            hosts.stop()
