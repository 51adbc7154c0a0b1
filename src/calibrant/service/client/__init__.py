"""A typed client of the live service: blocking or asynchronous, with retries and batches.

Examples
--------
>>> from calibrant.service.client import Client
>>> client = Client("http://localhost:8000", token="cal_...")
>>> client.predict("clicks", id="order 17", score=0.31).probability  # doctest: +SKIP
0.2871
>>> client.send_outcomes("clicks", {"order 17": 1})  # doctest: +SKIP
"""

from calibrant.service.client.answers import Accepted, Outcome, Prediction, Row, ServiceError
from calibrant.service.client.blocking import Client
from calibrant.service.client.concurrent import AsyncClient
from calibrant.service.client.retries import Retries

__all__ = ["Accepted", "AsyncClient", "Client", "Outcome", "Prediction", "Retries", "Row", "ServiceError"]
