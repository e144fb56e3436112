"""Where a webhook may go: names are resolved once, and only public addresses are taken.

Otherwise whoever can name a URL could have us call what only we can reach: the metadata service of the
machine, with its credentials, or a neighbour without a password.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Resolve = Callable[[str, int], Sequence[str]]

# Public by their numbers and all the same reached from inside a cloud only: Azure's host agent,
# learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
_PLATFORM = frozenset({ip_address("168.63.129.16")})
# IPv6 addresses that carry an IPv4 one: NAT64 (RFC 6052) in the last 32 bits, 6to4 (RFC 3056) after the
# first 16.
_NAT64 = ip_network("64:ff9b::/96")
_6TO4 = ip_network("2002::/16")


class ForbiddenAddressError(Exception):
    """A host may not be called, or has no address; the message says why."""


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host by the system's resolver."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ForbiddenAddressError(f"{host} has no address") from None
    return [str(entry[4][0]) for entry in found]


def pinned(host: str, port: int, allowed: Collection[str], look_up: Resolve = resolve) -> str:
    """The one address to connect to. All that the name resolves to must be public, unless the settings allow
    the host by name.
    """
    try:
        addresses: Sequence[str] = [str(ip_address(host))]
    except ValueError:
        addresses = look_up(host, port)
    if not addresses:
        raise ForbiddenAddressError(f"{host} has no address")
    if host not in allowed:
        for address in addresses:
            if not is_public(address):
                raise ForbiddenAddressError(
                    f"{host} is a private address; notifications.allow_hosts can allow it"
                )
    return addresses[0]


def is_public(address: str) -> bool:
    """True if the address is reached over the internet and belongs to nobody's own network."""
    ip = ip_address(address.partition("%")[0])
    if ip in _PLATFORM or not ip.is_global or ip.is_multicast:
        return False
    inner = _inside(ip)
    return inner is None or is_public(str(inner))


def _inside(ip: IPv4Address | IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 one stands for."""
    if isinstance(ip, IPv4Address):
        return None
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    if ip in _6TO4:
        return ip.sixtofour
    return ip.teredo[1] if ip.teredo is not None else None
