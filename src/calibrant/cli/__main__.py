"""``python -m calibrant.cli``: the same as the console script ``calibrant``."""

from calibrant.cli import main

main()
