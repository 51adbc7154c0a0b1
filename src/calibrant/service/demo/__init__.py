"""``calibrant serve --demo``: the whole service on one machine, with a database that is thrown away."""

from calibrant.service.demo.show import run

__all__ = ["run"]
