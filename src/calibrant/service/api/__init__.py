"""The HTTP interface of the service."""
