"""Where processes listen, and whom they speak to, as the kernel has it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import struct
from pathlib import Path


def elsewhere(processes: list[int]) -> list[str]:
    """What these processes, and all below them, have open to other addresses than those of the loopback device."""
    sockets = {socket for process in below(processes) for socket in _sockets(process)}
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in sockets:
                address = _address(fields[1].partition(":")[0])
                if not address.is_loopback:
                    found.append(f"{table} {address}")
    return found


def below(processes: list[int]) -> set[int]:
    """These processes, their children, and so on."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                parent = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    left = list(processes)
    while left:
        process = left.pop()
        if process not in found:
            found.add(process)
            left += children.get(process, [])
    return found


def _sockets(process: int) -> set[str]:
    found = set()
    folder = f"/proc/{process}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{name}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    words = struct.unpack(f"<{len(text) // 8}I", bytes.fromhex(text))
    packed = struct.pack(f">{len(words)}I", *words)
    if len(packed) == 4:
        return ipaddress.IPv4Address(packed)
    address = ipaddress.IPv6Address(packed)
    return address.ipv4_mapped or address
