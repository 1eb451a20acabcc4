"""`python -m collie` is `collie`."""

from collie.cli.main import main

main()
