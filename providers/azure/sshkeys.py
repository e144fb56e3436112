"""The SSH key that Azure asks for with every Linux machine without a password."""

from __future__ import annotations

from functools import cache


@cache
def throwaway_key() -> str:
    """An RSA public key in OpenSSH form, one per process. Its private half is dropped at once, since nobody
    is meant to log in.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoded = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return encoded.decode()
