"""`python -m service.cli.probe`: is the service of this machine alive? For the health checks of containers.

Exit code 0 if /healthz answers 200, 1 otherwise. The certificate is not checked: the name in it is that of
`public_url`, and the question goes to this machine.
"""

from __future__ import annotations

import ssl
import sys
import urllib.request

SECONDS = 4.0


def main() -> int:
    """Ask once."""
    from service.cli.failure import CommandError
    from service.cli.settings_file import load_settings

    try:
        listen = load_settings(None).listen
    except CommandError as error:
        print(error.message, file=sys.stderr)
        return 1
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen.host, listen.host)  # noqa: S104
    scheme = "https" if listen.tls_cert else "http"
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unchecked)
    )
    try:
        with opener.open(f"{scheme}://{host}:{listen.port}/healthz", timeout=SECONDS) as answer:
            return 0 if answer.status == 200 else 1
    except OSError as error:
        print(f"{scheme}://{host}:{listen.port}/healthz: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
