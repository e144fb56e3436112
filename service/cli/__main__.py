"""`python -m service.cli`: the command line without its console script."""

from service.cli.main import run

run()
