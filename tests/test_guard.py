"""Nothing in a test run leaves the machine."""

from __future__ import annotations

import socket

import httpx
import pytest


@pytest.mark.parametrize("host", ["192.0.2.1", "10.0.0.1", "169.254.169.254", "2001:db8::1"])
def test_an_address_of_another_machine_cannot_be_connected_to(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as made, pytest.raises(AssertionError, match="tried to connect"):
        made.connect((host, 80))


@pytest.mark.parametrize("name", ["example.com", "ec2.us-east-1.amazonaws.com", "metadata.google.internal"])
def test_a_name_of_another_machine_cannot_be_looked_up(name: str) -> None:
    with pytest.raises(socket.gaierror, match="only this machine"):
        socket.getaddrinfo(name, 443)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{name}/")


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
        socket.create_connection(("localhost", server.getsockname()[1])).close()
