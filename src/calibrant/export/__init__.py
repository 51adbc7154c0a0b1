"""Exports of a fitted map: JSON, SQL, ONNX, torch, Python and C; each but JSON is compared with the map first."""
