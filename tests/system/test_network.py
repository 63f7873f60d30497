"""The network between the hosts of tests has the quality that a test asks for."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.hosts import Hosts, running_hosts
from support.network import Network

pytestmark = pytest.mark.slow

ANSWER = """
import socket
server = socket.create_server(("h2", 5000))
print("ready", flush=True)
with server.accept()[0] as wire, wire.makefile("rwb") as messages:
    for message in messages:
        messages.write(b"%d\\n" % len(message))
        messages.flush()
"""
MEASURE = """
import socket, time
with socket.create_connection(("h2", 5000)) as wire, wire.makefile("rwb") as messages:
    for size in (1, 1, 2_000_000):
        began = time.perf_counter()
        messages.write(b"-" * (size - 1) + b"\\n")
        messages.flush()
        assert int(messages.readline()) == size
        print(time.perf_counter() - began)
"""
RECEIVE = """
import socket
wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wire.bind(("h2", 5000))
print("ready", flush=True)
received = 0
while wire.recv(10) != b"end":
    received += 1
print(received)
"""
SEND = """
import socket, time
wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for datagram in [b"-"] * 1000 + [b"end"] * 100:
    wire.sendto(datagram, ("h2", 5000))
    time.sleep(0.0005)
"""


def printed(hosts: Hosts, served: str, asked: str) -> tuple[str, str]:
    """What the programs ``served`` on h2 and, once that is ready, ``asked`` on h1 print."""
    server = hosts.command("h2", sys.executable, "-c", served)
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        client = hosts.command("h1", sys.executable, "-c", asked)
        done = subprocess.run(client, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return process.communicate(timeout=60)[0], done.stdout


def seconds(hosts: Hosts) -> list[float]:
    """Seconds from h1 to h2 and back: of two short messages, and of 2 MB with a short answer."""
    return [float(line) for line in printed(hosts, ANSWER, MEASURE)[1].splitlines()]


def test_delay_and_rate() -> None:
    with running_hosts(2, network=Network(delay=0.05, rate=4e6)) as hosts:
        first, second, long = seconds(hosts)
        assert first >= 0.1 and second >= 0.1
        assert long >= 0.1 + 2_000_000 / 4e6
        # Whoever was away is heard again.
        hosts.unplug("h2")
        hosts.plug("h2")
        assert seconds(hosts)[1] >= 0.1


def test_loss() -> None:
    with running_hosts(2, network=Network(loss=0.2)) as hosts:
        received, _ = printed(hosts, RECEIVE, SEND)
        assert 0 < int(received) < 950
