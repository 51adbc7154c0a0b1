"""Pages for people: streams at a glance, and one stream with its versions; made on the server, without scripts."""

from calibrant.service.api.pages.routes import router

__all__ = ["router"]
