"""Command line: `python agent.pyz` runs the agent, `supervise FOLDER` is what it starts for each stage;
`node` serves attempts one after another on a machine of one's own.
"""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    """Exit code 0 also when the instance is to end; 1 when there was nothing to do; 2 for a wrong call."""
    if len(arguments) == 2 and arguments[0] == "supervise":
        from agent.supervisor import main as supervise

        return supervise(arguments[1])
    if arguments == ["version"]:
        from agent import __version__

        sys.stdout.write(f"{__version__}\n")
        return 0
    if arguments[:1] == ["node"]:
        from agent.node.start import run as serve

        return serve(arguments[1:], os.environ)
    if arguments:
        sys.stderr.write("usage: agent.pyz [version | node [URL CODE [--ca FILE]]]\n")
        return 2
    from agent.start import run

    return run(os.environ)


def start() -> None:
    """Run and leave without waiting for threads: a transfer that hangs must not keep the instance alive."""
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    start()
