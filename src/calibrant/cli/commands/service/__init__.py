"""Commands of the live service, one module each, and what they share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg


@contextmanager
def needed() -> Iterator[None]:
    """Say what to install if a package of the service is missing, and what is wrong with the database."""
    from calibrant.messages import InputError, MissingPackage

    try:
        import psycopg
    except ImportError:
        raise MissingPackage("the live service", "fastapi, psycopg and uvicorn", "calibrant[service]") from None
    try:
        yield
    except (psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedTable):
        raise InputError("database", "has no tables of the service", "run calibrant migrate") from None
    except psycopg.errors.InsufficientPrivilege:
        problem = "does not let this user do that"
        raise InputError("database", problem, "connect as the owner of the schema calibrant") from None
    except psycopg.OperationalError:
        raise InputError("database", "does not answer", "check CALIBRANT_DATABASE, and that it runs") from None
    except ImportError as problem:
        raise MissingPackage("the live service", str(problem.name), "calibrant[service]") from None


@contextmanager
def database() -> Iterator[psycopg.Connection]:
    """A connection to the database that the environment names."""
    with needed():
        from calibrant.service.config import Config
        from calibrant.service.store.migrate import connect

        with connect(Config.from_environment().database) as connection:
            yield connection
