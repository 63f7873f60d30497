"""A network of a given quality for the hosts of `support.hosts`: a switch in user space, which delays and loses frames.

The kernel's own way, a queue of the kind netem, is a module that many kernels do not have. Run as a program, in the
network namespace of the switch:

    python network.py DELAY LOSS RATE READY PORT...

It makes the file READY when it forwards frames between the interfaces PORT, and ends when its standard input does.
"""

from __future__ import annotations

import heapq
import os
import select
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

QUEUE = 1 << 18
"""Bytes that wait at a port for those before them; frames that find more are lost."""
BUFFER = 1 << 24
"""Bytes that have arrived, and that the switch has not read yet."""
ETH_P_ALL, SO_RCVBUFFORCE, SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 3, 33, 263, 15, 23
"""From Linux's headers: Python has no names for them."""
HEADER = 10
"""Bytes before each frame, by which the kernel passes on what is still to be done, such as the checksum."""


class Network(NamedTuple):
    """The quality of the network."""

    delay: float = 0.0
    """Seconds from one host to another."""
    loss: float = 0.0
    """Probability that a frame is lost."""
    rate: float = float("inf")
    """Bytes a second to each host."""


def main() -> None:
    delay, loss, rate, ready, *ports = sys.argv[1:]
    # Wires do not wait for a processor.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    opened = [opened_port(name) for name in ports]
    Path(ready).touch()
    forward(Network(float(delay), float(loss), float(rate)), opened)


def opened_port(name: str) -> socket.socket:
    """A socket that reads the frames which arrive at the interface ``name``, and sends others from it."""
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
    port.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    port.bind((name, ETH_P_ALL))
    return port


def forward(network: Network, ports: Sequence[socket.socket]) -> None:
    """Forward frames between ``ports`` until standard input ends."""
    random = Random(1)
    places: dict[bytes, socket.socket] = {}
    """The port of each address that has sent a frame."""
    free = dict.fromkeys(ports, 0.0)
    """When each port will have sent all that waits."""
    due: list[tuple[float, int, socket.socket, bytes]] = []
    count = 0
    while True:
        now = time.monotonic()
        while due and due[0][0] <= now:
            _, _, port, frame = heapq.heappop(due)
            # An interface may be down.
            with suppress(OSError):
                port.send(frame)
        readable, _, _ = select.select([sys.stdin, *ports], [], [], due[0][0] - now if due else None)
        if sys.stdin in readable:
            return
        now = time.monotonic()
        for port in readable:
            with suppress(OSError):
                frame = port.recv(1 << 17)
                target, sender = frame[HEADER : HEADER + 6], frame[HEADER + 6 : HEADER + 12]
                places[sender] = port
                for other in [places[target]] if target in places else ports:
                    if other is port or random.random() < network.loss or free[other] - now > QUEUE / network.rate:
                        continue
                    free[other] = max(free[other], now) + len(frame) / network.rate
                    count += 1
                    heapq.heappush(due, (free[other] + network.delay, count, other, frame))


if __name__ == "__main__":
    main()
